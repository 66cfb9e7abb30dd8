//! The commands of the lab: `demo`, `eval`, `explain --replay` and `wrapped`, and the proxy as the lab receives it.

use std::io;
use std::net::Ipv4Addr;
use std::process::ExitCode;

use clap::{ArgMatches, Command};
use http::StatusCode;
use tokio::net::TcpListener;

use super::loopback::LoopbackProxy;
use super::model_window::ModelWindow;
use crate::cli::Done;
use crate::config::{
    BaseUrl, CallerIdentity, ChoiceSetting, Config, Layers, Mode, Proxies, SummaryEndpoint,
    SummaryModel, SummaryStyle,
};
use crate::error::Problem;
use crate::explanation::verdict::UntouchedReason;
use crate::models;
use crate::summaries::reply::read_whole;
use longhaul_core::overflow::ClassifierRules;
use longhaul_core::policy::Profile;
use longhaul_core::pruning::placeholder::Placeholder;
use longhaul_core::units::tokens::Tokens;
use longhaul_lab::error::{LabError, invalid_session};
use longhaul_lab::eval::{ChoiceNames, SettingChange};
use longhaul_lab::proxy::{
    KnownModel, PricedModel, ProxyRole, ProxySettings, ReplayTarget, RunningProxy, Settings,
    Starting, SummaryReader, UpstreamBases,
};
pub(super) use longhaul_lab::replay::arguments as replay_arguments;

pub(super) fn command(name: &str) -> Option<Command> {
    match name {
        "demo" => Some(longhaul_lab::demo::command()),
        "eval" => Some(longhaul_lab::eval::command(ChoiceNames {
            profiles: Profile::words(),
            placeholders: Placeholder::words(),
            summary_styles: SummaryStyle::words(),
        })),
        _ => None,
    }
}

/// Plays a session to a small model and prints the outcome. Returns exit code 0 if the session failed without
/// longhaul and finished with it. Fails if an option or the session's file cannot be used, or the
/// output cannot be written.
pub(super) fn demo(matches: &ArgMatches) -> Done<ExitCode> {
    let outcome = longhaul_lab::demo::demo(defaults_with, matches).map_err(Problem::from)?;
    super::print(&outcome.page)?;
    for reason in &outcome.failures {
        super::print_error(&format!("longhaul: {reason}\n"));
    }
    Ok(ExitCode::from(u8::from(!outcome.failures.is_empty())))
}

/// Evaluates sessions and prints the report. `layers` returns the settings, and `key` authorises the calls.
pub(super) fn eval(layers: impl Fn() -> Layers, matches: &ArgMatches, key: Option<&str>) -> Done {
    let settings = |changes: &[SettingChange<'_>]| {
        let mut layers = layers();
        for change in changes {
            layers.apply_flag(change.key, change.flag, change.value);
        }
        let config = Config::from_resolved(&layers.resolve()?)?;
        Ok::<Settings, Vec<Problem>>(Box::new(config))
    };
    super::print(&longhaul_lab::eval::eval(settings, matches, key)?)
}

/// Plays the files or folders of `--replay` and prints the report. `layers` returns the settings. Fails if a
/// path cannot be read or holds no session, or the output cannot be written.
pub(super) fn replay(config: &Config, layers: impl Fn() -> Layers, matches: &ArgMatches) -> Done {
    let profiles = || profile_settings(layers);
    super::print(&longhaul_lab::replay::replay(config, profiles, matches)?)
}

/// Prints the card of `wrapped`. Fails if there is no log, or the output cannot be written.
pub(super) fn wrapped(config: &Config, matches: &ArgMatches) -> Done {
    super::print(&longhaul_lab::replay::wrapped::wrapped(config, matches).map_err(Problem::from)?)
}

