//! Lines of a digest that say what the agent did: its words, its calls and what came of them.

use crate::conversation::tool_arguments::{DecodedCalls, ToolArguments};
use crate::conversation::{Message, ToolCall};
use crate::json::scanner::Scanner;
use crate::summary::file_activity::effects::for_each_patched;
use crate::summary::plan;
use crate::text::labels::{LINE_ENDS, escape_label};
use crate::text::wording;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Maximum calls listed for a step; the rest are shown as a count.
const MAX_CALLS: usize = 4;
/// Maximum characters of a tool's name.
const MAX_NAME_CHARS: usize = 80;
/// Maximum characters of the first line of a failed result.
const MAX_FAILURE_CHARS: usize = 120;
/// Maximum files listed for a patch; the rest are shown as a count.
const MAX_FILES: usize = 4;
/// Maximum characters of a status that a call gives to a task.
const MAX_STATUS_CHARS: usize = 24;
/// Maximum bytes of a path; a longer string is no usable path.
const MAX_PATH_BYTES: usize = 300;
/// Share of the paths, in percent, that a common root has to contain.
const ROOT_PERCENT: usize = 80;
/// Fewest paths for which a line that states their root saves anything.
const MIN_ROOTED_PATHS: usize = 3;
/// Minimum length of such a root, in bytes.
const MIN_ROOT_BYTES: usize = 8;

/// Line that states the root of the paths in the lines after it.
pub(super) const ROOT_PREFIX: &str = "Paths are relative to ";

/// Room for the parts of a step's line, in characters.
#[derive(Clone, Copy, Debug)]
pub(super) struct StepDetail {
    /// Words of the agent.
    pub(super) text: usize,
    /// A command, a pattern or another argument that is no path. Longer ones lose their middle.
    pub(super) argument: usize,
}

impl StepDetail {
    /// Of the newest steps.
    pub(super) const FULL: Self = Self { text: 240, argument: 200 };
    /// Of older steps.
    pub(super) const SHORT: Self = Self { text: 120, argument: 100 };
}

/// Renders the steps of a history.
pub(crate) struct StepRenderer<'c, 'a> {
    calls: &'c DecodedCalls<'c, 'a>,
    /// Directory that contains nearly all files, with a slash at the end.
    root: Option<String>,
}

impl<'c, 'a> StepRenderer<'c, 'a> {
    /// Creates a renderer for the messages of `calls`.
    pub(super) fn new(calls: &'c DecodedCalls<'c, 'a>) -> Self {
        Self { calls, root: common_root(calls) }
    }

    /// Creates a renderer of whole paths.
    pub(crate) fn without_root(calls: &'c DecodedCalls<'c, 'a>) -> Self {
        Self { calls, root: None }
    }

    /// Returns the line that states the common root of the paths; empty without one.
    pub(super) fn root_line(&self) -> String {
        let root = self.root.as_deref();
        root.map(|root| format!("{ROOT_PREFIX}{}\n", root.trim_end_matches(['/', '\\'])))
            .unwrap_or_default()
    }

    /// Renders the step of the message at `at`: its words, then each call with its main arguments and
    /// whether it failed. Empty if there is nothing to say.
    pub(super) fn line(&self, at: usize, message: &Message, detail: StepDetail) -> String {
        let text = wording::one_line(&self.calls.conversation.text(message), detail.text);
        let calls = self.calls.of(message).zip(0..MAX_CALLS);
        let mut shown: Vec<String> = calls
            .map(|((call, arguments), number)| {
                self.call(call, &arguments, detail.argument) + &self.outcome(at, number)
            })
            .collect();
        if message.calls.len() > MAX_CALLS {
            shown.push(format!("{} more", message.calls.len() - MAX_CALLS));
        }
        match (text.is_empty(), shown.is_empty()) {
            (true, true) => String::new(),
            (false, true) => format!("- {text}"),
            (true, false) => format!("- {}", shown.join(", ")),
            (false, false) => format!("- {text} → {}", shown.join(", ")),
        }
    }

    /// Renders a call: its name, its main argument, and its file.
    pub(crate) fn call(
        &self,
        call: &ToolCall,
        arguments: &ToolArguments,
        argument_chars: usize,
    ) -> String {
        let name = call.decoded_name(self.calls.conversation);
        let name = wording::one_line(&name, MAX_NAME_CHARS);
        let mut shown = self.subject(call, arguments, argument_chars);
        let status = arguments.status().map(|status| wording::one_line(status, MAX_STATUS_CHARS));
        shown.extend(status.filter(|status| !shown.contains(status)));
        format!("{name}({})", shown.join(", "))
    }

