//! Lists of tables in the file, as `[[name]]` writes them: taken out of what was said, one by one.

use std::collections::{BTreeMap, BTreeSet};

use super::layers::{Origin, Raw};
use crate::error::Problem;

/// What one table says, by the names in it.
pub(super) type Said = BTreeMap<String, (Raw, Origin)>;

/// Takes the tables of `list` out of what was said, at most `most` of them, with what is wrong with
/// the list itself.
pub(super) fn taken(list: &str, most: usize, values: &mut Said) -> (Vec<Said>, Vec<Problem>) {
    let mut said: BTreeMap<usize, Said> = BTreeMap::new();
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
                problems.push(wrong(list, &origin, reason));
            }
            None => {}
        }
    }
    if let Some((_, (_, origin))) = said.get(&(most + 1)).and_then(BTreeMap::first_key_value) {
        let reason = format!("found {} tables, expected at most {most}", said.len());
        problems.push(wrong(list, origin, reason));
    }
    (said.into_values().take(most).collect(), problems)
}

pub(super) fn wrong(key: &str, origin: &Origin, reason: String) -> Problem {
    Problem::Value {
        key: key.to_owned(),
        place: origin.to_string(),
        reason,
    }
}
