//! The command line: selects one command and resolves the settings it uses.

mod agents;
mod check;
mod commands;
mod compact;
mod completions;
mod connect;
mod dashboard;
mod doctor;
mod explain;
mod flags;
mod health;
mod init;
#[cfg(feature = "lab")]
mod lab;
#[cfg(not(feature = "lab"))]
mod lab_disabled;
mod live;
mod loopback;
#[cfg(feature = "mcp")]
mod mcp;
pub(crate) mod model_window;
mod own_client;
mod pipe;
mod quota;
mod recall;
mod run;
mod serve;
mod settings_files;
mod signals;
mod state_folder;
mod statusline;
mod store;
mod top;
mod version;
mod windows;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write as _};
use std::process::{Command as Process, ExitCode, Stdio};

use clap::builder::StyledStr;
use clap::builder::styling::{AnsiColor, Style, Styles};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgMatches, Command, Error};
#[cfg(not(feature = "lab"))]
use lab_disabled as lab;
#[cfg(target_os = "linux")]
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use tokio::runtime::{Builder, Runtime};

use crate::config::{
    Config, Layers, default_toml, disabling_variables, settings_markdown, settings_schema,
    settings_with_flags, unknown_variables,
};
use crate::error::Problem;
use longhaul_core::summary::prompts::Prompts;
use settings_files::ConfigFile;

/// Variables of the environment, by name.
type Env = BTreeMap<String, String>;

/// Result of a command, or all problems that prevent it.
type Done<T = ()> = Result<T, Vec<Problem>>;

/// Colours of help and errors on a terminal.
const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default())
    .error(ERROR_STYLE);

/// Colour of the word before an error.
const ERROR_STYLE: Style = AnsiColor::Red.on_default().bold();

/// Columns of help that goes to a pipe, so that the page of commands is the same everywhere.
const HELP_WIDTH: usize = 100;

/// Help of `longhaul -h`: what most users need, within one screen.
const SHORT_HELP: &str = include_str!("cli/help.txt");

/// Text after the flags in the program's help.
const EXAMPLES: &str = include_str!("cli/examples.txt");

/// Runs the command that `arguments` name (the program's name first), with the settings of `env`.
/// Returns exit code 0, or the code of the first [`Problem`].
pub fn main(
    arguments: impl IntoIterator<Item = OsString>,
    env: impl IntoIterator<Item = (OsString, OsString)>,
) -> ExitCode {
    hide_memory();
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    if arguments.get(1..).is_some_and(|arguments| arguments == ["-h"]) {
        let help = of_this_build(SHORT_HELP) + "\n";
        return print(&help)
            .map_or_else(|problems| report_problems(&problems), |()| ExitCode::SUCCESS);
    }
    let matches = match command().try_get_matches_from(arguments) {
        Ok(matches) => matches,
        Err(mut error) => {
            add_tip(&mut error);
            return report_clap_error(&error);
        }
    };
    if let Some(problem) = flags::misplaced_flag(&matches) {
        return report_problems(&[problem]);
    }
    let mut env = text_environment(env);
    if let Err(problem) = settings_files::add_env_file(&matches, &mut env) {
        return report_problems(&[problem]);
    }
    let file = ConfigFile::of_command(&matches, &env);
    let needs_settings = !matches!(
        matches.subcommand_name(),
        Some("completions" | "defaults" | "demo" | "init" | "man")
    );
    if let Some(problem) = file.key_problem().filter(|_| needs_settings) {
        return report_problems(&[problem]);
    }
    if matches!(matches.subcommand_name(), Some("check" | "compact" | "doctor" | "eval"))
        && let Some(note) = file.withhold_key(&mut env)
    {
        print_error(&note);
    }
    run_command(&file, &matches, &env).unwrap_or_else(|problems| report_problems(&problems))
}

