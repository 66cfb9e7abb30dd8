//! The flags for settings, and the commands that accept each of them.

use clap::{Arg, ArgMatches, Command};

use super::commands::accepts_flag;
use super::settings_files::{CONFIG_FLAG, ENV_FILE_FLAG};
use crate::config::{Setting, settings_with_flags};
use crate::error::Problem;

/// Returns every flag for a setting, as the program itself accepts them; without a command it is
/// `serve`.
pub(super) fn all() -> impl Iterator<Item = Arg> {
    let file = Arg::new(CONFIG_FLAG).long(CONFIG_FLAG).value_name("FILE").help(
        "A TOML file of settings; `longhaul init` writes one [default: ./longhaul.toml, then \
             ~/.config/longhaul/longhaul.toml]",
    );
    let variables = Arg::new(ENV_FILE_FLAG)
        .long(ENV_FILE_FLAG)
        .value_name("FILE")
        .help("A file of NAME=VALUE lines, read as the environment; set variables take precedence");
    let settings = settings_with_flags().map(|(flag, entry)| {
        let arg = Arg::new(flag.name)
            .long(flag.name)
            .value_name(flag.value_name)
            .allow_hyphen_values(false)
            .help(flag_help(entry));
        match entry.bare {
            // With a space, a command after the flag would be parsed as its value.
            Some(bare) => arg.num_args(0..=1).require_equals(true).default_missing_value(bare),
            None => arg,
        }
    });
    settings.chain([file, variables])
}

/// Adds to `command` the flags that it uses, except those it defines itself. Its subcommands
/// inherit them.
pub(super) fn with_setting_flags(command: Command) -> Command {
    let name = command.get_name().to_owned();
    let own = command.get_arguments().map(|own| own.get_id().clone());
    let own: Vec<_> = own.collect();
    let read = all().filter(|flag| accepts_flag(&name, flag.get_id().as_str()));
    let read = read.filter(|flag| !own.contains(flag.get_id()));
    command.args(read.map(|flag| flag.global(true)))
}

/// Reports a flag given before a command that does not use it: the flag would have no effect.
pub(super) fn misplaced_flag(matches: &ArgMatches) -> Option<Problem> {
    let command = matches.subcommand_name()?;
    let settings = settings_with_flags().map(|(flag, _)| flag.name);
    let strange = settings
        .chain([CONFIG_FLAG, ENV_FILE_FLAG])
        .find(|flag| !accepts_flag(command, flag) && matches.contains_id(flag))?;
    let is_value = settings_with_flags().any(|(flag, _)| {
        flag.name == strange && flag.value_name.split('|').any(|value| value == command)
    });
    let instead =
        if is_value { format!(", or write --{strange}={command}") } else { String::new() };
    Some(Problem::CommandLine(format!(
        "--{strange} has no effect on `longhaul {command}`: leave it out{instead}"
    )))
}

/// Returns the first sentence of a setting's documentation, and the default if there is one.
fn flag_help(entry: &Setting<()>) -> String {
    let doc = entry.doc();
    let first = doc.split(". ").next().unwrap_or_default();
    let first = first.trim_end_matches('.');
    match entry.default {
        "" => first.to_owned(),
        default => format!("{first} [default: {default}]"),
    }
}
