//! The resolved settings, each with its value and origin.

use super::raw_value::{Origin, RawValue};
use super::setting::Setting;
use super::tables::{Table, TableList};
use crate::error::Problem;

pub(super) type ResolvedSetting = (&'static Setting<()>, RawValue, Origin);

/// Every setting with its value and origin, the model tables, and the mount tables.
///
/// Invariant: each value passed its own setting's check.
#[derive(Clone)]
pub(crate) struct ResolvedSettings {
    /// Settings in the order of `ALL_SETTINGS`.
    pub(super) settings: Vec<ResolvedSetting>,
    /// Tables of each list, in the order of `LISTS`, then of the file.
    pub(super) tables: Vec<Vec<Table>>,
}

impl ResolvedSettings {
    pub(super) fn value<T>(&self, setting: &Setting<T>) -> Result<T, Problem> {
        let built_in = RawValue::Text(setting.default.into());
        let raw = self.find(setting.key).map_or(&built_in, |(_, raw, _)| raw);
        (setting.parse)(raw).map_err(|reason| Origin::Default.problem(setting.key, reason))
    }

    pub(super) fn origin<T>(&self, setting: &Setting<T>) -> &Origin {
        self.find(setting.key).map_or(&Origin::Default, |(_, _, origin)| origin)
    }

    /// Whether anybody, or a command, has set the setting.
    pub(super) fn is_set<T>(&self, setting: &Setting<T>) -> bool {
        self.find(setting.key).is_some_and(|(_, raw, origin)| {
            !matches!(origin, Origin::Default) || *raw != RawValue::Text(setting.default.into())
        })
    }

    /// Builds the problem for a setting's value, with its origin.
    pub(super) fn value_problem<T>(&self, setting: &Setting<T>, reason: String) -> Problem {
        self.origin(setting).problem(setting.key, reason)
    }

    /// Returns a copy in which the values of the model table `table` replace the general ones.
    pub(super) fn with_table(&self, table: &Table) -> Self {
        let mut settings = self.settings.clone();
        for (entry, raw, origin) in &mut settings {
            if let Some((own, place)) = table.get(entry).filter(|_| entry.per_model) {
                raw.clone_from(own);
                origin.clone_from(place);
            }
        }
        let tables = Vec::new();
        Self { settings, tables }
    }

    /// Returns the tables of `list`, in the order of the file.
    pub(super) fn tables_of(&self, list: &TableList) -> &[Table] {
        let is_of_list = |tables: &&Vec<Table>| tables.iter().any(|it| it.list == list.name);
        let mut all = self.tables.iter();
        all.find(is_of_list).map_or(&[], Vec::as_slice)
    }

    pub(super) fn find(&self, key: &str) -> Option<&ResolvedSetting> {
        self.settings.iter().find(|(entry, ..)| entry.key == key)
    }
}
