//! The commands and their arguments, as `commands.toml` describes them.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::LazyLock;

use clap::builder::{EnumValueParser, PossibleValuesParser, ValueParser};
use clap::{Arg, ArgAction, ArgGroup, Command, value_parser};
use clap_complete::Shell;
use serde::Deserialize;

use super::agents::Agent;
use super::{lab, run, store};

/// A command. `commands.toml` describes the fields.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct CommandText {
    name: String,
    about: String,
    details: String,
    after: String,
    flags: Vec<String>,
    without: Vec<String>,
    argument: Vec<ArgumentText>,
    command: Vec<Self>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ArgumentText {
    name: String,
    value: Option<String>,
    help: String,
    positional: bool,
    required: bool,
    many: Option<usize>,
    parser: String,
    default: Option<String>,
    hyphens: bool,
    requires: Option<String>,
    excludes: Vec<String>,
}

static COMMANDS: LazyLock<Vec<CommandText>> = LazyLock::new(|| {
    let read = toml::from_str::<CommandText>(include_str!("commands.toml"));
    debug_assert!(read.is_ok(), "{:?}", read.err());
    read.unwrap_or_default().command
});

pub(super) fn all() -> impl Iterator<Item = Command> {
    let built = COMMANDS.iter();
    let built = built.filter(|text| cfg!(feature = "mcp") || text.name != "mcp");
    let built = built.filter(|text| cfg!(feature = "lab") || text.name != "wrapped");
    built.filter_map(|text| match text.name.as_str() {
        "demo" | "eval" => lab::command(&text.name),
        "defaults" => {
            let forms = ArgGroup::new("form").args(["prompts", "table", "schema"]);
            Some(text.command().group(forms.multiple(false)))
        }
        "explain" => Some(text.command_with(lab::replay_arguments())),
        "run" => Some(run::complete(text.command())),
        _ => Some(text.command()),
    })
}

/// Whether the command with this name uses the setting of `flag`.
pub(super) fn accepts_flag(command: &str, flag: &str) -> bool {
    let has = |flags: &[String], flag: &str| flags.iter().any(|own| own == flag);
    COMMANDS.iter().any(|text| {
        let accepts = has(&text.flags, flag) || has(&text.flags, "*");
        text.name == command && accepts && !has(&text.without, flag)
    })
}

impl CommandText {
    fn command(&'static self) -> Command {
        self.command_with([])
    }

    /// Returns the command, with `first` before its own arguments.
    fn command_with(&'static self, first: impl IntoIterator<Item = Arg>) -> Command {
        let mut command = Command::new(self.name.as_str())
            .about(self.about.as_str())
            .subcommand_required(!self.command.is_empty())
            .subcommands(self.command.iter().map(Self::command))
            .args(first);
        if !self.details.is_empty() {
            command = command.long_about(super::of_this_build(&self.details));
        }
        if !self.after.is_empty() {
            command = command.after_help(super::of_this_build(&self.after));
        }
        command.args(self.argument.iter().map(ArgumentText::arg))
    }
}

impl ArgumentText {
    fn arg(&'static self) -> Arg {
        let mut arg = Arg::new(self.name.as_str())
            .help(self.help.as_str())
            .required(self.required)
            .conflicts_with_all(self.excludes.iter().map(String::as_str));
        if !self.positional {
            arg = arg.long(self.name.as_str());
        }
        if let Some(least) = self.many {
            arg = arg.num_args(least..);
        }
        if let Some(other) = &self.requires {
            arg = arg.requires(other.as_str());
        }
        if let Some(default) = &self.default {
            arg = arg.default_value(default.as_str());
        }
        match &self.value {
            None => arg.action(ArgAction::SetTrue),
            Some(value) => arg
                .value_name(value.as_str())
                .allow_hyphen_values(self.hyphens)
                .value_parser(self.value_parser()),
        }
    }

    fn value_parser(&self) -> ValueParser {
        match self.parser.as_str() {
            "agent" => {
                let names = Agent::all().iter().map(|agent| agent.name.as_str());
                PossibleValuesParser::new(names).into()
            }
            #[cfg(feature = "mcp")]
            "loopback" => ValueParser::new(super::mcp::parse_loopback),
            "count" => value_parser!(usize).into(),
            "path" => value_parser!(PathBuf),
            "scope" => ValueParser::new(store::parse_scope),
            "shell" => EnumValueParser::<Shell>::new().into(),
            "words" => value_parser!(OsString),
            _ => value_parser!(String),
        }
    }
}
