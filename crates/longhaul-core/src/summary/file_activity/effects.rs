//! Files that one tool call modifies, inferred from the tool's name and its argument names.

use crate::conversation::tool_arguments::ToolArguments;
use crate::conversation::{Conversation, ToolCall};
use crate::summary::steps::is_path;
use memchr::memmem::Finder;
use std::sync::LazyLock;

/// Words in the names of tools that change files, taken from recorded sessions of agents.
const MODIFYING: &str = "append create delete edit insert move patch rename replace write";
/// Words in the names of tools that run commands.
const RUNNING: &str = "bash cmd command exec powershell run shell terminal";

/// Prefixes of patch lines that name a file.
const PATCH_PREFIXES: [&str; 4] =
    ["*** Update File: ", "*** Add File: ", "*** Delete File: ", "*** Move to: "];

/// Passes each file that a call modifies to `found`.
pub(super) fn for_each_modified(
    conversation: &Conversation<'_>,
    call: &ToolCall,
    arguments: &ToolArguments,
    mut found: impl FnMut(String),
) {
    let mut found = |path: &str| {
        if is_path(path) {
            found(path.to_owned());
        }
    };
    let name = call.decoded_name(conversation).to_lowercase();
    let has = |words: &str| words.split(' ').any(|word| name.contains(word));
    let mut patched = false;
    for_each_patched(conversation, call, arguments, |path| {
        patched = true;
        found(path);
    });
    if patched {
        return;
    }
    let command = arguments.command();
    if let Some(path) = arguments.path() {
        // An editor tool with several actions names the action in an argument.
        if has(MODIFYING) && command.as_deref() != Some("view") {
            found(path);
        }
    } else if let Some(command) = command.filter(|_| has(RUNNING) || !has(MODIFYING)) {
        for_each_written(strip_shell_wrapper(&command), &mut found);
    }
}

/// Passes each file that a patch in the arguments names to `found`.
pub(in crate::summary) fn for_each_patched(
    conversation: &Conversation<'_>,
    call: &ToolCall,
    arguments: &ToolArguments,
    mut found: impl FnMut(&str),
) {
    // Few calls hold a patch. The mark needs no escape.
    let raw = call.arguments.map(|literal| literal.raw(conversation.body()));
    if raw.is_none_or(|raw| MARK.find(raw.as_bytes()).is_none()) {
        return;
    }
    if let Some(text) = arguments.free_text(conversation, call) {
        patched_files(&text).for_each(&mut found);
    }
    arguments.pairs().for_each(|(_, text)| patched_files(&text).for_each(&mut found));
}

/// Begins the lines of a patch that name a file.
static MARK: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("*** "));

/// Returns the files that a patch names. A script holds its patch as a literal, with escaped line ends.
fn patched_files(text: &str) -> impl Iterator<Item = &str> {
    MARK.find_iter(text.as_bytes()).filter_map(move |at| {
        let (before, line) = text.split_at_checked(at)?;
        let begins = before.is_empty() || before.ends_with(['\n', '\r']) || before.ends_with("\\n");
        let mut prefixes = PATCH_PREFIXES.iter().filter(|_| begins);
        let file = prefixes.find_map(|begin| line.strip_prefix(begin))?.lines().next()?;
        Some(file.split_once("\\n").map_or(file, |(file, _)| file).trim())
    })
}

/// Returns the command inside `bash -lc …`.
fn strip_shell_wrapper(command: &str) -> &str {
    let mut wrappers = ["bash -lc ", "bash -c ", "sh -lc ", "sh -c "].iter();
    let inside = wrappers.find_map(|begin| command.strip_prefix(begin));
    inside.unwrap_or(command).trim()
}

/// Reports the files that a shell line changes, as far as its plain words show.
fn for_each_written(command: &str, found: &mut impl FnMut(&str)) {
    for step in command.split(['|', ';', '&', '\n']) {
        let words = step.split_whitespace();
        let mut words = words.map(|word| word.trim_matches(['"', '\'']));
        let verb = words.next().unwrap_or_default();
        let words = words.take_while(|word| !word.contains(['<', '>']));
        if verb == "tee" || verb == "sed" && words.clone().any(|word| word.starts_with("-i")) {
            words.filter(|word| looks_like_file(word)).for_each(&mut *found);
        }
    }
}

/// Whether the last path component has an extension and `word` contains no glob or shell
/// characters.
fn looks_like_file(word: &str) -> bool {
    let last = word.rsplit(['/', '\\']).next().unwrap_or(word);
    let ending = last.rsplit_once('.').map_or("", |(_, ending)| ending);
    !word.starts_with('-')
        && !word.contains(['*', '$', '(', '{', '=', ','])
        && (1..=10).contains(&ending.len())
        && ending.bytes().all(|byte| byte.is_ascii_alphanumeric())
        && last.bytes().any(|byte| byte.is_ascii_alphabetic())
}
