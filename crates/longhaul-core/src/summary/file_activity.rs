//! Files modified, extracted from the tool calls by fixed rules. Files read and commands run stand in the steps.

mod effects;
#[cfg(test)]
mod tests;

use crate::conversation::Conversation;
use crate::conversation::tool_arguments::DecodedCalls;
use crate::text::labels::LINE_ENDS;
use crate::units::tokens::Tokens;
use std::collections::HashMap;
use std::ops::Range;

/// The section's heading.
pub(crate) const HEADING: &str = "## Files Touched";

/// Heading of the list.
const MODIFIED_HEADING: &str = "### Modified";
/// End of the line that counts the items left out.
const LEFT_OUT: &str = " older left out]";

/// Maximum bytes of a path; a longer string is not a usable path.
const MAX_PATH_BYTES: usize = 300;
/// Maximum entries per list, which bounds memory.
const MAX_ENTRIES: usize = 20_000;

/// Modified files without duplicates.
#[derive(Debug, Default)]
pub struct FileActivity {
    modified: RecencyList,
}

/// Effect of a call on a file, as far as the call states it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FileAccess {
    /// The file was created.
    Created,
    /// The file was deleted.
    Deleted,
    /// The file was changed, or may have been created or deleted.
    Modified,
    /// The file was read.
    Read,
}

/// Calls `found` with each file that the calls in the messages `of` touched, in order.
pub fn for_each_file_access(
    conversation: &Conversation<'_>,
    of: Range<usize>,
    mut found: impl FnMut(String, FileAccess),
) {
    for (call, arguments) in DecodedCalls::new(conversation, of).iter() {
        effects::for_each_effect(conversation, call, &arguments, |path, access| {
            if is_path(&path) {
                found(path, access);
            }
        });
    }
}

/// Items with the number of the call that last named them.
#[derive(Debug, Default)]
struct RecencyList {
    last_call: HashMap<String, usize>,
    /// Number of further items, which earlier lists have left out.
    left_out: usize,
}

impl RecencyList {
    fn record(&mut self, thing: String, call: usize) {
        if self.last_call.len() < MAX_ENTRIES || self.last_call.contains_key(&thing) {
            self.last_call.insert(thing, call);
        }
    }

    /// Returns the items, newest first; items of the same call are in alphabetical order.
    fn newest_first(&self) -> Vec<&str> {
        let mut list: Vec<(&str, usize)> = self
            .last_call
            .iter()
            .map(|(thing, &call)| (&**thing, call))
            .collect();
        list.sort_unstable_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(other.0)));
        list.into_iter().map(|(thing, _)| thing).collect()
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
            effects::for_each_effect(calls.conversation, call, &arguments, |path, access| {
                if access != FileAccess::Read && is_path(&path) {
                    activity.modified.record(path, number);
                }
            });
        }
        activity
    }

    /// Reads back rendered sections, oldest first, each without its heading.
    pub(crate) fn from_sections(sections: &[&str]) -> Self {
        let mut activity = Self::default();
        let mut end = 0;
        for section in sections {
            // Within a list, the newest item comes first.
            end += section.lines().count();
            let lines = section.lines().enumerate();
            for (at, item) in lines.filter_map(|(at, line)| Some((at, line.strip_prefix("- ")?))) {
                let list = &mut activity.modified;
                match item
                    .strip_prefix('[')
                    .and_then(|it| it.strip_suffix(LEFT_OUT))
                {
                    Some(count) => {
                        let count = count.parse::<u32>().unwrap_or(0) as usize;
                        list.left_out = list.left_out.saturating_add(count);
                    }
                    None => list.record(item.to_owned(), end - at),
                }
            }
        }
        activity
    }

    /// Renders the list, newest first, in at most `budget` tokens. Empty if no file was modified.
    pub fn render(&self, budget: Tokens) -> String {
        let room = budget.to_chars().saturating_sub(HEADING.len());
        let list = render_list(MODIFIED_HEADING, &self.modified, room);
        if list.is_empty() {
            return list;
        }
        format!("{HEADING}{list}")
    }
}

fn is_path(path: &str) -> bool {
    !path.trim().is_empty() && path.len() <= MAX_PATH_BYTES && !path.contains(LINE_ENDS)
}

/// Renders as many items as fit, and a count of the rest.
fn render_list(heading: &str, list: &RecencyList, room: usize) -> String {
    const COUNT: usize = "\n- [4294967295 older left out]".len();
    let heading = format!("\n{heading}\n");
    let items = list.newest_first();
    if items.is_empty() || room < heading.len() + COUNT {
        return String::new();
    }
    let mut left = room - heading.len() - COUNT;
    let mut lines: Vec<String> = Vec::new();
    for item in &items {
        let cost = item.chars().count() + "\n- ".len();
        if cost > left {
            break;
        }
        left -= cost;
        lines.push(format!("- {item}"));
    }
    let left_out = (items.len() - lines.len()).saturating_add(list.left_out);
    if left_out > 0 {
        lines.push(format!("- [{left_out}{LEFT_OUT}"));
    }
    format!("{heading}{}", lines.join("\n"))
}
