//! `longhaul completions` and `longhaul man`: the command line as shells and `man` read it.

use clap::builder::EnumValueParser;
use clap::{Arg, ArgMatches, Command};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::error::Problem;

/// Their parts of the command line.
pub(super) fn commands() -> [Command; 2] {
    let completions = Command::new("completions")
        .about("Print a script that completes longhaul's commands and flags in a shell")
        .arg(
            Arg::new("shell")
                .value_name("SHELL")
                .required(true)
                .value_parser(EnumValueParser::<Shell>::new())
                .help("The shell that is to read it"),
        );
    let man = Command::new("man").about("Print a manual page").arg(
        Arg::new("command")
            .value_name("COMMAND")
            .num_args(0..)
            .help("The command it is of, as store-stats; without one, longhaul itself"),
    );
    [completions, man]
}

/// What the shell that `matches` name reads to complete `program`.
pub(super) fn completion_script(mut program: Command, matches: &ArgMatches) -> String {
    let mut script = Vec::new();
    if let Some(&shell) = matches.get_one::<Shell>("shell") {
        let name = program.get_name().to_owned();
        clap_complete::generate(shell, &mut program, name, &mut script);
    }
    lossy_text(&script)
}

/// The manual page of `program`, or of the one of its commands that `matches` name, in roff.
pub(super) fn manual_page(
    mut program: Command,
    matches: &ArgMatches,
) -> Result<String, Vec<Problem>> {
    // Only a built command knows its commands by their full names.
    program.build();
    let words = matches.get_many::<String>("command").into_iter().flatten();
    let mut wanted = &program;
    // As its page is called, or as it is typed.
    for word in words.flat_map(|words| words.split(['-', ' '])) {
        wanted = wanted.find_subcommand(word).ok_or_else(|| {
            let above = wanted.get_bin_name().unwrap_or_else(|| wanted.get_name());
            let said = format!("there is no command {above} {word}; `{above} --help` lists them");
            Problem::CommandLine(said)
        })?;
    }
    let mut page = Vec::new();
    // A vector takes whatever is written to it.
    _ = Man::new(wanted.clone()).render(&mut page);
    Ok(lossy_text(&page))
}

fn lossy_text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
