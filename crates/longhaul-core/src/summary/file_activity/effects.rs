//! Effects of one tool call, inferred from the tool's name and its argument names.

use crate::conversation::tool_arguments::ToolArguments;
use crate::conversation::{Conversation, ToolCall};
use crate::summary::file_activity::FileAccess;
use memchr::memmem::Finder;
use std::sync::LazyLock;

/// Words in the names of tools that change files, taken from recorded sessions of agents.
const MODIFYING_TOOL_WORDS: [&str; 10] = [
    "append", "create", "delete", "edit", "insert", "move", "patch", "rename", "replace", "write",
];
/// Words in the names of tools that read files.
const READING_TOOL_WORDS: [&str; 8] = [
    "cat", "fetch", "get", "grep", "open", "read", "search", "view",
];
/// Words in the names of tools that run commands.
const RUNNING_TOOL_WORDS: [&str; 8] = [
    "bash",
    "cmd",
    "command",
    "exec",
    "powershell",
    "run",
    "shell",
    "terminal",
];

/// Prefixes of patch lines that name a file.
const PATCH_PREFIXES: [(&str, FileAccess); 4] = [
    ("*** Update File: ", FileAccess::Modified),
    ("*** Add File: ", FileAccess::Created),
    ("*** Delete File: ", FileAccess::Deleted),
    ("*** Move to: ", FileAccess::Created),
];

/// Beginning of every such line.
const PATCH_MARK: &str = "*** ";

/// Commands that print the files they are given.
const READING_COMMANDS: [&str; 7] = ["bat", "cat", "head", "less", "nl", "sed", "tail"];

pub(super) fn for_each_effect(
    conversation: &Conversation<'_>,
    call: &ToolCall,
    arguments: &ToolArguments,
    mut found: impl FnMut(String, FileAccess),
) {
    let name = call.decoded_name(conversation).to_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
    let mut patched = false;
    let mut look_for_patch = |text: &str| {
        for (path, touch) in patched_files(text) {
            patched = true;
            found(path.to_owned(), touch);
        }
    };
    for (_, text) in arguments.pairs() {
        look_for_patch(&text);
    }
    if let Some(raw) = call
        .arguments
        .filter(|_| arguments.pairs().next().is_none())
    {
        look_for_patch(&raw.decode(conversation.body()));
    }
    if patched {
        return;
    }
    let command = arguments.command();
    if let Some(path) = arguments.path() {
        // An editor tool with several actions names the action in an argument.
        let views = command.as_deref() == Some("view");
        if has(&MODIFYING_TOOL_WORDS) && !views {
            let says = |word: &str| name.contains(word) || command.as_deref() == Some(word);
            let touch = if says("create") {
                FileAccess::Created
            } else if says("delete") {
                FileAccess::Deleted
            } else {
                FileAccess::Modified
            };
            found(path.to_owned(), touch);
        } else if has(&READING_TOOL_WORDS) && looks_like_file(path) || views {
            found(path.to_owned(), FileAccess::Read);
        }
    } else if let Some(command) =
        command.filter(|_| has(&RUNNING_TOOL_WORDS) || !has(&MODIFYING_TOOL_WORDS))
    {
        shell_file_accesses(strip_shell_wrapper(&command), &mut found);
    }
}

/// Returns the files that a patch names, and the effect on each.
fn patched_files(text: &str) -> impl Iterator<Item = (&str, FileAccess)> {
    static MARK: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(PATCH_MARK));
    // Few texts are patches.
    let is_patch = MARK.find(text.as_bytes()).is_some();
    let text = if is_patch { text } else { "" };
    text.lines().filter_map(|line| {
        PATCH_PREFIXES
            .iter()
            .find_map(|(begin, touch)| Some((line.strip_prefix(begin)?.trim(), *touch)))
    })
}

/// Returns the command inside `bash -lc …`.
fn strip_shell_wrapper(command: &str) -> &str {
    ["bash -lc ", "bash -c ", "sh -lc ", "sh -c "]
        .iter()
        .find_map(|begin| command.strip_prefix(begin))
        .unwrap_or(command)
        .trim()
}

/// Reports the files that a shell line reads or changes, as far as its plain words show.
fn shell_file_accesses(command: &str, found: &mut impl FnMut(String, FileAccess)) {
    for step in command.split(['|', ';', '&', '\n']) {
        let mut words = step
            .split_whitespace()
            .map(|word| word.trim_matches(['"', '\'']));
        let Some(verb) = words
            .next()
            .filter(|verb| READING_COMMANDS.contains(verb) || *verb == "tee")
        else {
            continue;
        };
        let words: Vec<&str> = words
            .take_while(|word| !word.contains(['<', '>']))
            .collect();
        let in_place =
            verb == "tee" || (verb == "sed" && words.iter().any(|word| word.starts_with("-i")));
        for path in words.into_iter().filter(|word| looks_like_file(word)) {
            let touch = if in_place {
                FileAccess::Modified
            } else {
                FileAccess::Read
            };
            found(path.to_owned(), touch);
        }
    }
}

/// Whether the last path component has an extension and `word` contains no glob or shell
/// characters.
fn looks_like_file(word: &str) -> bool {
    let last = word.rsplit(['/', '\\']).next().unwrap_or(word);
    let ending = last.rsplit_once('.').map(|(_, ending)| ending);
    !word.starts_with('-')
        && !word.contains(['*', '$', '(', '{', '=', ','])
        && ending.is_some_and(|ending| {
            (1..=10).contains(&ending.len())
                && ending.bytes().all(|byte| byte.is_ascii_alphanumeric())
        })
        && last.bytes().any(|byte| byte.is_ascii_alphabetic())
}
