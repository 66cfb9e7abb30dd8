//! `longhaul explain --replay`: the outcome of whole sessions under these settings.
//!
//! Plays each session request by request to the real proxy in front of a strict model. Both run in
//! this process on loopback, so the report shows the program's real behaviour.

mod history;
mod session_report;
pub mod wrapped;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Arg, ArgMatches, value_parser};
use serde_json::json;

use crate::client_logs::{LoggedConversation, is_lines};
use crate::command::runtime;
use crate::error::LabError;
use crate::play::{Summariser, play_through_proxy};
use crate::proxy::{KnownModel, ProxyRole, ProxySettings, ReplayTarget, Settings};
use crate::recorded_session::RecordedSession;
use history::{HistoryReport, SESSIONS, provider_base};
use longhaul_console::json::pretty_json;
use longhaul_console::terminal;
use longhaul_core::dialect::Dialect;
use longhaul_mock_model::ModelOptions;
use session_report::SessionReport;

/// Returns the arguments of `explain` that replay sessions.
pub fn arguments() -> [Arg; 2] {
    let files = Arg::new("replay")
        .long("replay")
        .value_name("FILES")
        .num_args(1..)
        .value_parser(value_parser!(PathBuf))
        .conflicts_with_all(["body", "conversation", "file", "last", "request"])
        .help(
            "Play whole sessions instead, each from its last request body, JSON, gzip or \
             not, and show how much is kept, how often the prefix changes and the cost",
        );
    let most = Arg::new("sessions")
        .long("sessions")
        .value_name("COUNT")
        .requires("replay")
        .value_parser(value_parser!(usize))
        .help(format!(
            "Play this many of the largest sessions in a folder of --replay [default: {SESSIONS}]"
        ));
    [files, most]
}

/// Plays the files or folders of `--replay` and returns the report. `profiles` returns the settings under
/// each profile. Fails if a path cannot be read or holds no session, or loopback cannot be used.
pub fn replay<E: From<LabError>>(
    settings: &dyn ProxySettings,
    profiles: impl FnOnce() -> Result<Vec<(&'static str, Settings)>, Vec<E>>,
    matches: &ArgMatches,
) -> Result<String, Vec<E>> {
    let paths = matches.get_many::<PathBuf>("replay").unwrap_or_default();
    let paths: Vec<&Path> = paths.map(PathBuf::as_path).collect();
    for path in &paths {
        std::fs::metadata(path).map_err(|error| {
            let reason = format!(
                "{error}; Claude Code keeps its logs in ~/.claude/projects, Codex in ~/.codex/sessions, pi in \
                 ~/.pi/agent/sessions"
            );
            vec![LabError::Input { path: path.to_path_buf(), reason }.into()]
        })?;
    }
    let (is_json, width) = (matches.get_flag("json"), terminal::width());
    let replayed = if paths.iter().any(|path| path.is_dir() || is_lines(path)) {
        let most = matches.get_one::<usize>("sessions").copied();
        let report = HistoryReport::replay(&profiles()?, &paths, most.unwrap_or(SESSIONS));
        let page = |report: HistoryReport| {
            if is_json { pretty_json(&report) } else { report.page(width) }
        };
        report.map(page).map_err(Vec::from)
    } else {
        replay_files(settings, &paths).map(|reports| {
            if is_json {
                pretty_json(&json!({ "sessions": reports }))
            } else {
                session_report::render_table(&reports, width)
            }
        })
    };
    replayed.map_err(|errors| errors.into_iter().map(E::from).collect())
}

/// Plays the session of each file and returns the reports. Fails, and plays no session, if a file cannot be
/// read or holds none.
fn replay_files(
    settings: &dyn ProxySettings,
    files: &[&Path],
) -> Result<Vec<SessionReport>, Vec<LabError>> {
    let (mut sessions, mut errors) = (Vec::new(), Vec::new());
    for file in files {
        match SessionReplay::read(settings, file) {
            Ok(session) => sessions.push(session),
            Err(error) => errors.push(error),
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let reports = sessions.iter().map(|session| session.play(settings));
    Ok(reports.collect::<Result<_, _>>()?)
}

/// A session, and the model that it was recorded with.
struct SessionReplay {
    session: RecordedSession,
    model: String,
    known: KnownModel,
}

impl SessionReplay {
    fn read(settings: &dyn ProxySettings, file: &Path) -> Result<Self, LabError> {
        Self::new(settings, RecordedSession::read(file)?, file)
    }

    /// Reads a conversation of a log. Returns `None` if the log holds no request that longhaul reads.
    fn of_log(settings: &dyn ProxySettings, logged: &LoggedConversation) -> Option<Self> {
        // Window and prices depend on the provider.
        let own = provider_base(logged).map(|base| settings.at_upstream(base));
        let session = RecordedSession::from_body(&logged.name, &logged.body).ok()?;
        Self::new(own.as_deref().unwrap_or(settings), session, Path::new(&logged.name)).ok()
    }

    /// Reads the model of `session`, which `file` holds.
    fn new(
        settings: &dyn ProxySettings,
        session: RecordedSession,
        file: &Path,
    ) -> Result<Self, LabError> {
        let last = session.requests().last().map(|asked| asked.body).unwrap_or_default();
        let conversation = Dialect::read_any(&last)
            .map_err(|bypass| LabError::Unreadable { path: file.to_owned(), bypass })?;
        let model = conversation.model().into_owned();
        Ok(Self { known: settings.known_model(&model), model, session: session.with_moving_mark() })
    }

    /// Plays every request to the real proxy, in front of a strict model. Fails if loopback cannot
    /// be used.
    fn play(&self, settings: &dyn ProxySettings) -> Result<SessionReport, LabError> {
        let summariser =
            if settings.has_summary_model() { Summariser::Own } else { Summariser::Nobody };
        let options = ModelOptions::with_window(self.known.actual_window.get().into());
        let start = async |base: &str| {
            let target = ReplayTarget { base, model: &self.known, summaries: None };
            settings.start(ProxyRole::Replay(target)).await
        };
        let played =
            play_through_proxy(&self.session, options, (summariser, Duration::ZERO), start);
        let (played, _) = runtime()?.block_on(played).map_err(|error| {
            LabError::Listen(format!("cannot play the sessions on loopback: {error}"))
        })?;
        Ok(SessionReport::new(&self.session.name, self.session.len(), played, &self.known))
    }
}
