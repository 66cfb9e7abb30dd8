//! Reads of files and of instructions.

use super::files::is_absolute;
use super::{is_listed, rows};
use std::borrow::Cow;

/// Maximum bytes of a command that is read.
const MAX_COMMAND: usize = 4_096;

/// Characters of a shell by which a command does more than run one program.
const OPERATORS: [char; 11] = ['|', '&', ';', '<', '>', '*', '(', '`', '$', '{', '\n'];

/// Programs that print the files they are given.
const PRINTERS: &str = "bat cat gc get-content head less more nl type";

/// Separators between a line number and the line.
const SEPARATORS: [&str; 9] = ["\t", "→", " | ", "| ", "|", ": ", ":", ". ", "."];

/// Maximum notes of a client behind a file's text.
const MAX_NOTES: usize = 8;

/// Whether a tool loads instructions of a skill, or reads the file of an installed skill. Clients keep skills in
/// hidden folders, and Anthropic's containers keep skills below `/mnt/skills`.
pub(crate) fn loads_skill(tool: &str, path: Option<&str>) -> bool {
    let is_installed = |path: &str| {
        let mut folders = path.split(['/', '\\']);
        let is_hidden = folders.any(|folder| folder.starts_with('.') && folder.len() > 2);
        base_name(path) == "SKILL.md" && (is_hidden || path.starts_with("/mnt/skills/"))
    };
    is_listed("skill", tool) || path.is_some_and(is_installed)
}

/// Returns the file that a call reads: the path of a reading tool, or the file that a command only reads.
/// `folder` is the folder in which the call runs, if its arguments have one.
pub(crate) fn reads_file<'a>(
    tool: &str,
    command: Option<&'a str>,
    path_argument: Option<&'a str>,
    folder: Option<&str>,
) -> Option<Cow<'a, str>> {
    // An editor with several commands names its reading `view`.
    let reads = is_listed("read", tool) || command == Some("view");
    let file = if reads { path_argument? } else { printed_file(command?)? };
    match folder.filter(|_| !is_absolute(file)) {
        Some(folder) => Some(Cow::Owned(format!("{folder}/{file}"))),
        None => Some(Cow::Borrowed(file)),
    }
}

/// Returns the file that a command prints, if the command does nothing else.
fn printed_file(command: &str) -> Option<&str> {
    // `bash -lc 'cat a.md'`, or the words of a list.
    let inner = [" -lc ", " -c "].iter().find_map(|flag| command.split_once(flag));
    let inner = inner.filter(|(shell, _)| base_name(shell).ends_with("sh"));
    let command = inner.map_or(command, |(_, inner)| inner.trim());
    let quoted = |quote| command.strip_prefix(quote)?.strip_suffix(quote);
    let words = words(quoted('\'').or_else(|| quoted('"')).unwrap_or(command))?;
    let (program, rest) = words.split_first()?;
    let program = base_name(program).to_ascii_lowercase();
    let is_range = |byte: u8| byte.is_ascii_digit() || b",-p".contains(&byte);
    let rest = match (program.as_str(), rest) {
        ("head" | "sed", ["-n" | "-c", lines, rest @ ..]) if lines.bytes().all(is_range) => rest,
        (program, rest) if PRINTERS.split(' ').any(|it| it == program) => rest,
        _ => return None,
    };
    let files: Vec<&str> = rest.iter().copied().filter(|word| !word.starts_with('-')).collect();
    match files.as_slice() {
        [file] => Some(file),
        _ => None,
    }
}

fn base_name(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or_default()
}

/// Splits a command into words, each without its quotation marks. `None` for more than a plain command.
fn words(command: &str) -> Option<Vec<&str>> {
    let mut rest = command.trim();
    if rest.len() > MAX_COMMAND || rest.contains(OPERATORS) {
        return None;
    }
    let mut words = Vec::new();
    while !rest.is_empty() {
        let quote = rest.chars().next().filter(|first| matches!(first, '"' | '\''));
        let (word, behind) = match quote {
            Some(quote) => rest.get(1..)?.split_once(quote)?,
            None => rest.split_once(' ').unwrap_or((rest, "")),
        };
        words.push(word);
        rest = behind.trim_start();
    }
    Some(words)
}

/// Returns the file's text in the result of a read, without the client's frame and line numbers.
pub(crate) fn file_text(result: &str) -> Cow<'_, str> {
    let mut text = result.trim_matches(['\r', '\n']);
    for row in rows("read-start") {
        let framed = text.trim_start();
        if let Some(rest) = framed.strip_prefix(row.words.as_str())
            && let Some((_, rest)) = rest.split_once(&row.end)
        {
            text = rest;
        }
    }
    let text = without_notes(text);
    without_numbers(text).map_or(Cow::Borrowed(text), Cow::Owned)
}

/// Removes the last lines that the client added.
fn without_notes(text: &str) -> &str {
    let mut text = text.trim_end();
    for _ in 0..MAX_NOTES {
        let mut notes = rows("read-note").iter();
        let cut = notes.find_map(|row| {
            let lines = text.strip_suffix(row.end.as_str())?;
            let at = lines.rfind(&row.words)?;
            let (before, note) = lines.split_at_checked(at)?;
            let is_last = !row.end.is_empty() || !note.contains('\n');
            (is_last && (before.is_empty() || before.ends_with('\n'))).then_some(before)
        });
        match cut {
            Some(before) => text = before.trim_end(),
            None => break,
        }
    }
    text
}

/// Removes line numbers, if all lines have them, in order and with the same separator.
fn without_numbers(text: &str) -> Option<String> {
    SEPARATORS.iter().find_map(|separator| {
        let mut out = String::new();
        let mut expected = None;
        for line in text.split('\n') {
            let line = line.trim_start_matches(' ');
            let digits = line.bytes().position(|byte| !byte.is_ascii_digit())?;
            let number: u32 = line.get(..digits)?.parse().ok()?;
            if expected.is_some_and(|expected| expected != number) {
                return None;
            }
            expected = number.checked_add(1);
            out.push_str(line.get(digits..)?.strip_prefix(separator)?);
            out.push('\n');
        }
        out.pop();
        Some(out)
    })
}
