//! The figures of frozen segments: cost under the cache rules of providers, facts and user messages that
//! survive a hundred windows, and the work of a compaction.
//!
//! `cargo bench --bench segments`. The sessions play against the core in one process: each request
//! starts from the record of the one before. `bench bill` plays them through the proxy.

#[path = "../survival/at_windows.rs"]
mod at_windows;
mod caches;
mod facts;
#[path = "../survival/forwarded.rs"]
mod forwarded;
#[path = "../survival/history.rs"]
mod history;
mod hundred;
#[path = "../survival/identifiers.rs"]
mod identifiers;
#[path = "../survival/other_apis.rs"]
mod other_apis;
mod player;
mod requests;
#[path = "../bill/sessions.rs"]
#[allow(dead_code, reason = "all sessions are measured together")]
mod sessions;
#[path = "../survival/tally.rs"]
mod tally;
mod windows;
#[path = "../bill/workers.rs"]
mod workers;

use longhaul_core::policy::Profile;
use sessions::{Api, Failure, Part, sessions};

fn main() -> Result<(), Failure> {
    let flags: Vec<String> = std::env::args().skip(1).collect();
    let has = |flag: &str| flags.iter().any(|it| it == flag);
    let sessions = sessions(Api::ChatCompletions, &[], Part::All)?;
    if !has("--hundred") {
        println!("{}", windows::page(&sessions)?);
        let at_32k = [
            ("auto", Profile::Auto, 32_000),
            ("frugal", Profile::Frugal, 32_000),
        ];
        let identifiers = at_windows::page(&sessions, &at_32k)?;
        println!("## Identifiers\n\n{identifiers}");
    }
    if !has("--windows") {
        println!("{}", hundred::page(&sessions)?);
    }
    Ok(())
}
