//! The figures of frozen segments: cost under the cache rules of providers, facts and user messages that
//! stand after a hundred windows, and the work of a compaction.
//!
//! `cargo bench --bench segments`. The sessions play against the core in one process: each request
//! starts from the record of the one before. `bench bill` plays them through the proxy.

mod caches;
mod hundred;
mod options;
mod player;
mod requests;
#[path = "../bill/sessions.rs"]
#[allow(dead_code, reason = "another benchmark takes parts by name")]
mod sessions;
mod windows;
mod work;
#[path = "../bill/workers.rs"]
mod workers;

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
    }
    if options.hundred {
        println!("{}", hundred::page(&sessions, &options)?);
    }
    if options.work {
        println!("{}", work::page(&sessions, &options)?);
    }
    Ok(())
}
