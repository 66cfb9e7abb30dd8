//! `longhaul wrapped`: one card about the sessions in the logs of all agents on this machine.
//!
//! Plays the conversations that come nearest to their model's window as `replay_files` plays files.
//! The card holds numbers and names of agents: no text of a conversation, no title and no path.

mod card;

use std::cmp::Reverse;
use std::env;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ArgMatches;

use super::SessionReplay;
use super::history::{ProfileRow, SHORT, no_session};
use crate::client_logs::{ClientLogs, DAYS, LoggedConversation};
use crate::error::LabError;
use crate::proxy::ProxySettings;
use longhaul_core::units::tokens::Tokens;
use longhaul_mock_model::TokenDensity;

/// The places of logs: a variable that names the agent's folder, that folder below the home without the
/// variable, and the logs in the folder. From the manuals of the agents.
const PLACES: &str = include_str!("wrapped/places.tsv");
/// The share of the window from which on a compaction by the agent counts as the window's, in percent. Agents
/// compact by themselves between 77 and 95.
const NEAR: u64 = 75;

/// A conversation that may be played: its largest prompt in percent of the window, rounded up, whether the
/// agent compacted the conversation, and its replay.
type Candidate = (u64, bool, SessionReplay);

/// Counts of the conversations.
#[derive(Debug, Default)]
struct Tally {
    /// Those that were played, and those of them whose model has list prices.
    all: ProfileRow,
    priced: ProfileRow,
    played: usize,
    /// Those with a request larger than the window.
    over: usize,
    /// Those that the agent compacted from [`NEAR`] of the window on.
    compacted: usize,
    /// Those of both that finish with longhaul.
    finished: usize,
    /// Those whose window no table states, or whose log states larger prompts, or prompts of half the size.
    unknown: usize,
    /// Those farther from their window than all that were played.
    farther: usize,
}

/// Reads the logs, plays the conversations and returns the card. Fails if there is no log, or the picture
/// cannot be written.
pub fn wrapped(settings: &dyn ProxySettings, matches: &ArgMatches) -> Result<String, LabError> {
    if settings.is_off() {
        let reason = "longhaul changes nothing: the mode is off; pass --mode on";
        return Err(LabError::CommandLine(reason.to_owned()));
    }
    let folders = matches.get_many::<PathBuf>("folders");
    let folders = folders.map_or_else(own_places, |named| named.cloned().collect());
    let folders: Vec<&Path> = folders.iter().map(PathBuf::as_path).collect();
    let mut logs = ClientLogs::read(&folders, Duration::from_hours(24 * DAYS));
    if logs.conversations.is_empty() {
        return Err(no_session(&folders, &logs));
    }
    let mut tally = Tally::default();
    let candidates = tally.candidates(settings, std::mem::take(&mut logs.conversations));
    let most = matches.get_one::<usize>("sessions").copied().unwrap_or_default();
    tally.farther = logs.dropped + candidates.len().saturating_sub(most);
    for candidate in candidates.iter().take(most) {
        tally.play(settings, candidate)?;
    }
    let values = card::values(&logs, &tally);
    let mut page = card::text(&values, longhaul_console::terminal::width());
    if let Some(file) = matches.get_one::<PathBuf>("svg") {
        let written = std::fs::write(file, card::filled(card::PICTURE, &values));
        let reason = |error| format!("cannot write the picture {}: {error}", file.display());
        written.map_err(|error| LabError::CommandLine(reason(error)))?;
        _ = writeln!(page, "\nThe picture is in {}.", file.display());
    }
    Ok(page)
}

/// Returns the folders of the agents' own logs.
fn own_places() -> Vec<PathBuf> {
    let home = env::home_dir().unwrap_or_default();
    let place = |line: &str| {
        let [variable, folder, logs] = line.split('\t').collect::<Vec<_>>()[..] else {
            return None;
        };
        let named = env::var_os(variable).filter(|value| !value.is_empty());
        Some(named.map_or_else(|| home.join(folder), PathBuf::from).join(logs))
    };
    PLACES.lines().filter_map(place).collect()
}

impl Tally {
    /// Returns the conversations that may be played, the nearest to its window first.
    fn candidates(
        &mut self,
        settings: &dyn ProxySettings,
        all: Vec<LoggedConversation>,
    ) -> Vec<Candidate> {
        let mut found = Vec::new();
        for logged in all {
            let Some(mut replay) = SessionReplay::of_log(settings, &logged) else {
                continue;
            };
            let known = &mut replay.known;
            let window = u64::from(known.actual_window.get());
            let tokens = TokenDensity::STANDARD.request_tokens(&logged.body).unwrap_or_default();
            // What the provider counted decides: the model's own count is an estimate, and a log lacks the
            // system prompt and the tools.
            let size = if logged.largest_prompt > 0 { logged.largest_prompt } else { tokens };
            let fill = (size * 100).div_ceil(window.max(1));
            if size < u64::from(SHORT.get()) && fill < NEAR {
                continue;
            }
            let count = |tokens: u64| Tokens::new(u32::try_from(tokens).unwrap_or(u32::MAX));
            let (more, less) = (tokens.saturating_sub(size), size.saturating_sub(tokens));
            known.window = known.window + count(more) - count(less);
            known.actual_window = known.actual_window + count(more) - count(less);
            let is_known = known.largest_window.is_some() && logged.largest_prompt <= window;
            if is_known && more.max(less) < window / 2 {
                found.push((fill, logged.compacted_by_agent, replay));
            } else {
                self.unknown += 1;
            }
        }
        found.sort_by_key(|(fill, ..)| Reverse(*fill));
        found
    }

    /// Plays a conversation. Fails if loopback cannot be used.
    fn play(
        &mut self,
        settings: &dyn ProxySettings,
        (fill, compacted_by_agent, replay): &Candidate,
    ) -> Result<(), LabError> {
        let report = replay.play(settings)?;
        let is_over = *fill > 100;
        let is_compacted = !is_over && *compacted_by_agent && *fill >= NEAR;
        // What longhaul once replaced stays replaced, so the last request is smaller too.
        let stays_below = report.totals.tokens_forwarded < report.totals.tokens_sent;
        let finishes = report.broken_off.is_none() && stays_below;
        self.played += 1;
        self.over += usize::from(is_over);
        self.compacted += usize::from(is_compacted);
        self.finished += usize::from((is_over || is_compacted) && finishes);
        self.all.add(&report);
        if report.cost.listed {
            self.priced.add(&report);
        }
        Ok(())
    }
}
