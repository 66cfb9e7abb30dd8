//! What serve would refuse when it starts, found by the same code without connecting anywhere.
//!
//! Whether a port is free, a server answers, and nobody else has the store's file, shows only then.

use crate::config::{AdminListener, Config};
use crate::error::Problem;
use crate::server::{Certificates, refuse_self_loop};
use crate::store::Store;
use crate::summarise::SummaryUpstream;
use crate::upstream::Upstream;

/// All that is wrong with `config`, each problem once.
pub(super) fn startup_problems(config: &Config) -> Vec<Problem> {
    let mut problems: Vec<Problem> = Vec::new();
    let mut tell = |problem: Problem| {
        let text = problem.to_string();
        if problems.iter().all(|other| other.to_string() != text) {
            problems.push(problem);
        }
    };
    let certificates = config.tls.clone().map(Certificates::open).transpose();
    let tried = [
        Upstream::new(&config.upstream).map(drop),
        // Where it goes by the same file of authorities, it fails of the same.
        SummaryUpstream::new(&config.summary, &config.upstream).map(drop),
        certificates.map(drop),
        Store::check(&config.store),
    ];
    tried
        .into_iter()
        .filter_map(Result::err)
        .for_each(&mut tell);
    match super::super::runtime() {
        Ok(runtime) => runtime
            .block_on(loop_problems(config))
            .into_iter()
            .for_each(&mut tell),
        Err(problem) => tell(problem),
    }
    problems
}

/// The listeners of `config` that it has for an upstream, too.
async fn loop_problems(config: &Config) -> Vec<Problem> {
    let admin = match config.admin {
        AdminListener::Required(address) => Some(address),
        // Serve goes on without it.
        AdminListener::IfFree(_) | AdminListener::Off => None,
    };
    let mut problems = Vec::new();
    for listen in [config.listen].into_iter().chain(admin) {
        problems.extend(
            refuse_self_loop(config.upstream_bases(), listen)
                .await
                .err(),
        );
    }
    problems
}
