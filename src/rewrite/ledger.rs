//! Files read, files modified, commands run: from the tool calls, by rule.

mod effects;

use super::conversation::Conversation;
use super::tokens::Tokens;
use super::wording;
use effects::{Change, Effect};
use std::collections::HashMap;
use std::ops::Range;

/// The heading it stands under.
pub(super) const HEADING: &str = "## Files Touched";

/// A command is clipped to so many characters.
const COMMAND_CHARS: usize = 100;
/// A path longer than this is no path that anyone would look up.
const PATH_CHARS: usize = 300;
/// The most entries of one list that are weighed: the bound of its memory.
const MOST: usize = 20_000;

/// The lists, each thing once.
#[derive(Debug, Default)]
pub struct Ledger {
    read: Entries,
    modified: Entries,
    commands: Entries,
}

/// What a call did to a file, as far as it says it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Touch {
    /// Made it.
    Created,
    /// Removed it.
    Deleted,
    /// Changed it.
    Modified,
    /// Showed it.
    Read,
}

/// Calls `found` with each file that the calls of the messages `of` touched, in their order.
pub fn touched(
    conversation: &Conversation<'_>,
    of: Range<usize>,
    mut found: impl FnMut(String, Touch),
) {
    let messages = conversation.messages().get(of).unwrap_or_default();
    for call in messages
        .iter()
        .flat_map(|message| conversation.calls(message))
    {
        effects::each(conversation, call, |effect| {
            let (path, touch) = match effect {
                Effect::Modified(path, Change::Created) => (path, Touch::Created),
                Effect::Modified(path, Change::Deleted) => (path, Touch::Deleted),
                Effect::Modified(path, Change::Modified) => (path, Touch::Modified),
                Effect::Read(path) => (path, Touch::Read),
                Effect::Ran(_) => return,
            };
            if is_path(&path) {
                found(path, touch);
            }
        });
    }
}

/// Things and the number of the call that last named them.
#[derive(Debug, Default)]
struct Entries {
    last: HashMap<String, usize>,
}

impl Entries {
    fn note(&mut self, thing: String, call: usize) {
        if self.last.len() < MOST || self.last.contains_key(&thing) {
            self.last.insert(thing, call);
        }
    }

    /// Newest first; of one call, in alphabetical order.
    fn newest_first(&self) -> Vec<&str> {
        let mut list: Vec<(&str, usize)> = self
            .last
            .iter()
            .map(|(thing, &call)| (&**thing, call))
            .collect();
        list.sort_unstable_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(other.0)));
        list.into_iter().map(|(thing, _)| thing).collect()
    }
}

impl Ledger {
    /// What the calls of the messages `covered` did.
    pub fn of(conversation: &Conversation<'_>, covered: Range<usize>) -> Self {
        let mut ledger = Self::default();
        let messages = conversation.messages().get(covered).unwrap_or_default();
        let calls = messages
            .iter()
            .flat_map(|message| conversation.calls(message));
        for (number, call) in calls.enumerate() {
            effects::each(conversation, call, |effect| ledger.note(effect, number));
        }
        // A file that was modified is known to have been seen.
        ledger
            .read
            .last
            .retain(|path, _| !ledger.modified.last.contains_key(path));
        ledger
    }

    fn note(&mut self, effect: Effect, call: usize) {
        match effect {
            Effect::Modified(path, _) if is_path(&path) => self.modified.note(path, call),
            Effect::Read(path) if is_path(&path) => self.read.note(path, call),
            Effect::Modified(..) | Effect::Read(_) => {}
            Effect::Ran(command) => {
                let line = wording::one_line(&command, COMMAND_CHARS);
                if !line.is_empty() {
                    self.commands.note(line, call);
                }
            }
        }
    }

