//! `longhaul run -- COMMAND…`: a proxy for as long as one command runs.

mod account;
mod signals;
mod variables;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::process::{ExitCode, ExitStatus};

use clap::{Arg, ArgMatches, Command};
use tokio::net::TcpListener;
use tokio::process::{Child, Command as Process};
use tokio::sync::oneshot;

use crate::config::{Config, Layers, secret_variables, shown_url};
use crate::error::Problem;
use crate::server::Server;
use crate::telemetry::{self, TraceDestination};
use signals::Signals;

const ABOUT: &str = "\
Runs COMMAND with a proxy of its own: on a free port of this machine, for as long as the command
runs, with the variables set that tell agents where their endpoint is, and without those that hold keys
and passwords of the proxy's own. What it keeps for itself of standard error are errors, and a short
account at the end. Ends with the command's own exit code.

Where one of those variables is set already and no upstream is named, nothing is run, and it ends
with 64: the command's key would go to the default upstream instead. Name it with --upstream, or
unset the variable.";

/// Where the proxy listens unless a flag says it: the setting is where `longhaul serve` does, which
/// may run beside it, or be meant for other machines.
const DEFAULT_LISTEN: &str = "127.0.0.1:0";

/// How long what the command left behind may take to end: a person waits for their prompt.
const DEFAULT_DRAIN: &str = "2s";

/// What a shell ends with where a command cannot be run, and where there is none of that name.
const EXIT_CANNOT_RUN: u8 = 126;
const EXIT_NOT_FOUND: u8 = 127;
/// And, with the signal's number, where one ended it.
const EXIT_SIGNAL_BASE: i32 = 128;

/// The command and its arguments.
pub(super) fn command() -> Command {
    Command::new("run")
        .about("Run a command, an agent say, with a proxy of its own")
        .long_about(ABOUT)
        .after_help(variables::variables_help())
        .override_usage("longhaul run [OPTIONS] -- COMMAND [ARGUMENT]...")
        .arg(
            Arg::new("listen")
                .long("listen")
                .value_name("ADDR")
                .global(true)
                .help(format!(
                    "The address the command is pointed at; port 0 takes a free one. The setting \
                     `listen` is for `longhaul serve` alone [default: {DEFAULT_LISTEN}]"
                )),
        )
        .arg(
            Arg::new("command")
                .value_name("COMMAND")
                .help("What to run, with its arguments, behind --")
                .num_args(1..)
                .required(true)
                .trailing_var_arg(true)
                .value_parser(clap::value_parser!(OsString)),
        )
}

/// Runs the command; what it ended with.
///
/// # Errors
/// What keeps the proxy from starting.
pub(super) fn run(
    mut layers: Layers,
    matches: &ArgMatches,
    env: &BTreeMap<String, String>,
) -> Result<ExitCode, Vec<Problem>> {
    if !layers.is_set("upstream.base")
        && let Some((name, base)) = variables::existing_endpoint(env)
    {
        let shown = shown_url(base);
        // No base URL carries a user or a query.
        let plain = shown.replace("…@", "");
        let plain = plain.strip_suffix("?…").unwrap_or(&plain);
        return Err(Problem::CommandLine(format!(
            "{name} says {shown}, and without --upstream the proxy sends to the default upstream \
             instead; say --upstream {plain}, or unset {name}"
        ))
        .into());
    }
    layers.set_unless_flag("listen", DEFAULT_LISTEN);
    // A certificate is for clients elsewhere: no command trusts it for a free port of this machine.
    layers.set("tls.certificate_file", "");
    layers.set("tls.key_file", "");
    layers.set_default("limits.drain", DEFAULT_DRAIN);
    layers.set_default("log.level", "error");
    let config = Config::from_resolved(&layers.resolve()?)?;
    super::warn_unknown_variables(env);
    let _waits = telemetry::start_log(config.log)?;
    let mut words = matches
        .get_many::<OsString>("command")
        .into_iter()
        .flatten();
    let program = words.next().cloned().unwrap_or_default();
    let mut process = Process::new(&program);
    process.args(words);
    for name in secret_variables(env) {
        process.env_remove(name);
    }
    let served = serve_alongside(config, env, program, process);
    Ok(super::serve::block_on_and_shut_down(
        super::serve::worker_runtime()?,
        served,
    )?)
}

fn proxy_problem(what: &str, error: &io::Error) -> Problem {
    Problem::System(format!("the proxy cannot {what}: {error}"))
}

/// Serves while `process` runs.
async fn serve_alongside(
    config: Config,
    env: &BTreeMap<String, String>,
    program: OsString,
    mut process: Process,
) -> Result<ExitCode, Problem> {
    let listener = TcpListener::bind(config.listen).await;
    let listener = listener
        .map_err(|error| super::serve::listen_problem("--listen", config.listen, &error))?;
    let address = listener
        .local_addr()
        .map(super::serve::reachable_address)
        .map_err(|error| proxy_problem("listen", &error))?;
    let upstream = config.upstream.base.authority().host().to_owned();
    let mut signals = Signals::new().map_err(|error| proxy_problem("hear signals", &error))?;
    let server = Server::new(config, listener).await?;
    let exporting = telemetry::start_export(&TraceDestination::from_env(env));
    let metrics = server.metrics();
    let (stop, stopped) = oneshot::channel();
    let served = tokio::spawn(server.serve(async { _ = stopped.await }));

    let base = variables::base_url(address);
    process.envs(variables::proxy_exceptions(env, address.ip()));
    process.envs(variables::agent_variables(address, &upstream));
    let ended = match process.spawn() {
        Ok(child) => Ok(wait_for_child(child, &mut signals).await),
        Err(error) => Err(error),
    };
    // Those who asked are gone: nothing is left to wait for but what they left behind.
    _ = stop.send(());
    _ = served.await;
    if let Some(exporting) = exporting {
        exporting.shutdown().await;
    }
    Ok(match ended {
        Ok(Ok(status)) => {
            super::print_error(&account::run_summary(&metrics, &base));
            ExitCode::from(exit_code(status))
        }
        Ok(Err(error)) | Err(error) => {
            let (code, hint) = if error.kind() == io::ErrorKind::NotFound {
                (EXIT_NOT_FOUND, "; is it installed and on PATH?")
            } else {
                (EXIT_CANNOT_RUN, "")
            };
            super::print_error(&format!("longhaul: {}: {error}{hint}\n", program.display()));
            ExitCode::from(code)
        }
    })
}

/// Waits for the command; what we are told to do goes to it. Ctrl-C needs no passing on where a
/// terminal sends it: many a command that gets it twice ends at once.
async fn wait_for_child(mut child: Child, signals: &mut Signals) -> io::Result<ExitStatus> {
    loop {
        tokio::select! {
            ended = child.wait() => return ended,
            signal = signals.next() => {
                if let Some(id) = child.id().filter(|_| !signal.is_sent_by_terminal()) {
                    signal.send_to(id);
                }
            }
        }
    }
}

/// The command's own exit code, or what a shell makes of the signal that ended it.
fn exit_code(status: ExitStatus) -> u8 {
    #[cfg(unix)]
    let by_signal = std::os::unix::process::ExitStatusExt::signal(&status);
    #[cfg(not(unix))]
    let by_signal: Option<i32> = None;
    let code = status
        .code()
        .or_else(|| by_signal.map(|signal| EXIT_SIGNAL_BASE + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}
