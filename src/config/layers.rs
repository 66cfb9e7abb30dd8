//! The layers: defaults under the file, the environment and the flags, each value with its origin.

mod changes;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use super::file;
use super::models::{self, ModelTable};
use super::mounts;
use super::names::nearest_name;
use super::render::normalised;
use super::setting::{AnySetting, Setting};
use super::settings::{ALL_SETTINGS, UPSTREAM_BASE};
use crate::error::Problem;

/// A value before it is read.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum RawValue {
    /// A list, which only the file can write as one.
    List(Vec<String>),
    /// Anything else, as text.
    Text(String),
}

/// Where a value came from.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Origin {
    /// It is built in.
    Default,
    /// An environment variable, by its name.
    Environment(String),
    /// The configuration file, and the line in it.
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

/// What was said, by key; a later layer replaces an earlier one's.
#[derive(Debug, Default)]
pub(crate) struct Layers {
    values: BTreeMap<String, (RawValue, Origin)>,
    problems: Vec<Problem>,
    /// What two names of one setting say, by its key: a problem unless something else decides.
    conflicts: BTreeMap<String, Problem>,
}

impl Layers {
    /// Lays the configuration file over the defaults.
    pub(crate) fn load_file(&mut self, path: &Path) {
        self.insert_file(path, file::read(path));
    }

    /// The same for a file that has this text.
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

    /// Lays the environment over them. Names that no setting has are not looked at;
    /// [`strangers`](super::strangers) are told of.
    pub(crate) fn apply_environment(&mut self, env: &BTreeMap<String, String>) {
        for entry in ALL_SETTINGS {
            if let Some(problem) = name_conflict(*entry, env) {
                self.conflicts.insert(entry.key().into(), problem);
            }
            // Other programs' names: in either case, and empty is as if they were not there.
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
            // Who meant to name an upstream does not want the default one to have what they send.
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

    /// Lays a flag over them.
    pub(crate) fn apply_flag(&mut self, entry: &dyn AnySetting, flag: &str, value: &str) {
        let origin = Origin::Flag(format!("--{flag}"));
        self.values
            .insert(entry.key().into(), (RawValue::Text(value.into()), origin));
    }

    /// Lays a value over them that the program itself gives.
    pub(crate) fn set(&mut self, key: &str, value: &str) {
        self.values
            .insert(key.into(), (RawValue::Text(value.into()), Origin::Default));
    }

    /// Lays a value under them that a command has in place of the default.
    pub(crate) fn set_default(&mut self, key: &str, value: &str) {
        let value = (RawValue::Text(value.into()), Origin::Default);
        self.values.entry(key.into()).or_insert(value);
    }

    /// Lays a value over all but flags: for a setting that a command has for itself, and that the file
    /// and the environment have for another.
    pub(crate) fn set_unless_flag(&mut self, key: &str, value: &str) {
        let said = self.values.get(key);
        if !said.is_some_and(|(_, origin)| matches!(origin, Origin::Flag(_))) {
            self.set(key, value);
        }
    }

    /// Whether anything but the default says what this setting is.
    pub(crate) fn is_set(&self, key: &str) -> bool {
        self.values.contains_key(key)
    }

    /// Puts the layers together and checks every value.
    ///
    /// # Errors
    /// All problems at once.
    pub(crate) fn resolve(self) -> Result<ResolvedSettings, Vec<Problem>> {
        let Self {
            mut values,
            mut problems,
            conflicts: mut contradictions,
        } = self;
        // A flag decides.
        contradictions.retain(|key, _| {
            let said = values.get(key);
            said.is_some_and(|(_, origin)| matches!(origin, Origin::Environment(_)))
        });
        problems.extend(contradictions.into_values());
        let (tables, wrong) = models::take_tables(&mut values);
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

/// What the variable of this name says. Where nothing is no value of the setting, an empty one is as if
/// it were not there: `${X:-}` in a container's settings makes those.
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

/// Both names of a setting, saying two things. A proxy's are no two of ours: the other one is every
/// program's, and ours goes before it.
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
        reason: format!("{long} is another name for it, and says otherwise; set one of the two"),
    })
}

/// No setting has this key; `all` are those it may have meant.
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

/// Every setting with its value and origin, the tables that change some for a model, and further
/// upstreams.
///
/// Invariant: each value passed its own setting's check.
#[derive(Clone)]
pub(crate) struct ResolvedSettings {
    settings: Vec<(&'static dyn AnySetting, RawValue, Origin)>,
    model_tables: Vec<ModelTable>,
    mount_tables: Vec<mounts::MountTable>,
}

impl ResolvedSettings {
    /// The value of one setting.
    pub(super) fn value<T>(&self, setting: &Setting<T>) -> Result<T, Problem> {
        let built_in = RawValue::Text(setting.default.into());
        let raw = self.find(setting.key).map_or(&built_in, |(_, raw, _)| raw);
        (setting.parse)(raw).map_err(|reason| Problem::InvalidValue {
            key: setting.key.into(),
            place: Origin::Default.to_string(),
            reason,
        })
    }

    /// Where the value of one setting came from.
    pub(super) fn origin<T>(&self, setting: &Setting<T>) -> &Origin {
        self.find(setting.key)
            .map_or(&Origin::Default, |(_, _, origin)| origin)
    }

    /// What is wrong with the value of one setting.
    pub(super) fn value_problem<T>(&self, setting: &Setting<T>, reason: String) -> Problem {
        Problem::InvalidValue {
            key: setting.key.into(),
            place: self.origin(setting).to_string(),
            reason,
        }
    }

    /// The same settings with those of `table` in place of the general ones.
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

    /// The tables of models, in the order of the file.
    pub(super) fn model_tables(&self) -> &[ModelTable] {
        &self.model_tables
    }

    /// The tables of mounts, in the order of the file.
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
