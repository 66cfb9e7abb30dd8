//! The input cost of a session with longhaul and a provider's prompt cache, next to the cost
//! without a proxy in an unlimited window.
//!
//! `cargo bench --bench bill`; `-- --help` lists the options. Every request of every recorded
//! session goes through the real proxy to the strict model of `longhaul_mock_model`. All run on
//! loopback in one process, so the decisions are those of the program. The model simulates the
//! cache by whole messages: the prefix shared with an accepted request is cheap in the next one. Output
//! costs the same with and without longhaul, and is left out.

mod bill;
mod goal;
mod goals;
mod options;
mod pinned;
mod play;
mod prices;
mod sessions;
mod table;
mod three;
mod workers;

use bill::Bill;
use options::{Options, Report, Rows, WindowFrom};
use play::{Setup, play, play_direct};
use prices::Input;
use sessions::{Api, Failure, Session, sessions};
use std::fmt::Write as _;

/// A session and its sizes in tokens.
pub(crate) struct Recorded {
    pub(crate) session: Session,
    /// The tokens of each request as the agent sends it.
    pub(crate) wholes: Vec<u64>,
    /// The input of each request without a proxy.
    pub(crate) direct: Vec<Input>,
    /// The tokens that cannot shrink in any request.
    pub(crate) pinned: u64,
}

/// The bills of one profile at one window, one per session.
pub(crate) struct Run {
    pub(crate) profile: String,
    pub(crate) window: u64,
    pub(crate) bills: Vec<(String, Bill)>,
}

impl Run {
    pub(crate) fn total(&self) -> Bill {
        self.bills.iter().map(|(_, bill)| bill.clone()).sum()
    }
}

fn main() -> Result<(), Failure> {
    let options = Options::read();
    let sessions = sessions(options.api, &options.sessions, options.part)?;
    let recorded = recorded(sessions, &options)?;
    match options.report {
        Report::Bill => println!("{}", page(&options, &recorded)?),
        Report::Three => println!("{}", three::page(&options, &recorded)?),
    }
    Ok(())
}

/// Measures the sessions, the longest first because they take the most time.
fn recorded(mut sessions: Vec<Session>, options: &Options) -> Result<Vec<Recorded>, Failure> {
    sessions.sort_by_key(|session| std::cmp::Reverse(session.body.len()));
    let sizes = workers::each("counting", &sessions, |session| {
        let requests = session.replay.requests();
        let tokens = requests.map(|request| options.density.request_tokens(&request.body()));
        let tokens = tokens.collect::<Option<Vec<u64>>>();
        let wholes = tokens.ok_or("a recorded request is no JSON object")?;
        let direct = match options.api {
            Api::ChatCompletions => bill::extending(&wholes),
            Api::Messages | Api::Responses => play_direct(&session.replay, options.density)?,
        };
        let pinned = pinned::tokens(&session.body, options.density)?;
        Ok((wholes, direct, pinned))
    })?;
    let pairs = sessions.into_iter().zip(sizes);
    Ok(pairs
        .map(|(session, (wholes, direct, pinned))| Recorded { session, wholes, direct, pinned })
        .collect())
}

/// Builds the proxy's setup for a window and a profile.
pub(crate) fn setup(options: &Options, profile: &str, window: u64) -> Setup {
    let mut settings = vec![("profile".to_owned(), profile.to_owned())];
    match options.window_from {
        WindowFrom::Refusal => {}
        WindowFrom::Setting => settings.push(("window".to_owned(), window.to_string())),
    }
    settings.extend(options.settings.iter().cloned());
    Setup {
        path: options.api.path(),
        window,
        density: options.density,
        settings,
        summaries: options.summaries,
    }
}

fn page(options: &Options, recorded: &[Recorded]) -> Result<String, Failure> {
    let mut runs = Vec::new();
    for profile in &options.profiles {
        for &window in &options.windows {
            let setup = setup(options, profile, window);
            let title = format!("{profile} at {window}");
            let bills = workers::each(&title, recorded, |recorded| {
                let played = play(&recorded.session.replay, &setup)?;
                let bill = Bill::of(&played, &recorded.direct, recorded.pinned);
                Ok((recorded.session.name.clone(), bill))
            })?;
            runs.push(Run { profile: profile.clone(), window, bills });
        }
    }
    let prices = prices::of(options.api);
    let mut page = String::new();
    for profile in &options.profiles {
        let rows: Vec<&Run> = runs.iter().filter(|run| run.profile == *profile).collect();
        writeln!(page, "## {profile}\n\n{}", table::render(&rows, prices))?;
        if options.rows == Rows::Sessions {
            for run in rows {
                writeln!(page, "{}", table::sessions(run, prices))?;
            }
        }
    }
    writeln!(page, "## Goals\n\n{}", goals::of_all(&runs, prices))?;
    Ok(page)
}