    /// The lists, newest first, at most `budget` tokens of them; empty if there is nothing.
    pub fn render(&self, budget: Tokens) -> String {
        let room = budget.as_chars().saturating_sub(HEADING.len());
        // What is modified cannot be found again by reading; commands can be repeated.
        let lists = [
            ("\n### Modified\n", &self.modified, 45),
            ("\n### Read\n", &self.read, 55),
            ("\n### Commands\n", &self.commands, 100),
        ];
        let mut left = room;
        let mut text = String::new();
        for (heading, entries, percent) in lists {
            let list = list(heading, &entries.newest_first(), left * percent / 100);
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
    !path.trim().is_empty() && path.len() <= PATH_CHARS && !path.contains('\n')
}

/// As many entries as there is room for, and how many there are beyond.
fn list(heading: &str, entries: &[&str], room: usize) -> String {
    const COUNT: usize = "\n- [4294967295 older left out]".len();
    if entries.is_empty() {
        return String::new();
    }
    let mut left = room.saturating_sub(heading.len() + COUNT);
    let mut lines: Vec<String> = Vec::new();
    for entry in entries {
        let cost = entry.chars().count() + "\n- ".len();
        if cost > left {
            break;
        }
        left -= cost;
        lines.push(format!("- {entry}"));
    }
    if room < heading.len() + COUNT {
        return String::new();
    }
    let left_out = entries.len() - lines.len();
    if left_out > 0 {
        lines.push(format!("- [{left_out} older left out]"));
    }
    format!("{heading}{}", lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rewrite::chat_completions::read;
    use serde_json::{Value, json};

    fn ledger(calls: &[(&str, Value)]) -> String {
        let calls: Vec<Value> = calls
            .iter()
            .map(|(name, arguments)| {
                let arguments = arguments.as_str().map_or_else(|| arguments.to_string(), str::to_owned);
                json!({"id": "a", "type": "function", "function": {"name": name, "arguments": arguments}})
            })
            .collect();
        let body =
            json!({"messages": [{"role": "assistant", "content": null, "tool_calls": calls}]})
                .to_string();
        let conversation = read(body.as_bytes()).unwrap();
        let text = Ledger::of(&conversation, 0..1).render(Tokens::new(400));
        assert!(Tokens::of_text(&text) <= Tokens::new(400));
        text
    }

    fn check(name: &str, arguments: Value, expect: &str) {
        assert_eq!(ledger(&[(name, arguments)]), expect);
    }

    #[test]
    fn reads_and_edits_are_told_by_name() {
        check(
            "Read",
            json!({"file_path": "/a/b.rs"}),
            "## Files Touched\n### Read\n- /a/b.rs",
        );
        check(
            "read_file",
            json!({"path": "b.rs"}),
            "## Files Touched\n### Read\n- b.rs",
        );
        check(
            "Edit",
            json!({"file_path": "/a/b.rs"}),
            "## Files Touched\n### Modified\n- /a/b.rs",
        );
        check(
            "multi_edit",
            json!({"filePath": "b.rs"}),
            "## Files Touched\n### Modified\n- b.rs",
        );
        check(
            "write",
            json!({"path": "b.rs", "content": "x"}),
            "## Files Touched\n### Modified\n- b.rs",
        );
        check("think", json!({"thought": "b.rs"}), "");
    }

    #[test]
    fn an_editor_that_views_reads() {
        check(
            "str_replace_editor",
            json!({"command": "view", "path": "b.rs"}),
            "## Files Touched\n### Read\n- b.rs",
        );
        check(
            "str_replace_editor",
            json!({"command": "str_replace", "path": "b.rs"}),
            "## Files Touched\n### Modified\n- b.rs",
        );
    }

    #[test]
    fn a_patch_lists_its_files() {
        let patch = "*** Begin Patch\n*** Update File: a.rs\n@@\n-x\n+y\n*** Add File: b.rs\n*** Delete File: c.rs\n*** End Patch";
        let expect = "## Files Touched\n### Modified\n- a.rs\n- b.rs\n- c.rs";
        check("apply_patch", json!({"input": patch}), expect);
        check("apply_patch", json!(patch), expect);
    }

    #[test]
    fn a_file_both_read_and_modified_is_modified() {
        let text = ledger(&[
            ("Read", json!({"path": "a.rs"})),
            ("Edit", json!({"path": "a.rs"})),
            ("Read", json!({"path": "a.rs"})),
        ]);
        assert_eq!(text, "## Files Touched\n### Modified\n- a.rs");
    }

    #[test]
    fn commands_stand_once_newest_first_on_one_line() {
        let text = ledger(&[
            ("bash", json!({"command": "cargo test"})),
            ("bash", json!({"command": ["bash", "-lc", "git  status"]})),
            ("bash", json!({"command": "cargo test"})),
        ]);
        assert_eq!(
            text,
            "## Files Touched\n### Commands\n- cargo test\n- git status"
        );
    }

    #[test]
    fn a_shell_that_shows_or_changes_a_file_is_told_by_its_words() {
        let text = ledger(&[(
            "exec_command",
            json!({"cmd": "cd x && sed -n '1,5p' a.rs | head; sed -i s/a/b/ c.rs"}),
        )]);
        assert!(
            text.contains("### Modified\n- c.rs") && text.contains("### Read\n- a.rs"),
            "{text}"
        );
    }

    #[test]
    fn what_does_not_fit_is_counted() {
        let calls: Vec<(&str, Value)> = (0..300)
            .map(|n| ("Read", json!({"path": format!("src/file_{n}.rs")})))
            .collect();
        let text = ledger(&calls);
        assert!(
            text.contains("- src/file_299.rs\n- src/file_298.rs")
                && text.contains("older left out]"),
            "{text}"
        );
    }
}
