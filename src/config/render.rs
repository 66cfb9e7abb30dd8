//! Renders the settings for users: `longhaul defaults` and `longhaul check`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use super::redact::{redacted_url, without_credentials};
use super::resolved::{Origin, RawValue, ResolvedSettings};
use super::setting::{Setting, is_shared_variable};
use super::settings::ALL_SETTINGS;
use longhaul_console::table::Table;

const COMMENT_WIDTH: usize = 96;

/// Examples of the lists of tables; by default there are none.
const TABLE_EXAMPLES: &str = include_str!("table_examples.toml");

/// Renders the commented default configuration, as in `config/default.toml`.
pub(crate) fn default_toml() -> String {
    let mut page = String::from(
        "# The settings of longhaul with their built-in defaults, printed by `longhaul defaults`.\n\
         # A file needs only the settings that differ: longhaul --config FILE, or LONGHAUL_CONFIG.\n",
    );
    let defaults = ALL_SETTINGS.iter().map(|entry| (entry, entry.default));
    write_settings(&mut page, defaults);
    page.push('\n');
    page.push_str(TABLE_EXAMPLES);
    page
}

/// Renders a file of the settings that flags set in `found`, for a user to begin with.
pub(crate) fn minimal_toml(found: &ResolvedSettings) -> String {
    let mut page = String::from(
        "# Settings of longhaul, written by `longhaul init`.\n\
         # `longhaul check` prints every setting with its value and source, `longhaul defaults` a file\n\
         # that explains them all. `longhaul defaults --schema` prints the schema of this file.\n",
    );
    let settings = found.settings.iter();
    let set = settings.filter_map(|(entry, raw, origin)| match (raw, origin) {
        (RawValue::Text(text), Origin::Flag(_)) => Some((*entry, text.as_str())),
        _ => None,
    });
    write_settings(&mut page, set);
    page
}

/// Writes each setting with its comment and this value, under the heading of its section.
fn write_settings<'s>(
    page: &mut String,
    settings: impl Iterator<Item = (&'s Setting<()>, &'s str)>,
) {
    let mut section = "";
    for (entry, text) in settings {
        let (own, name) = entry.key.split_once('.').unwrap_or(("", entry.key));
        if own != section {
            section = own;
            let _ = write!(page, "\n[{section}]\n");
        }
        page.push('\n');
        write_comment(page, entry);
        let _ = writeln!(page, "{name} = {}", toml_literal(text));
    }
}

/// Renders every setting in a Markdown table, as in `docs/reference/settings.md`.
pub(crate) fn settings_markdown() -> String {
    let mut page = String::from(
        "# Settings\n\n\
         Printed by `longhaul defaults --table`. A key is `section.name` in the file. Flags override the\n\
         environment, and the environment overrides the file.\n\n\
         | setting | default | environment | flag | what it does |\n|---|---|---|---|---|\n",
    );
    for entry in ALL_SETTINGS {
        let code = |text: &str| match text {
            "" => String::new(),
            text => format!("`{}`", text.replace('|', "\\|")),
        };
        let own = entry.long_env();
        let environment = match entry.short_env {
            Some(short) => format!("{} {}", code(short), code(&own)),
            None => code(&own),
        };
        let flag = entry.flag.map(|flag| code(&format!("--{} {}", flag.name, flag.value_name)));
        let _ = writeln!(
            page,
            "| {} | {} | {environment} | {} | {} |",
            code(entry.key),
            code(&toml_literal(entry.default)),
            flag.unwrap_or_default(),
            entry.doc().replace('|', "\\|"),
        );
    }
    page.push_str(
        "\nIn the file, `[[model]]` tables change settings for particular models, `[[mount]]` tables add\n\
         upstreams, `[[price]]` tables set prices, and `[[keep]]` tables keep texts:\n\n```toml\n",
    );
    page.push_str(TABLE_EXAMPLES);
    page.push_str("```\n");
    page
}

