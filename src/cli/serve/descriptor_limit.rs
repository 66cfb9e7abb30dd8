//! The limit on open files and connections of the process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::admin::events::MAX_VIEWERS;
use crate::config::Config;
use crate::server::admin_listener::ADMIN_CONNECTIONS;

/// Descriptors of the process itself: standard streams, listeners, the store, name lookups.
const OWN_DESCRIPTORS: u64 = 16;
/// Descriptors kept for connections to the upstream beyond those of requests: summaries
/// and queries of windows.
const UPSTREAM_DESCRIPTORS: u64 = 16;
/// Descriptors that neither clients nor their requests may use.
const RESERVED_DESCRIPTORS: u64 =
    OWN_DESCRIPTORS + (ADMIN_CONNECTIONS + MAX_VIEWERS) as u64 + UPSTREAM_DESCRIPTORS;

/// Connections below which a limit is worth a line at every start.
const FEW: u32 = 256;
const LOWERED: &str = "limits.connections and limits.requests are lowered to what the limit on open \
                       files (ulimit -n) allows";

/// Raises the limit to the maximum that the system allows: the usual limit of 1,024 is for programs
/// that use `select`. Returns `config` with the connections and requests that fit. Each request
/// needs two descriptors.
pub(super) fn fit(mut config: Config) -> Config {
    let limit = getrlimit(Resource::Nofile);
    let mut open_files = limit.current;
    let raised = Rlimit { current: limit.maximum, ..limit };
    if raised != limit {
        match setrlimit(Resource::Nofile, raised) {
            Ok(()) => open_files = limit.maximum,
            Err(error) => tracing::debug!(%error, "could not raise the limit on open files"),
        }
    }
    // No limit: nothing to fit.
    let Some(open_files) = open_files else {
        return config;
    };
    let limits = &mut config.limits;
    let most = places_within(open_files);
    if limits.connections > most || limits.requests > most {
        if most < FEW {
            tracing::info!(open_files, most, "{LOWERED}");
        } else {
            tracing::debug!(open_files, most, "{LOWERED}");
        }
        limits.connections = limits.connections.min(most);
        limits.requests = limits.requests.min(most);
    }
    config
}

/// Returns the number of clients, and of requests, that `open_files` allow: each uses one
/// descriptor.
fn places_within(open_files: u64) -> u32 {
    let places = open_files.saturating_sub(RESERVED_DESCRIPTORS) / 2;
    u32::try_from(places).unwrap_or(u32::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_and_request_places_leave_a_descriptor_reserve() {
        for (open_files, expect) in [(0, 1), (64, 1), (1_024, 480), (1_048_576, 524_256)] {
            assert_eq!(places_within(open_files), expect, "{open_files}");
        }
    }
}
