//! The settings as people read them: `longhaul defaults` and `longhaul check`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use super::kinds::switch;
use super::layers::{Origin, Raw, Resolved};
use super::models;
use super::mounts;
use super::setting::Entry;
use super::settings::ALL;
use super::shown::{url, without_credentials};

/// Sentences are wrapped here, as comments in the source are.
const WIDTH: usize = 96;

/// Settings whose values are secrets.
const SECRET: &[&str] = &["store.scope_secret", "upstream.api_key"];

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

/// What further upstreams look like; by default there are none.
const MOUNTS: &str = "\
# Further upstreams, each under a path of its own: what is asked under it is asked of that upstream,\n\
# without it. All else is set as above; no key of another upstream goes there. In this file only.\n\
# [[mount]]\n\
# path = \"/openrouter\"        # agents: http://127.0.0.1:8484/openrouter/v1\n\
# upstream = \"https://openrouter.ai/api/v1\"\n\
# api_key_file = \"\"           # as upstream.api_key_file\n";

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
    page.push('\n');
    page.push_str(MOUNTS);
    page
}

/// Every setting in one table, in the form of `docs/settings.md`.
pub(crate) fn table() -> String {
    let mut page = String::from(
        "# Settings\n\n\
         As `longhaul defaults --table` prints them. A key is `section.name` of the file; flags win over the\n\
         environment, the environment over the file.\n\n\
         | setting | default | environment | flag | what it does |\n|---|---|---|---|---|\n",
    );
    for entry in ALL {
        let code = |text: &str| match text {
            "" => String::new(),
            text => format!("`{}`", text.replace('|', "\\|")),
        };
        let own = entry.env();
        let environment = match entry.short() {
            Some(short) => format!("{} {}", code(short), code(&own)),
            None => code(&own),
        };
        let flag = entry
            .flag()
            .map(|flag| code(&format!("--{} {}", flag.name, flag.value)));
        // Writing to a String cannot fail.
        let _ = writeln!(
            page,
            "| {} | {} | {environment} | {} | {} |",
            code(entry.key()),
            code(&literal(entry.default())),
            flag.unwrap_or_default(),
            entry.doc().replace('|', "\\|"),
        );
    }
    page.push_str(
        "\nIn the file, `[[model]]` tables give models settings of their own, and `[[mount]]` tables add\n\
         upstreams:\n\n```toml\n",
    );
    page.push_str(MODELS);
    page.push('\n');
    page.push_str(MOUNTS);
    page.push_str("```\n");
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
    } else if key.starts_with("proxy.") {
        url(text).into_owned()
    } else {
        without_credentials(text).into_owned()
    }
}

/// The variables that are settings with something in them that is not shown: keys and passwords.
/// Those that every program reads, as the proxies' are, are not ours alone, and none of them.
pub(crate) fn secrets(env: &BTreeMap<String, String>) -> impl Iterator<Item = String> {
    ALL.iter().flat_map(move |entry| {
        let short = entry.short().filter(|name| !name.ends_with("_PROXY"));
        let names = [Some(entry.env()), short.map(str::to_owned)];
        names.into_iter().flatten().filter(move |name| {
            let value = env.get(name);
            value.is_some_and(|value| shown(entry.key(), value) != *value)
        })
    })
}

/// A setting as it is shown.
#[derive(Serialize)]
struct Row {
    key: String,
    value: Shown,
    source: String,
}

/// A value without what is secret in it.
#[derive(Serialize)]
#[serde(untagged)]
enum Shown {
    List(Vec<String>),
    Text(String),
}

impl Row {
    fn of(key: &str, raw: &Raw, origin: &Origin) -> Self {
        let value = match raw {
            Raw::List(items) => Shown::List(items.clone()),
            Raw::Text(text) => Shown::Text(shown(key, text)),
        };
        Self {
            key: key.to_owned(),
            value,
            source: origin.to_string(),
        }
    }

    /// As a line of the file has it.
    fn line(&self) -> String {
        let key = &self.key;
        match &self.value {
            Shown::List(items) => format!("{key} = {items:?}"),
            Shown::Text(text) => format!("{key} = {}", literal(text)),
        }
    }
}

/// A switch as it was read, whichever of its words was given; anything else as it was given.
pub(super) fn as_read<'r>(entry: &dyn Entry, raw: &'r Raw) -> Cow<'r, Raw> {
    match (entry.default(), switch(raw)) {
        ("true" | "false", Ok(on)) => Cow::Owned(Raw::Text(on.to_string())),
        _ => Cow::Borrowed(raw),
    }
}

/// Every setting, its value and where that came from.
fn rows(found: &Resolved) -> Vec<Row> {
    let general = found
        .iter()
        .map(|(entry, raw, origin)| Row::of(entry.key(), &as_read(*entry, raw), origin));
    let mut rows: Vec<Row> = general.collect();
    for (at, table) in found.tables().iter().enumerate() {
        let key = |name: &str| format!("{}[{}].{name}", models::LIST, at + 1);
        let pattern = Raw::Text(table.models().to_owned());
        rows.push(Row::of(&key(models::MATCH), &pattern, &table.origin));
        let own = table.iter();
        rows.extend(own.map(|(name, raw, origin)| Row::of(&key(name), raw, origin)));
    }
    for (at, table) in found.mounts().iter().enumerate() {
        let key = |name: &str| format!("{}[{}].{name}", mounts::LIST, at + 1);
        let own = table.iter();
        rows.extend(own.map(|(name, raw, origin)| Row::of(&key(name), raw, origin)));
    }
    rows
}

/// The settings for people, a line each.
pub(crate) fn report(found: &Resolved) -> String {
    let rows = rows(found);
    let lines: Vec<(String, String)> = rows
        .into_iter()
        .map(|row| (row.line(), row.source))
        .collect();
    let width = lines
        .iter()
        .map(|(line, _)| line.chars().count())
        .max()
        .unwrap_or(0);
    let mut page = String::new();
    for (line, source) in lines {
        let _ = writeln!(page, "{line:width$}  # {source}");
    }
    page
}

/// The settings for machines: an array of objects with `key`, `value` and `source`. A value is text
/// as the environment would give it, or a list of texts.
pub(crate) fn report_json(found: &Resolved) -> String {
    // Texts and lists of them: writing them cannot fail.
    let mut page = serde_json::to_string_pretty(&rows(found)).unwrap_or_default();
    page.push('\n');
    page
}
