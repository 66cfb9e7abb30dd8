//! Parts that commands share: the runtime, and the form of their help.

use clap::Command;
use tokio::runtime::{Builder, Runtime};

use crate::error::LabError;

/// Builds a runtime of one thread, so that the order of tasks is deterministic.
pub(crate) fn runtime() -> Result<Runtime, LabError> {
    let built = Builder::new_current_thread().enable_all().build();
    built.map_err(|error| LabError::System(format!("cannot spawn threads: {error}")))
}

/// Hides the defaults of options: their help states them.
pub(crate) fn hide_defaults(command: Command) -> Command {
    command.mut_args(|option| {
        let has_default = !option.get_default_values().is_empty();
        option.hide_default_value(has_default)
    })
}
