//! `longhaul connect`: makes an agent use a running longhaul, or prints how.

mod format;
pub(super) mod journal;

use std::net::TcpStream;
use std::time::Duration;

use clap::ArgMatches;

use super::agents::{Agent, Target};
use crate::cli::run::variables::{ANTHROPIC_VARIABLE, may_have_anthropic_key};
use crate::cli::{Done, Env};
use crate::config::{Config, own_origin, reachable_address};
use crate::error::Problem;
use format::{Format, Place};

/// Model in printed lines if the user names none.
const ANY_MODEL: &str = "NAME";

/// Changes the agent's file, undoes that, or prints the lines for the file or the agent's variable. Fails if
/// the file cannot be changed or the output cannot be written.
pub(super) fn connect(config: &Config, matches: &ArgMatches, env: &Env) -> Done {
    let text = |name: &str| matches.get_one::<String>(name).map(String::as_str);
    let Some(agent) = text("agent").and_then(Agent::named) else {
        return Ok(());
    };
    if matches.get_flag("undo") {
        return Ok(journal::undo(agent, env)?);
    }
    let writes = matches.get_flag("write");
    let target = Target {
        origin: &own_origin(config.listen, config.tls.is_some()),
        model: text("model").or_else(|| (!writes).then_some(ANY_MODEL)),
        host: config.upstream.base.authority().host(),
        has_messages: config.upstream.messages.is_some(),
    };
    let needs_messages = agent.export.starts_with(ANTHROPIC_VARIABLE);
    if needs_messages && !may_have_anthropic_key(target.host, target.has_messages) {
        return Err(Problem::CommandLine(format!(
            "requests of {} would go to {}, which is not Anthropic's: set upstream.messages",
            agent.name, config.upstream.base
        ))
        .into());
    }
    if !writes {
        return print_lines(agent, &target, env);
    }
    journal::write(agent, &target, env, matches.get_flag("force"))?;
    let address = reachable_address(config.listen);
    if TcpStream::connect_timeout(&address, Duration::from_millis(500)).is_err() {
        crate::cli::print_error(&format!(
            "longhaul: nothing listens at {address} yet; start `longhaul`\n"
        ));
    }
    Ok(())
}

/// Prints the lines to standard output, and where they belong to standard error.
fn print_lines(agent: &Agent, target: &Target<'_>, env: &Env) -> Done {
    let name = &agent.name;
    let start = |needs_model: bool| {
        let model = target.model.filter(|model| needs_model || *model != ANY_MODEL);
        agent.start_command(&Target { model, ..*target })
    };
    if !agent.export.is_empty() {
        crate::cli::print(&format!("export {}\n", target.fill(&agent.export)))?;
        let start = start(agent.own_models.is_empty());
        crate::cli::print_error(&format!(
            "longhaul: {name} reads this variable; run the line in your shell, then start {start}; \
             `longhaul connect {name} --write` sets it for good\n"
        ));
        return Ok(());
    }
    let file = agent.file(env);
    let format = Format::of(&file);
    let lines = agent.keys(target).iter().try_fold(String::new(), |text, key| {
        format.change(&text, &Place::new(&key.at, &key.value), Some(&key.value))
    });
    let lines = lines.unwrap_or_default();
    crate::cli::print(&lines)?;
    let start = start(lines.contains(ANY_MODEL));
    let first = if format == Format::Toml { ", before its first [table]" } else { "" };
    crate::cli::print_error(&format!(
        "longhaul: {name} needs these lines in {}{first}; `longhaul connect {name} --write` puts them \
         there; then start {start}\n",
        file.display()
    ));
    Ok(())
}
