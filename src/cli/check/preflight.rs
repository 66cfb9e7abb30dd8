//! Start-up problems of `serve`, found by the same code without any connection.
//!
//! Three conditions only show at start: whether a port is free, whether a server answers, and
//! whether another process has the store's file open.

use crate::config::{AdminListener, Config, join_problems};
use crate::error::Problem;
use crate::server::{Certificates, refuse_self_loop};
use crate::store::Store;
use crate::summaries::SummaryUpstream;
use crate::upstream::Upstream;

/// Returns all problems of `config`, each once.
pub(crate) fn startup_problems(config: &Config) -> Vec<Problem> {
    let mut problems = problems_beside_store(config);
    problems.extend(Store::check(&config.store).err());
    problems
}

/// Returns all problems of `config` but those of the store, each once.
pub(crate) fn problems_beside_store(config: &Config) -> Vec<Problem> {
    let certificates = config.tls.clone().map(Certificates::open).transpose();
    let tried = [
        Upstream::new(&config.upstream, None).map(drop),
        // With the same CA file as the upstream, the endpoint fails with the same problem.
        SummaryUpstream::new(&config.summary, &config.upstream).map(drop),
        certificates.map(drop),
    ];
    let loops = match crate::cli::runtime() {
        Ok(runtime) => runtime.block_on(loop_problems(config)),
        Err(problem) => vec![problem],
    };
    let tried = tried.into_iter().filter_map(Result::err);
    join_problems([tried.collect(), loops])
}

/// Returns a problem for each listener of `config` that is also an upstream.
async fn loop_problems(config: &Config) -> Vec<Problem> {
    let admin = match config.admin {
        AdminListener::Required(address) => Some(address),
        // `serve` continues without this listener.
        AdminListener::IfFree(_) | AdminListener::Off => None,
    };
    let mut problems = Vec::new();
    for listen in [config.listen].into_iter().chain(admin) {
        problems.extend(refuse_self_loop(config.upstream_bases(), listen).await.err());
    }
    problems
}
