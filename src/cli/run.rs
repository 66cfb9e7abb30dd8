//! `longhaul run -- COMMAND…`: a proxy for the lifetime of one command.

pub(crate) mod run_summary;
mod signals;
pub(in crate::cli) mod variables;

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::{ExitCode, ExitStatus};

use clap::{ArgMatches, Command};
use tokio::net::TcpListener;
use tokio::process::{Child, Command as Process};
use tokio::sync::oneshot;

use super::agents::{Agent, Target};
use super::signals::Signals;
use super::{own_client, state_folder};
use crate::cli::{Done, Env};
use crate::config::{
    AdminListener, BaseUrl, Config, Layers, report_json, secret_variables, shown_url,
};
use crate::error::Problem;
use crate::server::Server;
use crate::telemetry::{self, TraceDestination};
use longhaul_console::terminal::{self, wrapped};

/// The proxy's address unless a flag sets it. The setting `listen` belongs to `longhaul serve`,
/// which may run at the same time or listen for other machines.
const DEFAULT_LISTEN: &str = "127.0.0.1:0";

/// The address of the dashboard unless a flag sets it.
const DEFAULT_ADMIN: &str = "127.0.0.1:8485";

/// The time that requests left behind by the command may take to end: a person is waiting for their
/// prompt.
const DEFAULT_DRAIN: &str = "2s";

/// Exit codes of a shell for a command that cannot be run, and for one that was not found.
const EXIT_CANNOT_RUN: u8 = 126;
const EXIT_NOT_FOUND: u8 = 127;
/// Offset of a shell's exit code for a command ended by a signal; the signal's number is added.
const EXIT_SIGNAL_BASE: i32 = 128;

/// Adds to the subcommand what depends on other parts of the program.
pub(super) fn complete(command: Command) -> Command {
    command
        .after_help(variables::variables_help())
        .override_usage("longhaul run [OPTIONS] -- COMMAND [ARGUMENT]...")
        .mut_arg("listen", |arg| arg.global(true))
        .mut_arg("command", |arg| arg.trailing_var_arg(true))
}

/// Runs the command and returns its exit code. Fails if the proxy cannot start.
pub(super) fn run(mut layers: Layers, matches: &ArgMatches, env: &Env) -> Done<ExitCode> {
    let words = matches.get_many::<OsString>("command");
    let mut words = words.into_iter().flatten();
    let program = words.next().cloned().unwrap_or_default();
    let words: Vec<&OsString> = words.collect();
    let agent = Agent::of_program(&program);
    let seen = |name: &str| match agent {
        Some(agent) => agent.seen_variable(env, name),
        None => env.get(name).cloned(),
    };
    let existing = variables::existing_endpoint(env).filter(|_| !layers.is_set("upstream.base"));
    let messages = seen(variables::ANTHROPIC_VARIABLE);
    let messages = messages.filter(|_| !layers.is_set("upstream.messages"));
    let mut hindrances = agent.into_iter().flat_map(|agent| &agent.hindered_by);
    if let Some(name) = hindrances.find(|name| seen(name).is_some_and(|value| value != "0")) {
        let program = program.display();
        return Err(Problem::CommandLine(format!(
            "{name} is set, so {program} would not use longhaul; unset it in the shell or the settings \
             file of {program}"
        ))
        .into());
    }
    if let Some(base) = variables::messages_base(messages.clone()) {
        BaseUrl::parse(&base).map_err(|why| {
            let shown = shown_url(&base);
            Problem::CommandLine(format!(
                "ANTHROPIC_BASE_URL leads to {shown}: {why}; set upstream.messages, or unset the \
                 variable"
            ))
        })?;
        layers.set("upstream.messages", &base);
    }
    layers.set_unless_flag("listen", DEFAULT_LISTEN);
    // A certificate is for remote clients: no command trusts it for a free port of this machine.
    layers.set("tls.certificate_file", "");
    layers.set("tls.key_file", "");
    layers.set_default("limits.drain", DEFAULT_DRAIN);
    // Another longhaul of the user may serve the dashboard at the same time.
    layers.set_unless_flag("admin.listen", DEFAULT_ADMIN);
    let log_file = matches.get_one::<PathBuf>("log");
    layers.set_default("log.level", if log_file.is_some() { "info" } else { "error" });
    let resolved = layers.resolve()?;
    let mut config = Config::from_resolved(&resolved)?;
    state_folder::keep_lessons(&mut config, env);
    refuse_endpoints(&config, existing, messages.as_deref())?;
    // Without a file for the token, the command could read the page.
    if config.state_folder.is_none() && matches!(config.admin, AdminListener::IfFree(_)) {
        config.admin = AdminListener::Off;
    }
    crate::cli::warn_unknown_variables(env);
    for warning in config.exposed_file_warnings() {
        crate::cli::print_error(&format!("longhaul: {warning}\n"));
    }
    let _waits = match log_file {
        Some(path) => telemetry::start_log_file(config.log, path)?,
        None => telemetry::start_log(config.log)?,
    };
    let mut process = Process::new(&program);
    for name in secret_variables(env) {
        process.env_remove(name);
    }
    let settings = report_json(&resolved);
    let served = serve_alongside(config, settings, env, (program, words), process);
    Ok(crate::cli::serve::block_on_and_shut_down(crate::cli::serve::worker_runtime()?, served)?)
}

