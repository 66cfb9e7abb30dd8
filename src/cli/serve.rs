//! `longhaul serve`: binds, prints where it listens and runs until a signal.

#[cfg(unix)]
pub(crate) mod descriptor_limit;

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _};
use std::net::SocketAddr;
use std::path::Path;

use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

use crate::cli::run::variables::may_have_anthropic_key;
use crate::cli::signals::{Signal, Signals};
use crate::cli::{Done, Env};
use crate::config::{
    AdminListener, Config, Mode, ResolvedSettings, StoreLocation, SummaryModel, reachable_address,
    report_json, unknown_variables,
};
use crate::cores;
use crate::error::Problem;
use crate::server::{ReloadableProxy, Server};
use crate::telemetry::{self, TraceDestination};
use longhaul_console::thousands::with_thousands;

/// Runs the proxy with the settings `found` until a signal stops it. `read` resolves the settings
/// again for a reload. `file` is the configuration file. `env` names the destination of traces.
pub(super) fn serve(
    found: ResolvedSettings,
    file: Option<&Path>,
    env: &Env,
    read: impl Fn() -> Done<ResolvedSettings>,
) -> Done {
    let mut config = Config::from_resolved(&found)?;
    crate::cli::state_folder::keep_lessons(&mut config, env);
    let _waits = telemetry::start_log(config.log)?;
    for problem in unknown_variables(env) {
        tracing::warn!("{problem}");
    }
    let exposed = config.exposed_file_warnings();
    for warning in config.keyless_upstream_warnings().chain(exposed) {
        tracing::warn!("{warning}");
    }
    let reload = SettingsReloader { resolved: found, running: config.clone(), resolve: read };
    #[cfg(unix)]
    let config = descriptor_limit::fit(config);
    let served = serve_until_signal(config, file, TraceDestination::from_env(env), reload);
    Ok(block_on_and_shut_down(worker_runtime()?, served)?)
}

/// Runs the future `ends` to completion and abandons all other tasks. A pending name look-up, for
/// example, takes as long as the system's resolver does.
pub(super) fn block_on_and_shut_down<T>(runtime: Runtime, ends: impl Future<Output = T>) -> T {
    let ended = runtime.block_on(ends);
    runtime.shutdown_background();
    ended
}

/// Builds a runtime with one worker per core. With one core, a single-threaded runtime avoids a
/// wake-up for each task handed to a worker.
pub(super) fn worker_runtime() -> Result<Runtime, Problem> {
    let shared = || crate::cli::build_runtime(&mut Builder::new_multi_thread());
    if cores::available() == 1 { crate::cli::runtime() } else { shared() }
}

async fn serve_until_signal(
    config: Config,
    file: Option<&Path>,
    traces: TraceDestination,
    mut reload: SettingsReloader<impl Fn() -> Done<ResolvedSettings>>,
) -> Result<(), Problem> {
    let bound = TcpListener::bind(config.listen).await.and_then(|listener| {
        let address = listener.local_addr()?;
        Ok((listener, address))
    });
    let (listener, address) =
        bound.map_err(|error| listen_problem("--listen", config.listen, &error))?;
    let is_started_at_terminal = is_at_terminal();
    let mut signals = Signals::new([Signal::HUP, Signal::INT, Signal::TERM])
        .map_err(|error| Problem::System(format!("cannot install signal handlers: {error}")))?;
    let mut greeting = greeting(&config, file, address);
    let at = config.admin;
    let has_link = config.state_folder.is_some();
    let mut server = Server::new(config, listener).await?;
    let settings = report_json(&reload.resolved);
    if let Some(address) = start_admin(&mut server, at, settings).await? {
        let link = if has_link { " (`longhaul dashboard` prints the link)" } else { "" };
        _ = writeln!(greeting, "  dashboard, health and metrics at http://{address}{link}");
    }
    let exporting = telemetry::start_export(&traces);
    if let (TraceDestination::Collector(collector), Some(_)) = (&traces, &exporting) {
        _ = writeln!(greeting, "  traces to {}", collector.origin());
    }
    notify_manager(false);
    // The server can run without its greeting being read.
    _ = crate::cli::print(&greeting);
    let current = server.reloadable();
    let (stop, stopped) = oneshot::channel();
    let serving = server.serve(async { _ = stopped.await });
    // If the terminal has gone, SIGHUP announced its end.
    let is_reload = |signal| signal == Signal::HUP && (!is_started_at_terminal || is_at_terminal());
    let twice = async {
        while is_reload(signals.next().await) {
            reload.reload(&current);
        }
        tracing::info!(
            "shutting down once requests in flight have finished; a second signal aborts them"
        );
        notify_manager(true);
        _ = stop.send(());
        // Reload requests are ignored from here: no new requests are served.
        while is_reload(signals.next().await) {}
    };
    tokio::select! {
        () = serving => if let Some(exporting) = exporting {
            exporting.shutdown().await;
        },
        () = twice => {}
    }
    Ok(())
}

