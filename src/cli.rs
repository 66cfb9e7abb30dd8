//! The command line: to one command and the settings it works with.

mod check;
mod compact;
mod completions;
mod demo;
mod explain;
mod flags;
mod health;
mod number;
mod pipe;
mod plain;
mod run;
mod serve;
mod store;
mod window;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::styling::Styles;
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Command};
use tokio::runtime::{Builder, Runtime};

use crate::config::{
    Config, Layers, Resolved, defaults, flags as settings_flags, strangers, table,
};
use crate::error::Problem;
use crate::rewrite::prompts::Prompts;

const EXAMPLES: &str = "\
Examples:
  longhaul                                          127.0.0.1:8484 → https://api.openai.com/v1
  longhaul --upstream https://openrouter.ai/api/v1  another endpoint
  longhaul --listen 127.0.0.1:0                     a free port
  longhaul run -- aider                             an agent with a proxy of its own
  longhaul demo                                     watch it work: no key, no network
  longhaul explain request.json                     what would be done with a request, and why
  longhaul compact request.json                     a request body, compacted now
  longhaul check --model NAME                       what a model holds, and who says so
  longhaul --store file:longhaul.db                 summaries that outlive a restart
  export OPENAI_BASE_URL=http://127.0.0.1:8484/v1   then run any agent, with its own key

Settings come from the defaults, then the file (--config FILE or LONGHAUL_CONFIG), then the
environment (LONGHAUL_SECTION_KEY; LONGHAUL_UPSTREAM, _LISTEN, _ADMIN, _STORE, _MODE), then
flags; the later wins. `longhaul defaults` prints them all, `longhaul check` says where each came from.
DISABLE_PRUNE=1, DISABLE_AUTOCOMPACT=1 and DISABLE_COMPACT_ON_OVERFLOW=1 switch one thing off each.

Ends with
  0        all is well
  1        health is answered with no, or demo does not end as it should
  64       the command line or a setting is wrong, or a file or store that a setting names
  65       what a command works on is not what it should be
  66       it cannot be read
  69       the address is taken or forbidden
  71       the system gives no threads or signals
  74       the answer cannot be written
  126, 127 what run is to run cannot be run, or is not there; else run ends as the command does,
           with 128 and the signal's number where one ended it";

/// Runs the command that `arguments` (the program's name first) name, with the settings of `env`.
/// Ends with 0, or with what its first [`Problem`] says.
pub fn main(
    arguments: impl IntoIterator<Item = OsString>,
    env: impl IntoIterator<Item = (OsString, OsString)>,
) -> ExitCode {
    let matches = match command().try_get_matches_from(arguments) {
        Ok(matches) => matches,
        Err(error) => return refuse_or_teach(&error),
    };
    if let Some(problem) = flags::misplaced(&matches) {
        return refuse(&[problem]);
    }
    let env = readable(env);
    let done = match matches.subcommand_name() {
        Some("check") => check::check(settings(&matches, &env), own(&matches), &env),
        Some("compact") => settings(&matches, &env)
            .and_then(|found| Config::of(&found))
            .and_then(|config| compact::compact(config, own(&matches), check::key(&env))),
        Some("completions") => print(&completions::script(command(), own(&matches))),
        Some("defaults") => {
            let own = own(&matches);
            if own.get_flag("prompts") {
                print(&prompts())
            } else if own.get_flag("table") {
                print(&table())
            } else {
                print(&defaults())
            }
        }
        Some("demo") => {
            return demo::demo(own(&matches)).unwrap_or_else(|problems| refuse(&problems));
        }
        Some("explain") => settings(&matches, &env)
            .and_then(|found| Config::of(&found))
            .and_then(|config| explain::explain(&config, own(&matches))),
        Some("health") => {
            let done = settings(&matches, &env)
                .and_then(|found| Config::of(&found))
                .and_then(|config| health::health(&config, own(&matches)));
            return done.unwrap_or_else(|problems| refuse(&problems));
        }
        Some("man") => completions::page(command(), own(&matches)).and_then(|page| print(&page)),
        Some("run") => {
            let done = run::run(layers(&matches, &env), own(&matches), &env);
            return done.unwrap_or_else(|problems| refuse(&problems));
        }
        Some("store") => settings(&matches, &env)
            .and_then(|found| Config::of(&found))
            .and_then(|config| store::store(&config, own(&matches))),
        _ => settings(&matches, &env)
            .and_then(|found| serve::serve(found, &env, || settings(&matches, &env))),
    };
    end(done)
}

fn end(done: Result<(), Vec<Problem>>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(problems) => refuse(&problems),
    }
}

