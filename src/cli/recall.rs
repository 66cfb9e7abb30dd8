//! `longhaul recall`: prints an original that a line of a forwarded request names.

pub(super) mod client;

use std::collections::BTreeMap;

use clap::{Arg, ArgMatches, Command};

use super::check::upstream_key;
use super::flags::switch;
use crate::config::{ResolvedSettings, recall_endpoint};
use crate::error::Problem;
use client::{RecallClient, RecallPart};

const LONG: &str = include_str!("recall/about.txt");

const EXAMPLES: &str = include_str!("recall/examples.txt");

pub(super) fn command() -> Command {
    let pattern = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name("PATTERN").help(help)
    };
    Command::new("recall")
        .about("Print a cleared result, or the history that a summary replaces, by its ID")
        .long_about(LONG.trim_end())
        .after_help(EXAMPLES.trim_end())
        .arg(
            Arg::new("id")
                .value_name("ID")
                .required(true)
                .help("The ID in the line that stands for the original"),
        )
        .arg(pattern(
            "grep",
            "Only lines that match a regular expression, or contain the text if it is none",
        ))
        .arg(
            Arg::new("lines")
                .long("lines")
                .value_name("A-B")
                .allow_hyphen_values(true)
                .help("Only these lines, counted from 1: A-B, A-, -B or A"),
        )
        .arg(pattern(
            "search",
            "Search all that is kept of the conversation",
        ))
        .arg(switch(
            "outline",
            "List all that is kept of the conversation",
        ))
}

/// Prints the original that the arguments name. Fails if no longhaul answers, or it keeps no such
/// original.
pub(super) fn recall(
    found: &ResolvedSettings,
    matches: &ArgMatches,
    env: &BTreeMap<String, String>,
) -> Result<(), Vec<Problem>> {
    let client = client_of(found, env)?;
    let text = |name: &str| matches.get_one::<String>(name).map(String::as_str);
    let part = RecallPart {
        grep: text("grep"),
        lines: text("lines"),
        search: text("search"),
        is_outline: matches.get_flag("outline"),
    };
    let id = text("id").unwrap_or_default();
    let text = crate::cli::runtime()?.block_on(client.read(id, part))?;
    crate::cli::print(&text)
}

/// Returns a client of the running proxy. Fails if the settings name no address, or one that
/// requires TLS.
pub(super) fn client_of(
    found: &ResolvedSettings,
    env: &BTreeMap<String, String>,
) -> Result<RecallClient, Problem> {
    let endpoint = recall_endpoint(found)?;
    let token = upstream_key(env).filter(|_| endpoint.needs_token);
    RecallClient::new(endpoint.base, token)
}
