//! Prompts for summaries: the built-in ones, and the operator's replacements.

use crate::text::delimiters::delimited;
use std::sync::Arc;

const SYSTEM: &str = include_str!("prompts/system.md");
const FRESH: &str = include_str!("prompts/fresh.md");
const SEGMENT: &str = include_str!("prompts/segment.md");
const UPDATE: &str = include_str!("prompts/update.md");
const CACHED_STYLE: &str = include_str!("prompts/live.md");
const OPEN_TURN: &str = include_str!("prompts/turn.md");

/// Minimum number of requested headings in a summary. A text with fewer is most likely a
/// continuation of the conversation.
const MIN_HEADINGS: usize = 2;

/// Prompts for the model-written part of a summary. Generated sections are not part of the prompts.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Prompts {
    fresh: Arc<str>,
    update: Arc<str>,
    /// Second-level headings that the prompts request, normalised to lower case.
    headings: Vec<String>,
}

impl Default for Prompts {
    fn default() -> Self {
        Self::new(None, None)
    }
}

impl Prompts {
    /// Creates the prompts; `fresh` and `update` replace the built-in ones.
    pub fn new(fresh: Option<&str>, update: Option<&str>) -> Self {
        let (fresh, update) = (fresh.unwrap_or(FRESH), update.unwrap_or(UPDATE));
        let mut headings: Vec<String> =
            [fresh, update, OPEN_TURN].into_iter().flat_map(extract_headings).collect();
        headings.sort_unstable();
        headings.dedup();
        Self { fresh: fresh.trim().into(), update: update.trim().into(), headings }
    }

    /// The fixed system prompt of every call. It states that the transcript contains no
    /// instructions for the summariser, and cannot be replaced.
    pub fn system() -> &'static str {
        SYSTEM.trim()
    }

    /// The fixed text before the prompt of a call that shows earlier segments.
    pub(crate) fn segment() -> &'static str {
        SEGMENT.trim()
    }

    /// The fixed text before the prompt of a call in the `cached` style.
    pub(crate) fn cached_style() -> &'static str {
        CACHED_STYLE.trim()
    }

    /// The built-in prompts that settings can replace, each with the setting's name.
    pub fn built_in() -> [(&'static str, &'static str); 2] {
        [("summary.prompt", FRESH.trim()), ("summary.update_prompt", UPDATE.trim())]
    }

    /// The prompt for a first summary, without the word limit filled in.
    pub fn fresh(&self) -> &str {
        &self.fresh
    }

    /// The prompt for updating a summary, without the word limit filled in.
    pub fn update(&self) -> &str {
        &self.update
    }

    /// Returns the extra instruction for a history that ends within a turn; `request` is that
    /// turn's request.
    pub(crate) fn open_turn(request: &str) -> String {
        let (before, after) = OPEN_TURN.trim().split_once("{request}").unwrap_or((OPEN_TURN, ""));
        [before, &delimited("request", request), after].concat()
    }

    /// Whether the prompts request this heading line.
    pub(crate) fn requests_heading(&self, heading: &str) -> bool {
        self.headings.contains(&normalise_heading(heading))
    }

    /// Returns the minimum number of requested headings in a summary.
    pub(crate) fn min_headings(&self) -> usize {
        MIN_HEADINGS.min(self.headings.len().saturating_sub(extract_headings(OPEN_TURN).count()))
    }
}

/// Returns the headings in a prompt, on lines of their own or as inline code.
fn extract_headings(prompt: &str) -> impl Iterator<Item = String> + '_ {
    let lines = prompt.lines().filter(|line| line.starts_with("## "));
    let inline = prompt.split('`').filter(|code| code.starts_with("## "));
    lines.chain(inline).map(normalise_heading)
}

/// Normalises a heading line for comparison: models vary case, spaces and markup.
pub(crate) fn normalise_heading(heading: &str) -> String {
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
        // The update prompt also mentions this heading, as a section to dissolve.
        update.retain(|heading| heading != "turn so far");
        assert_eq!(update, fresh);
    }

    #[test]
    fn a_custom_prompt_defines_the_required_headings() {
        let own = Prompts::new(Some("Write:\n## Stand der Dinge\n…\n"), Some("Again."));
        assert!(own.requests_heading("## Stand der Dinge:") && !own.requests_heading("## Goal"));
        assert_eq!(own.min_headings(), 1);
        assert_eq!(Prompts::new(Some("Say it."), Some("Again.")).min_headings(), 0);
        assert_eq!(Prompts::default().min_headings(), 2);
    }
}
