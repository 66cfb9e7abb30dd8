//! Renders the settings for users: `longhaul defaults` and `longhaul check`; and for editors the JSON schema of
//! the file, `longhaul defaults --schema`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::layers::LISTS;
use super::raw_value::{Origin, RawValue};
use super::redact::{redacted_url, without_credentials};
use super::resolved::ResolvedSettings;
use super::setting::{Kind, Setting, is_shared_variable};
use super::settings::ALL_SETTINGS;
use longhaul_console::table::Table;
use longhaul_console::terminal::wrapped;

const COMMENT_WIDTH: usize = 96;

/// The settings that people change first.
const FIRST_SETTINGS: &str = include_str!("first_settings.txt");

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
         # that explains them all. `longhaul defaults --schema` prints the schema of this file.\n\n\
         # Defaults that people change first; a line without its # counts:\n",
    );
    let settings = found.settings.iter();
    for (entry, _, origin) in settings.clone() {
        if *origin == Origin::Default && FIRST_SETTINGS.lines().any(|first| first == entry.key) {
            _ = writeln!(page, "# {} = {}", entry.key, toml_literal(entry.default));
        }
    }
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

/// Renders every setting in Markdown lists, as in `docs/reference/settings.md`.
pub(crate) fn settings_markdown() -> String {
    let mut page = String::from(
        "# Settings\n\n\
         Printed by `longhaul defaults --table`. A key is `section.name` in the file. Flags override the\n\
         environment, and the environment overrides the file.\n\n\
         ## The ten that people change first\n\n",
    );
    let section = |entry: &Setting<()>| entry.key.split_once('.').map_or("general", |(own, _)| own);
    let entry = |key| ALL_SETTINGS.iter().find(|entry| entry.key == key);
    for entry in FIRST_SETTINGS.lines().filter_map(entry) {
        let doc = entry.doc();
        let sentence = doc.split_inclusive(". ").next().unwrap_or_default();
        let default = toml_literal(entry.default);
        let item = format!("- [`{}`](#{}) = `{default}`: {sentence}", entry.key, section(entry));
        page.push_str(&wrapped("", &item, 2, Some(COMMENT_WIDTH)));
    }
    let mut last = "";
    for entry in ALL_SETTINGS {
        if section(entry) != last {
            last = section(entry);
            let _ = write!(page, "\n## {last}\n");
        }
        let (key, default) = (entry.key, toml_literal(entry.default));
        let names = names(entry).join("`, `");
        let _ = write!(page, "\n- **`{key}`** = `{default}` (`{names}`)\n\n");
        page.push_str(&wrapped("  ", &entry.doc(), 2, Some(COMMENT_WIDTH)));
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
    for line in wrapped("", &entry.doc(), 0, Some(COMMENT_WIDTH - "# ".len())).lines() {
        _ = writeln!(page, "# {line}");
    }
    _ = writeln!(page, "# Also: {}", names(entry).join(", "));
}

/// Returns the names of a setting in the environment and on the command line.
fn names(entry: &Setting<()>) -> Vec<String> {
    let flag = entry.flag.map(|flag| format!("--{} {}", flag.name, flag.value_name));
    entry.env_names().chain(flag).collect()
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
            rows.extend(table.values.iter().map(|(name, raw, origin)| {
                let key = format!("{}[{}].{name}", table.list, at + 1);
                SettingRow::new(key, raw, origin, |text| without_credentials(text).into_owned())
            }));
        }
    }
    rows
}

/// Renders the settings for people, one per line, to fit `width` columns. Those that are set come first.
pub(crate) fn report(found: &ResolvedSettings, width: Option<usize>) -> String {
    let mut table = Table::of_names();
    let (defaults, set): (Vec<_>, Vec<_>) =
        rows(found).into_iter().partition(|row| row.source == Origin::Default.to_string());
    for row in set.iter().chain(&defaults) {
        table.push([row.toml_line(), format!("# {}", row.source)]);
    }
    let (set, defaults) = (set.len(), defaults.len());
    table.render(width) + &format!("# set: {set}, listed first; with their default: {defaults}\n")
}

/// Renders the settings for programs: a JSON array of objects with `key`, `value` and `source`. A
/// value is a text, as an environment variable would contain it, or a list of texts.
pub(crate) fn report_json(found: &ResolvedSettings) -> String {
    // Serialising texts and lists of texts cannot fail.
    let mut page = serde_json::to_string_pretty(&rows(found)).unwrap_or_default();
    page.push('\n');
    page
}

/// Returns the schema of the file, with every section, list of tables, default and choice.
pub(crate) fn settings_schema() -> String {
    let mut properties = Map::new();
    for entry in ALL_SETTINGS {
        let schema = setting_schema(entry);
        match entry.key.split_once('.') {
            None => {
                properties.insert(entry.key.to_owned(), schema);
            }
            Some((section, name)) => {
                let section = properties.entry(section).or_insert_with(|| object(&Map::new()));
                if let Some(Value::Object(inner)) = section.get_mut("properties") {
                    inner.insert(name.to_owned(), schema);
                }
            }
        }
    }
    for list in LISTS {
        let settings = (list.settings)().into_iter();
        let items = settings.map(|entry| (entry.name_in_table().to_owned(), setting_schema(entry)));
        let tables = json!({ "type": "array", "items": object(&items.collect()) });
        properties.insert(list.name.to_owned(), tables);
    }
    let schema = json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "longhaul.toml",
        "type": "object",
        "additionalProperties": false,
        "properties": properties,
    });
    // Serialising texts and maps cannot fail.
    serde_json::to_string_pretty(&schema).unwrap_or_default() + "\n"
}

