//! The settings as people read them: `longhaul defaults` and `longhaul check`.

use std::borrow::Cow;
use std::fmt::Write as _;

use super::layers::{Origin, Raw, Resolved};
use super::models;
use super::setting::Entry;
use super::settings::ALL;

/// Sentences are wrapped here, as comments in the source are.
const WIDTH: usize = 96;

/// Settings whose values are secrets.
const SECRET: &[&str] = &["store.scope_secret"];

/// What the tables of models look like; by default there are none.
const MODELS: &str = "\
# Settings of their own for some models. The first table whose match fits the name that a request\n\
# gives is used: * stands for any characters, ? for one, case does not count. What a table does not\n\
# name is as above. At most 64, and in this file only: the environment and flags have no lists.\n\
# [[model]]\n\
# match = \"*/gemini-*-pro*\"\n\
# window = 1000000\n\
# hard = 200000               # compact.hard: a share, or tokens for windows dear long before full\n\
# soft = 180000               # compact.soft\n\
# keep_recent_tokens = 20000  # compact.keep_recent_tokens\n\
# protect_tokens = 40000      # prune.protect_tokens\n\
# minimum_tokens = 20000      # prune.minimum_tokens\n\
# profile = \"standard\"\n";

/// The commented default configuration, in the form of `config/default.toml`.
pub(crate) fn defaults() -> String {
    let mut page = String::from(
        "# The settings of longhaul with their built-in defaults, as `longhaul defaults` prints them.\n\
         # A file needs only the lines that differ: longhaul --config FILE, or LONGHAUL_CONFIG.\n",
    );
    let mut section = "";
    for entry in ALL {
        let (own, name) = entry
            .key()
            .split_once('.')
            .unwrap_or_else(|| ("", entry.key()));
        if own != section {
            section = own;
            // Writing to a String cannot fail.
            let _ = write!(page, "\n[{section}]\n");
        }
        page.push('\n');
        comment(&mut page, *entry);
        let _ = writeln!(page, "{name} = {}", literal(entry.default()));
    }
    page.push('\n');
    page.push_str(MODELS);
    page
}

fn comment(page: &mut String, entry: &dyn Entry) {
    let mut line = String::from("#");
    for word in entry.doc().split_whitespace() {
        if line.len() + 1 + word.len() > WIDTH {
            page.push_str(&line);
            page.push_str("\n#");
            line.clear();
        }
        line.push(' ');
        line.push_str(word);
    }
    let mut names = vec![entry.env()];
    names.extend(entry.short().map(str::to_owned));
    names.extend(
        entry
            .flag()
            .map(|flag| format!("--{} {}", flag.name, flag.value)),
    );
    let _ = writeln!(page, "{line}\n# Also: {}", names.join(", "));
}

/// Numbers and switches bare, everything else quoted.
fn literal(text: &str) -> String {
    let bare = text == "true"
        || text == "false"
        || text.starts_with('[')
        || (!text.is_empty()
            && text
                .bytes()
                .all(|byte| byte.is_ascii_digit() || byte == b'.'));
    if bare {
        text.to_owned()
    } else {
        toml::Value::String(text.to_owned()).to_string()
    }
}

/// A value as it is shown: neither a secret nor what stands before the host of a URL.
fn shown(key: &str, text: &str) -> String {
    if SECRET.contains(&key) && !text.is_empty() {
        "…".to_owned()
    } else {
        without_credentials(text).into_owned()
    }
}

fn row(key: &str, raw: &Raw, origin: &Origin) -> (String, String) {
    let value = match raw {
        Raw::List(items) => format!("{items:?}"),
        Raw::Text(text) => literal(&shown(key, text)),
    };
    (format!("{key} = {value}"), origin.to_string())
}

/// A value without what stands between the scheme and the host of a URL.
fn without_credentials(text: &str) -> Cow<'_, str> {
    text.split_once("://")
        .and_then(|(scheme, rest)| Some((scheme, rest.rsplit_once('@')?.1)))
        .map_or(Cow::Borrowed(text), |(scheme, place)| {
            Cow::Owned(format!("{scheme}://…@{place}"))
        })
}

/// Every setting, its value and where that came from.
pub(crate) fn report(found: &Resolved) -> String {
    let general = found
        .iter()
        .map(|(entry, raw, origin)| row(entry.key(), raw, origin));
    let mut rows: Vec<(String, String)> = general.collect();
    for (at, table) in found.tables().iter().enumerate() {
        let key = |name: &str| format!("{}[{}].{name}", models::LIST, at + 1);
        let pattern = Raw::Text(table.models().to_owned());
        rows.push(row(&key(models::MATCH), &pattern, &table.origin));
        let own = table.iter();
        rows.extend(own.map(|(name, raw, origin)| row(&key(name), raw, origin)));
    }
    let width = rows
        .iter()
        .map(|(row, _)| row.chars().count())
        .max()
        .unwrap_or(0);
    let mut page = String::new();
    for (row, origin) in rows {
        let _ = writeln!(page, "{row:width$}  # {origin}");
    }
    page
}