fn run_command(file: &ConfigFile, matches: &ArgMatches, env: &Env) -> Done<ExitCode> {
    let own = matches.subcommand().map_or(matches, |(_, own)| own);
    let layers = || {
        let mut layers = Layers::default();
        if let Some(path) = file.path() {
            layers.load_file(path);
        }
        layers.apply_environment(env);
        with_flags(layers, matches)
    };
    let resolved = || layers().resolve();
    let config = || {
        let mut config = Config::from_resolved(&resolved()?)?;
        state_folder::keep_lessons(&mut config, env);
        Ok::<_, Vec<Problem>>(config)
    };
    match matches.subcommand_name() {
        Some("check") => return check::check(resolved(), file.path(), own, env),
        Some("compact") => compact::compact(config()?, own, check::upstream_key(env)),
        Some("connect") => connect::connect(&config()?, own, env),
        Some("completions") => print(&completions::completion_script(command(), own)),
        Some("dashboard") => dashboard::dashboard(&config()?, own),
        Some("defaults") => print(&defaults_page(own)),
        #[cfg(feature = "lab")]
        Some("demo") => return lab::demo(own),
        Some("doctor") => return doctor::doctor(resolved(), file.path(), own, env),
        #[cfg(feature = "lab")]
        Some("eval") => lab::eval(layers, own, check::upstream_key(env)),
        #[cfg(feature = "lab")]
        Some("explain") if own.contains_id("replay") => lab::replay(&config()?, layers, own),
        Some("explain") => explain::explain(&config()?, own),
        Some("health") => return health::health(&config()?, own),
        Some("init") => init::init(with_flags(Layers::default(), matches), own, env),
        Some("man") => {
            let page = completions::manual_page(command(), own)?;
            if std::io::stdout().is_terminal() && !own.get_flag("markdown") {
                print_error("longhaul: this is roff; `longhaul man | man -l -` shows the page\n");
            }
            print(&page)
        }
        #[cfg(feature = "mcp")]
        Some("mcp") => mcp::mcp(&resolved()?, own, env),
        Some("forget") => windows::forget(&config()?, own),
        Some("quota") => quota::quota(&config()?, own),
        Some("recall") => recall::recall(&resolved()?, own, env),
        Some("run") => {
            if let ConfigFile::Found(path) = file {
                print_error(&format!("longhaul: settings from {}\n", path.display()));
            }
            return run::run(layers(), own, env);
        }
        Some("statusline") => statusline::statusline(&config()?),
        Some("store") => store::store(&config()?, own),
        Some("top") => top::top(&config()?),
        #[cfg(feature = "lab")]
        Some("wrapped") => lab::wrapped(&config()?, own),
        _ => serve::serve(resolved()?, file.path(), env, resolved),
    }?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the page of `longhaul defaults` that the flags choose.
fn defaults_page(matches: &ArgMatches) -> String {
    if matches.get_flag("prompts") {
        let pages = Prompts::built_in();
        pages.map(|(setting, text)| format!("==> {setting} <==\n{text}\n")).join("\n")
    } else if matches.get_flag("table") {
        settings_markdown()
    } else if matches.get_flag("schema") {
        settings_schema()
    } else {
        default_toml()
    }
}

fn command() -> Command {
    let switches: Vec<&str> = disabling_variables().collect();
    Command::new("longhaul")
        .version(version::SHORT)
        .long_version(version::LONG.as_str())
        .about("A proxy for the APIs of OpenAI and Anthropic that keeps long conversations in the window")
        .after_help(of_this_build(EXAMPLES).replace("{switches}", &switches.join(", ")))
        .styles(STYLES)
        .max_term_width(HELP_WIDTH)
        .subcommands(commands::all())
        .mut_subcommands(flags::with_setting_flags)
        .args(flags::all())
}

/// Returns a text of the help without the lines on commands that the build leaves out.
fn of_this_build(text: &str) -> String {
    let is_missing = |line: &&str| {
        let mut words =
            ["longhaul demo", "demo:", "longhaul eval", " eval", "--replay", "longhaul wrapped"]
                .iter();
        cfg!(not(feature = "lab")) && words.any(|word| line.contains(word))
    };
    let lines = text.lines().filter(|line| !is_missing(line));
    lines.collect::<Vec<_>>().join("\n")
}

/// Puts the flags in `matches` on top of the other layers.
fn with_flags(mut layers: Layers, matches: &ArgMatches) -> Layers {
    for (flag, entry) in settings_with_flags() {
        if let Some(value) = matches.get_one::<String>(flag.name) {
            layers.apply_flag(entry.key, flag.name, value);
        }
    }
    layers
}

/// Warns about variables that look like longhaul's settings but are not.
fn warn_unknown_variables(env: &Env) {
    for problem in unknown_variables(env) {
        print_error(&format!("longhaul: {problem}\n"));
    }
}

/// Returns the environment as text. Drops names that are not UTF-8, since no setting has such a
/// name. Replaces invalid bytes in values, so that the setting's own check rejects them.
///
/// Keeps names of every prefix: the plain switches keep the names they have in the original
/// systems.
fn text_environment(env: impl IntoIterator<Item = (OsString, OsString)>) -> Env {
    let text = |(name, value): (OsString, OsString)| {
        let value = value.to_string_lossy().into_owned();
        Some((name.into_string().ok()?, value))
    };
    env.into_iter().filter_map(text).collect()
}

/// Prints help and version to standard output with exit code 0; reports any other error.
fn report_clap_error(error: &Error) -> ExitCode {
    let text = error.render().ansi().to_string();
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        let written = pipe::write_styled_output(&text);
        return match written {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => report_problems(&[Problem::Output(error.to_string())]),
        };
    }
    let text = text.trim_end().replacen("error:", "longhaul:", 1);
    pipe::write_styled_error(&format!("{text}\n"));
    ExitCode::from(Problem::CommandLine(text).exit_code())
}