    /// Returns the subject of a call: its file after the pattern to find there, the files of its patch, or its main
    /// argument.
    fn subject(
        &self,
        call: &ToolCall,
        arguments: &ToolArguments,
        argument_chars: usize,
    ) -> Vec<String> {
        let shortened = |text: &str| without_middle(text, argument_chars);
        if let Some(path) = arguments.path().filter(|path| is_path(path)) {
            let pattern = arguments.pattern().map(shortened);
            return pattern.into_iter().chain([self.relative(path).to_owned()]).collect();
        }
        let conversation = self.calls.conversation;
        let mut files: Vec<String> = Vec::new();
        for_each_patched(conversation, call, arguments, |path| {
            files.extend(is_path(path).then(|| self.relative(path).to_owned()));
        });
        if files.is_empty() {
            let main = arguments.primary().or_else(|| plan::task_at_hand(arguments));
            let free = || arguments.free_text(conversation, call);
            let main = main.map(shortened).or_else(|| Some(shortened(&command_in(&free()?))));
            return main.into_iter().collect();
        }
        let more = files.len().saturating_sub(MAX_FILES);
        files.truncate(MAX_FILES);
        files.extend((more > 0).then(|| format!("{more} more")));
        files
    }

    /// Returns the outcome of call `number` of the message at `at`: the first line of a failed result, as
    /// a quotation. Empty for any other outcome.
    fn outcome(&self, at: usize, number: usize) -> String {
        let conversation = self.calls.conversation;
        let result = conversation.result_of(at, number);
        let Some(failed) = result.filter(|result| conversation.reports_failure(result)) else {
            return String::new();
        };
        let text = conversation.text(failed);
        let first = text.lines().find(|line| !line.trim().is_empty());
        let first = wording::one_line(first.unwrap_or_default(), MAX_FAILURE_CHARS);
        let first = escape_label(first.replace('"', "'"));
        if first.is_empty() { " failed".to_owned() } else { format!(" failed: \"{first}\"") }
    }

    fn relative<'p>(&self, path: &'p str) -> &'p str {
        let root = self.root.as_deref();
        let rest = root.and_then(|root| path.strip_prefix(root));
        rest.filter(|rest| !rest.is_empty()).unwrap_or(path)
    }
}

/// Returns `text` on one line. A longer one loses the words in its middle: both ends of a command say what
/// the command does.
fn without_middle(text: &str, max_chars: usize) -> String {
    let words = text.split_whitespace();
    let whole = words_within(words.clone(), max_chars + 1);
    if words.clone().nth(whole.len()).is_none() {
        return whole.join(" ");
    }
    let room = max_chars.saturating_sub(" … ".chars().count());
    // Both ends together are shorter than the line, so they share no word.
    let head = words_within(words.clone(), room - room / 3);
    if head.is_empty() {
        let mut words = words;
        return match words.next() {
            // A path or a link of its own is whole or useless.
            Some(first) if first.len() <= MAX_PATH_BYTES => {
                let rest = if words.next().is_some() { " …" } else { "" };
                format!("{first}{rest}")
            }
            Some(_) | None => wording::one_line(text, max_chars),
        };
    }
    let mut tail = words_within(words.rev(), room / 3);
    tail.reverse();
    let line = format!("{} … {}", head.join(" "), tail.join(" "));
    line.trim_end().to_owned()
}

/// Returns the first words that fit `room` characters, with a space after each.
fn words_within<'t>(words: impl Iterator<Item = &'t str>, room: usize) -> Vec<&'t str> {
    let mut left = room;
    let fits = words.take_while(|word| {
        let rest = left.checked_sub(word.chars().count() + 1);
        left = rest.unwrap_or(left);
        rest.is_some()
    });
    fits.collect()
}

/// Returns the command that a script runs by its first argument `cmd`, as those of Codex do, or else the script.
fn command_in(script: &str) -> Cow<'_, str> {
    let command = || {
        let (_, behind) = script.split_once("cmd")?;
        let behind = behind.strip_prefix('"').unwrap_or(behind);
        let literal = behind.trim_start().strip_prefix(':')?.trim_start();
        Some(Scanner::new(literal).string().ok()?.decode(literal))
    };
    command().unwrap_or(Cow::Borrowed(script))
}

