//! `longhaul connect`: prints the lines by which an agent finds a running longhaul.

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgMatches, Command};

use super::agents::Agent;
use crate::cli::run::variables::may_have_anthropic_key;
use crate::config::{Config, own_origin};
use crate::error::Problem;

/// The placeholder for a model that the user has yet to choose.
const MODEL: &str = "NAME";

pub(super) fn command() -> Command {
    Command::new("connect")
        .about("Print the lines that make an agent use longhaul, and where they belong")
        .after_help(
            "Other agents read a variable: `longhaul` prints it at its start, and \
             `longhaul run -- AGENT` sets it.",
        )
        .arg(
            Arg::new("agent")
                .value_name("AGENT")
                .required(true)
                .value_parser(PossibleValuesParser::new(agent_names()))
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

/// Agents that a variable points to longhaul: the variable, its value after the origin, and the
/// command that starts the agent.
const BY_VARIABLE: [(&str, &str, &str, &str); 2] = [
    (
        "aider",
        "OPENAI_API_BASE",
        "/v1",
        "aider --model openai/NAME --max-chat-history-tokens 1000000",
    ),
    ("claude", "ANTHROPIC_BASE_URL", "", "claude"),
];

fn agent_names() -> impl Iterator<Item = &'static str> {
    let files = Agent::ALL.map(Agent::name);
    files.into_iter().chain(BY_VARIABLE.map(|(name, ..)| name))
}

/// Prints the content of the agent's file to standard output, and its place to standard error.
/// Fails if the output cannot be written.
pub(super) fn connect(config: &Config, matches: &ArgMatches) -> Result<(), Vec<Problem>> {
    let text = |name: &str| matches.get_one::<String>(name).map_or("", String::as_str);
    let origin = own_origin(config.listen, config.tls.is_some());
    if let Some((name, variable, path, start)) =
        BY_VARIABLE.iter().find(|(name, ..)| *name == text("agent"))
    {
        let upstream = &config.upstream;
        let may_have_key = may_have_anthropic_key(
            upstream.base.authority().host(),
            upstream.messages.is_some(),
        );
        if *name == "claude" && !may_have_key {
            return Err(Problem::CommandLine(format!(
                "requests of {name} would go to {}, which is not Anthropic's: set upstream.messages",
                upstream.base
            ))
            .into());
        }
        crate::cli::print(&format!("export {variable}={origin}{path}\n"))?;
        crate::cli::print_error(&format!(
            "longhaul: {name} reads this variable; run the line in your shell, then start {}\n",
            start.replace("NAME", text("model"))
        ));
        return Ok(());
    }
    let Some(agent) = Agent::named(text("agent")) else {
        return Ok(());
    };
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
