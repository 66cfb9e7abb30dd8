//! The layers: defaults, then the file, the environment and flags, each value with its origin.

pub(crate) mod reload;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use super::file;
use super::mounts;
use super::render::normalised;
use super::setting::{AnySetting, Setting};
use super::settings::{ALL_SETTINGS, UPSTREAM_BASE};
use crate::config::model_tables;
use crate::config::model_tables::ModelTable;
use crate::config::suggestions::nearest_name;
use crate::error::Problem;

/// An unparsed value.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum RawValue {
    /// A list, which only the file can express as one.
    List(Vec<String>),
    /// Any other value, as text.
    Text(String),
}

/// Origin of a value.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Origin {
    /// The built-in default.
    Default,
    /// An environment variable, by name.
    Environment(String),
    /// The configuration file, with the line.
    File(PathBuf, usize),
    /// A flag, with its dashes.
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Environment(name) => write!(f, "env {name}"),
            Self::File(path, line) => write!(f, "file {}:{line}", path.display()),
            Self::Flag(flag) => write!(f, "flag {flag}"),
        }
    }
}

/// Values by key; a later layer replaces an earlier one.
#[derive(Debug, Default)]
pub(crate) struct Layers {
    values: BTreeMap<String, (RawValue, Origin)>,
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
    #[cfg(fuzzing)]
    pub(crate) fn load_text(&mut self, text: &str) {
        let path = Path::new("fuzzed.toml");
        self.insert_file(path, file::parse(path, text));
    }

    fn insert_file(&mut self, path: &Path, file: Result<Vec<(String, RawValue, usize)>, Problem>) {
        match file {
            Ok(found) => {
                for (key, raw, line) in found {
                    self.values
                        .insert(key, (raw, Origin::File(path.to_owned(), line)));
                }
            }
            Err(problem) => self.problems.push(problem),
        }
    }

    /// Applies the environment. Variables that belong to no setting are ignored here;
    /// [`unknown_variables`](super::unknown_variables) reports them.
    pub(crate) fn apply_environment(&mut self, env: &BTreeMap<String, String>) {
        for entry in ALL_SETTINGS {
            if let Some(problem) = name_conflict(*entry, env) {
                self.conflicts.insert(entry.key().into(), problem);
            }
            // Names shared with other programs count in either case, and an empty value counts as
            // unset.
            let theirs = entry.short_env().filter(|name| name.ends_with("_PROXY"));
            let theirs = theirs.map(|name| [name.to_lowercase(), name.to_owned()]);
            let theirs = theirs.into_iter().flatten();
            let theirs = theirs.filter(|name| env.get(name).is_some_and(|value| !value.is_empty()));
            let short = entry.short_env().filter(|name| !name.ends_with("_PROXY"));
            let names = theirs
                .chain(short.map(str::to_owned))
                .chain([entry.env_name()]);
            let names: Vec<String> = names.filter(|name| env.contains_key(name)).collect();
            let said = |name: &String| Some((name.clone(), variable_value(*entry, env, name)?));
            let mut said: Vec<(String, RawValue)> = names.iter().filter_map(said).collect();
            // An empty upstream variable is an error, not the default: the operator meant to name
            // an upstream, and requests must not go to another one.
            if said.is_empty() && entry.key() == UPSTREAM_BASE.key {
                said.extend(
                    names
                        .into_iter()
                        .map(|name| (name, RawValue::Text(String::new()))),
                );
            }
            for (name, raw) in said {
                let origin = Origin::Environment(name);
                self.values.insert(entry.key().into(), (raw, origin));
            }
        }
    }

    /// Applies a flag.
    pub(crate) fn apply_flag(&mut self, entry: &dyn AnySetting, flag: &str, value: &str) {
        let origin = Origin::Flag(format!("--{flag}"));
        self.values
            .insert(entry.key().into(), (RawValue::Text(value.into()), origin));
    }

    /// Sets a value on behalf of the program itself.
    pub(crate) fn set(&mut self, key: &str, value: &str) {
        self.values
            .insert(key.into(), (RawValue::Text(value.into()), Origin::Default));
    }

    /// Sets a command's own default, below every layer.
    pub(crate) fn set_default(&mut self, key: &str, value: &str) {
        let value = (RawValue::Text(value.into()), Origin::Default);
        self.values.entry(key.into()).or_insert(value);
    }

    /// Sets a value above every layer except flags: for a command whose own value replaces one that
    /// the file and the environment set for other commands.
    pub(crate) fn set_unless_flag(&mut self, key: &str, value: &str) {
        let said = self.values.get(key);
        if !said.is_some_and(|(_, origin)| matches!(origin, Origin::Flag(_))) {
            self.set(key, value);
        }
    }

    /// Whether any layer sets this key.
    pub(crate) fn is_set(&self, key: &str) -> bool {
        self.values.contains_key(key)
    }

