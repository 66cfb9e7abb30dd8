//! The commands of the lab in a build without the lab: none.

use clap::{Arg, Command};

pub(super) fn command(_name: &str) -> Option<Command> {
    None
}

pub(super) fn replay_arguments() -> Vec<Arg> {
    Vec::new()
}
