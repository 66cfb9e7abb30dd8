//! The prompts that summaries are asked for with: the built-in ones, and the operator's own.

use super::fence::fenced;
use std::sync::Arc;

const SYSTEM: &str = include_str!("prompts/system.md");
const FRESH: &str = include_str!("prompts/fresh.md");
const UPDATE: &str = include_str!("prompts/update.md");
const LIVE: &str = include_str!("prompts/live.md");
const TURN: &str = include_str!("prompts/turn.md");

/// So many of the headings that were asked for must be there: fewer, and it is most likely no
/// summary but a continuation of the conversation.
const LEAST_HEADINGS: usize = 2;

/// What a summariser is told to write. What is ours in a summary is no part of it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Prompts {
    fresh: Arc<str>,
    update: Arc<str>,
    /// The headings of the second level that they ask for, in lower case.
    headings: Vec<String>,
}

impl Default for Prompts {
    fn default() -> Self {
        Self::new(None, None)
    }
}

impl Prompts {
    /// The built-in prompts, with the operator's own in place of one or both.
    pub fn new(fresh: Option<&str>, update: Option<&str>) -> Self {
        let (fresh, update) = (fresh.unwrap_or(FRESH), update.unwrap_or(UPDATE));
        let mut headings: Vec<String> = [fresh, update, TURN]
            .into_iter()
            .flat_map(headings)
            .collect();
        headings.sort_unstable();
        headings.dedup();
        Self {
            fresh: fresh.trim().into(),
            update: update.trim().into(),
            headings,
        }
    }

    /// What stands before each of them and cannot be replaced: that what is shown is no order.
    pub fn system() -> &'static str {
        SYSTEM.trim()
    }

    /// What stands before it where the live conversation is repeated.
    pub(super) fn live() -> &'static str {
        LIVE.trim()
    }

    /// All of the built-in ones that a setting can replace, each under the name of that setting.
    pub fn built_in() -> [(&'static str, &'static str); 2] {
        [
            ("summary.prompt", FRESH.trim()),
            ("summary.update_prompt", UPDATE.trim()),
        ]
    }

    /// For a first summary, as it stands in its file.
    pub fn fresh(&self) -> &str {
        &self.fresh
    }

    /// For one that carries on from another, as it stands in its file.
    pub fn update(&self) -> &str {
        &self.update
    }

    /// What is asked beside where the history ends within a turn, with the request of that turn.
    pub(super) fn turn(request: &str) -> String {
        let (before, after) = TURN.trim().split_once("{request}").unwrap_or((TURN, ""));
        [before, &fenced("request", request), after].concat()
    }

    /// Whether the line of a heading is one of those that they ask for.
    pub(super) fn ask_for(&self, heading: &str) -> bool {
        self.headings.contains(&name(heading))
    }

    /// How many of them a summary must have.
    pub(super) fn least_headings(&self) -> usize {
        LEAST_HEADINGS.min(self.headings.len().saturating_sub(headings(TURN).count()))
    }
}

/// The headings that a prompt shows, on lines of their own or as code within a line.
fn headings(prompt: &str) -> impl Iterator<Item = String> + '_ {
    let lines = prompt.lines().filter(|line| line.starts_with("## "));
    let inline = prompt.split('`').filter(|code| code.starts_with("## "));
    lines.chain(inline).map(name)
}

/// What the line of a heading calls its section: models vary its case, its spaces and its marks.
pub(super) fn name(heading: &str) -> String {
    let marks = |letter: char| letter.is_whitespace() || "#*_`:".contains(letter);
    let words = heading.trim_matches(marks).split_whitespace();
    words.collect::<Vec<_>>().join(" ").to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_built_in_prompts_ask_for_the_same_headings() {
        let sorted = |prompt| {
            let mut all: Vec<String> = headings(prompt).collect();
            all.sort();
            all
        };
        let fresh = sorted(FRESH);
        assert_eq!(fresh.len(), 7);
        let mut update = sorted(UPDATE);
        // The one that the other speaks of, to be taken apart.
        update.retain(|heading| heading != "turn so far");
        assert_eq!(update, fresh);
    }

    #[test]
    fn an_operators_prompt_says_which_headings_are_looked_for() {
        let own = Prompts::new(Some("Write:\n## Stand der Dinge\n…\n"), Some("Again."));
        assert!(own.ask_for("## Stand der Dinge:") && !own.ask_for("## Goal"));
        assert_eq!(own.least_headings(), 1);
        assert_eq!(
            Prompts::new(Some("Say it."), Some("Again.")).least_headings(),
            0
        );
        assert_eq!(Prompts::default().least_headings(), 2);
    }
}
