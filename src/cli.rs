//! The command line: selects one command and resolves the settings it uses.

mod agents;
mod check;
mod compact;
mod completions;
mod connect;
mod doctor;
mod explain;
mod flags;
mod health;
mod init;
#[cfg(feature = "lab")]
mod lab;
#[cfg(not(feature = "lab"))]
mod lab_disabled;
mod loopback;
#[cfg(feature = "mcp")]
mod mcp;
pub(crate) mod model_window;
mod own_client;
mod pipe;
mod recall;
mod run;
mod serve;
mod settings_files;
mod state_folder;
mod store;
mod tips;
mod version;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;

use clap::builder::styling::{AnsiColor, Style, Styles};
use clap::error::ErrorKind;
use clap::{ArgGroup, ArgMatches, Command};
#[cfg(target_os = "linux")]
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use tokio::runtime::{Builder, Runtime};

use crate::config::{
    Config, Layers, default_toml, settings_markdown, settings_schema, settings_with_flags,
    unknown_variables,
};
use crate::error::Problem;
#[cfg(not(feature = "lab"))]
use lab_disabled as lab;
use longhaul_core::summary::prompts::Prompts;
use settings_files::ConfigFile;

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

const EXAMPLES: &str = "\
Examples:
  longhaul demo                                 see it work: no key, no network
  longhaul                                      127.0.0.1:8484 → api.openai.com
  longhaul --upstream openrouter.ai/api/v1      another endpoint
  longhaul --listen :9000 --window 32k          another port, a small window
  longhaul --store file:longhaul.db             summaries that survive a restart
  longhaul run -- aider                         an agent with its own proxy
  longhaul doctor                               test upstream, key and store
  longhaul init --upstream openrouter.ai/api/v1 write a configuration file
  longhaul explain --last                       what was done last, and why
  longhaul explain request.json                 what would be done, and why
  longhaul check --model NAME                   a model's window, and its source
  longhaul compact request.json                 compact a request body now
  longhaul eval session.json --model NAME       compare the model's next steps
  longhaul recall ID                            the text behind [Full text: …]

Point an agent to a running longhaul; the agent keeps its own key:
  export OPENAI_BASE_URL=http://127.0.0.1:8484/v1
  export ANTHROPIC_BASE_URL=http://127.0.0.1:8484   for Claude Code

Settings come from the defaults, one file, the environment and flags. Later
sources win. `longhaul defaults` prints all settings, `longhaul check` the
source of each.
  file         --config or LONGHAUL_CONFIG, else ./longhaul.toml (not for run,
               recall and mcp), else ~/.config/longhaul/longhaul.toml
  environment  LONGHAUL_SECTION_KEY; short: LONGHAUL_UPSTREAM, LONGHAUL_LISTEN,
               LONGHAUL_ADMIN, LONGHAUL_STORE, LONGHAUL_MODE
A store at Redis also needs LONGHAUL_STORE_SCOPE_SECRET: openssl rand -hex 32.
Each of these variables switches one feature off: DISABLE_PRUNE=1,
DISABLE_AUTOCOMPACT=1, DISABLE_COMPACT_ON_OVERFLOW=1, DISABLE_CACHE_MARK=1,
DISABLE_THINKING_REMOVAL=1, DISABLE_RECALL=1.

Exit codes
  0        success
  1        health: longhaul is not healthy or cannot be reached
           doctor: a test fails
           check --model: no source states the window, or --ask has no answer
           demo: an unexpected outcome
  64       the command line, a setting, or a file or store that a setting names
           is invalid
  65       the command's input is invalid
  66       the command's input cannot be read
  69       the address is in use or forbidden
           explain --last, recall: no longhaul answers, or the request or
           original is not kept
  71       cannot spawn threads or install signal handlers
  74       the output cannot be written
  126, 127 run: the command cannot be run, or was not found; otherwise run exits
           with the command's code, or with 128 plus the number of the signal
           that ended it";

