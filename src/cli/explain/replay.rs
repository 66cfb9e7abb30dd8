//! `longhaul explain --replay`: what whole sessions come to under these settings.
//!
//! Each is played request by request to the real proxy before a strict model, both in this process
//! and on loopback, so that what is told is what the program does.

use std::path::{Path, PathBuf};

use super::super::demo::{RecordedSession, Summariser, invalid_session, play_through_proxy};
use super::super::window::ModelWindow;
use super::bill::SessionReport;
use super::why::UntouchedReason;
use crate::config::{
    self, BaseUrl, ClientTokens, Config, Mode, Proxies, StoreLocation, WindowOrigin,
};
use crate::demo::ModelOptions;
use crate::error::Problem;
use crate::models;
use crate::rewrite::chat_completions;
use crate::rewrite::policy::Policy;

/// Plays the session of each file; what each came to.
///
/// # Errors
/// A file cannot be read or holds no session. Nothing is played then.
pub(super) fn replay_sessions<'f>(
    config: &Config,
    files: impl Iterator<Item = &'f PathBuf>,
) -> Result<Vec<SessionReport>, Vec<Problem>> {
    let (mut sessions, mut problems) = (Vec::new(), Vec::new());
    for file in files {
        match SessionReplay::read(config, file) {
            Ok(session) => sessions.push(session),
            Err(problem) => problems.push(problem),
        }
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    let bills = sessions.iter().map(|session| session.play(config));
    let bills: Result<Vec<SessionReport>, Problem> = bills.collect();
    Ok(bills?)
}

/// A session, and what is known of the model that it was had with.
struct SessionReplay {
    session: RecordedSession,
    model: String,
    policy: Policy,
    /// Who says what the model holds.
    window_source: String,
}

impl SessionReplay {
    fn read(config: &Config, file: &Path) -> Result<Self, Problem> {
        let session = RecordedSession::read(file)?;
        let last = session.requests().last().map(|asked| asked.body);
        let last = last.unwrap_or_default();
        let conversation = chat_completions::read(&last)
            .map_err(|bypass| invalid_session(file, UntouchedReason::from(bypass).description()))?;
        let model = conversation.model().into_owned();
        let window = ModelWindow::for_model(config, &model, None);
        Ok(Self {
            policy: window.policy(),
            window_source: window.source(),
            model,
            session,
        })
    }

    fn play(&self, config: &Config) -> Result<SessionReport, Problem> {
        let marks = &self.policy.prune_thresholds;
        let summariser = match &config.summary.model {
            config::SummaryModel::Disabled => Summariser::Nobody,
            config::SummaryModel::Named(_) | config::SummaryModel::SameAsConversation => {
                Summariser::Own
            }
        };
        let options = ModelOptions::with_window(u64::from(marks.actual_window.get()));
        let configure = |base: &str| Ok(self.config_for_model(config, base)?);
        let played = play_through_proxy(&self.session, options, summariser, configure);
        let (played, _) = super::super::runtime()?.block_on(played).map_err(|error| {
            Problem::Listen(format!(
                "the sessions could not be played on loopback: {error}"
            ))
        })?;
        let host = config.upstream.base.authority().host();
        let prices = models::prices(host, &self.model);
        let mut bill = SessionReport::new(&self.session.name, self.session.len(), &played, prices);
        bill.window = marks.window.get();
        bill.window_source.clone_from(&self.window_source);
        Ok(bill)
    }

    /// The settings before the model at `base`. What reaches out of this process is left out:
    /// listeners, keys, stores and other upstreams.
    fn config_for_model(&self, config: &Config, base: &str) -> Result<Config, Problem> {
        let mut config = config.clone();
        config.upstream.base = BaseUrl::parse(base).map_err(|refused| {
            Problem::Listen(format!("{base} is no base of an upstream: {refused}"))
        })?;
        config.upstream.authorization = None;
        config.upstream.ca_file = None;
        config.upstream.proxies = Proxies::default();
        config.upstream.query_windows = false;
        config.mounts.clear();
        config.tls = None;
        config.client_tokens = ClientTokens::default();
        config.title_model = None;
        config.summary.endpoint = None;
        config.store.location = StoreLocation::Memory;
        config.store.scope = config::CallerIdentity::Credentials;
        config.report_headers = true;
        if config.mode == Mode::Shadow {
            config.mode = Mode::On;
        }
        // The table would be asked of a model on this machine, of which it knows nothing.
        config.window = self.policy.prune_thresholds.window;
        config.window_origin = WindowOrigin::Setting(self.window_source.clone());
        Ok(config)
    }
}
