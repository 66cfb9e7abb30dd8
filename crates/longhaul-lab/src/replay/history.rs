//! `longhaul explain --replay FOLDER`: the cost of past sessions with longhaul, under each profile.
//!
//! Reads the agents' own logs, and plays the largest sessions as [`super::replay_files`] plays files.
//! Everything happens in this process.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use super::SessionReplay;
use super::session_report::{NEXT, SessionReport, marked_window};
use crate::client_logs::{ClientLogs, DAYS, LoggedConversation};
use crate::error::LabError;
use crate::play::totals::{PlayTotals, percent};
use crate::proxy::Settings;
use longhaul_console::amounts::short_usd;
use longhaul_console::printable::printable_name;
use longhaul_console::table::{Align, Table};
use longhaul_console::terminal::paragraph;
use longhaul_console::thousands::with_thousands;
use longhaul_core::dialect::Dialect;
use longhaul_core::units::tokens::Tokens;
use longhaul_core::units::usd::Usd;

/// Size below which longhaul changes a conversation at no usual window, in tokens.
pub(super) const SHORT: Tokens = Tokens::new(20_000);
/// The sessions that are played, unless the command names a number: as many as a person waits for.
pub(super) const SESSIONS: usize = 8;

/// Sessions of some folders and their cost under each profile.
#[derive(Debug, Serialize)]
pub(super) struct HistoryReport {
    /// Sessions per agent.
    sources: Vec<(&'static str, usize)>,
    days: u64,
    /// Conversations that no profile changes, because they are short, or that longer ones left no room for.
    short: usize,
    /// Sessions that the agent itself compacted, or that it continued from such a compaction.
    compacted_by_agent: usize,
    /// Lines and files in an unknown form.
    skipped: usize,
    /// Files that changed last before the period.
    older: usize,
    #[serde(skip)]
    has_database: bool,
    /// Share of the long sessions' text that the played ones hold, in percent.
    played_percent: u64,
    played: Vec<PlayedSession>,
    profiles: Vec<ProfileRow>,
}

/// One of the sessions that were played.
#[derive(Debug, Serialize)]
struct PlayedSession {
    agent: &'static str,
    name: String,
    model: String,
    requests: usize,
    /// Tokens of the last request.
    tokens: u32,
    window: u32,
    is_assumed: bool,
    /// Whether the session's last request exceeds the window.
    overflows: bool,
}

/// The sums over the played sessions under one profile.
#[derive(Debug, Default, Serialize)]
pub(super) struct ProfileRow {
    profile: &'static str,
    pub(super) totals: PlayTotals,
    /// Whether both costs are in dollars by list prices. If not, they count new tokens.
    listed: bool,
    pub(super) cost_with: Usd,
    pub(super) cost_without: Usd,
    /// Sessions that ended early.
    broken_off: usize,
}

/// Returns the sessions that are not short with their tokens, the largest first, and the sum.
fn long_sessions(all: Vec<LoggedConversation>) -> (Vec<(Tokens, LoggedConversation)>, u64) {
    let sized = all.into_iter().filter_map(|logged| {
        let tokens = Dialect::read_any(&logged.body).ok()?.tokens();
        (tokens >= SHORT).then_some((tokens, logged))
    });
    let mut long: Vec<_> = sized.collect();
    long.sort_by_key(|(tokens, _)| std::cmp::Reverse(*tokens));
    let total = long.iter().map(|(tokens, _)| u64::from(tokens.get())).sum();
    (long, total)
}

/// Returns the base URL of the provider that the log names, if known.
pub(super) fn provider_base(logged: &LoggedConversation) -> Option<&'static str> {
    match logged.provider.as_deref() {
        Some("anthropic") => Some("https://api.anthropic.com/v1"),
        Some("openai" | "openai-codex") => Some("https://api.openai.com/v1"),
        Some("openrouter") => Some("https://openrouter.ai/api/v1"),
        Some(_) | None => None,
    }
}

/// Returns the error for folders without a session, with the next step.
pub(super) fn no_session(folders: &[&Path], logs: &ClientLogs) -> LabError {
    let is_there = |one: &Path| if one.exists() { "" } else { " (no such folder)" };
    let named = folders.iter().map(|one| format!("{}{}", one.display(), is_there(one)));
    let path = named.collect::<Vec<String>>().join(", ").into();
    let mut reason = format!(
        "no session of the last {DAYS} days among {} files and folders, in a log of Claude Code, Codex, \
         OpenCode or pi, or as a request body; name the folder of your logs, or begin a session: longhaul \
         run -- claude",
        with_thousands(logs.seen as u64)
    );
    if logs.older > 0 {
        _ = write!(reason, "; {} files are older", logs.older);
    }
    if logs.has_database {
        reason += "; export sessions of OpenCode's database: `opencode export ID > FILE.json`";
    }
    LabError::InvalidInput { path, reason }
}

impl ProfileRow {
    fn new(profile: &'static str) -> Self {
        Self { profile, listed: true, ..Self::default() }
    }

    pub(super) fn add(&mut self, outcome: &SessionReport) {
        self.totals.add(&outcome.rows);
        self.listed &= outcome.cost.listed;
        self.cost_with += outcome.cost.with;
        self.cost_without += outcome.cost.without;
        self.broken_off += usize::from(outcome.broken_off.is_some());
    }
}