/// Runs the command that `arguments` name (the program's name first), with the settings of `env`.
/// Returns exit code 0, or the code of the first [`Problem`].
pub fn main(
    arguments: impl IntoIterator<Item = OsString>,
    env: impl IntoIterator<Item = (OsString, OsString)>,
) -> ExitCode {
    hide_memory();
    let matches = match command().try_get_matches_from(arguments) {
        Ok(matches) => matches,
        Err(mut error) => {
            tips::add_tip(&mut error);
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
    let own = command_matches(&matches);
    let file = ConfigFile::of_command(&matches, &env);
    let needs_settings = !matches!(
        matches.subcommand_name(),
        Some("completions" | "defaults" | "demo" | "init" | "man")
    );
    if let Some(problem) = file.key_problem().filter(|_| needs_settings) {
        return report_problems(&[problem]);
    }
    if matches!(
        matches.subcommand_name(),
        Some("check" | "compact" | "doctor" | "eval")
    ) && let Some(note) = file.withhold_key(&mut env)
    {
        print_error(&note);
    }
    let resolved = || setting_layers(&file, &matches, &env).resolve();
    let config = || Config::from_resolved(&resolved()?);
    let done = match matches.subcommand_name() {
        Some("check") => {
            let done = check::check(resolved(), own, &env);
            return done.unwrap_or_else(|wrong| report_problems(&wrong));
        }
        Some("compact") => {
            let key = check::upstream_key(&env);
            config().and_then(|config| compact::compact(config, own, key))
        }
        Some("connect") => config().and_then(|config| connect::connect(&config, own)),
        Some("completions") => print(&completions::completion_script(command(), own)),
        Some("defaults") if own.get_flag("prompts") => print(&built_in_prompts()),
        Some("defaults") if own.get_flag("table") => print(&settings_markdown()),
        Some("defaults") if own.get_flag("schema") => print(&settings_schema()),
        Some("defaults") => print(&default_toml()),
        #[cfg(feature = "lab")]
        Some("demo") => return lab::demo(own).unwrap_or_else(|wrong| report_problems(&wrong)),
        Some("doctor") => {
            let done = doctor::doctor(resolved(), file.path(), own, &env);
            return done.unwrap_or_else(|wrong| report_problems(&wrong));
        }
        #[cfg(feature = "lab")]
        Some("eval") => {
            let layers = || setting_layers(&file, &matches, &env);
            lab::eval(layers, own, check::upstream_key(&env))
        }
        #[cfg(feature = "lab")]
        Some("explain") if own.contains_id("replay") => config().and_then(|config| {
            let layers = || setting_layers(&file, &matches, &env);
            lab::replay(&config, layers, own)
        }),
        Some("explain") => config().and_then(|config| explain::explain(&config, own)),
        Some("health") => {
            let done = config().and_then(|config| health::health(&config, own));
            return done.unwrap_or_else(|wrong| report_problems(&wrong));
        }
        Some("init") => init::init(flag_layers(&matches), own, &env),
        Some("man") => completions::manual_page(command(), own).and_then(|page| {
            if std::io::stdout().is_terminal() && !own.get_flag("markdown") {
                print_error("longhaul: this is roff; `longhaul man | man -l -` shows the page\n");
            }
            print(&page)
        }),
        #[cfg(feature = "mcp")]
        Some("mcp") => resolved().and_then(|found| mcp::mcp(&found, own, &env)),
        Some("recall") => resolved().and_then(|found| recall::recall(&found, own, &env)),
        Some("run") => {
            if let ConfigFile::Found(path) = &file {
                print_error(&format!("longhaul: settings from {}\n", path.display()));
            }
            let done = run::run(setting_layers(&file, &matches, &env), own, &env);
            return done.unwrap_or_else(|wrong| report_problems(&wrong));
        }
        Some("store") => config().and_then(|config| store::store(&config, own)),
        _ => resolved().and_then(|found| serve::serve(found, file.path(), &env, resolved)),
    };
    exit_code(done)
}

fn exit_code(done: Result<(), Vec<Problem>>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(problems) => report_problems(&problems),
    }
}

/// Returns the arguments of the subcommand, or of the program if there is none.
fn command_matches(matches: &ArgMatches) -> &ArgMatches {
    matches.subcommand().map_or(matches, |(_, own)| own)
}

fn command() -> Command {
    let program = Command::new("longhaul")
        .version(version::SHORT)
        .long_version(version::LONG.as_str())
        .about("A proxy for the APIs of OpenAI and Anthropic that keeps long conversations in the window")
        .after_help(of_this_build(EXAMPLES))
        .styles(STYLES)
        .max_term_width(HELP_WIDTH)
        .subcommand(Command::new("serve").about("Run the proxy (the default without a command)"))
        .subcommand(run::command())
        .subcommands(lab::command("demo"))
        .subcommand(explain::command())
        .subcommands(lab::command("eval"))
        .subcommand(compact::command())
        .subcommand(recall::command())
        .subcommand(connect::command())
        .subcommand(init::command())
        .subcommand(doctor::command())
        .subcommand(check::command())
        .subcommand(health::command())
        .subcommand(store::command())
        .subcommand(
            Command::new("defaults")
                .about("Print the commented default configuration")
                .arg(flags::switch(
                    "prompts",
                    "Print the built-in summary prompts instead",
                ))
                .arg(flags::switch(
                    "table",
                    "Print every setting in a Markdown table instead",
                ))
                .arg(flags::switch(
                    "schema",
                    "Print the JSON schema of the configuration file instead",
                ))
                .group(
                    ArgGroup::new("form")
                        .args(["prompts", "table", "schema"])
                        .multiple(false),
                ),
        )
        .subcommands(completions::commands());
    #[cfg(feature = "mcp")]
    let program = program.subcommand(mcp::command());
    program
        .mut_subcommands(flags::with_setting_flags)
        .args(flags::all())
}

/// Returns a text of the help without the lines on commands that the build leaves out.
fn of_this_build(text: &str) -> String {
    let is_missing = |line: &&str| {
        let mut words = ["longhaul demo", "demo:", "longhaul eval", "--replay"].iter();
        cfg!(not(feature = "lab")) && words.any(|word| line.contains(word))
    };
    let lines = text.lines().filter(|line| !is_missing(line));
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns the prompts that a file can replace, each after a line with its setting's name.
fn built_in_prompts() -> String {
    let prompts = Prompts::built_in();
    let pages = prompts.map(|(setting, text)| format!("==> {setting} <==\n{text}\n"));
    pages.join("\n")
}

/// Collects the layers of settings, with the flags in `matches` on top.
fn setting_layers(
    file: &ConfigFile,
    matches: &ArgMatches,
    env: &BTreeMap<String, String>,
) -> Layers {
    let mut layers = Layers::default();
    if let Some(path) = file.path() {
        layers.load_file(path);
    }
    layers.apply_environment(env);
    apply_flags(&mut layers, matches);
    layers
}

/// Collects the flags alone.
fn flag_layers(matches: &ArgMatches) -> Layers {
    let mut layers = Layers::default();
    apply_flags(&mut layers, matches);
    layers
}

fn apply_flags(layers: &mut Layers, matches: &ArgMatches) {
    for (flag, entry) in settings_with_flags() {
        if let Some(value) = matches.get_one::<String>(flag.name) {
            layers.apply_flag(entry.key, flag.name, value);
        }
    }
}

/// Warns about variables that look like longhaul's settings but are not.
fn warn_unknown_variables(env: &BTreeMap<String, String>) {
    for problem in unknown_variables(env) {
        print_error(&format!("longhaul: {problem}\n"));
    }
}

/// Returns the environment as text. Drops names that are not UTF-8, since no setting has such a
/// name. Replaces invalid bytes in values, so that the setting's own check rejects them.
///
/// Keeps names of every prefix: the plain switches keep the names they have in the original
/// systems.
fn text_environment(
    env: impl IntoIterator<Item = (OsString, OsString)>,
) -> BTreeMap<String, String> {
    env.into_iter()
        .filter_map(|(name, value)| {
            Some((
                name.into_string().ok()?,
                value.to_string_lossy().into_owned(),
            ))
        })
        .collect()
}

/// Prints help and version to standard output with exit code 0; reports any other error.
fn report_clap_error(error: &clap::Error) -> ExitCode {
    let text = error.render().ansi().to_string();
    if matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    ) {
        let written = pipe::write_styled_output(&text);
        return exit_code(written.map_err(|error| vec![Problem::Output(error.to_string())]));
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

/// Writes to standard output. A reader that has left, as `head` does, is not an error. Fails if
/// standard output cannot be written.
fn print(text: &str) -> Result<(), Vec<Problem>> {
    let written = pipe::write_output(text.as_bytes());
    Ok(written.map_err(|error| Problem::Output(error.to_string()))?)
}
