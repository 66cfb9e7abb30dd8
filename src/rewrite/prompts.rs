//! The prompts that summaries are asked for with: the built-in ones, and the operator's own.

use super::fence::delimited;
use std::sync::Arc;

const SYSTEM: &str = include_str!("prompts/system.md");
const FRESH: &str = include_str!("prompts/fresh.md");
const UPDATE: &str = include_str!("prompts/update.md");
const CACHED_STYLE: &str = include_str!("prompts/live.md");
const OPEN_TURN: &str = include_str!("prompts/turn.md");

/// So many of the headings that were asked for must be there: fewer, and it is most likely no
/// summary but a continuation of the conversation.
const MIN_HEADINGS: usize = 2;

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
        let mut headings: Vec<String> = [fresh, update, OPEN_TURN]
            .into_iter()
            .flat_map(extract_headings)
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
    pub(super) fn cached_style() -> &'static str {
        CACHED_STYLE.trim()
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
    pub(super) fn open_turn(request: &str) -> String {
        let (before, after) = OPEN_TURN
            .trim()
            .split_once("{request}")
            .unwrap_or((OPEN_TURN, ""));
        [before, &delimited("request", request), after].concat()
    }

    /// Whether the line of a heading is one of those that they ask for.
    pub(super) fn requests_heading(&self, heading: &str) -> bool {
        self.headings.contains(&normalise_heading(heading))
    }

    /// How many of them a summary must have.
    pub(super) fn min_headings(&self) -> usize {
        MIN_HEADINGS.min(
            self.headings
                .len()
                .saturating_sub(extract_headings(OPEN_TURN).count()),
        )
    }
}

/// The headings that a prompt shows, on lines of their own or as code within a line.
fn extract_headings(prompt: &str) -> impl Iterator<Item = String> + '_ {
    let lines = prompt.lines().filter(|line| line.starts_with("## "));
    let inline = prompt.split('`').filter(|code| code.starts_with("## "));
    lines.chain(inline).map(normalise_heading)
}

/// What the line of a heading calls its section: models vary its case, its spaces and its marks.
pub(super) fn normalise_heading(heading: &str) -> String {
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
            let mut all: Vec<String> = extract_headings(prompt).collect();
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
        assert!(own.requests_heading("## Stand der Dinge:") && !own.requests_heading("## Goal"));
        assert_eq!(own.min_headings(), 1);
        assert_eq!(
            Prompts::new(Some("Say it."), Some("Again.")).min_headings(),
            0
        );
        assert_eq!(Prompts::default().min_headings(), 2);
    }
}
