//! The layers: defaults, then the file, the environment and flags, each value with its origin.

use std::collections::BTreeMap;
use std::path::Path;

use super::file;
use super::model_tables::{KEEP_TABLES, MODEL_TABLES, PRICE_TABLES};
use super::mounts::{MOUNT_TABLES, repeated_paths};
use super::raw_value::{Origin, RawValue};
use super::resolved::ResolvedSettings;
use super::setting::{Setting, is_shared_variable};
use super::settings::{ALL_SETTINGS, UPSTREAM_BASE};
use super::suggestions::unknown_key;
use super::tables::{NamedValues, TableList};
use crate::error::Problem;

/// Every list, in the order in which users read them.
pub(super) const LISTS: [&TableList; 4] =
    [&MODEL_TABLES, &MOUNT_TABLES, &PRICE_TABLES, &KEEP_TABLES];

/// Maximum names that are reported one by one if no setting has them: in another program's file, none has.
const MAX_UNKNOWN_KEYS: usize = 3;

/// Values by key; a later layer replaces an earlier one.
#[derive(Debug, Default)]
pub(crate) struct Layers {
    values: NamedValues,
    problems: Vec<Problem>,
    /// Conflicts between the two environment names of a setting, by its key. Each is a problem
    /// unless a flag sets the key.
    conflicts: BTreeMap<String, Problem>,
}

impl Layers {
    /// Applies the configuration file over the defaults.
    pub(crate) fn load_file(&mut self, path: &Path) {
        self.insert_file(path, file::read(path));
    }

    /// Like [`Layers::load_file`], for `text` as the content of a file.
    #[cfg(any(fuzzing, test))]
    pub(crate) fn of_text(text: &str) -> Self {
        let mut layers = Self::default();
        let path = Path::new("longhaul.toml");
        layers.insert_file(path, file::parse(path, text));
        layers
    }

    fn insert_file(&mut self, path: &Path, file: Result<Vec<(String, RawValue, usize)>, Problem>) {
        match file {
            Ok(found) => {
                for (key, raw, line) in found {
                    self.values.insert(key, (raw, Origin::File(path.to_owned(), line)));
                }
            }
            Err(problem) => self.problems.push(problem),
        }
    }

    /// Applies the environment. Variables that belong to no setting are ignored here;
    /// [`unknown_variables`](super::unknown_variables) reports them.
    pub(crate) fn apply_environment(&mut self, env: &BTreeMap<String, String>) {
        for entry in ALL_SETTINGS {
            if let Some(problem) = name_conflict(entry, env) {
                self.conflicts.insert(entry.key.into(), problem);
            }
            let mut names = entry.env_names().rev();
            let mut found = names.find_map(|name| Some((variable_value(entry, env, &name)?, name)));
            // An empty upstream variable is an error, not the default: the operator meant to name
            // an upstream, and requests must not go to another one.
            if found.is_none() && entry.key == UPSTREAM_BASE.key {
                let empty = entry.env_names().rev().find(|name| env.contains_key(name));
                found = empty.map(|name| (RawValue::Text(String::new()), name));
            }
            if let Some((raw, name)) = found {
                let origin = Origin::Environment(name);
                self.values.insert(entry.key.into(), (raw, origin));
            }
        }
    }

    pub(crate) fn apply_flag(&mut self, key: &str, flag: &str, value: &str) {
        let origin = Origin::Flag(format!("--{flag}"));
        self.values.insert(key.into(), (RawValue::Text(value.into()), origin));
    }

    /// Sets a value on behalf of the program itself.
    pub(crate) fn set(&mut self, key: &str, value: &str) {
        self.values.insert(key.into(), (RawValue::Text(value.into()), Origin::Default));
    }

    /// Sets a command's own default, below every layer.
    pub(crate) fn set_default(&mut self, key: &str, value: &str) {
        let value = (RawValue::Text(value.into()), Origin::Default);
        self.values.entry(key.into()).or_insert(value);
    }

    /// Sets a value above every layer except flags. A command calls it if its own value replaces
    /// one that the file and the environment set for other commands.
    pub(crate) fn set_unless_flag(&mut self, key: &str, value: &str) {
        let set = self.values.get(key);
        if !set.is_some_and(|(_, origin)| matches!(origin, Origin::Flag(_))) {
            self.set(key, value);
        }
    }

    pub(crate) fn is_set(&self, key: &str) -> bool {
        self.values.contains_key(key)
    }

    /// Combines the layers and checks every value.
    pub(crate) fn resolve(self) -> Result<ResolvedSettings, Vec<Problem>> {
        let Self { mut values, mut problems, conflicts: mut contradictions } = self;
        // A flag overrides both names.
        contradictions.retain(|key, _| {
            let set = values.get(key);
            set.is_some_and(|(_, origin)| matches!(origin, Origin::Environment(_)))
        });
        problems.extend(contradictions.into_values());
        let tables = Vec::from(LISTS.map(|list| {
            let (tables, wrong) = list.take(&mut values);
            problems.extend(wrong.into_iter().chain(repeated_paths(&tables)));
            tables
        }));
        let keys = || ALL_SETTINGS.iter().map(|entry| entry.key);
        let unknown = values.iter().filter(|(key, _)| keys().all(|known| known != *key));
        let mut unknown: Vec<_> =
            unknown.map(|(key, (_, origin))| (origin.line(), key, origin)).collect();
        unknown.sort_by_key(|(line, ..)| *line);
        for (at, (_, key, origin)) in unknown.iter().enumerate().take(MAX_UNKNOWN_KEYS + 1) {
            problems.push(match unknown.len() - at {
                more if at == MAX_UNKNOWN_KEYS => Problem::Setting(format!(
                    "{origin}: from here on, {more} more names are no settings; is the file longhaul's?"
                )),
                _ => unknown_key(key, origin, keys()),
            });
        }
        let mut settings = Vec::with_capacity(ALL_SETTINGS.len());
        for entry in ALL_SETTINGS {
            let built_in = || (RawValue::Text(entry.default.into()), Origin::Default);
            let (raw, origin) = values.remove(entry.key).unwrap_or_else(built_in);
            if let Err(reason) = (entry.parse)(&raw) {
                problems.push(origin.problem(entry.key, reason));
            }
            settings.push((entry, raw, origin));
        }
        if problems.is_empty() { Ok(ResolvedSettings { settings, tables }) } else { Err(problems) }
    }
}

/// Returns the value of the variable `name`. An empty variable counts as unset if the setting does
/// not accept an empty value, or if other programs read the variable too. `${X:-}` in a container's
/// settings produces such variables.
fn variable_value(
    entry: &Setting<()>,
    env: &BTreeMap<String, String>,
    name: &str,
) -> Option<RawValue> {
    let text = env.get(name)?;
    let raw = RawValue::Text(text.clone());
    let is_absent = (text.is_empty() && is_shared_variable(name))
        || (text.trim().is_empty() && (entry.parse)(&raw).is_err());
    (!is_absent).then_some(raw)
}

/// Returns the problem if both names of a setting are set to different values. A shared name is
/// exempt: longhaul's own name takes precedence.
fn name_conflict(entry: &Setting<()>, env: &BTreeMap<String, String>) -> Option<Problem> {
    let short = entry.short_env.filter(|name| !is_shared_variable(name))?;
    let long = entry.long_env();
    let one = variable_value(entry, env, short)?;
    let other = variable_value(entry, env, &long)?;
    (entry.normalised(&one) != entry.normalised(&other)).then(|| {
        let reason = format!("{long} sets it too, to a different value; set only one of the two");
        Origin::Environment(short.into()).problem(entry.key, reason)
    })
}
