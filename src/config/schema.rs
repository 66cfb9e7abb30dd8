//! The JSON schema of the configuration file, for editors: `longhaul defaults --schema`.

use serde_json::{Map, Value, json};

use super::layers::LISTS;
use super::setting::{Kind, Setting};
use super::settings::ALL_SETTINGS;

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
mod tests {
    use super::super::resolved::RawValue;
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
