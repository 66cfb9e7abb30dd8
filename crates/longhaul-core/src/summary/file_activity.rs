//! Files read, files modified and commands run, extracted from the tool calls by fixed rules.

mod effects;
#[cfg(test)]
mod tests;

use crate::conversation::Conversation;
use crate::text::labels::LINE_ENDS;
use crate::text::wording;
use crate::units::tokens::Tokens;
use effects::CallEffect;
use std::collections::HashMap;
use std::ops::Range;

/// The section's heading.
pub(crate) const HEADING: &str = "## Files Touched";

/// Headings of the lists.
const MODIFIED_HEADING: &str = "### Modified";
const READ_HEADING: &str = "### Read";
const COMMANDS_HEADING: &str = "### Commands";
/// End of the line that counts the items left out.
const LEFT_OUT: &str = " older left out]";

/// Maximum characters of a command; longer ones are clipped.
const MAX_COMMAND_CHARS: usize = 100;
/// Maximum bytes of a path; a longer string is not a usable path.
const MAX_PATH_BYTES: usize = 300;
/// Maximum entries per list, which bounds memory.
const MAX_ENTRIES: usize = 20_000;

/// Files and commands without duplicates.
#[derive(Debug, Default)]
pub struct FileActivity {
    read: RecencyList,
    modified: RecencyList,
    commands: RecencyList,
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
    let messages = conversation.messages().get(of).unwrap_or_default();
    for call in messages
        .iter()
        .flat_map(|message| conversation.calls(message))
    {
        effects::for_each_effect(conversation, call, |effect| match effect {
            CallEffect::FileTouched(path, touch) if is_path(&path) => found(path, touch),
            CallEffect::CommandRun(_) | CallEffect::FileTouched(..) => {}
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
        let mut activity = Self::default();
        let messages = conversation.messages().get(covered).unwrap_or_default();
        let calls = messages
            .iter()
            .flat_map(|message| conversation.calls(message));
        for (number, call) in calls.enumerate() {
            effects::for_each_effect(conversation, call, |effect| {
                activity.record_effect(effect, number);
            });
        }
        activity.drop_reads_of_modified();
        activity
    }

    /// Reads back rendered sections, oldest first, each without its heading.
    pub(crate) fn from_sections(sections: &[&str]) -> Self {
        let mut activity = Self::default();
        let mut end = 0;
        for section in sections {
            // Within a list, the newest item comes first.
            end += section.lines().count();
            let mut heading = "";
            for (at, line) in section.lines().enumerate() {
                if line.starts_with("### ") {
                    heading = line;
                    continue;
                }
                let list = match heading {
                    MODIFIED_HEADING => &mut activity.modified,
                    READ_HEADING => &mut activity.read,
                    COMMANDS_HEADING => &mut activity.commands,
                    _ => continue,
                };
                let Some(item) = line.strip_prefix("- ") else {
                    continue;
                };
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
        activity.drop_reads_of_modified();
        activity
    }

    /// A modified file is listed as modified only.
    fn drop_reads_of_modified(&mut self) {
        let modified = &self.modified.last_call;
        self.read
            .last_call
            .retain(|path, _| !modified.contains_key(path));
    }

    fn record_effect(&mut self, effect: CallEffect, call: usize) {
        match effect {
            CallEffect::FileTouched(path, touch) if is_path(&path) => match touch {
                FileAccess::Created | FileAccess::Deleted | FileAccess::Modified => {
                    self.modified.record(path, call);
                }
                FileAccess::Read => self.read.record(path, call),
            },
            CallEffect::FileTouched(..) => {}
            CallEffect::CommandRun(command) => {
                let line = wording::one_line(&command, MAX_COMMAND_CHARS);
                if !line.is_empty() {
                    self.commands.record(line, call);
                }
            }
        }
    }

    /// Renders the lists, newest first, in at most `budget` tokens. Empty if all lists are empty.
    pub fn render(&self, budget: Tokens) -> String {
        let room = budget.to_chars().saturating_sub(HEADING.len());
        // Modifications cannot be found again by reading, so they come first. Commands can be
        // repeated.
        let lists = [
            (MODIFIED_HEADING, &self.modified, 45),
            (READ_HEADING, &self.read, 55),
            (COMMANDS_HEADING, &self.commands, 100),
        ];
        let mut left = room;
        let mut text = String::new();
        for (heading, entries, percent) in lists {
            let list = render_list(heading, entries, left * percent / 100);
            left = left.saturating_sub(list.chars().count());
            text.push_str(&list);
        }
        if text.is_empty() {
            return text;
        }
        format!("{HEADING}{text}")
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
