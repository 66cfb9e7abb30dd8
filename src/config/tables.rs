//! Lists of tables, written `[[name]]` in the file.

use std::collections::BTreeMap;

use super::raw_value::{Origin, RawValue};
use super::setting::Setting;
use super::suggestions::unknown_key;
use crate::error::Problem;

pub(super) type NamedValues = BTreeMap<String, (RawValue, Origin)>;

/// A list of tables in the file, and what each of its tables may contain.
pub(super) struct TableList {
    /// Name in the file.
    pub(super) name: &'static str,
    /// Maximum number of tables.
    pub(super) most: usize,
    /// Returns the settings, each known by its [name in a table](Setting::name_in_table).
    pub(super) settings: fn() -> Vec<&'static Setting<()>>,
    /// Names that every table needs, each with the advice for a table without it.
    pub(super) required: &'static [(&'static str, &'static str)],
}

/// A table of a list. Each value passed its setting's check.
#[derive(Clone)]
pub(super) struct Table {
    pub(super) list: &'static str,
    pub(super) values: Vec<(String, RawValue, Origin)>,
}

impl TableList {
    /// Removes the tables of this list from `values`, and returns them with the problems found.
    pub(super) fn take(&self, values: &mut NamedValues) -> (Vec<Table>, Vec<Problem>) {
        let list = self.name;
        // `list[1].name` is a value of the first table.
        let place = |key: &str| {
            let rest = key.strip_prefix(list)?.strip_prefix('[')?;
            let (at, name) = rest.split_once("].")?;
            Some((at.parse::<usize>().ok()?, name.to_owned()))
        };
        let section = format!("{list}.");
        let is_own = |key: &str| key == list || key.starts_with(&section) || place(key).is_some();
        let mut found: BTreeMap<usize, NamedValues> = BTreeMap::new();
        let mut single = None;
        for (key, (raw, origin)) in values.extract_if(.., |key, _| is_own(key)) {
            match place(&key) {
                Some((at, name)) => {
                    found.entry(at).or_default().insert(name, (raw, origin));
                }
                None => {
                    single.get_or_insert(origin);
                }
            }
        }
        let mut problems = Vec::new();
        problems.extend(single.map(|origin| {
            let reason = format!("expected a list of tables: write [[{list}]] in double brackets");
            origin.problem(list, reason)
        }));
        let next = found.get(&(self.most + 1));
        if let Some((_, (_, origin))) = next.and_then(BTreeMap::first_key_value) {
            let (count, most) = (found.len(), self.most);
            let reason = format!("found {count} tables, expected at most {most}");
            problems.push(origin.problem(list, reason));
        }
        let tables = found.into_values().take(self.most);
        let tables = tables.filter_map(|values| match self.check(values) {
            Ok(table) => Some(table),
            Err(wrong) => {
                problems.extend(wrong);
                None
            }
        });
        (tables.collect(), problems)
    }

    fn check(&self, values: NamedValues) -> Result<Table, Vec<Problem>> {
        let list = self.name;
        let settings = (self.settings)();
        let names = || settings.iter().map(|setting| setting.name_in_table());
        let missing = self.required.iter().filter_map(|(name, advice)| {
            let first = values.values().next();
            let (_, origin) = first.filter(|_| !values.contains_key(*name))?;
            let reason = format!("missing from its table{advice}");
            Some(origin.problem(&format!("{list}.{name}"), reason))
        });
        let wrong = values.iter().filter_map(|(name, (raw, origin))| {
            let known = settings.iter().find(|setting| setting.name_in_table() == name);
            let Some(setting) = known else {
                return Some(unknown_key(name, origin, names()));
            };
            let reason = (setting.parse)(raw).err()?;
            Some(origin.problem(&format!("{list}.{name}"), reason))
        });
        let problems: Vec<Problem> = missing.chain(wrong).collect();
        if !problems.is_empty() {
            return Err(problems);
        }
        let values = values.into_iter();
        let values = values.map(|(name, (raw, origin))| (name, raw, origin));
        let mut values: Vec<_> = values.collect();
        // The models that a table is for come before their settings.
        values.sort_by_key(|(name, ..)| name != "match");
        Ok(Table { list, values })
    }
}

impl Table {
    /// Returns the table's value for `setting` with its origin, if it has one.
    pub(super) fn get<T>(&self, setting: &Setting<T>) -> Option<(&RawValue, &Origin)> {
        let name = setting.name_in_table();
        let value = self.values.iter().find(|(own, ..)| own == name);
        value.map(|(_, raw, origin)| (raw, origin))
    }

    /// Parses the table's value for `setting`, or the setting's default.
    pub(super) fn value<T>(&self, setting: &Setting<T>) -> Result<T, Problem> {
        let default = RawValue::Text(setting.default.into());
        let raw = self.get(setting).map_or(&default, |(raw, _)| raw);
        (setting.parse)(raw).map_err(|reason| self.problem(setting, reason))
    }

    /// Builds a problem for the table's value for `setting`.
    pub(super) fn problem<T>(&self, setting: &Setting<T>, reason: String) -> Problem {
        let origin = self.get(setting).map_or(&Origin::Default, |(_, origin)| origin);
        origin.problem(&format!("{}.{}", self.list, setting.name_in_table()), reason)
    }
}

/// Whether two lists have the same tables with the same values, wherever they come from.
pub(super) fn have_same_values(one: &[Table], other: &[Table]) -> bool {
    let values = |tables: &[Table]| -> Vec<Vec<(String, RawValue)>> {
        let pair = |(name, raw, _): &(String, RawValue, Origin)| (name.clone(), raw.clone());
        let table = |table: &Table| table.values.iter().map(pair).collect();
        tables.iter().map(table).collect()
    };
    values(one) == values(other)
}
