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
mod judging;
mod options;
#[path = "../survival/other_apis.rs"]
mod other_apis;
mod places;
mod player;
mod requests;
#[path = "../bill/sessions.rs"]
#[allow(dead_code, reason = "another benchmark takes parts by name")]
mod sessions;
#[path = "../survival/tally.rs"]
mod tally;
mod windows;
mod work;
#[path = "../bill/workers.rs"]
mod workers;

use at_windows::Case;
use options::Options;
use sessions::{Api, Failure, sessions};

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, profile, folder] = &*arguments
        && flag == work::CHILD
    {
        return work::in_child(profile, folder.as_ref());
    }
    let options = Options::read();
    let sessions = sessions(Api::ChatCompletions, &[], options.part)?;
    if options.windows {
        println!("{}", windows::page(&sessions, &options)?);
        let at_32k = options.profiles.iter();
        let at_32k = at_32k.map(|&(name, profile)| Case::new(name, profile, 32_000));
        let at_32k: Vec<Case> = at_32k.collect();
        let identifiers = at_windows::page(&sessions, &at_32k, None)?;
        println!("## Identifiers\n\n{identifiers}");
    }
    if options.hundred {
        println!("{}", hundred::page(&sessions, &options)?);
    }
    if options.work {
        println!("{}", work::page(&sessions, &options)?);
    }
    Ok(())
}
