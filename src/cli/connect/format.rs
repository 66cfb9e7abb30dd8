//! Files of settings in four formats, changed one value at a time. All other bytes stay.

use std::path::Path;
use std::str::FromStr as _;

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstRootNode};
use serde_json::{Map, Value};
use toml_edit::{ArrayOfTables, Document, DocumentMut, Item, TableLike};
use yaml_edit::validator::Validator;
use yaml_edit::{MappingBuilder, Sequence, YamlFile, YamlNode};

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Format {
    /// Lines `NAME=VALUE`.
    Env,
    /// JSON, with comments and trailing commas or without.
    Json,
    Toml,
    Yaml,
}

/// Place of a value, as `a.b` or `a.b[id]`: the keys from the outermost object inwards. With `[id]`, the
/// value is the element of an array whose member `id` is that of `like`.
pub(super) struct Place<'t> {
    keys: Vec<&'t str>,
    member: Option<&'t str>,
    like: &'t Value,
}

impl<'t> Place<'t> {
    pub(super) fn new(at: &'t str, like: &'t Value) -> Self {
        let (keys, member) = at.trim_end_matches(']').split_once('[').unzip();
        Self { keys: keys.unwrap_or(at).split('.').collect(), member, like }
    }

    /// Returns the objects and arrays around the value, the innermost first.
    pub(super) fn containers(&self) -> impl Iterator<Item = Self> {
        let depth = self.keys.len() - usize::from(self.member.is_none());
        (1..=depth).rev().map(|depth| {
            let keys = self.keys.iter().take(depth).copied().collect();
            Self { keys, member: None, like: self.like }
        })
    }

    pub(super) fn find<'v>(&self, root: &'v Value) -> Option<&'v Value> {
        let found = self.keys.iter().try_fold(root, |value, key| value.get(key))?;
        match self.member {
            Some(_) => found.as_array()?.iter().find(|element| self.is_same(element)),
            None => Some(found),
        }
    }

    fn is_same(&self, element: &Value) -> bool {
        self.member.is_some_and(|member| element.get(member) == self.like.get(member))
    }
}

impl Format {
    pub(super) fn of(path: &Path) -> Self {
        match path.extension().and_then(|ending| ending.to_str()) {
            Some("toml") => Self::Toml,
            Some("yaml" | "yml") => Self::Yaml,
            Some(_) => Self::Json,
            None => Self::Env,
        }
    }

    /// Returns the content of a file, empty if the file has none. The error names the format alone: the file
    /// may hold keys.
    pub(super) fn read(self, text: &str) -> Result<Value, &'static str> {
        let value = match self {
            Self::Env => env_lines(text).map(|(name, value)| (name, Value::from(value))).collect(),
            Self::Json => CstRootNode::parse(text, &ParseOptions::default())
                .map(|root| root.to_serde_value().unwrap_or_default())
                .map_err(|_| "not JSON")?,
            Self::Toml => toml::from_str(text).map_err(|_| "not TOML")?,
            Self::Yaml => {
                let file = YamlFile::from_str(text).map_err(|_| "not YAML")?;
                file.document().map_or(Ok(Value::Null), |document| {
                    let is_valid = Validator::new().validate(&document).is_empty();
                    let mapping = document.as_mapping().map(YamlNode::Mapping);
                    is_valid
                        .then(|| mapping.as_ref().map_or(Value::Null, yaml_value))
                        .ok_or("not YAML")
                })?
            }
        };
        if value.is_null() {
            return Ok(Value::Object(Map::new()));
        }
        value.is_object().then_some(value).ok_or("no keys")
    }

    /// Returns the text with `value` at `place`, or without a value there. `None` if something else stands
    /// in the way.
    pub(super) fn change(
        self,
        text: &str,
        place: &Place<'_>,
        value: Option<&Value>,
    ) -> Option<String> {
        match self {
            Self::Env => Some(change_env(text, place.keys.first()?, value)),
            Self::Json => change_json(text, place, value),
            Self::Toml => change_toml(text, place, value),
            Self::Yaml => change_yaml(text, place, value),
        }
    }
}

fn change_json(text: &str, place: &Place<'_>, value: Option<&Value>) -> Option<String> {
    let root = CstRootNode::parse(text, &ParseOptions::default()).ok()?;
    let (name, parents) = place.keys.split_last()?;
    let mut object = root.object_value_or_create()?;
    for parent in parents {
        object = object.object_value_or_create(parent)?;
    }
    if place.member.is_some() {
        let array = object.array_value_or_create(name)?;
        let is_same = |value: Value| place.is_same(&value);
        for element in array.elements() {
            if element.to_serde_value().is_some_and(is_same) {
                element.remove();
            }
        }
        if let Some(value) = value {
            array.append(json_input(value));
        }
        return Some(root.to_string());
    }
    match (object.get(name), value) {
        (Some(old), None) => old.remove(),
        (Some(old), Some(value)) => old.set_value(json_input(value)),
        (None, Some(value)) => _ = object.append(name, json_input(value)),
        (None, None) => {}
    }
    Some(root.to_string())
}

fn json_input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(value) => CstInputValue::Bool(*value),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(values) => CstInputValue::Array(values.iter().map(json_input).collect()),
        Value::Object(members) => {
            let members = members.iter().map(|(name, value)| (name.clone(), json_input(value)));
            CstInputValue::Object(members.collect())
        }
    }
}