/// Fails if a variable names the endpoint `existing`, or a longhaul of the user that would be the upstream.
fn refuse_endpoints(
    config: &Config,
    existing: Option<(&'static str, &str)>,
    messages: Option<&str>,
) -> Result<(), Problem> {
    let running = own_client::agent_origins(config)?;
    let messages = messages.map(|base| (variables::ANTHROPIC_VARIABLE, base));
    for (name, base) in existing.into_iter().chain(messages) {
        if let Some(origin) = variables::own_origin(base, &running) {
            return Err(Problem::CommandLine(format!(
                "{name} leads to your longhaul at {origin}, and `longhaul run` starts one more; unset {name}, \
                 or start the command without `longhaul run`"
            )));
        }
    }
    let Some((name, base)) = existing else {
        return Ok(());
    };
    let shown = shown_url(base);
    // A valid base URL has neither a user nor a query.
    let plain = shown.replace("…@", "");
    let plain = plain.strip_suffix("?…").unwrap_or(&plain);
    Err(Problem::CommandLine(format!(
        "{name} is {shown}, but without --upstream the proxy sends to the default upstream instead; \
         unset {name}, or pass --upstream {plain}"
    )))
}

fn proxy_problem(what: &str, error: &io::Error) -> Problem {
    Problem::System(format!("the proxy cannot {what}: {error}"))
}

/// Serves while `process` runs.
async fn serve_alongside(
    config: Config,
    settings: String,
    env: &Env,
    (program, words): (OsString, Vec<&OsString>),
    mut process: Process,
) -> Result<ExitCode, Problem> {
    let listener = TcpListener::bind(config.listen).await;
    let listener = listener
        .map_err(|error| crate::cli::serve::listen_problem("--listen", config.listen, &error))?;
    let address = listener.local_addr().map(crate::config::reachable_address);
    let address = address.map_err(|error| proxy_problem("listen", &error))?;
    // `longhaul recall` and `longhaul mcp` of the command find the proxy by it.
    if config.recall.is_some() {
        process.env("LONGHAUL_RECALL_URL", format!("http://{address}"));
    }
    let upstream = config.upstream.base.authority().host().to_owned();
    let has_messages = config.upstream.messages.is_some();
    let mut received = Signals::new(signals::forwarded())
        .map_err(|error| proxy_problem("install signal handlers", &error))?;
    let admin = config.admin;
    let mut server = Server::new(config, listener).await?;
    let page = crate::cli::serve::start_admin(&mut server, admin, settings).await?;
    if let Some(address) = page {
        crate::cli::print_error(&format!(
            "longhaul: dashboard at http://{address} (`longhaul dashboard` prints the link)\n"
        ));
    }
    let exporting = telemetry::start_export(&TraceDestination::from_env(env));
    let metrics = server.metrics();
    let (stop, stopped) = oneshot::channel();
    let served = tokio::spawn(server.serve(async { _ = stopped.await }));

    let base = format!("http://{address}/v1");
    process.envs(variables::proxy_exceptions(env, address.ip()));
    process.envs(variables::agent_variables(address, &upstream, has_messages));
    let agent = Agent::of_program(&program);
    if let Some(agent) = agent {
        let origin = &format!("http://{address}");
        let model = variables::named_model(env, &words);
        let target = Target { origin, model: model.as_deref(), host: &upstream, has_messages };
        process.envs(agent.variables(&target, env)).args(agent.arguments(&target, &words));
    }
    let variables = process.as_std().get_envs().filter(|(_, value)| value.is_some()).count();
    let options = process.as_std().get_args().map(|word| word.display().to_string());
    let options = options.filter(|word| word.starts_with('-')).map(|word| word + " and ");
    let started = format!(
        "longhaul: started {}, pointed to the proxy by {}{variables} variables",
        program.display(),
        options.collect::<String>()
    );
    process.args(words);
    let ended = match process.spawn() {
        Ok(child) => {
            crate::cli::print_error(&wrapped("", &started, 2, terminal::width()));
            Ok(wait_for_child(child, &mut received).await)
        }
        Err(error) => Err(error),
    };
    // The command has ended, so only requests that it left behind remain.
    _ = stop.send(());
    _ = served.await;
    if let Some(exporting) = exporting {
        exporting.shutdown().await;
    }
    Ok(match ended {
        Ok(Ok(status)) => {
            crate::cli::print_error(&run_summary::run_summary(&metrics, &base, agent));
            ExitCode::from(exit_code(status))
        }
        Ok(Err(error)) | Err(error) => {
            let (code, hint) = if error.kind() == io::ErrorKind::NotFound {
                (EXIT_NOT_FOUND, "; is it installed and on PATH?")
            } else {
                (EXIT_CANNOT_RUN, "")
            };
            crate::cli::print_error(&format!("longhaul: {}: {error}{hint}\n", program.display()));
            ExitCode::from(code)
        }
    })
}

/// Waits for the command and forwards signals to it. Does not forward a Ctrl-C that the terminal
/// has sent to the command too: many commands end at once when they receive it twice.
async fn wait_for_child(mut child: Child, received: &mut Signals) -> io::Result<ExitStatus> {
    loop {
        tokio::select! {
            ended = child.wait() => return ended,
            signal = received.next() => {
                if let Some(id) = child.id().filter(|_| !signals::is_sent_by_terminal(signal)) {
                    signals::send(signal, id);
                }
            }
        }
    }
}

/// Returns the command's exit code, or the shell's code for the signal that ended it.
fn exit_code(status: ExitStatus) -> u8 {
    #[cfg(unix)]
    let by_signal = std::os::unix::process::ExitStatusExt::signal(&status);
    #[cfg(not(unix))]
    let by_signal: Option<i32> = None;
    let code = status.code().or_else(|| by_signal.map(|signal| EXIT_SIGNAL_BASE + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}