/// Returns the settings under each profile. If a flag names a profile, only under that one.
fn profile_settings(layers: impl Fn() -> Layers) -> Done<Vec<(&'static str, Settings)>> {
    let mut all: Vec<(&'static str, Settings)> = Vec::new();
    for (name, profile) in Profile::ALL {
        let mut layers = layers();
        layers.set_unless_flag("profile", name);
        let config = Config::from_resolved(&layers.resolve()?)?;
        if config.compaction.profile == *profile {
            all.push((*name, Box::new(config)));
        }
    }
    Ok(all)
}

/// Returns the default settings with these changes. If a value is invalid, the error names the reason.
fn defaults_with(changes: &[(&str, &str)]) -> Result<Settings, String> {
    let config = Config::default_with(changes.iter().copied());
    let config = config.map_err(|problems| {
        let problems: Vec<String> = problems.iter().map(Problem::to_string).collect();
        problems.join("; ")
    })?;
    Ok(Box::new(config))
}

impl ProxySettings for Config {
    fn is_off(&self) -> bool {
        self.mode == Mode::Off
    }

    fn has_summary_model(&self) -> bool {
        self.summary.model != SummaryModel::Disabled
    }

    fn summary_model(&self) -> Option<PricedModel> {
        let name = self.summary.model.name()?;
        Some(PricedModel { name: name.to_owned(), prices: self.summary_prices(name) })
    }

    fn summary_endpoint(&self) -> Option<(Settings, Option<String>)> {
        let endpoint = self.summary.endpoint.as_ref()?;
        let mut config = self.clone();
        config.upstream.move_to(endpoint.base.clone(), None);
        let authorization = endpoint.authorization.as_ref();
        let key = authorization.and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
        Some((Box::new(config), key.map(str::to_owned)))
    }

    fn known_model(&self, name: &str) -> KnownModel {
        let config = self.for_upstream_of(name);
        let window = ModelWindow::for_model(&config, name, None);
        let thresholds = window.policy().prune_thresholds;
        KnownModel {
            window: thresholds.window,
            actual_window: thresholds.actual_window,
            window_source: window.source(),
            largest_window: window.largest_stated(),
            prices: config.prices(name),
        }
    }

    fn wider_model(&self, name: &str, least: Tokens) -> Option<&'static str> {
        models::wider_model(self.for_upstream_of(name).upstream.base.host_kind(), name, least)
    }

    fn overflow_rules(&self) -> ClassifierRules {
        self.overflow_rules.clone()
    }

    fn has_key(&self) -> bool {
        self.upstream.authorization.is_some()
    }

    fn upstream_bases(&self) -> UpstreamBases {
        let text = |base: &BaseUrl| format!("{}{}", base.origin(), base.path());
        UpstreamBases {
            base: text(&self.upstream.base),
            messages: self.upstream.messages.as_ref().map(text),
        }
    }

    fn at_upstream(&self, base: &str) -> Settings {
        let mut config = self.clone();
        if let Ok(base) = BaseUrl::parse(base) {
            config.upstream.base = base;
            config.upstream.login = None;
        }
        Box::new(config)
    }

    fn start(&self, role: ProxyRole<'_>) -> Starting<'_> {
        let config = match role {
            ProxyRole::AsConfigured | ProxyRole::WithPage => Ok(self.clone()),
            ProxyRole::PassThrough => Ok(unchanging(self)),
            ProxyRole::Replay(target) => isolated(self, target),
        };
        let has_page = matches!(role, ProxyRole::WithPage);
        Box::pin(async move {
            let page = if has_page {
                Some(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?)
            } else {
                None
            };
            let link = page.as_ref().and_then(|page| page.local_addr().ok());
            let proxy = LoopbackProxy::start(config?, page).await?;
            if let Some(address) = link {
                super::print_error(&format!(
                    "longhaul: the session plays at http://{address}; Ctrl-C ends it\n"
                ));
                super::open_in_browser(&format!("http://{address}"));
            }
            Ok(RunningProxy::new(proxy.address, proxy))
        })
    }

    fn summary_reader(&self) -> SummaryReader {
        |dialect, reply| {
            let read = read_whole(reply, dialect, StatusCode::OK);
            read.ok().map(|read| read.usage)
        }
    }
}

/// Returns the settings for a private proxy that changes nothing.
fn unchanging(config: &Config) -> Config {
    let mut config = config.clone();
    config.mode = Mode::Off;
    config.upstream.login = None;
    config.is_for_this_machine = true;
    config.mounts.clear();
    config
}

/// Returns the settings for a proxy in front of the server of `target`, with the window of its model. Removes
/// everything that reaches outside this process: listeners, keys, stores and other upstreams. Fails
/// if the target has no base URL.
fn isolated(config: &Config, target: ReplayTarget<'_>) -> io::Result<Config> {
    let base = BaseUrl::parse(target.base).map_err(|refused| {
        let base = target.base;
        io::Error::other(format!("{base} is not an upstream's base URL: {refused}"))
    })?;
    let mut config = config.clone();
    config.upstream.move_to(base.clone(), None);
    config.upstream.ca_file = None;
    config.upstream.proxies = Proxies::default();
    config.upstream.query_windows = false;
    config.mounts.clear();
    let endpoint = config.summary.endpoint.take();
    if let Some(limits) = target.summaries {
        config.summary.wait_limit = limits.wait;
        config.summary.max_per_hour = limits.per_hour;
        config.summary.endpoint = endpoint.map(|endpoint| SummaryEndpoint {
            base,
            api: endpoint.api,
            authorization: None,
        });
    }
    config.store.scope = CallerIdentity::Credentials;
    config.report_headers = true;
    if config.mode == Mode::Shadow {
        config.mode = Mode::On;
    }
    // The table has no model on this machine, so the window is set here.
    config.window = target.model.window;
    config.window_place = Some(target.model.window_source.clone());
    Ok(config)
}

impl From<LabError> for Problem {
    fn from(error: LabError) -> Self {
        match error {
            LabError::CommandLine(reason) => Self::CommandLine(reason),
            LabError::Input { path, reason } => Self::Input { path, reason },
            LabError::InvalidInput { path, reason } => Self::InvalidInput { path, reason },
            LabError::Unreadable { path, bypass } => {
                let reason = UntouchedReason::from(bypass).description();
                invalid_session(&path, reason).into()
            }
            LabError::Listen(reason) => Self::Listen(reason),
            LabError::System(reason) => Self::System(reason),
            LabError::Unanswered(reason) => Self::Unanswered(reason),
        }
    }
}