fn write_comment(page: &mut String, entry: &Setting<()>) {
    let mut line = String::from("#");
    for word in entry.doc().split_whitespace() {
        if line.len() + 1 + word.len() > COMMENT_WIDTH {
            page.push_str(&line);
            page.push_str("\n#");
            line.clear();
        }
        line.push(' ');
        line.push_str(word);
    }
    let mut names = vec![entry.long_env()];
    names.extend(entry.short_env.map(str::to_owned));
    names.extend(entry.flag.map(|flag| format!("--{} {}", flag.name, flag.value_name)));
    let _ = writeln!(page, "{line}\n# Also: {}", names.join(", "));
}

/// Formats a default as TOML: numbers, switches and lists bare, everything else quoted.
fn toml_literal(text: &str) -> String {
    let bare = text == "true"
        || text == "false"
        || text.starts_with('[')
        || (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'));
    if bare { text.to_owned() } else { toml::Value::String(text.to_owned()).to_string() }
}

/// Redacts a value for display: hides secrets and credentials in URLs.
fn redacted(entry: &Setting<()>, text: &str) -> String {
    if entry.secret && !text.is_empty() {
        "…".to_owned()
    } else if entry.key.starts_with("proxy.") {
        redacted_url(text).into_owned()
    } else {
        without_credentials(text).into_owned()
    }
}

/// Returns the variables in `env` that set secrets: keys, and URLs with passwords. Variables shared
/// with every program, like those of proxies, are left out.
pub(crate) fn secret_variables(env: &BTreeMap<String, String>) -> impl Iterator<Item = String> {
    ALL_SETTINGS.iter().flat_map(move |entry| {
        let own = entry.env_names().filter(|name| !is_shared_variable(name));
        own.filter(move |name| {
            let value = env.get(name);
            value.is_some_and(|value| redacted(entry, value) != *value)
        })
    })
}

#[derive(Serialize)]
struct SettingRow {
    key: String,
    value: RawValue,
    source: String,
}

impl SettingRow {
    fn new(key: String, raw: &RawValue, origin: &Origin, redact: impl Fn(&str) -> String) -> Self {
        let value = match raw {
            RawValue::List(_) => raw.clone(),
            RawValue::Text(text) => RawValue::Text(redact(text)),
        };
        Self { key, value, source: origin.to_string() }
    }

    /// Formats the setting as a line of the file.
    fn toml_line(&self) -> String {
        let key = &self.key;
        match &self.value {
            RawValue::List(items) => format!("{key} = {items:?}"),
            RawValue::Text(text) => format!("{key} = {}", toml_literal(text)),
        }
    }
}

/// Returns every setting with its value and origin.
fn rows(found: &ResolvedSettings) -> Vec<SettingRow> {
    let general = found.settings.iter().map(|(entry, raw, origin)| {
        let raw = entry.normalised(raw);
        SettingRow::new(entry.key.into(), &raw, origin, |text| redacted(entry, text))
    });
    let mut rows: Vec<SettingRow> = general.collect();
    for tables in &found.tables {
        for (at, table) in tables.iter().enumerate() {
            rows.extend(table.values().map(|(name, raw, origin)| {
                let key = format!("{}[{}].{name}", table.list, at + 1);
                SettingRow::new(key, raw, origin, |text| without_credentials(text).into_owned())
            }));
        }
    }
    rows
}

/// Renders the settings for people, one per line, to fit `width` columns.
pub(crate) fn report(found: &ResolvedSettings, width: Option<usize>) -> String {
    let mut table = Table::of_names();
    for row in rows(found) {
        table.push([row.toml_line(), format!("# {}", row.source)]);
    }
    table.render(width)
}

/// Renders the settings for programs: a JSON array of objects with `key`, `value` and `source`. A
/// value is a text, as an environment variable would contain it, or a list of texts.
pub(crate) fn report_json(found: &ResolvedSettings) -> String {
    // Serialising texts and lists of texts cannot fail.
    let mut page = serde_json::to_string_pretty(&rows(found)).unwrap_or_default();
    page.push('\n');
    page
}
