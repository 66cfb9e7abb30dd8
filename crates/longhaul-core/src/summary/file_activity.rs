//! Files modified, extracted from the tool calls by fixed rules. Files read and commands run stand in the steps.

pub(super) mod effects;
#[cfg(test)]
mod tests;

use crate::conversation::Conversation;
use crate::conversation::tool_arguments::DecodedCalls;
use crate::units::tokens::Tokens;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::ops::Range;

/// The section's heading.
pub(crate) const HEADING: &str = "## Files Touched";

/// Heading of the list.
const MODIFIED_HEADING: &str = "\n### Modified\n";
/// End of the line that counts the files left out.
const LEFT_OUT: &str = " older left out]";
/// Maximum files, which bounds memory.
const MAX_FILES: usize = 20_000;

/// Modified files without duplicates.
#[derive(Debug, Default)]
pub struct FileActivity {
    /// Number of the call that last named each file.
    last_call: HashMap<String, usize>,
    /// Number of further files, which earlier lists have left out.
    left_out: usize,
}

/// Calls `found` with each file that the calls in the messages `of` modify, in order.
pub fn for_each_modified(
    conversation: &Conversation<'_>,
    of: Range<usize>,
    mut found: impl FnMut(String),
) {
    for (call, arguments) in DecodedCalls::new(conversation, of).iter() {
        effects::for_each_modified(conversation, call, &arguments, &mut found);
    }
}

impl FileActivity {
    /// Collects the effects of the calls in the messages `covered`.
    pub fn from_messages(conversation: &Conversation<'_>, covered: Range<usize>) -> Self {
        Self::from_calls(&DecodedCalls::new(conversation, covered))
    }

    /// Like [`from_messages`](Self::from_messages).
    pub(crate) fn from_calls(calls: &DecodedCalls<'_, '_>) -> Self {
        let mut activity = Self::default();
        for (number, (call, arguments)) in calls.iter().enumerate() {
            let found = |path| activity.record(path, number);
            effects::for_each_modified(calls.conversation, call, &arguments, found);
        }
        activity
    }

    /// Reads back rendered sections, oldest first, each without its heading.
    pub(crate) fn from_sections(sections: &[&str]) -> Self {
        let mut activity = Self::default();
        let mut end = 0;
        for section in sections {
            // Within a list, the newest file comes first.
            end += section.lines().count();
            let lines = section.lines().enumerate();
            for (at, item) in lines.filter_map(|(at, line)| Some((at, line.strip_prefix("- ")?))) {
                let count = item.strip_prefix('[');
                if let Some(count) = count.and_then(|it| it.strip_suffix(LEFT_OUT)) {
                    let count = count.parse::<u32>().unwrap_or(0) as usize;
                    activity.left_out = activity.left_out.saturating_add(count);
                } else {
                    activity.record(item.to_owned(), end - at);
                }
            }
        }
        activity
    }

    fn record(&mut self, path: String, call: usize) {
        if self.last_call.len() < MAX_FILES || self.last_call.contains_key(&path) {
            self.last_call.insert(path, call);
        }
    }

    /// Renders the list, newest first, in at most `budget` tokens. Empty if no file was modified.
    pub fn render(&self, budget: Tokens) -> String {
        self.within(budget.to_chars())
    }

    /// Renders as many files as fit `room` characters, and a count of the rest. Files of the same call are in
    /// alphabetical order.
    fn within(&self, room: usize) -> String {
        const COUNT: usize = "\n- [4294967295 older left out]".len();
        let mut files: Vec<(&String, usize)> = Vec::new();
        files.extend(self.last_call.iter().map(|(path, call)| (path, *call)));
        files.sort_unstable_by_key(|(path, call)| (Reverse(*call), *path));
        let left = room.checked_sub(HEADING.len() + MODIFIED_HEADING.len() + COUNT);
        let Some(mut left) = left.filter(|_| !files.is_empty()) else {
            return String::new();
        };
        let mut lines: Vec<String> = Vec::new();
        for (path, _) in &files {
            let cost = path.chars().count() + "\n- ".len();
            if cost > left {
                break;
            }
            left -= cost;
            lines.push(format!("- {path}"));
        }
        let left_out = (files.len() - lines.len()).saturating_add(self.left_out);
        if left_out > 0 {
            lines.push(format!("- [{left_out}{LEFT_OUT}"));
        }
        [HEADING, MODIFIED_HEADING, &lines.join("\n")].concat()
    }
}