impl HistoryReport {
    /// Reads the logs below `folders` and plays the `most` largest sessions under each of `profiles`.
    /// Fails if no session was found, or loopback cannot be used.
    pub(super) fn replay(
        profiles: &[(&'static str, Settings)],
        folders: &[&Path],
        most: usize,
    ) -> Result<Self, LabError> {
        let logs = ClientLogs::read(folders, Duration::from_hours(24 * DAYS));
        if logs.conversations.is_empty() {
            return Err(no_session(folders, &logs));
        }
        let sources = logs.sources.iter().map(|(source, (logs, _))| (source.name(), *logs));
        let compacted = logs.conversations.iter().filter(|logged| logged.compacted_by_agent);
        let (compacted_by_agent, all) = (compacted.count(), logs.conversations.len());
        let (mut long, total) = long_sessions(logs.conversations);
        let short = logs.dropped + all - long.len();
        long.truncate(most);
        let played: u64 = long.iter().map(|(tokens, _)| u64::from(tokens.get())).sum();
        let mut report = Self {
            sources: sources.collect(),
            days: DAYS,
            short,
            compacted_by_agent,
            skipped: logs.skipped,
            older: logs.older,
            has_database: logs.has_database,
            played_percent: percent(played, total),
            played: Vec::new(),
            profiles: Vec::new(),
        };
        for (number, (profile, settings)) in profiles.iter().enumerate() {
            let mut row = ProfileRow::new(profile);
            for (tokens, logged) in &long {
                let Some(replay) = SessionReplay::of_log(&**settings, logged) else {
                    continue;
                };
                let outcome = replay.play(&**settings)?;
                if number == 0 {
                    report.played.push(PlayedSession {
                        agent: logged.source.name(),
                        name: logged.name.clone(),
                        requests: outcome.totals.requests,
                        tokens: tokens.get(),
                        window: outcome.window,
                        is_assumed: outcome.is_assumed,
                        overflows: tokens.get() > outcome.window,
                        model: replay.model,
                    });
                }
                row.add(&outcome);
            }
            report.profiles.push(row);
        }
        Ok(report)
    }

    /// Renders the report on one screen, to fit `width` columns.
    pub(super) fn page(&self, width: Option<usize>) -> String {
        let mut page = String::new();
        let all: usize = self.sources.iter().map(|(_, count)| count).sum();
        let named: Vec<String> =
            self.sources.iter().map(|(name, count)| format!("{name} {count}")).collect();
        let (days, named) = (self.days, named.join(", "));
        _ = writeln!(page, "sessions read, of the last {days} days: {all} ({named})");
        _ = writeln!(
            page,
            "too short for any change: {}; compacted by the agent itself: {}\nunknown lines skipped: {}",
            self.short, self.compacted_by_agent, self.skipped
        );
        if self.has_database {
            page.push_str("OpenCode's database is not read: `opencode export ID > FILE.json`\n");
        }
        if self.played.is_empty() {
            page.push_str("\nlonghaul changes nothing: every session fits its window.\n");
            return page;
        }
        let ended = self.played.iter().filter(|session| session.overflows).count();
        _ = writeln!(
            page,
            "\nplayed, the largest first: {}, with {}% of the text of all long ones; {ended} exceed their window\n",
            self.played.len(),
            self.played_percent
        );
        self.write_sessions(&mut page, width);
        self.write_profiles(&mut page, width);
        _ = write!(page, "\nSessions that end at their window without longhaul: {ended}.\n{NEXT}");
        page
    }

    fn write_sessions(&self, page: &mut String, width: Option<usize>) {
        let mut table = Table::with_headings([
            (Align::Left, "agent"),
            (Align::Left, "model"),
            (Align::Right, "requests"),
            (Align::Right, "tokens"),
            (Align::Right, "window"),
            (Align::Left, "overflow"),
        ]);
        for session in &self.played {
            let model: String = printable_name(&session.model).chars().take(24).collect();
            table.push([
                session.agent.to_owned(),
                model,
                session.requests.to_string(),
                with_thousands(session.tokens),
                marked_window(session.window, session.is_assumed),
                if session.overflows { "yes" } else { "no" }.to_owned(),
            ]);
        }
        page.push_str(&table.render(width));
    }

    fn write_profiles(&self, page: &mut String, width: Option<usize>) {
        let mut table = Table::of_numbers(HEADINGS);
        for row in &self.profiles {
            let totals = &row.totals;
            let cost = |usd: Usd| usd.as_nanos().unsigned_abs();
            let (with, without) = (cost(row.cost_with), cost(row.cost_without));
            let paid = if row.listed { short_usd(row.cost_with) } else { "–".to_owned() };
            table.push([
                row.profile.to_owned(),
                format!("{}/{}", totals.answered, totals.requests),
                paid,
                format!("{}%", percent(with, without)),
                format!("{}%", percent(totals.tokens_forwarded, totals.tokens_sent)),
                format!("{}%", totals.cached_percent()),
                totals.refused.to_string(),
            ]);
        }
        page.push('\n');
        page.push_str(&table.render(width));
        page.push('\n');
        page.push_str(&paragraph(LEGEND, width));
    }
}

const HEADINGS: [&str; 7] =
    ["profile", "answered", "input cost", "of full cost", "forwarded", "cached", "overflows"];

const LEGEND: &str = include_str!("legend.txt");
