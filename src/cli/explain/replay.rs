//! `longhaul explain --replay`: the outcome of whole sessions under these settings.
//!
//! Plays each session request by request to the real proxy in front of a strict model. Both run in
//! this process on loopback, so the report shows the program's real behaviour.

use std::path::{Path, PathBuf};

use super::super::demo::{RecordedSession, Summariser, invalid_session, play_through_proxy};
use crate::cli::explain::session_report::SessionReport;
use crate::cli::loopback::isolated;
use crate::cli::model_window::ModelWindow;
use crate::config::{self, Config};
use crate::error::Problem;
use crate::explanation::verdict::UntouchedReason;
use longhaul_core::dialect::Dialect;
use longhaul_core::policy::Policy;
use longhaul_mock_model::ModelOptions;

/// Plays the session of each file and returns the outcomes. Fails, and plays no session, if a file
/// cannot be read or holds none.
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
    let reports = sessions.iter().map(|session| session.play(config));
    let reports: Result<Vec<SessionReport>, Problem> = reports.collect();
    Ok(reports?)
}

/// A session and the settings for the model that it was recorded with.
pub(super) struct SessionReplay {
    session: RecordedSession,
    model: String,
    policy: Policy,
    /// The source of the model's window.
    window_source: String,
}

impl SessionReplay {
    fn read(config: &Config, file: &Path) -> Result<Self, Problem> {
        Self::new(config, RecordedSession::read(file)?, file)
    }

    /// Reads the model of `session`, which `file` holds.
    pub(super) fn new(
        config: &Config,
        session: RecordedSession,
        file: &Path,
    ) -> Result<Self, Problem> {
        let last = session.requests().last().map(|asked| asked.body);
        let last = last.unwrap_or_default();
        let conversation = Dialect::read_any(&last)
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

    /// Returns the name of the session's model.
    pub(super) fn model(&self) -> &str {
        &self.model
    }

    /// Plays every request to the real proxy, in front of a strict model. Fails if loopback cannot
    /// be used.
    pub(super) fn play(&self, config: &Config) -> Result<SessionReport, Problem> {
        let marks = &self.policy.prune_thresholds;
        let summariser = match &config.summary.model {
            config::SummaryModel::Disabled => Summariser::Nobody,
            config::SummaryModel::Named(_) | config::SummaryModel::SameAsConversation => {
                Summariser::Own
            }
        };
        let options = ModelOptions::with_window(u64::from(marks.actual_window.get()));
        let window = self.policy.prune_thresholds.window;
        let configure = |base: &str| Ok(isolated(config, base, window, &self.window_source)?);
        let played = play_through_proxy(&self.session, options, summariser, configure);
        let (played, _) = crate::cli::runtime()?.block_on(played).map_err(|error| {
            Problem::Listen(format!("cannot play the sessions on loopback: {error}"))
        })?;
        let prices = config.prices(&self.model);
        let mut report =
            SessionReport::new(&self.session.name, self.session.len(), &played, prices);
        report.window = marks.window.get();
        report.window_source.clone_from(&self.window_source);
        Ok(report)
    }
}