/// Whether `path` is usable: one line, not blank and not too long.
pub(super) fn is_path(path: &str) -> bool {
    !path.trim().is_empty() && path.len() <= MAX_PATH_BYTES && !path.contains(LINE_ENDS)
}

/// Returns the deepest directory that contains nearly all absolute paths of the calls, with a separator at the end.
fn common_root(calls: &DecodedCalls<'_, '_>) -> Option<String> {
    let mut paths: Vec<String> = Vec::new();
    for (call, arguments) in calls.iter() {
        let found = |path: &str| paths.extend(is_path(path).then(|| path.to_owned()));
        match arguments.path() {
            Some(path) => [path].into_iter().for_each(found),
            None => for_each_patched(calls.conversation, call, &arguments, found),
        }
    }
    paths.retain(|path| start_of(path).is_some());
    let least = (paths.len() * ROOT_PERCENT).div_ceil(100).max(MIN_ROOTED_PATHS);
    let starts = paths.iter().filter_map(|path| start_of(path));
    let mut root = most_frequent(starts, least)?.to_owned();
    let separator = root.chars().next_back()?;
    loop {
        paths.retain(|path| path.starts_with(&root));
        let rests = paths.iter().filter_map(|path| path.get(root.len()..));
        let children = rests.filter_map(|rest| Some(rest.split_once(separator)?.0));
        let Some(child) = most_frequent(children, least).filter(|child| !child.is_empty()) else {
            break;
        };
        root = format!("{root}{child}{separator}");
    }
    (root.len() >= MIN_ROOT_BYTES).then_some(root)
}

/// Returns the start of an absolute path: a slash, or a drive of Windows with its separator.
fn start_of(path: &str) -> Option<&str> {
    let is_drive = matches!(path.as_bytes(), [b'A'..=b'Z' | b'a'..=b'z', b':', b'/' | b'\\', ..]);
    let length = if is_drive { 3 } else { usize::from(path.starts_with('/')) };
    path.get(..length).filter(|start| !start.is_empty())
}