fn object(properties: &Map<String, Value>) -> Value {
    json!({ "type": "object", "additionalProperties": false, "properties": properties })
}

/// Returns the schema of one setting. Every value has a form as text.
fn setting_schema(entry: &Setting<()>) -> Value {
    let (name, form) = match entry.kind {
        Kind::Choice(words) => {
            // A choice that is empty by default may be left open.
            let open = entry.default.is_empty().then_some("");
            let words: Vec<&str> = words().into_iter().chain(open).collect();
            ("enum", json!(words))
        }
        Kind::Integer => ("type", json!(["integer", "string"])),
        Kind::List => ("type", json!(["array", "string"])),
        Kind::Number => ("type", json!(["number", "string"])),
        Kind::Switch => ("type", json!(["boolean", "string"])),
        Kind::Text => ("type", json!(["string"])),
    };
    let mut schema =
        Map::from_iter([("description".to_owned(), json!(entry.doc())), (name.to_owned(), form)]);
    if let Kind::List = entry.kind {
        schema.insert("items".into(), json!({ "type": "string" }));
    }
    if !matches!(entry.default, "" | "[]") {
        schema.insert("default".into(), default_value(entry));
    }
    Value::Object(schema)
}

fn default_value(entry: &Setting<()>) -> Value {
    match entry.default {
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        text => text.parse::<u64>().map_or_else(|_| Value::String(text.to_owned()), Value::from),
    }
}

#[cfg(test)]
mod schema_tests {
    use super::super::raw_value::RawValue;
    use super::*;

    fn schema() -> Value {
        serde_json::from_str(&settings_schema()).unwrap()
    }

    #[test]
    fn every_setting_is_in_the_schema_with_its_text() {
        let schema = schema();
        for entry in ALL_SETTINGS {
            let pointer = entry.key.replace('.', "/properties/");
            let found = schema.pointer(&format!("/properties/{pointer}")).unwrap();
            assert_eq!(found["description"], entry.doc(), "{}", entry.key);
        }
    }

    /// Values of the JSON type `name`, as text. Each setting of the type takes one of them.
    fn samples(name: &str) -> &'static [&'static str] {
        match name {
            "boolean" => &["true", "false"],
            "integer" => &["0", "1", "5", "50", "1000", "200000"],
            "number" => &["0.5"],
            _ => &[],
        }
    }

    fn check_form(entry: &Setting<()>) {
        let accepts = |text: &str| (entry.parse)(&RawValue::Text(text.to_owned())).is_ok();
        // One of them is an item of each list.
        let takes_list = ["x", "10.0.0.1"].into_iter().any(|item| {
            let list = RawValue::List(vec![item.to_owned()]);
            (entry.parse)(&list).is_ok()
        });
        let schema = setting_schema(entry);
        let key = entry.key;
        for word in schema["enum"].as_array().into_iter().flatten() {
            assert!(accepts(word.as_str().unwrap()), "{key} {word}");
        }
        let types = schema["type"].as_array().into_iter().flatten();
        let types: Vec<&str> = types.map(|name| name.as_str().unwrap()).collect();
        assert_eq!(types.contains(&"array"), takes_list, "{key}");
        for name in ["boolean", "integer", "number"] {
            if types.contains(&name) {
                assert!(samples(name).iter().any(|text| accepts(text)), "{key} {name}");
            }
        }
    }

    #[test]
    fn every_setting_takes_what_its_kind_states() {
        for list in LISTS {
            (list.settings)().into_iter().for_each(check_form);
        }
        ALL_SETTINGS.iter().for_each(check_form);
        let mode = &schema()["properties"]["mode"]["enum"];
        assert_eq!(*mode, json!(["on", "shadow", "off"]));
    }

    #[test]
    fn types_follow_the_kind() {
        let schema = schema();
        let of = |path: &str| schema.pointer(&format!("/properties/{path}/type")).cloned();
        assert_eq!(of("window"), Some(json!(["integer", "string"])));
        assert_eq!(of("public"), Some(json!(["boolean", "string"])));
        assert_eq!(of("allowed_hosts"), Some(json!(["array", "string"])));
        assert_eq!(of("compact/properties/hard"), Some(json!(["number", "string"])));
        assert_eq!(of("listen"), Some(json!(["integer", "string"])));
        assert_eq!(of("client_tokens_file"), Some(json!(["string"])));
        let per_model = &schema["properties"]["model"]["items"]["properties"];
        assert!(per_model["match"].is_object() && per_model["window"].is_object());
        let mount = &schema["properties"]["mount"]["items"]["properties"];
        assert!(mount["path"].is_object() && mount["upstream"].is_object());
    }
}