/// The arguments of the command itself.
fn own(matches: &ArgMatches) -> &ArgMatches {
    matches.subcommand().map_or(matches, |(_, own)| own)
}

fn command() -> Command {
    let program = Command::new("longhaul")
        .version(env!("CARGO_PKG_VERSION"))
        .about("A transparent OpenAI-compatible proxy that keeps long conversations in the window")
        .after_help(EXAMPLES)
        .styles(Styles::plain())
        .subcommand(Command::new("serve").about("Run the proxy (what no command does too)"))
        .subcommand(run::command())
        .subcommand(demo::command())
        .subcommand(explain::command())
        .subcommand(compact::command())
        .subcommand(check::command())
        .subcommand(health::command())
        .subcommand(store::command())
        .subcommand(
            Command::new("defaults")
                .about("Print the commented default configuration")
                .arg(
                    Arg::new("prompts")
                        .long("prompts")
                        .action(ArgAction::SetTrue)
                        .help("Print the built-in prompts of summaries instead"),
                )
                .arg(
                    Arg::new("table")
                        .long("table")
                        .action(ArgAction::SetTrue)
                        .conflicts_with("prompts")
                        .help("Print every setting in one table of Markdown instead"),
                ),
        )
        .subcommands(completions::commands());
    program.mut_subcommands(flags::given).args(flags::all())
}

/// The prompts that a file can take the place of, each behind a line with the setting's name.
fn prompts() -> String {
    let prompts = Prompts::built_in();
    let pages = prompts.map(|(setting, text)| format!("==> {setting} <==\n{text}\n"));
    pages.join("\n")
}

/// The layers put together, or every problem in them.
fn settings(
    matches: &ArgMatches,
    env: &BTreeMap<String, String>,
) -> Result<Resolved, Vec<Problem>> {
    layers(matches, env).resolve()
}

/// The layers, with those of `matches` on top.
fn layers(matches: &ArgMatches, env: &BTreeMap<String, String>) -> Layers {
    let mut layers = Layers::default();
    let named = matches
        .get_one::<String>(flags::FILE)
        .or_else(|| env.get("LONGHAUL_CONFIG"));
    if let Some(path) = named.filter(|path| !path.is_empty()) {
        layers.file(&PathBuf::from(path));
    }
    layers.environment(env);
    for (flag, entry) in settings_flags() {
        if let Some(value) = matches.get_one::<String>(flag.name) {
            layers.flag(entry, flag.name, value);
        }
    }
    layers
}

/// Tells of variables that look like settings and are none.
fn tell_strangers(env: &BTreeMap<String, String>) {
    for problem in strangers(env) {
        tell(&format!("longhaul: {problem}\n"));
    }
}

/// The environment as text. What is no text is no setting of ours, or a problem of its value. Not
/// every name of ours has a prefix: the plain switches are named as the original systems name them.
fn readable(env: impl IntoIterator<Item = (OsString, OsString)>) -> BTreeMap<String, String> {
    env.into_iter()
        .filter_map(|(name, value)| {
            Some((
                name.into_string().ok()?,
                value.to_string_lossy().into_owned(),
            ))
        })
        .collect()
}

/// Help and version go to standard output and are a success.
fn refuse_or_teach(error: &clap::Error) -> ExitCode {
    if matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    ) {
        return end(print(&error.to_string()));
    }
    refuse(&[Problem::CommandLine(
        error.to_string().trim_end().to_owned(),
    )])
}

fn refuse(problems: &[Problem]) -> ExitCode {
    let mut lines = String::new();
    for problem in problems {
        let text = problem.to_string();
        let text = text.strip_prefix("error: ").unwrap_or(&text);
        lines.push_str("longhaul: ");
        lines.push_str(text);
        lines.push('\n');
    }
    tell(&lines);
    ExitCode::from(problems.first().map_or(1, Problem::exit))
}

/// What a command waits with: one thread, for nobody else is served meanwhile, and who comes first is
/// then no matter of luck.
fn runtime() -> Result<Runtime, Problem> {
    built(&mut Builder::new_current_thread())
}

fn built(runtime: &mut Builder) -> Result<Runtime, Problem> {
    let built = runtime.enable_all().build();
    built.map_err(|error| Problem::System(format!("the system gives no threads: {error}")))
}

/// To standard error; nobody is left to tell if it is closed.
fn tell(text: &str) {
    _ = std::io::stderr().write_all(text.as_bytes());
}

/// To standard output; a reader that has left, as `head` does, is no error.
///
/// # Errors
/// It takes no more.
fn print(text: &str) -> Result<(), Vec<Problem>> {
    let written = pipe::write(text.as_bytes());
    Ok(written.map_err(|error| Problem::Output(error.to_string()))?)
}