fn report_problems(problems: &[Problem]) -> ExitCode {
    let mut lines = String::new();
    for problem in problems {
        _ = writeln!(lines, "{ERROR_STYLE}longhaul:{ERROR_STYLE:#} {problem}");
    }
    pipe::write_styled_error(&lines);
    ExitCode::from(problems.first().map_or(1, Problem::exit_code))
}

/// Hides the memory and the environment, which may hold keys, from other processes of the user,
/// such as the command of `longhaul run`. Also switches core dumps off.
fn hide_memory() {
    #[cfg(target_os = "linux")]
    if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        print_error(&format!(
            "longhaul: other processes of this user can read the memory of longhaul: {error}\n"
        ));
    }
}

/// Builds the runtime of a command: one thread, since a command serves no one else. The order of
/// tasks is then deterministic.
fn runtime() -> Result<Runtime, Problem> {
    build_runtime(&mut Builder::new_current_thread())
}

fn build_runtime(runtime: &mut Builder) -> Result<Runtime, Problem> {
    let built = runtime.enable_all().build();
    built.map_err(|error| Problem::System(format!("cannot spawn threads: {error}")))
}

/// Writes to standard error. Ignores failures: there is nowhere left to report them.
fn print_error(text: &str) {
    _ = std::io::stderr().write_all(text.as_bytes());
}

/// Opens `link` in the user's browser, if there is one.
fn open_in_browser(link: &str) {
    let program = match std::env::consts::OS {
        "macos" => "open",
        "windows" => "explorer",
        _ => "xdg-open",
    };
    let mut browser = Process::new(program);
    browser.arg(link).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if browser.spawn().is_err() {
        print_error("longhaul: no browser was found: open the link\n");
    }
}

/// Writes to standard output. A reader that has left, as `head` does, is not an error. Fails if
/// standard output cannot be written.
fn print(text: &str) -> Done {
    let written = pipe::write_output(text.as_bytes());
    Ok(written.map_err(|error| Problem::Output(error.to_string()))?)
}

/// Words of other tools, between spaces, and after a tab what to do in longhaul.
const ELSEWHERE: &str = include_str!("cli/tips.tsv");

/// Similarity above which a word is a misspelling of one that has a tip.
const NEAR: f64 = 0.9;

/// Adds the tip for the unknown word of `error`, or for the word that it resembles, if there is one.
fn add_tip(error: &mut Error) {
    let word =
        [ContextKind::InvalidSubcommand, ContextKind::InvalidArg].into_iter().find_map(|kind| {
            let ContextValue::String(word) = error.get(kind)? else {
                return None;
            };
            Some(word.clone())
        });
    let Some(word) = word else { return };
    let rows = ELSEWHERE.lines().filter_map(|line| line.split_once('\t'));
    let rows = rows.filter(|(_, tip)| cfg!(not(feature = "lab")) || !tip.contains("this build"));
    let known = rows.flat_map(|(words, tip)| words.split(' ').map(move |known| (known, tip)));
    let near = known.map(|(known, tip)| (strsim::jaro_winkler(known, &word), tip));
    let near = near.filter(|(similarity, _)| *similarity > NEAR);
    if let Some((_, tip)) = near.max_by(|a, b| a.0.total_cmp(&b.0)) {
        // The parser knows no words of other tools, so what it suggests is farther from the word.
        for kind in [ContextKind::SuggestedSubcommand, ContextKind::SuggestedArg] {
            error.remove(kind);
        }
        let tips = vec![StyledStr::from(tip)];
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
    }
}
