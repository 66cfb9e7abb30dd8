//! `longhaul explain --replay`: what whole sessions come to under these settings.
//!
//! Each is played request by request to the real proxy before a strict model, both in this process
//! and on loopback, so that what is told is what the program does.

use std::path::{Path, PathBuf};

use super::super::demo::{Session, Summariser, no_session, through};
use super::super::window::Window;
use super::bill::Bill;
use super::why::Untouched;
use crate::config::{self, Base, ClientTokens, Config, Mode, Proxies, StoreAt, WindowSource};
use crate::demo::ModelOptions;
use crate::error::Problem;
use crate::models;
use crate::rewrite::chat_completions;
use crate::rewrite::policy::Policy;

/// Plays the session of each file; what each came to.
///
/// # Errors
/// A file cannot be read or holds no session. Nothing is played then.
pub(super) fn replay<'f>(
    config: &Config,
    files: impl Iterator<Item = &'f PathBuf>,
) -> Result<Vec<Bill>, Vec<Problem>> {
    let (mut sessions, mut problems) = (Vec::new(), Vec::new());
    for file in files {
        match Recorded::read(config, file) {
            Ok(session) => sessions.push(session),
            Err(problem) => problems.push(problem),
        }
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    let bills = sessions.iter().map(|session| session.play(config));
    let bills: Result<Vec<Bill>, Problem> = bills.collect();
    Ok(bills?)
}

/// A session, and what is known of the model that it was had with.
struct Recorded {
    session: Session,
    model: String,
    policy: Policy,
    /// Who says what the model holds.
    source: String,
}

impl Recorded {
    fn read(config: &Config, file: &Path) -> Result<Self, Problem> {
        let session = Session::read(file)?;
        let last = session.requests().last().map(|asked| asked.body);
        let last = last.unwrap_or_default();
        let conversation = chat_completions::read(&last)
            .map_err(|bypass| no_session(file, Untouched::from(bypass).reason()))?;
        let model = conversation.model().into_owned();
        let window = Window::of(config, &model, None);
        Ok(Self {
            policy: window.policy(),
            source: window.source(),
            model,
            session,
        })
    }

    fn play(&self, config: &Config) -> Result<Bill, Problem> {
        let marks = &self.policy.rule_marks;
        let summariser = match &config.summary.model {
            config::Summariser::Nobody => Summariser::Nobody,
            config::Summariser::Named(_) | config::Summariser::Own => Summariser::Own,
        };
        let options = ModelOptions::of_window(u64::from(marks.holds.get()));
        let configure = |base: &str| Ok(self.before(config, base)?);
        let played = through(&self.session, options, summariser, configure);
        let (played, _) = super::super::runtime()?.block_on(played).map_err(|error| {
            Problem::Listen(format!(
                "the sessions could not be played on loopback: {error}"
            ))
        })?;
        let host = config.upstream.base.authority().host();
        let prices = models::prices(host, &self.model);
        let mut bill = Bill::of(&self.session.name, self.session.len(), &played, prices);
        bill.window = marks.window.get();
        bill.window_source.clone_from(&self.source);
        Ok(bill)
    }

    /// The settings before the model at `base`. What reaches out of this process is left out:
    /// listeners, keys, stores and other upstreams.
    fn before(&self, config: &Config, base: &str) -> Result<Config, Problem> {
        let mut config = config.clone();
        config.upstream.base = Base::parse(base).map_err(|refused| {
            Problem::Listen(format!("{base} is no base of an upstream: {refused}"))
        })?;
        config.upstream.authorization = None;
        config.upstream.ca_file = None;
        config.upstream.proxies = Proxies::default();
        config.upstream.ask = false;
        config.mounts.clear();
        config.tls = None;
        config.client_tokens = ClientTokens::default();
        config.title_model = None;
        config.summary.endpoint = None;
        config.store.at = StoreAt::Memory;
        config.store.scope = config::ScopeBy::Credentials;
        config.report_headers = true;
        if config.mode == Mode::Shadow {
            config.mode = Mode::On;
        }
        // The table would be asked of a model on this machine, of which it knows nothing.
        config.window = self.policy.rule_marks.window;
        config.window_source = WindowSource::Setting(self.source.clone());
        Ok(config)
    }
}
