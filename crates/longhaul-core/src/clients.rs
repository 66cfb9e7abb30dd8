//! Forms in which clients put their users' words, and texts of their own, into a conversation.
//!
//! Each file in `clients/forms` has the forms of a client; its head names the sources. A row is a kind and its
//! fields, separated by tabs:
//!
//! | kind | fields |
//! |---|---|
//! | `program` | element that the client's program wrote, or in which it shows material |
//! | `user` | element whose content the user wrote |
//! | `block` | first words of a program's text that has no element, and its last words; without these, all of it |
//! | `pictures` | first words of a message in which the client shows pictures of the results before |
//! | `skill-start` | first words of a message with the instructions of a skill |
//! | `request` | first words of a line behind which the user's words begin, and the words after these |
//! | `quoted` | words that begin an element of the program, before words of the user, and the words after them |
//! | `ask`, `plan` | tool by which the model asks the user, or shows a plan to the user |
//! | `answered` | words before answers in the result of such a tool, and the words after them |
//! | `approved` | first words of the result of a tool of plans if the user approved |
//! | `plan-text` | words before the plan in such a result |
//! | `refused` | first words of a result without an answer, or of a call that the user rejected without a reason |
//! | `rejected` | words before the reason for which the user rejected a call, and the words after it |
//! | `rejected-json` | first words of a JSON object with such a reason, and the reason's key |
//! | `workspace` | words before the root of the workspace in instructions, and the words after it |
//! | `read`, `skill` | tool that reads a file, or loads instructions |
//! | `read-start` | words before a file's text in the result of a reading tool, and the words after it |
//! | `read-note` | first words of a last line there that is not the file's |
//!
//! In fields, `\n` is a line end. Without last words, a text ends at its end, and a path at the end of its line.

mod files;
mod own_words;
mod reads;
mod results;

pub(crate) use files::{rule_file, workspace};
pub use own_words::own_words;
pub(crate) use own_words::{announces_result, loaded_skill, shows_result};
pub(crate) use reads::{file_text, loads_skill, reads_file};
pub(crate) use results::{ResultWords, answers_user, in_result, may_reject};

use crate::collections::StaticMap;
use std::sync::LazyLock;

const FORMS: &[&str] = &texts!("clients/forms/":
    "aider" "claude-code" "cline" "codex" "continue" "copilot" "crush" "cursor" "frameworks" "gemini-cli" "goose" "gptme"
    "mini-swe-agent" "openhands" "opencode" "pi" "qwen-code" "roo" "zed"
);

/// Row of a file of forms.
struct Row {
    /// First field: a name, or words.
    words: String,
    /// Second field: the words behind. Empty if the row has none.
    end: String,
}

/// Returns all rows of a kind, client by client.
fn rows(kind: &str) -> &'static [Row] {
    static ROWS: LazyLock<StaticMap<&str, Vec<Row>>> = LazyLock::new(|| {
        let mut rows = StaticMap::<_, Vec<_>>::default();
        let lines = FORMS.iter().flat_map(|file| file.lines());
        for line in lines.filter(|line| !line.starts_with('#')) {
            let mut fields = line.split('\t');
            let kind = fields.next().unwrap_or_default();
            let mut field = || fields.next().unwrap_or_default().replace("\\n", "\n");
            let (words, end) = (field(), field());
            rows.entry(kind).or_default().push(Row { words, end });
        }
        rows
    });
    ROWS.get(kind).map_or(&[], Vec::as_slice)
}

/// Whether a row of `kind` has the name `name`.
fn is_listed(kind: &str, name: &str) -> bool {
    rows(kind).iter().any(|row| row.words == name)
}

/// Returns the first row of `kind` with whose words `text` begins.
fn row_of(kind: &str, text: &str) -> Option<&'static Row> {
    let mut rows = rows(kind).iter();
    rows.find(|row| text.starts_with(&row.words))
}

/// Returns what stands in `text` between the words of the first row of `kind` with which it begins.
fn stripped<'t>(kind: &str, text: &'t str) -> Option<&'t str> {
    let row = row_of(kind, text)?;
    Some(before_end(text.strip_prefix(&row.words)?, row))
}

/// Returns what stands before the last words of a row; all of `text` without them.
fn before_end<'t>(text: &'t str, row: &Row) -> &'t str {
    let end = text.rfind(&row.end).filter(|_| !row.end.is_empty());
    text.get(..end.unwrap_or(text.len())).unwrap_or_default().trim()
}

#[cfg(test)]
mod tests;
