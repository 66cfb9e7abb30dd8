//! Reads of files and of instructions.

use super::{is_listed, rows};
use memchr::memmem;
use std::borrow::Cow;

/// Maximum bytes of a command that is read.
const MAX_COMMAND: usize = 4_096;

/// Shells that run a command given as an argument.
const SHELLS: [&str; 3] = ["bash", "sh", "zsh"];

/// Whether a tool loads instructions of a skill, or reads the file of one.
pub(crate) fn loads_skill(tool: &str, path: Option<&str>) -> bool {
    let name = path.and_then(|path| path.rsplit(['/', '\\']).next());
    is_listed("skill", tool) || name.is_some_and(|name| name.eq_ignore_ascii_case("SKILL.md"))
}

/// Returns the file that a call reads: the path of a reading tool, or the file of a command that reads one file and
/// does nothing else.
pub(crate) fn reads_file<'a>(
    tool: &str,
    command: Option<&'a str>,
    path_argument: Option<&'a str>,
) -> Option<Cow<'a, str>> {
    if is_listed("read", tool) {
        return path_argument.map(Cow::Borrowed);
    }
    let words = words(command?)?;
    let mut words = words.as_slice();
    let inner;
    if let [shell, flag, command] = words
        && SHELLS.contains(&base_name(shell))
        && flag.starts_with('-')
    {
        inner = self::words(command)?;
        words = &inner;
    }
    let (program, rest) = words.split_first()?;
    let takes_value = match base_name(program).to_ascii_lowercase().as_str() {
        "cat" | "bat" | "less" | "more" | "nl" | "type" | "get-content" | "gc" => false,
        "head" | "sed" => true,
        _ => return None,
    };
    let mut files = Vec::new();
    let mut rest = rest.iter();
    while let Some(word) = rest.next() {
        if takes_value && matches!(word.as_str(), "-n" | "-c") {
            // A number of lines, or a script that prints a range of lines.
            let value = rest.next()?;
            let range = value.strip_suffix('p').unwrap_or(value);
            if !range
                .bytes()
                .all(|byte| byte.is_ascii_digit() || b",$-".contains(&byte))
            {
                return None;
            }
        } else if !word.starts_with('-') {
            files.push(word);
        }
    }
    match files.as_slice() {
        [file] => Some(Cow::Owned((*file).clone())),
        _ => None,
    }
}

fn base_name(program: &str) -> &str {
    program.rsplit(['/', '\\']).next().unwrap_or_default()
}

/// Splits a command into words. `None` for anything but words and quotation marks.
fn words(command: &str) -> Option<Vec<String>> {
    let command = Some(command.trim()).filter(|it| it.len() <= MAX_COMMAND)?;
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for char in command.chars() {
        match (quote, char) {
            (Some(mark), _) if mark == char => quote = None,
            (None, '"' | '\'') => {
                quote = Some(char);
                word.get_or_insert_default();
            }
            (Some('"') | None, '`' | '$')
            | (None, '|' | '&' | ';' | '<' | '>' | '*' | '(' | '\n') => {
                return None;
            }
            (None, ' ' | '\t') => words.extend(word.take()),
            _ => word.get_or_insert_default().push(char),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

/// Returns the file's text in the result of a read, without the client's frame and line numbers.
pub(crate) fn file_text<'t>(tool: &str, result: &'t str) -> Cow<'t, str> {
    let _ = tool;
    let mut text = result.trim_matches(['\r', '\n']);
    for row in rows("read-start") {
        let framed = text.trim_start();
        let end = memmem::find(framed.as_bytes(), row.end.as_bytes());
        if let Some(end) = end.filter(|_| framed.starts_with(&row.words)) {
            text = framed.get(end + row.end.len()..).unwrap_or_default();
        }
    }
    let text = without_notes(text);
    without_numbers(text).map_or(Cow::Borrowed(text), Cow::Owned)
}

/// Removes the last lines that the client added.
fn without_notes(text: &str) -> &str {
    let mut text = text.trim_end();
    for _ in 0..4 {
        let mut notes = rows("read-note").iter();
        let cut = notes.find_map(|row| {
            let at = text.rfind(&row.words)?;
            let is_line = text.get(..at)?.trim_end_matches([' ', '\t']);
            let is_line = is_line.is_empty() || is_line.ends_with('\n');
            let rest = text.get(at..)?;
            let ends = if row.end.is_empty() {
                !rest.contains('\n')
            } else {
                rest.ends_with(&row.end)
            };
            (is_line && ends).then_some(at)
        });
        let Some(cut) = cut else { break };
        text = text.get(..cut).unwrap_or_default().trim_end();
    }
    text
}

/// Separators between a line number and the line.
const SEPARATORS: [&str; 8] = ["\t", "→", "| ", "|", ": ", ":", ". ", "."];

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
