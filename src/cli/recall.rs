//! `longhaul recall`: prints an original that a line of a forwarded request names.

pub(super) mod client;

use clap::ArgMatches;
use http::Method;

use super::check::upstream_key;
use crate::cli::{Done, Env};
use crate::config::{ResolvedSettings, recall_endpoint};
use crate::error::Problem;
use client::RecallClient;

/// Prints the original that the arguments name. Fails if no longhaul answers, or it keeps no such
/// original.
pub(super) fn recall(found: &ResolvedSettings, matches: &ArgMatches, env: &Env) -> Done {
    let client = client_of(found, env)?;
    let text = |name: &str| matches.get_one::<String>(name).map(String::as_str);
    let outline = matches.get_flag("outline").then_some("");
    let part = ["grep", "lines", "search"].map(|name| (name, text(name)));
    let part = [&part[..], &[("outline", outline)]].concat();
    let id = text("id").unwrap_or_default();
    let text = crate::cli::runtime()?.block_on(client.ask(Method::GET, id, &part))?;
    crate::cli::print(&text)
}

/// Returns a client of the running proxy. Fails if the settings name no address, or one that
/// requires TLS.
pub(super) fn client_of(found: &ResolvedSettings, env: &Env) -> Result<RecallClient, Problem> {
    let (base, needs_token) = recall_endpoint(found)?;
    RecallClient::new(base, upstream_key(env).filter(|_| needs_token))
}