    /// Combines the layers and checks every value.
    ///
    /// # Errors
    /// All problems at once.
    pub(crate) fn resolve(self) -> Result<ResolvedSettings, Vec<Problem>> {
        let Self {
            mut values,
            mut problems,
            conflicts: mut contradictions,
        } = self;
        // A flag overrides both names.
        contradictions.retain(|key, _| {
            let said = values.get(key);
            said.is_some_and(|(_, origin)| matches!(origin, Origin::Environment(_)))
        });
        problems.extend(contradictions.into_values());
        let (tables, wrong) = model_tables::take_tables(&mut values);
        problems.extend(wrong);
        let (mounts, wrong) = mounts::take_tables(&mut values);
        problems.extend(wrong);
        for (key, (_, origin)) in &values {
            if ALL_SETTINGS.iter().all(|entry| entry.key() != key) {
                let all = ALL_SETTINGS.iter().map(|entry| entry.key());
                problems.push(unknown_key(key, origin, all));
            }
        }
        let mut found = Vec::with_capacity(ALL_SETTINGS.len());
        for entry in ALL_SETTINGS {
            let built_in = || (RawValue::Text(entry.default().into()), Origin::Default);
            let (raw, origin) = values.remove(entry.key()).unwrap_or_else(built_in);
            if let Err(reason) = entry.check(&raw) {
                let place = origin.to_string();
                problems.push(Problem::InvalidValue {
                    key: entry.key().into(),
                    place,
                    reason,
                });
            }
            found.push((*entry, raw, origin));
        }
        if problems.is_empty() {
            Ok(ResolvedSettings {
                settings: found,
                model_tables: tables,
                mount_tables: mounts,
            })
        } else {
            Err(problems)
        }
    }
}

/// Returns the value of the variable `name`. An empty variable counts as unset if the setting does
/// not accept an empty value: `${X:-}` in a container's settings produces such variables.
fn variable_value(
    entry: &dyn AnySetting,
    env: &BTreeMap<String, String>,
    name: &str,
) -> Option<RawValue> {
    let raw = RawValue::Text(env.get(name)?.clone());
    let empty = matches!(&raw, RawValue::Text(text) if text.trim().is_empty());
    let is_absent = empty && entry.check(&raw).is_err();
    (!is_absent).then_some(raw)
}

/// Returns the problem if both names of a setting are set to different values. Proxy settings are
/// exempt: every program reads the short name, and longhaul's own name takes precedence.
fn name_conflict(entry: &dyn AnySetting, env: &BTreeMap<String, String>) -> Option<Problem> {
    let short = entry.short_env().filter(|name| !name.ends_with("_PROXY"))?;
    let long = entry.env_name();
    let (one, other) = (
        variable_value(entry, env, short)?,
        variable_value(entry, env, &long)?,
    );
    (normalised(entry, &one) != normalised(entry, &other)).then(|| Problem::InvalidValue {
        key: entry.key().into(),
        place: Origin::Environment(short.into()).to_string(),
        reason: format!("{long} sets it too, to a different value; set only one of the two"),
    })
}

/// Builds the problem for a key that no setting has; `all` are the candidates to suggest.
pub(super) fn unknown_key(
    key: &str,
    origin: &Origin,
    all: impl Iterator<Item = &'static str>,
) -> Problem {
    Problem::UnknownKey {
        place: origin.to_string(),
        key: key.into(),
        near: nearest_name(key, all).map(str::to_owned),
    }
}

/// Every setting with its value and origin, the model tables, and the mount tables.
///
/// Invariant: each value passed its own setting's check.
#[derive(Clone)]
pub(crate) struct ResolvedSettings {
    settings: Vec<(&'static dyn AnySetting, RawValue, Origin)>,
    model_tables: Vec<ModelTable>,
    mount_tables: Vec<mounts::MountTable>,
}

impl ResolvedSettings {
    /// Returns the value of a setting.
    pub(super) fn value<T>(&self, setting: &Setting<T>) -> Result<T, Problem> {
        let built_in = RawValue::Text(setting.default.into());
        let raw = self.find(setting.key).map_or(&built_in, |(_, raw, _)| raw);
        (setting.parse)(raw).map_err(|reason| Problem::InvalidValue {
            key: setting.key.into(),
            place: Origin::Default.to_string(),
            reason,
        })
    }

    /// Returns the origin of a setting's value.
    pub(super) fn origin<T>(&self, setting: &Setting<T>) -> &Origin {
        self.find(setting.key)
            .map_or(&Origin::Default, |(_, _, origin)| origin)
    }

    /// Builds the problem for a setting's value, with its origin.
    pub(super) fn value_problem<T>(&self, setting: &Setting<T>, reason: String) -> Problem {
        Problem::InvalidValue {
            key: setting.key.into(),
            place: self.origin(setting).to_string(),
            reason,
        }
    }

    /// Returns a copy in which the values of `table` replace the general ones.
    pub(super) fn with_table(&self, table: &ModelTable) -> Self {
        let mut settings = self.settings.clone();
        for (entry, raw, origin) in &mut settings {
            if let Some((_, own, place)) = table.setting(entry.key()) {
                *raw = own.clone();
                *origin = place.clone();
            }
        }
        Self {
            settings,
            model_tables: Vec::new(),
            mount_tables: Vec::new(),
        }
    }

    /// Returns the model tables, in the order of the file.
    pub(super) fn model_tables(&self) -> &[ModelTable] {
        &self.model_tables
    }

    /// Returns the mount tables, in the order of the file.
    pub(super) fn mount_tables(&self) -> &[mounts::MountTable] {
        &self.mount_tables
    }

    pub(super) fn iter(
        &self,
    ) -> impl Iterator<Item = &(&'static dyn AnySetting, RawValue, Origin)> {
        self.settings.iter()
    }

    fn find(&self, key: &str) -> Option<&(&'static dyn AnySetting, RawValue, Origin)> {
        self.settings.iter().find(|(entry, ..)| entry.key() == key)
    }
}