/// Returns the word that occurs most often, at least `least` times.
fn most_frequent<'w>(words: impl Iterator<Item = &'w str>, least: usize) -> Option<&'w str> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    words.for_each(|word| *counts.entry(word).or_default() += 1);
    let most = counts.into_iter().max_by_key(|(_, count)| *count);
    most.filter(|(_, count)| *count >= least).map(|(word, _)| word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::Dialect;
    use crate::dialect::chat_completions::read;
    use serde_json::{Value, json};

    fn steps(calls: &[(&str, Value, &str)]) -> Vec<String> {
        let mut messages = vec![json!({"role": "user", "content": "go"})];
        for (at, (name, arguments, result)) in calls.iter().enumerate() {
            let id = format!("c{at}");
            let call = json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments.to_string()}});
            messages.push(json!({"role": "assistant", "content": null, "tool_calls": [call]}));
            messages.push(json!({"role": "tool", "tool_call_id": id, "content": result}));
        }
        let body = json!({"messages": messages}).to_string();
        let conversation = read(body.as_bytes()).unwrap();
        let all = 0..messages.len();
        let calls = DecodedCalls::new(&conversation, all.clone());
        let renderer = StepRenderer::new(&calls);
        let assistants = all.filter(|at| at % 2 == 1);
        let lines = assistants.map(|at| {
            let message = conversation.message(at).unwrap();
            renderer.line(at, message, StepDetail::SHORT)
        });
        [renderer.root_line()].into_iter().chain(lines).collect()
    }

    #[test]
    fn paths_are_whole_and_relative_to_their_root() {
        let lines = steps(&[
            ("Read", json!({"file_path": "/home/dev/shop/src/main.rs"}), "x"),
            ("Grep", json!({"pattern": "fn run", "path": "/home/dev/shop/src"}), "x"),
            ("Edit", json!({"file_path": "/home/dev/shop/src/lib.rs", "new_string": "y"}), "x"),
            ("Read", json!({"file_path": "/home/dev/shop/Cargo.toml"}), "x"),
            ("Read", json!({"file_path": "/etc/hosts"}), "x"),
        ]);
        assert_eq!(
            lines,
            [
                "Paths are relative to /home/dev/shop\n",
                "- Read(src/main.rs)",
                "- Grep(fn run, src)",
                "- Edit(src/lib.rs)",
                "- Read(Cargo.toml)",
                "- Read(/etc/hosts)",
            ]
        );
    }

    #[test]
    fn paths_of_windows_and_of_patches_have_a_root_too() {
        let patch = "*** Begin Patch\n*** Update File: D:\\shop\\src\\a.rs\n@@\n-x\n*** Add File: D:\\shop\\b.rs\n+y";
        let lines = steps(&[
            ("Read", json!({"file_path": "D:\\shop\\src\\main.rs"}), "x"),
            ("Read", json!({"file_path": "D:\\shop\\Cargo.toml"}), "x"),
            ("apply_patch", json!({"input": patch}), "x"),
        ]);
        let [root, read, manifest, patched] = &lines[..] else { panic!("{lines:?}") };
        assert_eq!(root, "Paths are relative to D:\\shop\n");
        assert_eq!(read, "- Read(src\\main.rs)");
        assert_eq!(manifest, "- Read(Cargo.toml)");
        assert_eq!(patched, "- apply_patch(src\\a.rs, b.rs)");
    }

    #[test]
    fn a_script_is_shown_by_its_command_or_the_files_of_its_patch() {
        let script = |text: &str| {
            let call =
                json!({"type": "custom_tool_call", "call_id": "c", "name": "exec", "input": text});
            let body = json!({"input": [{"role": "user", "content": "go"}, call]}).to_string();
            let conversation = Dialect::Responses.read(body.as_bytes()).unwrap();
            let calls = DecodedCalls::new(&conversation, 0..2);
            let message = conversation.message(1).unwrap();
            StepRenderer::new(&calls).line(1, message, StepDetail::SHORT)
        };
        let run = r#"const r = await tools.exec_command({cmd:"git log -1 --format=\"%h\"","workdir":"/src"}); text(r)"#;
        assert_eq!(script(run), r#"- exec(git log -1 --format="%h")"#);
        let patch = r#"const patch = "*** Begin Patch\n*** Update File: /src/a.rs\n@@\n-x"; await tools.apply_patch(patch)"#;
        assert_eq!(script(patch), "- exec(/src/a.rs)");
        assert_eq!(script("text(1 +\n 1)"), "- exec(text(1 + 1))");
        assert_eq!(script("{\"broken"), "- exec()");
    }

    #[test]
    fn a_failure_is_quoted_and_a_long_command_keeps_both_ends() {
        let long = format!("cargo run --bin tool -- {} --out result.json", "x ".repeat(100));
        let lines = steps(&[
            ("Bash", json!({"command": "make \\n test"}), "Error: no \"rule\" to make\\nmore"),
            ("Bash", json!({"command": long}), "fine"),
        ]);
        assert_eq!(lines[1], "- Bash(make \\n test) failed: \"Error: no 'rule' to make\\nmore\"");
        assert!(lines[2].starts_with("- Bash(cargo run --bin tool -- x"), "{}", lines[2]);
        assert!(lines[2].ends_with(" --out result.json)"), "{}", lines[2]);
    }

    #[test]
    fn a_long_argument_keeps_the_whole_words_of_both_ends() {
        let words: Vec<String> = (10..50).map(|at| format!("word{at}")).collect();
        let text = words.join(" \n ");
        let whole = words.join(" ");
        for max_chars in 14..=whole.len() + 1 {
            let short = without_middle(&text, max_chars);
            assert!(short.chars().count() <= max_chars, "{short}");
            let Some((head, tail)) = short.split_once(" …") else {
                assert_eq!(short, whole);
                assert!(max_chars >= whole.len(), "{short}");
                continue;
            };
            let words_of =
                |end: &str| -> Vec<String> { end.split_whitespace().map(str::to_owned).collect() };
            let (head, tail) = (words_of(head), words_of(tail));
            assert!(!head.is_empty() && words.starts_with(&head), "{short}");
            assert!(words.ends_with(&tail), "{short}");
            assert!(!tail.is_empty() || max_chars < 30, "{short}");
        }
        let long = |count| "x".repeat(count);
        assert_eq!(without_middle(&long(50), 10), long(50));
        assert_eq!(without_middle(&(long(50) + " -v"), 10), long(50) + " …");
        assert_eq!(without_middle(&long(301), 10), "xxxxxxxxx…");
    }
}
