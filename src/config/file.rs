//! The configuration file: parses TOML into keys and values with their lines.

use std::path::Path;

use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use super::raw_value::RawValue;
use crate::error::Problem;

/// Maximum size of the file. A settings file has a few kilobytes; a larger one was named by
/// mistake.
const FILE_BYTES: u64 = 1 << 20;

/// Reads every `section.key` of the file with its value and line.
pub(super) fn read(path: &Path) -> Result<Vec<(String, RawValue, usize)>, Problem> {
    let unreadable = |reason: String| {
        let advice = "check the path given by --config or LONGHAUL_CONFIG";
        Problem::Setting(format!("configuration file {}: {reason}; {advice}", path.display()))
    };
    let size = std::fs::metadata(path).map_err(|error| unreadable(error.to_string()))?.len();
    if size > FILE_BYTES {
        return Err(unreadable(format!("{size} bytes, expected at most {FILE_BYTES}")));
    }
    let text = std::fs::read_to_string(path).map_err(|error| unreadable(error.to_string()))?;
    parse(path, &text)
}

/// Like [`read`], for `text` as the content of the file at `path`.
pub(super) fn parse(path: &Path, text: &str) -> Result<Vec<(String, RawValue, usize)>, Problem> {
    let table = DeTable::parse(text).map_err(|error| {
        let line = line_number(text, error.span().map_or(0, |span| span.start));
        let row = text.lines().nth(line - 1).and_then(|row| row.split('#').next());
        let name = row.and_then(|row| row.trim_end().strip_suffix('='));
        let is_empty = name.is_some_and(|name| !name.contains('='));
        let why = if is_empty { "a value is missing after =" } else { error.message() };
        Problem::Setting(format!("file {}:{line}: {why}", path.display()))
    })?;
    let mut found = Vec::new();
    collect_values("", table.get_ref(), text, &mut found);
    Ok(found)
}

fn collect_values(
    section: &str,
    table: &DeTable<'_>,
    text: &str,
    found: &mut Vec<(String, RawValue, usize)>,
) {
    for (name, value) in table {
        let name_text = name.get_ref();
        let key = if section.is_empty() {
            name_text.to_string()
        } else {
            format!("{section}.{name_text}")
        };
        let items = value.get_ref().as_array();
        if let Some(inner) = value.get_ref().as_table() {
            collect_values(&key, inner, text, found);
        } else if let Some(items) = items.filter(|items| is_tables(items)) {
            let tables = items.iter().filter_map(|item| item.get_ref().as_table());
            // Users count tables from 1.
            for (at, inner) in (1..).zip(tables) {
                collect_values(&format!("{key}[{at}]"), inner, text, found);
            }
        } else {
            found.push((key, raw_value(value), line_number(text, name.span().start)));
        }
    }
}

/// Whether a list contains only tables, as written by `[[name]]`.
fn is_tables(items: &DeArray<'_>) -> bool {
    !items.is_empty() && items.iter().all(|item| item.get_ref().is_table())
}

fn raw_value(value: &Spanned<DeValue<'_>>) -> RawValue {
    let Some(items) = value.get_ref().as_array() else {
        return RawValue::Text(scalar_text(value));
    };
    RawValue::List(items.iter().map(scalar_text).collect())
}

/// Returns a value as the text that an environment variable would contain.
fn scalar_text(value: &Spanned<DeValue<'_>>) -> String {
    match value.get_ref() {
        DeValue::Boolean(switch) => switch.to_string(),
        DeValue::Datetime(time) => time.to_string(),
        DeValue::Float(number) => number.as_str().to_owned(),
        DeValue::Integer(number) if number.radix() == 10 => number.as_str().to_owned(),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map_or_else(|_| number.as_str().to_owned(), |number| number.to_string()),
        DeValue::String(text) => text.to_string(),
        DeValue::Array(_) | DeValue::Table(_) => "a nested value".to_owned(),
    }
}

fn line_number(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: &[(&str, &str, usize)]) {
        let found = parse(Path::new("longhaul.toml"), text).unwrap();
        let mut found: Vec<_> = found
            .iter()
            .map(|(key, raw, line)| match raw {
                RawValue::List(items) => (key.as_str(), items.join("|"), *line),
                RawValue::Text(text) => (key.as_str(), text.clone(), *line),
            })
            .collect();
        found.sort_by_key(|(_, _, line)| *line);
        let expect: Vec<_> = expect.iter().map(|(k, v, l)| (*k, (*v).to_owned(), *l)).collect();
        assert_eq!(found, expect);
    }

    #[test]
    fn keys_carry_their_section_and_line() {
        check(
            "listen = \"[::1]:1\"\n\n[upstream]\nhttp2 = 'off'\nconnect = 0x10\nx = [\"a\", 'b']\n",
            &[
                ("listen", "[::1]:1", 1),
                ("upstream.http2", "off", 4),
                ("upstream.connect", "16", 5),
                ("upstream.x", "a|b", 6),
            ],
        );
    }

    #[test]
    fn a_missing_value_is_named() {
        for (text, expect) in [
            ("a = 1\nlisten =\n", "f:2: a value is missing after ="),
            ("listen = # later\nb = 1\n", "f:1: a value is missing after ="),
            ("listen = :9", "f:1: string values must be quoted"),
        ] {
            let problem = parse(Path::new("f"), text).unwrap_err().to_string();
            assert!(problem.contains(expect), "{problem}");
        }
    }

    #[test]
    fn list_tables_are_numbered_in_file_order() {
        check(
            "[[b]]\nx = 1\n[[a]]\nx = 2\n[[b]]\nx = 3\n",
            &[("b[1].x", "1", 2), ("a[1].x", "2", 4), ("b[2].x", "3", 6)],
        );
    }

    #[test]
    fn dotted_keys_and_inline_tables_are_sections_too() {
        check("a.b = true\nc = { d = 1.5 }\n", &[("a.b", "true", 1), ("c.d", "1.5", 2)]);
    }
}
