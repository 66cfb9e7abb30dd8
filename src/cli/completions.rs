//! `longhaul completions` and `longhaul man`: the command line for shells and for `man`.

use std::fmt::Write as _;

use clap::{Arg, ArgMatches, Command};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::cli::{Done, flags};
use crate::error::Problem;

/// Returns the completion script of `program` for the shell that `matches` name.
pub(super) fn completion_script(mut program: Command, matches: &ArgMatches) -> String {
    let mut script = Vec::new();
    if let Some(&shell) = matches.get_one::<Shell>("shell") {
        let name = program.get_name().to_owned();
        clap_complete::generate(shell, &mut program, name, &mut script);
    }
    lossy_text(&script)
}

/// Returns the manual page, in roff, of `program` or of the subcommand that `matches` name.
pub(super) fn manual_page(mut program: Command, matches: &ArgMatches) -> Done<String> {
    // Full names of subcommands exist only after a build.
    program.build();
    if matches.get_flag("markdown") {
        let mut page = String::from("# Commands\n\nPrinted by `longhaul man --markdown`.\n");
        add_help(program, &mut page);
        return Ok(page);
    }
    let words = matches.get_many::<String>("command").into_iter().flatten();
    let mut wanted = &program;
    // Accepts a command as its page is named (`store-stats`) or as it is typed (`store stats`).
    for word in words.flat_map(|words| words.split(['-', ' '])) {
        wanted = wanted.find_subcommand(word).ok_or_else(|| {
            let above = wanted.get_bin_name().unwrap_or_else(|| wanted.get_name());
            let message =
                format!("there is no command {above} {word}; `{above} --help` lists them");
            Problem::CommandLine(message)
        })?;
    }
    let mut page = Vec::new();
    // Writing to a vector cannot fail.
    _ = Man::new(wanted.clone())
        .source(format!("longhaul {}", super::version::SHORT))
        .render(&mut page);
    Ok(lossy_text(&page))
}

/// Adds the help of `command`, and of every command below it, to a Markdown page. The options that commands share
/// with the program stand there once.
fn add_help(mut command: Command, page: &mut String) {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name()).to_owned();
    _ = write!(page, "\n## {name}\n\n");
    let program: Vec<Arg> = if name.contains(' ') { flags::all().collect() } else { Vec::new() };
    // A command may give an option a meaning of its own.
    let is_shared = |arg: &Arg| {
        let own = (arg.get_id(), arg.get_help());
        program.iter().any(|shared| (shared.get_id(), shared.get_help()) == own)
    };
    let shared = command.get_arguments().filter(|arg| is_shared(arg));
    let shared: Vec<String> = shared.map(|arg| format!("`--{}`", arg.get_id())).collect();
    if !shared.is_empty() {
        let lines: Vec<String> = shared.chunks(8).map(|flags| flags.join(", ")).collect();
        let lines = lines.join(",\n");
        _ = write!(page, "Options of [longhaul](#longhaul) that count here too:\n{lines}.\n\n");
    }
    let mut shown = command.clone().mut_args(|arg| {
        let is_shared = is_shared(&arg);
        arg.hide(is_shared)
    });
    page.push_str("```text\n");
    let help = shown.render_long_help().to_string();
    for line in help.trim().lines() {
        page.push_str(line.trim_end());
        page.push('\n');
    }
    page.push_str("```\n");
    for inner in command.get_subcommands_mut().filter(|inner| inner.get_name() != "help") {
        add_help(inner.clone(), page);
    }
}

fn lossy_text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use clap::Command;
    use clap::builder::StyledStr;

    /// Columns of the narrowest usual terminal.
    const TERMINAL: usize = 80;

    fn check_help(command: &Command) {
        let name = command.get_name();
        let text = |part: Option<&StyledStr>| part.map(ToString::to_string).unwrap_or_default();
        for line in text(command.get_after_help()).lines() {
            let is_prose = !line.starts_with(' ') && line.ends_with('.');
            let width = line.chars().count();
            assert!(is_prose || width <= TERMINAL, "{name}: {width}: {line}");
        }
        // A line break within a paragraph would stand in the midst of a line that is wrapped.
        for paragraph in text(command.get_long_about()).split("\n\n") {
            assert!(!paragraph.contains('\n'), "{name}: {paragraph}");
        }
        command.get_subcommands().for_each(check_help);
    }

    #[test]
    fn help_fits_a_terminal_of_80_columns() {
        check_help(&crate::cli::command());
    }

    #[test]
    fn the_short_help_fits_a_screen_and_names_what_exists() {
        let (help, program) = (crate::cli::SHORT_HELP, crate::cli::command());
        assert!(help.lines().count() <= 30);
        assert!(help.lines().all(|line| line.chars().count() <= TERMINAL));
        let (commands, options) = help.split_once("Options:").unwrap();
        let first_words = |text: &str| {
            let indented = text.lines().filter_map(|line| line.strip_prefix("  "));
            indented.filter_map(|line| line.split(' ').next().map(str::to_owned)).collect()
        };
        let commands: Vec<String> = first_words(commands.split_once("Commands:").unwrap().1);
        assert!(commands.len() > 5);
        for name in commands {
            let built = cfg!(feature = "lab") || name != "eval";
            assert_eq!(program.find_subcommand(&name).is_some(), built, "{name}");
        }
        let options: Vec<String> = first_words(options);
        for flag in options.iter().filter_map(|flag| flag.strip_prefix("--")) {
            assert!(program.get_arguments().any(|arg| arg.get_long() == Some(flag)), "{flag}");
        }
    }
}
