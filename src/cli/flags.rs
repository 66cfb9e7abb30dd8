//! The flags of settings: which of them each command has.

use clap::{Arg, ArgMatches, Command};

use crate::config::{AnySetting, settings_with_flags};
use crate::error::Problem;

/// The flag that names the file of settings.
pub(super) const CONFIG_FLAG: &str = "config";

/// Whether the command of this name reads what the flag sets.
fn accepts_flag(command: &str, flag: &str) -> bool {
    match command {
        "serve" | "check" => true,
        // Its proxy tells nobody of itself.
        "run" => flag != "admin",
        "compact" => !matches!(flag, "admin" | "listen"),
        "explain" => !matches!(flag, "admin" | "listen" | "store"),
        "health" => matches!(flag, CONFIG_FLAG | "admin"),
        "store" => matches!(flag, CONFIG_FLAG | "store"),
        _ => false,
    }
}

/// Every one, as the front has them, which is `serve` too.
pub(super) fn all() -> impl Iterator<Item = Arg> {
    let file = Arg::new(CONFIG_FLAG)
        .long(CONFIG_FLAG)
        .value_name("FILE")
        .help("A TOML file of settings; `longhaul defaults` prints one");
    let settings = settings_with_flags().map(|(flag, entry)| {
        Arg::new(flag.name)
            .long(flag.name)
            .value_name(flag.value_name)
            .allow_hyphen_values(false)
            .help(flag_help(entry))
    });
    settings.chain([file])
}

/// `command` with those that it reads, unless it has one of that name of its own. Commands below it
/// have them too.
pub(super) fn with_setting_flags(command: Command) -> Command {
    let name = command.get_name().to_owned();
    let own: Vec<_> = command
        .get_arguments()
        .map(|own| own.get_id().clone())
        .collect();
    let read = all().filter(|flag| accepts_flag(&name, flag.get_id().as_str()));
    let read = read.filter(|flag| !own.contains(flag.get_id()));
    command.args(read.map(|flag| flag.global(true)))
}

/// A flag before a command that does not read it: it would be of no effect.
pub(super) fn misplaced_flag(matches: &ArgMatches) -> Option<Problem> {
    let command = matches.subcommand_name()?;
    let settings = settings_with_flags().map(|(flag, _)| flag.name);
    let strange = settings
        .chain([CONFIG_FLAG])
        .find(|flag| !accepts_flag(command, flag) && matches.contains_id(flag))?;
    Some(Problem::CommandLine(format!(
        "--{strange} is nothing to `longhaul {command}`: leave it out"
    )))
}

/// The first sentence of a setting's documentation, and its default if it has one of its own.
fn flag_help(entry: &dyn AnySetting) -> String {
    let first = first_sentence(entry.doc());
    match entry.default() {
        "" => first.to_owned(),
        default => format!("{first} [default: {default}]"),
    }
}

fn first_sentence(doc: &str) -> &str {
    doc.split_once(". ")
        .map_or(doc, |(first, _)| first)
        .trim_end_matches('.')
}
