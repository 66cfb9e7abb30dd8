//! A summary's sections, as far as its headings part it.

use crate::rewrite::prompts::normalise_heading;
use crate::rewrite::tokens::Tokens;
use crate::rewrite::{index, ledger, said};

/// A heading of the second level and the lines below it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Section<'t> {
    /// The line of the heading, empty for what stands before the first.
    pub(super) heading: &'t str,
    /// The lines below it.
    pub(super) lines: Vec<&'t str>,
}

impl<'t> Section<'t> {
    /// The sections of `text`; a heading inside a code block is none.
    pub(super) fn parse(text: &'t str) -> Vec<Self> {
        let mut sections = Vec::new();
        let mut section = Self {
            heading: "",
            lines: Vec::new(),
        };
        let mut fenced = false;
        for line in text.lines() {
            fenced ^= line.trim_start().starts_with("```");
            if !fenced && line.starts_with("## ") {
                sections.push(section);
                section = Self {
                    heading: line.trim_end(),
                    lines: Vec::new(),
                };
            } else {
                section.lines.push(line.trim_end());
            }
        }
        sections.push(section);
        sections.retain(|section| !section.heading.is_empty() || !section.is_blank());
        sections
    }

    /// Whether it is one of the parts that we write ourselves, or is called as one of them.
    pub(super) fn is_generated(&self) -> bool {
        let called = normalise_heading(self.heading);
        [
            said::INSTRUCTIONS_HEADING,
            said::HEADING,
            ledger::HEADING,
            index::HEADING,
        ]
        .into_iter()
        .any(|ours| normalise_heading(ours) == called)
    }

    /// Whether there is nothing below its heading but further headings and "(none)".
    pub(super) fn is_blank(&self) -> bool {
        self.lines.iter().all(|line| {
            let line = line
                .trim()
                .trim_start_matches(|c: char| matches!(c, '-' | '*' | '.') || c.is_ascii_digit())
                .trim();
            let line = line
                .strip_prefix("[ ]")
                .or_else(|| line.strip_prefix("[x]"))
                .unwrap_or(line);
            let word = line
                .trim()
                .trim_matches(['(', ')', '.', '_', '*'])
                .to_lowercase();
            line.starts_with('#') || matches!(&*word, "" | "none" | "n/a" | "nothing")
        })
    }
}

/// The sections as one text, parted by empty lines.
pub(super) fn join(sections: &[Section<'_>]) -> String {
    let texts: Vec<String> = sections
        .iter()
        .map(|section| {
            let body = section.lines.join("\n");
            format!("{}\n{}", section.heading, body.trim())
                .trim()
                .to_owned()
        })
        .collect();
    texts.join("\n\n")
}

/// Drops finished items, the oldest first, until the whole is within `budget` or none is left:
/// what is done matters least to what comes next.
pub(super) fn drop_finished_items(sections: &mut [Section<'_>], budget: Tokens) {
    let mut over = join(sections)
        .chars()
        .count()
        .saturating_sub(budget.to_chars());
    for section in sections {
        section.lines.retain(|line| {
            let drop = over > 0 && is_finished_item(line);
            if drop {
                over = over.saturating_sub(line.chars().count() + 1);
            }
            !drop
        });
    }
}

fn is_finished_item(line: &str) -> bool {
    let item = line
        .trim_start()
        .trim_start_matches(['-', '*'])
        .trim_start();
    item.starts_with("[x]") || item.starts_with("[X]")
}
