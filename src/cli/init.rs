//! `longhaul init`: writes a configuration file to begin with.

use std::fs::{self, File};
use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use clap::ArgMatches;

use super::settings_files::user_config_file;
use crate::cli::{Done, Env};
use crate::config::{Config, Layers, minimal_toml, settings_with_flags};
use crate::error::Problem;

/// Questions to a terminal if no flag is given: key, flag and question.
const QUESTIONS: [(&str, &str, &str); 3] = [
    (
        "upstream.base",
        "upstream",
        "Endpoint that your agent uses now, such as openrouter.ai/api/v1",
    ),
    ("window", "window", "Context window of the model, such as 32k, if you want to assume one"),
    ("store.at", "store", "File that keeps summaries over a restart, such as file:longhaul.db"),
];

/// Writes the file and prints the next steps. `layers` holds the flags alone. Without flags, a terminal is asked.
/// Fails if a setting is invalid, the file exists already, or the file cannot be written.
pub(super) fn init(mut layers: Layers, matches: &ArgMatches, env: &Env) -> Done {
    let has_flags = settings_with_flags().any(|(flag, _)| matches.contains_id(flag.name));
    if !has_flags && io::stdin().is_terminal() {
        ask(&mut layers);
    }
    let found = layers.resolve()?;
    Config::from_resolved(&found)?;
    let named = matches.get_one::<PathBuf>("file").cloned();
    let Some(path) = named.or_else(|| user_config_file(env)) else {
        let reason = "no HOME and no XDG_CONFIG_HOME is set: name the file to write";
        return Err(Problem::CommandLine(reason.into()).into());
    };
    create_file(&path, &minimal_toml(&found)).map_err(|error| {
        let reason = if error.kind() == io::ErrorKind::AlreadyExists {
            "exists already; edit that file, or write another one: longhaul init FILE".to_owned()
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

/// Asks for the settings that most users set. An empty answer leaves the default.
fn ask(layers: &mut Layers) {
    for (key, flag, question) in QUESTIONS {
        super::print_error(&format!("{question} [Enter: default]: "));
        let mut answer = String::new();
        if !io::stdin().lock().read_line(&mut answer).is_ok_and(|read| read > 0) {
            return;
        }
        if !answer.trim().is_empty() {
            layers.apply_flag(key, flag, answer.trim());
        }
    }
}

/// Creates a file that does not exist yet, and the folders above it.
fn create_file(path: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        fs::create_dir_all(folder)?;
    }
    File::create_new(path)?.write_all(text.as_bytes())
}
