//! `longhaul connect`: prints the lines by which an agent finds a running longhaul.

use clap::ArgMatches;

use super::agents::{Agent, Place};
use crate::cli::Done;
use crate::cli::run::variables::{ANTHROPIC_VARIABLE, may_have_anthropic_key, provider_name};
use crate::config::{Config, own_origin};
use crate::error::Problem;

/// Prints the content of the agent's file, or its variable, to standard output, and where it belongs to
/// standard error. Fails if the output cannot be written.
pub(super) fn connect(config: &Config, matches: &ArgMatches) -> Done {
    let text = |name: &str| matches.get_one::<String>(name).map_or("", String::as_str);
    let Some(agent) = Agent::named(text("agent")) else {
        return Ok(());
    };
    let host = config.upstream.base.authority().host();
    let place = Place {
        origin: &own_origin(config.listen, config.tls.is_some()),
        model: text("model"),
        provider: provider_name(host),
    };
    let (name, start) = (&agent.name, agent.start_command(&place));
    if agent.export.is_empty() {
        crate::cli::print(&agent.file_content(&place))?;
        crate::cli::print_error(&format!(
            "longhaul: add these lines to {}, then start {start}\n",
            agent.file
        ));
        return Ok(());
    }
    let has_messages = config.upstream.messages.is_some();
    if agent.export.starts_with(ANTHROPIC_VARIABLE) && !may_have_anthropic_key(host, has_messages) {
        return Err(Problem::CommandLine(format!(
            "requests of {name} would go to {}, which is not Anthropic's: set upstream.messages",
            config.upstream.base
        ))
        .into());
    }
    crate::cli::print(&format!("export {}\n", place.fill(&agent.export)))?;
    crate::cli::print_error(&format!(
        "longhaul: {name} reads this variable; run the line in your shell, then start {start}\n"
    ));
    Ok(())
}
