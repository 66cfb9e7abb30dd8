//! The files that settings come from: the configuration file and the environment file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::ArgMatches;

use super::check::KEY_VARIABLE;
use super::flags::{CONFIG_FLAG, ENV_FILE_FLAG};
use crate::error::Problem;

/// The variable with the path of the configuration file.
const CONFIG_VARIABLE: &str = "LONGHAUL_CONFIG";
/// The name of the configuration file in the working folder and in the user's folder.
pub(super) const CONFIG_NAME: &str = "longhaul.toml";

/// The configuration file of a command.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum ConfigFile {
    /// A flag or a variable names the file.
    Named(PathBuf),
    /// The file lies where longhaul looks for one.
    Found(PathBuf),
    /// No file: only defaults, environment and flags.
    Absent,
}

impl ConfigFile {
    /// Returns the file of the command in `matches`. An empty name stands for no file at all.
    ///
    /// `run` reads no file of the working folder, where agents work on other people's projects. Such
    /// a file could send the user's key to another upstream.
    pub(super) fn of_command(matches: &ArgMatches, env: &BTreeMap<String, String>) -> Self {
        let flag = matches.get_one::<String>(CONFIG_FLAG);
        if let Some(path) = flag.or_else(|| env.get(CONFIG_VARIABLE)) {
            return match path.as_str() {
                "" => Self::Absent,
                path => Self::Named(PathBuf::from(path)),
            };
        }
        let here = Some(PathBuf::from(CONFIG_NAME));
        let here = here.filter(|_| matches.subcommand_name() != Some("run"));
        let places = here.into_iter().chain(user_config_file(env));
        let mut files = places.filter(|path| path.is_file());
        files.next().map_or(Self::Absent, Self::Found)
    }

    /// Withholds the key of the environment from a file that was found in the working folder. The
    /// file may come with somebody else's project, and name an upstream of its own. Returns a note
    /// for the user if there was a key.
    pub(super) fn withhold_key(&self, env: &mut BTreeMap<String, String>) -> Option<String> {
        if *self != Self::Found(PathBuf::from(CONFIG_NAME)) {
            return None;
        }
        let key = env.remove(KEY_VARIABLE).filter(|key| !key.is_empty());
        key.map(|_| {
            format!(
                "longhaul: {KEY_VARIABLE} is not used, because {CONFIG_NAME} of this folder may name \
                 another upstream; pass --config {CONFIG_NAME} if that file is yours\n"
            )
        })
    }

    /// Returns the path of the file, if there is one.
    pub(super) fn path(&self) -> Option<&Path> {
        match self {
            Self::Named(path) | Self::Found(path) => Some(path),
            Self::Absent => None,
        }
    }
}

/// Returns the path of the user's own configuration file, whether it exists or not. The XDG base
/// directory specification gives the folder; on Windows, `APPDATA` does.
pub(super) fn user_config_file(env: &BTreeMap<String, String>) -> Option<PathBuf> {
    // The specification tells programs to ignore relative paths.
    let folder = |name: &str| {
        let path = PathBuf::from(env.get(name)?);
        path.is_absolute().then_some(path)
    };
    let folder = if cfg!(windows) {
        folder("APPDATA")
    } else {
        folder("XDG_CONFIG_HOME").or_else(|| Some(folder("HOME")?.join(".config")))
    };
    Some(folder?.join("longhaul").join(CONFIG_NAME))
}

/// Adds the variables of the file that `--env-file` names to `env`. The environment takes
/// precedence over the file.
///
/// # Errors
/// The file cannot be read, or a line of it is no assignment. The error shows no content: the file
/// may hold keys.
pub(super) fn add_env_file(
    matches: &ArgMatches,
    env: &mut BTreeMap<String, String>,
) -> Result<(), Problem> {
    let Some(path) = matches.get_one::<String>(ENV_FILE_FLAG) else {
        return Ok(());
    };
    let problem =
        |reason: String| Problem::CommandLine(format!("--{ENV_FILE_FLAG} {path}: {reason}"));
    let variables = dotenvy::from_path_iter(path).map_err(|error| {
        let error: &dyn std::error::Error = &error;
        problem(
            error
                .source()
                .map_or_else(|| "cannot be read".into(), ToString::to_string),
        )
    })?;
    for (at, variable) in variables.enumerate() {
        let (name, value) = variable.map_err(|_| {
            let number = at + 1;
            problem(format!(
                "assignment {number} does not have the form NAME=VALUE"
            ))
        })?;
        env.entry(name).or_insert(value);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(variables: &[(&str, &str)], expect: Option<&str>) {
        let env = variables
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_string()));
        let found = user_config_file(&env.collect());
        assert_eq!(found, expect.map(PathBuf::from), "{variables:?}");
    }

    #[cfg(unix)]
    #[test]
    fn the_users_own_file_lies_in_the_folder_of_the_specification() {
        let home = ("HOME", "/home/u");
        check(&[home], Some("/home/u/.config/longhaul/longhaul.toml"));
        check(
            &[home, ("XDG_CONFIG_HOME", "/etc/u")],
            Some("/etc/u/longhaul/longhaul.toml"),
        );
        for relative in ["", "conf"] {
            check(
                &[home, ("XDG_CONFIG_HOME", relative)],
                Some("/home/u/.config/longhaul/longhaul.toml"),
            );
        }
        check(&[], None);
    }
}