/// Whether any standard stream is a terminal. `nohup` detaches all three from a process that is to
/// outlive its terminal.
fn is_at_terminal() -> bool {
    io::stdin().is_terminal() || io::stdout().is_terminal() || io::stderr().is_terminal()
}

/// Starts the admin pages. Returns their address, here or at another longhaul of the user, or `None` if there
/// are none. Fails if an explicitly configured address is unavailable. A free port takes the place of a
/// default address that is taken.
pub(super) async fn start_admin(
    server: &mut Server,
    at: AdminListener,
    settings: String,
) -> Result<Option<SocketAddr>, Problem> {
    let Some(wanted) = at.address() else {
        return Ok(None);
    };
    let is_default = matches!(at, AdminListener::IfFree(_));
    let page = if is_default { server.page_of_another().await } else { None };
    let mut bound = TcpListener::bind(wanted).await;
    if bound.is_err() && is_default {
        bound = TcpListener::bind((wanted.ip(), 0)).await;
    }
    let set = match (page, bound) {
        (Some(page), _) => server.set_admin(Err(wanted), settings).await.map(|()| page),
        (None, Ok(listener)) => {
            let address = listener.local_addr().unwrap_or(wanted);
            server.set_admin(Ok(listener), settings).await.map(|()| address)
        }
        (None, Err(error)) => Err(listen_problem("--admin", wanted, &error)),
    };
    match set {
        Ok(address) => Ok(Some(address)),
        Err(problem) if is_default => {
            tracing::warn!("continuing without health and metrics: {problem}");
            Ok(None)
        }
        Err(problem) => Err(problem),
    }
}

/// Returns the text printed at the start: the information a person needs next.
fn greeting(config: &Config, file: Option<&Path>, address: SocketAddr) -> String {
    let reachable = reachable_address(address);
    let scheme = if config.tls.is_some() { "https" } else { "http" };
    let mode = match config.mode {
        Mode::Off => "off: requests are relayed unread",
        Mode::On => "on",
        Mode::Shadow => "shadow: reports what mode on would do, changes nothing",
    };
    let mut text = format!("longhaul {}\n", crate::cli::version::SHORT);
    _ = writeln!(text, "  {scheme}://{address} → {}", config.upstream.base);
    _ = writeln!(text, "  export OPENAI_BASE_URL={scheme}://{reachable}/v1");
    let upstream = &config.upstream;
    // A login of Claude Code must not reach another provider.
    let host = upstream.base.authority().host();
    if may_have_anthropic_key(host, upstream.messages.is_some()) {
        _ = writeln!(text, "  export ANTHROPIC_BASE_URL={scheme}://{reachable}");
    }
    let selects = config.selects_by_credential();
    if let Some(base) = upstream.login.as_ref().filter(|_| selects) {
        _ = writeln!(text, "  a ChatGPT login → {base}");
    }
    for mount in &config.mounts {
        let (path, base) = (&mount.path, &mount.base);
        _ = writeln!(text, "  {scheme}://{reachable}{path}/v1 → {base}");
    }
    if let Some(file) = file {
        _ = writeln!(text, "  settings from {}", file.display());
    }
    _ = writeln!(text, "  mode {mode}");
    if config.mode != Mode::Off {
        _ = writeln!(text, "  {}", enabled_features(config));
        let store = match &config.store.location {
            StoreLocation::File(path) => format!("in {}", path.display()),
            StoreLocation::Memory => "in memory (a restart loses summaries)".to_owned(),
            StoreLocation::Redis(url) => format!("at {url}"),
        };
        _ = writeln!(text, "  store {store}");
    }
    text
}

