//! `longhaul init`: writes a configuration file to begin with.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use clap::ArgMatches;

use super::settings_files::user_config_file;
use crate::cli::{Done, Env};
use crate::config::{Config, Layers, minimal_toml};
use crate::error::Problem;

/// Writes the file and prints the next steps. `layers` holds the flags alone. Fails if a setting is
/// invalid, the file exists already, or the file cannot be written.
pub(super) fn init(layers: Layers, matches: &ArgMatches, env: &Env) -> Done {
    let found = layers.resolve()?;
    Config::from_resolved(&found)?;
    let named = matches.get_one::<PathBuf>("file").cloned();
    let Some(path) = named.or_else(|| user_config_file(env)) else {
        let reason = "no HOME and no XDG_CONFIG_HOME is set: name the file to write";
        return Err(Problem::CommandLine(reason.into()).into());
    };
    create_file(&path, &minimal_toml(&found)).map_err(|error| {
        let reason = if error.kind() == io::ErrorKind::AlreadyExists {
            "exists already; edit that file, or name another one".to_owned()
        } else {
            error.to_string()
        };
        Problem::CommandLine(format!("{}: {reason}", path.display()))
    })?;
    let shown = path.display();
    crate::cli::print(&format!(
        "wrote {shown}\n\
         next: `longhaul doctor` tests these settings, `longhaul` starts the proxy\n"
    ))
}

/// Creates a file that does not exist yet, and the folders above it.
fn create_file(path: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        fs::create_dir_all(folder)?;
    }
    File::create_new(path)?.write_all(text.as_bytes())
}
