//! Extracts lists of tables, written `[[name]]` in the file.

use std::collections::{BTreeMap, BTreeSet};

use super::layers::{Origin, RawValue};
use crate::error::Problem;

/// Values and origins of a table, by name.
pub(super) type TableValues = BTreeMap<String, (RawValue, Origin)>;

/// Removes the tables of `list` from `values`, at most `most` of them, and returns them with the
/// problems of the list itself.
pub(super) fn take_table_list(
    list: &str,
    most: usize,
    values: &mut TableValues,
) -> (Vec<TableValues>, Vec<Problem>) {
    let mut said: BTreeMap<usize, TableValues> = BTreeMap::new();
    let mut problems = Vec::new();
    let mut single = BTreeSet::new();
    for key in values.keys().cloned().collect::<Vec<_>>() {
        let Some(rest) = key.strip_prefix(list) else {
            continue;
        };
        let entry = rest.strip_prefix('[').and_then(|rest| {
            let (at, name) = rest.split_once("].")?;
            Some((at.parse::<usize>().ok()?, name.to_owned()))
        });
        if entry.is_none() && !rest.is_empty() && !rest.starts_with('.') {
            continue;
        }
        let Some((raw, origin)) = values.remove(&key) else {
            continue;
        };
        match entry {
            Some((at, name)) => {
                said.entry(at).or_default().insert(name, (raw, origin));
            }
            None if single.is_empty() => {
                single.insert(key);
                let reason =
                    format!("expected a list of tables: write [[{list}]] in double brackets");
                problems.push(value_problem(list, &origin, reason));
            }
            None => {}
        }
    }
    if let Some((_, (_, origin))) = said.get(&(most + 1)).and_then(BTreeMap::first_key_value) {
        let reason = format!("found {} tables, expected at most {most}", said.len());
        problems.push(value_problem(list, origin, reason));
    }
    (said.into_values().take(most).collect(), problems)
}

pub(super) fn value_problem(key: &str, origin: &Origin, reason: String) -> Problem {
    Problem::InvalidValue {
        key: key.to_owned(),
        place: origin.to_string(),
        reason,
    }
}
