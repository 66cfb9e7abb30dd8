//! `longhaul connect`: prints the lines by which an agent finds a running longhaul.

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgMatches, Command};

use super::agents::Agent;
use crate::config::{Config, own_origin};
use crate::error::Problem;

/// The placeholder for a model that the user has yet to choose.
const MODEL: &str = "NAME";

pub(super) fn command() -> Command {
    Command::new("connect")
        .about("Print the lines by which an agent finds longhaul, for agents that read a file")
        .after_help(
            "Every other agent needs one variable, which `longhaul` prints at its start, or \
             `longhaul run -- AGENT`.",
        )
        .arg(
            Arg::new("agent")
                .value_name("AGENT")
                .required(true)
                .value_parser(PossibleValuesParser::new(Agent::ALL.map(Agent::name)))
                .help("The agent"),
        )
        .arg(
            Arg::new("model")
                .long("model")
                .value_name("NAME")
                .default_value(MODEL)
                .help("The model's name at your provider"),
        )
}

/// Prints the content of the agent's file to standard output, and its place to standard error.
/// Fails if the output cannot be written.
pub(super) fn connect(config: &Config, matches: &ArgMatches) -> Result<(), Vec<Problem>> {
    let text = |name: &str| matches.get_one::<String>(name).map_or("", String::as_str);
    let Some(agent) = Agent::named(text("agent")) else {
        return Ok(());
    };
    let origin = own_origin(config.listen, config.tls.is_some());
    let base = format!("{origin}/v1");
    let model = text("model");
    crate::cli::print(&agent.file_content(&base, model))?;
    crate::cli::print_error(&format!(
        "longhaul: add these lines to {}, then start {}\n",
        agent.file(),
        agent.start_command(&base, model)
    ));
    Ok(())
}