/// Summarises the features that the settings enable for chats.
fn enabled_features(config: &Config) -> String {
    let settings = &config.compaction;
    let word = |on: bool| if on { "on" } else { "off" };
    let by = match &config.summary.model {
        SummaryModel::Named(model) => format!("by {model}"),
        SummaryModel::Disabled => "by rules, without a model".to_owned(),
        SummaryModel::Provider => "by the provider, or the conversation's own model".to_owned(),
        SummaryModel::SameAsConversation => "by the conversation's own model".to_owned(),
    };
    let summaries = if settings.proactive { by } else { "only after an overflow".to_owned() };
    let window = with_thousands(config.window.get());
    let window = if config.configured_window().is_some() {
        format!("{window} (until a refusal corrects it)")
    } else {
        format!("detected per model ({window} until known)")
    };
    format!(
        "clear old tool results: {} · summaries: {summaries} · fix overflows: {}\n  context window: \
         {window}",
        word(settings.prune),
        word(settings.recover),
    )
}

/// Explains why the address of `flag` could not be bound.
pub(super) fn listen_problem(flag: &str, address: SocketAddr, error: &io::Error) -> Problem {
    let port = address.port();
    let kind = error.kind();
    Problem::Listen(if kind == io::ErrorKind::AddrInUse {
        format!(
            "port {port} of {} is in use, perhaps by another longhaul; `ss -ltnp 'sport = :{port}'` \
             or `lsof -i :{port}` shows by which process; {flag} 127.0.0.1:0 takes a free port",
            address.ip()
        )
    } else if kind == io::ErrorKind::PermissionDenied {
        format!("no permission to listen on {address}; choose a port above 1023 with {flag}")
    } else if kind == io::ErrorKind::AddrNotAvailable {
        format!(
            "{} is not an address of this machine; {flag} takes 127.0.0.1:{port} for this machine \
             only, 0.0.0.0:{port} for every address",
            address.ip()
        )
    } else {
        format!("cannot listen on {address}: {error}; choose another with {flag}")
    })
}

/// Reports to the service manager, if one has set `NOTIFY_SOCKET`, that both listeners accept connections, or
/// that the stop signal has arrived. A failure is ignored: the proxy serves without a manager, too.
fn notify_manager(is_stopping: bool) {
    #[cfg(target_os = "linux")]
    {
        use sd_notify::NotifyState::{Ready, Stopping};
        _ = sd_notify::notify(&[if is_stopping { Stopping } else { Ready }]);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = is_stopping;
}

/// The settings in use and the function that reads them.
struct SettingsReloader<R> {
    resolved: ResolvedSettings,
    running: Config,
    resolve: R,
}

impl<R: Fn() -> Done<ResolvedSettings>> SettingsReloader<R> {
    /// Reloads the certificate and the settings. If any setting has a problem, no setting changes.
    fn reload(&mut self, server: &ReloadableProxy) {
        server.reload_certificate();
        if let Err(problems) = self.reload_settings(server) {
            let problems: Vec<String> = problems.iter().map(Problem::to_string).collect();
            let problems = problems.join("; ");
            tracing::warn!("settings not reloaded: {problems}");
        }
    }

    fn reload_settings(&mut self, server: &ReloadableProxy) -> Done {
        let changes = self.resolved.diff((self.resolve)()?);
        let config = changes.config(&self.running)?;
        server.reload(config.clone(), report_json(&changes.settings))?;
        self.running = config;
        self.resolved = changes.settings;
        let changed = changes.applied.join(", ");
        tracing::info!(changed, "reloaded the settings and the files they name");
        if !changes.deferred.is_empty() {
            let names = changes.deferred.join(", ");
            tracing::warn!("these settings change only on restart: {names}");
        }
        Ok(())
    }
}
