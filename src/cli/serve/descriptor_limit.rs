//! The limit on open files and connections of the process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit to the maximum that the system allows. The usual limit of 1024 is for programs
/// that use `select`, and each request needs two descriptors.
pub(super) fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    if raised != limit
        && let Err(error) = setrlimit(Resource::Nofile, raised)
    {
        tracing::debug!(%error, "could not raise the limit on open files");
    }
}
