//! The JSON schema of the configuration file, for editors: `longhaul defaults --schema`.

use serde_json::{Map, Value, json};

use super::model_tables::MODEL_TABLES;
use super::mounts::MOUNT_TABLES;
use super::prices::PRICE_TABLES;
use super::raw_value::RawValue;
use super::setting::Setting;
use super::settings::ALL_SETTINGS;

/// Words in an error of [`choice`](super::parse::choice) before the list of values.
const CHOICE_MARK: &str = "expected one of ";

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
                let section = properties
                    .entry(section)
                    .or_insert_with(|| object(&Map::new()));
                if let Some(Value::Object(inner)) = section.get_mut("properties") {
                    inner.insert(name.to_owned(), schema);
                }
            }
        }
    }
    for list in [&MODEL_TABLES, &MOUNT_TABLES, &PRICE_TABLES] {
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

/// Returns the schema of one setting. The setting's own parser decides which types it allows.
fn setting_schema(entry: &Setting<()>) -> Value {
    let mut schema = Map::new();
    schema.insert("description".into(), entry.doc.into());
    if entry.default.starts_with('[') || accepts_list(entry) {
        schema.insert("type".into(), json!(["array", "string"]));
        schema.insert("items".into(), json!({ "type": "string" }));
    } else if let Some(words) = choices(entry) {
        schema.insert("enum".into(), words.into());
    } else {
        schema.insert("type".into(), types(entry).into());
    }
    if !entry.default.is_empty() && !entry.default.starts_with('[') {
        schema.insert("default".into(), default_value(entry));
    }
    Value::Object(schema)
}

fn accepts(entry: &Setting<()>, text: &str) -> bool {
    (entry.parse)(&RawValue::Text(text.to_owned())).is_ok()
}

fn accepts_list(entry: &Setting<()>) -> bool {
    (entry.parse)(&RawValue::List(vec!["x".to_owned()])).is_ok()
}

/// Returns the words of a setting that takes one of a few, the empty text included where the
/// setting may be left open. The parser's own error lists the words.
fn choices(entry: &Setting<()>) -> Option<Vec<String>> {
    let error = (entry.parse)(&RawValue::Text("\u{1}".to_owned())).err()?;
    let (_, words) = error.split_once(CHOICE_MARK)?;
    let mut words: Vec<String> = words.split(", ").map(str::to_owned).collect();
    if accepts(entry, "") {
        words.push(String::new());
    }
    Some(words)
}

/// Returns the JSON types that a setting takes. Every value has a form as text.
fn types(entry: &Setting<()>) -> Vec<&'static str> {
    // Each number is allowed by some setting, and no free text is refused.
    let numbers = ["0", "1", "5", "50", "1000", "200000"];
    if accepts(entry, "not a number") {
        return vec!["string"];
    }
    let mut types = Vec::new();
    if entry.default == "true" || entry.default == "false" {
        types.push("boolean");
    } else if accepts(entry, "0.5") {
        types.push("number");
    } else if numbers.into_iter().any(|number| accepts(entry, number)) {
        types.push("integer");
    }
    types.push("string");
    types
}

fn default_value(entry: &Setting<()>) -> Value {
    match entry.default {
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        text => text
            .parse::<u64>()
            .map_or_else(|_| Value::String(text.to_owned()), Value::from),
    }
}

#[cfg(test)]
mod tests {
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
            assert_eq!(found["description"], entry.doc, "{}", entry.key);
        }
    }

    #[test]
    fn every_choice_of_the_schema_is_one_that_the_setting_takes() {
        for entry in ALL_SETTINGS {
            for word in choices(entry).into_iter().flatten() {
                assert!(accepts(entry, &word), "{} {word}", entry.key);
            }
        }
        let mode = &schema()["properties"]["mode"]["enum"];
        assert_eq!(*mode, json!(["on", "shadow", "off"]));
    }

    #[test]
    fn types_follow_the_parser() {
        let schema = schema();
        let of = |path: &str| schema.pointer(&format!("/properties/{path}/type")).cloned();
        assert_eq!(of("window"), Some(json!(["integer", "string"])));
        assert_eq!(of("public"), Some(json!(["boolean", "string"])));
        assert_eq!(of("allowed_hosts"), Some(json!(["array", "string"])));
        assert_eq!(
            of("compact/properties/hard"),
            Some(json!(["number", "string"]))
        );
        assert_eq!(of("listen"), Some(json!(["integer", "string"])));
        assert_eq!(of("client_tokens_file"), Some(json!(["string"])));
        let per_model = &schema["properties"]["model"]["items"]["properties"];
        assert!(per_model["match"].is_object() && per_model["window"].is_object());
        let mount = &schema["properties"]["mount"]["items"]["properties"];
        assert!(mount["path"].is_object() && mount["upstream"].is_object());
    }
}
