//! `longhaul check`: every setting, its value and where it came from.

use crate::config::{Config, Mode, Resolved, report};
use crate::error::Problem;
use crate::upstream::Upstream;

/// Prints the settings, or gives back every problem, those of the files they name too.
pub(super) fn check(found: Result<Resolved, Vec<Problem>>) -> Result<(), Vec<Problem>> {
    let found = found?;
    let config = Config::of(&found)?;
    Upstream::new(&config.upstream).map_err(|problem| vec![problem])?;
    super::print(&report(&found));
    if config.mode == Mode::Off {
        super::print("# the mode is off: chats are neither read nor changed\n");
    }
    Ok(())
}
