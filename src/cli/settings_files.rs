//! The files that settings come from: the configuration file and the environment file.

use std::path::{Path, PathBuf};

use clap::ArgMatches;

use super::check::KEY_VARIABLE;
use crate::cli::Env;
use crate::config::{CONFIG_VARIABLE, exposed_file_warning, secret_variables};
use crate::error::Problem;

/// The flag that names the settings file.
pub(super) const CONFIG_FLAG: &str = "config";
/// The flag that names a file of environment variables.
pub(super) const ENV_FILE_FLAG: &str = "env-file";
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
    pub(super) fn of_command(matches: &ArgMatches, env: &Env) -> Self {
        let flag = matches.get_one::<String>(CONFIG_FLAG);
        if let Some(path) = flag.or_else(|| env.get(CONFIG_VARIABLE)) {
            return match path.as_str() {
                "" => Self::Absent,
                path => Self::Named(PathBuf::from(path)),
            };
        }
        let here = Some(PathBuf::from(CONFIG_NAME));
        let works_elsewhere = matches!(
            matches.subcommand_name(),
            Some("mcp" | "recall" | "run" | "statusline" | "top")
        );
        let here = here.filter(|_| !works_elsewhere);
        let places = here.into_iter().chain(user_config_file(env));
        let mut files = places.filter(|path| path.is_file());
        files.next().map_or(Self::Absent, Self::Found)
    }

    /// Withholds the key of the environment from a file that was found in the working folder. The
    /// file may come with somebody else's project, and name its own upstream. Returns a note
    /// for the user if there was a key.
    pub(super) fn withhold_key(&self, env: &mut Env) -> Option<String> {
        if *self != Self::Found(PathBuf::from(CONFIG_NAME)) {
            return None;
        }
        let secrets: Vec<String> = secret_variables(env)
            .chain([KEY_VARIABLE.to_owned()])
            .chain(env.keys().filter(|name| name.ends_with("_KEY_FILE")).cloned())
            .collect();
        let mut had_value = |name: &String| env.remove(name).is_some_and(|it| !it.is_empty());
        let withheld = secrets.into_iter().filter(|name| had_value(name));
        let withheld: Vec<String> = withheld.collect();
        (!withheld.is_empty()).then(|| {
            let names = withheld.join(", ");
            format!(
                "longhaul: not used: {names}, because {CONFIG_NAME} of this folder may name another \
                 upstream; pass --config {CONFIG_NAME} if that file is yours\n"
            )
        })
    }

    /// Returns a problem if a file that was found in the working folder names a key. Such a file could
    /// send a key of the user to another upstream.
    pub(super) fn key_problem(&self) -> Option<Problem> {
        if *self != Self::Found(PathBuf::from(CONFIG_NAME)) {
            return None;
        }
        // Loading the settings reports a file that cannot be read.
        let text = std::fs::read_to_string(CONFIG_NAME).ok()?;
        let tables: toml::Table = text.parse().ok()?;
        let names_key = |section: &toml::Value| {
            ["api_key", "api_key_file"].iter().any(|key| {
                let value = section.get(key).and_then(toml::Value::as_str);
                value.is_some_and(|value| !value.is_empty())
            })
        };
        let found = tables.values().any(names_key);
        found.then(|| {
            Problem::CommandLine(format!(
                "{CONFIG_NAME} of this folder names a key; pass --config {CONFIG_NAME} if that file is \
                 yours"
            ))
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
pub(super) fn user_config_file(env: &Env) -> Option<PathBuf> {
    let folder = if cfg!(windows) {
        folder(env, "APPDATA")
    } else {
        folder(env, "XDG_CONFIG_HOME").or_else(|| Some(folder(env, "HOME")?.join(".config")))
    };
    Some(folder?.join("longhaul").join(CONFIG_NAME))
}

/// Returns the folder that a variable of the XDG specification names. The specification requires
/// programs to ignore relative paths.
pub(super) fn folder(env: &Env, name: &str) -> Option<PathBuf> {
    let path = PathBuf::from(env.get(name)?);
    path.is_absolute().then_some(path)
}

/// Adds the variables of the file that `--env-file` names to `env`. The environment takes
/// precedence over the file. Fails if the file cannot be read, or if a line is not an assignment.
/// The error shows no content: the file may hold keys.
pub(super) fn add_env_file(matches: &ArgMatches, env: &mut Env) -> Result<(), Problem> {
    let Some(path) = matches.get_one::<String>(ENV_FILE_FLAG) else {
        return Ok(());
    };
    let problem =
        |reason: String| Problem::CommandLine(format!("--{ENV_FILE_FLAG} {path}: {reason}"));
    let text = std::fs::read_to_string(path).map_err(|error| problem(error.to_string()))?;
    if let Some(warning) = exposed_file_warning(Path::new(path)) {
        crate::cli::print_error(&format!("longhaul: {warning}\n"));
    }
    // The reader replaces `$NAME` by a variable of the environment, which may be a key.
    if let Some(at) = text.lines().position(may_expand) {
        let number = at + 1;
        let reason = format!("line {number} has a `$`; put the value in single quotes");
        return Err(problem(reason));
    }
    for (at, variable) in dotenvy::from_read_iter(text.as_bytes()).enumerate() {
        let (name, value) = variable.map_err(|_| {
            let number = at + 1;
            problem(format!("assignment {number} does not have the form NAME=VALUE"))
        })?;
        env.entry(name).or_insert(value);
    }
    Ok(())
}

/// Whether a line has a `$` outside a comment and single quotes.
fn may_expand(line: &str) -> bool {
    let line = line.trim();
    let value = line.split_once('=').map_or(line, |(_, value)| value.trim());
    let is_quoted = value.len() > 1 && value.starts_with('\'') && value.ends_with('\'');
    line.contains('$') && !line.starts_with('#') && !is_quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_would_be_expanded_are_found() {
        for (line, expect) in [
            ("A=b", false),
            ("A='a$b'", false),
            ("# A=$B", false),
            ("A=a$b", true),
            ("A=\"${B}\"", true),
            ("A='a'$B", true),
        ] {
            assert_eq!(may_expand(line), expect, "{line}");
        }
    }

    fn check(variables: &[(&str, &str)], expect: Option<&str>) {
        let env = variables.iter().map(|(name, value)| (name.to_string(), value.to_string()));
        let found = user_config_file(&env.collect());
        assert_eq!(found, expect.map(PathBuf::from), "{variables:?}");
    }

    #[cfg(unix)]
    #[test]
    fn the_users_own_file_lies_in_the_folder_of_the_specification() {
        let home = ("HOME", "/home/u");
        check(&[home], Some("/home/u/.config/longhaul/longhaul.toml"));
        check(&[home, ("XDG_CONFIG_HOME", "/etc/u")], Some("/etc/u/longhaul/longhaul.toml"));
        for relative in ["", "conf"] {
            check(
                &[home, ("XDG_CONFIG_HOME", relative)],
                Some("/home/u/.config/longhaul/longhaul.toml"),
            );
        }
        check(&[], None);
    }
}