fn change_toml(text: &str, place: &Place<'_>, value: Option<&Value>) -> Option<String> {
    let rest = || without_toml(text, place).unwrap_or_else(|| text.to_owned());
    let Some(value) = value else { return Some(rest()) };
    let text = if place.member.is_some() { rest() } else { text.to_owned() };
    let mut document: DocumentMut = text.parse().ok()?;
    let (name, parents) = place.keys.split_last()?;
    let mut table: &mut dyn TableLike = document.as_table_mut();
    for parent in parents {
        table = table.entry(parent).or_insert_with(toml_edit::table).as_table_like_mut()?;
    }
    if place.member.is_some() {
        let tables = table.entry(name).or_insert_with(|| ArrayOfTables::new().into());
        let members = value.as_object()?.iter();
        let members = members.filter_map(|(name, value)| Some((name, toml_value(value)?)));
        tables.as_array_of_tables_mut()?.push(members.collect());
    } else if let Some(old) = table.get_mut(name).and_then(Item::as_value_mut) {
        let decor = old.decor().clone();
        *old = toml_value(value)?;
        *old.decor_mut() = decor;
    } else {
        table.insert(name, toml_value(value)?.into());
    }
    Some(document.to_string())
}

fn toml_value(value: &Value) -> Option<toml_edit::Value> {
    toml::Value::try_from(value).ok()?.to_string().parse().ok()
}

/// Returns the text without the lines of a value. Comments before the value stay.
fn without_toml(text: &str, place: &Place<'_>) -> Option<String> {
    let document = Document::parse(text).ok()?;
    let (name, parents) = place.keys.split_last()?;
    let mut table: &dyn TableLike = document.as_table();
    for parent in parents {
        table = table.get(parent)?.as_table_like()?;
    }
    let (key, item) = table.get_key_value(name)?;
    let (start, end) = if let Some(member) = place.member {
        let like = place.like.get(member)?.as_str();
        let mut tables = item.as_array_of_tables()?.iter();
        let table = tables.find(|table| table.get(member).and_then(Item::as_str) == like)?;
        let values = table.iter().filter_map(|(_, item)| Some(item.span()?.end));
        (table.span()?.start, values.max()?)
    } else {
        (key.span()?.start, item.span()?.end)
    };
    let (before, after) = (text.get(..start)?, text.get(end..)?);
    let before = before.rfind('\n').and_then(|end| before.get(..=end)).unwrap_or_default();
    Some(before.to_owned() + after.split_once('\n').map_or("", |(_, rest)| rest))
}

/// Changes a key of the outermost mapping: no agent needs a deeper one.
fn change_yaml(text: &str, place: &Place<'_>, value: Option<&Value>) -> Option<String> {
    let file = YamlFile::from_str(text).ok()?;
    let document = file.ensure_document();
    let [name] = place.keys[..] else { return None };
    if place.member.is_some() && value.is_some() && document.get_sequence(name).is_none() {
        let is_free = document.get(name).is_none_or(|node| node.to_string().trim().is_empty());
        is_free.then(|| document.set(name, Sequence::new()))?;
    }
    match (value, document.get_sequence(name)) {
        (value, Some(sequence)) if place.member.is_some() => {
            let at = sequence.values().position(|node| place.is_same(&yaml_value(&node)));
            at.map(|at| sequence.remove(at));
            let members = value.and_then(Value::as_object);
            let entry = members.map(|members| {
                members.iter().fold(MappingBuilder::new(), |entry, (name, value)| {
                    entry.pair(name, value.as_str().unwrap_or_default())
                })
            });
            entry
                .map(|entry| entry.build_document().as_mapping().map(|entry| sequence.push(entry)));
        }
        (Some(value), _) => _ = document.set(name, value.as_str()?),
        (None, _) => _ = document.remove(name),
    }
    // An empty mapping is written as braces.
    let text = file.to_string();
    let rest = text.trim_end().strip_suffix("{}").filter(|_| document.is_empty());
    Some(rest.map_or_else(|| text.clone(), str::to_owned))
}

fn yaml_value(node: &YamlNode) -> Value {
    match node {
        YamlNode::Scalar(scalar) => scalar.as_string().into(),
        YamlNode::Mapping(mapping) => {
            let entries = mapping.entries().filter_map(|entry| {
                let key = entry.key_node()?.as_scalar()?.as_string();
                Some((key, entry.value_node().as_ref().map_or(Value::Null, yaml_value)))
            });
            entries.collect()
        }
        YamlNode::Sequence(sequence) => sequence.values().map(|node| yaml_value(&node)).collect(),
        YamlNode::Alias(_) | YamlNode::TaggedNode(_) => Value::Null,
    }
}

/// Returns the names and values of lines `NAME=VALUE`.
fn env_lines(text: &str) -> impl Iterator<Item = (String, &str)> {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    lines.filter_map(|line| {
        let (name, value) = line.split_once('=')?;
        let name = name.trim().trim_start_matches("export ").trim();
        Some((name.to_owned(), value.trim().trim_matches(['\'', '"'])))
    })
}

fn change_env(text: &str, name: &str, value: Option<&Value>) -> String {
    let is_other = |line: &&str| env_lines(line).next().is_none_or(|(found, _)| found != name);
    let mut text: String = text.split_inclusive('\n').filter(is_other).collect();
    if let Some(value) = value.and_then(Value::as_str) {
        let between = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        text.extend([between, name, "='", value, "'\n"]);
    }
    text
}
