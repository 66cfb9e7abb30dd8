//! The variables by which agents are told where their endpoint is.

use std::collections::BTreeMap;
use std::net::SocketAddr;

/// What a variable holds.
#[derive(Clone, Copy)]
enum Form {
    /// The base URL, with its version.
    Base,
    /// Without it: the program adds its own path.
    Origin,
}

/// Each variable with what it holds, from the manuals of those who read it.
const VARIABLES: [(&str, Form); 7] = [
    // The SDKs from 1.0 on, and what is built on them; qwen-code, LangChain, Codex.
    ("OPENAI_BASE_URL", Form::Base),
    // The SDKs before it, LiteLLM, aider.
    ("OPENAI_API_BASE", Form::Base),
    // Open WebUI.
    ("OPENAI_API_BASE_URL", Form::Base),
    // aider's own option, which goes before the others.
    ("AIDER_OPENAI_API_BASE", Form::Base),
    // goose.
    ("OPENAI_HOST", Form::Origin),
    // LiteLLM and what is built on it, for models named openrouter/….
    ("OPENROUTER_API_BASE", Form::Base),
    // OpenHands.
    ("LLM_BASE_URL", Form::Base),
];

/// The variables that say where the command would go without us: first those that most read.
const ENDPOINTS: [&str; 3] = ["OPENAI_BASE_URL", "OPENAI_API_BASE", "OPENAI_API_BASE_URL"];

/// The endpoint that the environment names already, and the variable that does.
pub(super) fn endpoint(env: &BTreeMap<String, String>) -> Option<(&'static str, &str)> {
    let set = |name: &&'static str| {
        let value = env.get(*name).filter(|value| !value.is_empty())?;
        Some((*name, value.as_str()))
    };
    ENDPOINTS.iter().find_map(set)
}

/// What agents are given as their base URL.
pub(super) fn base(address: SocketAddr) -> String {
    format!("http://{address}/v1")
}

/// All variables, for a proxy at `address`.
pub(super) fn for_agents(address: SocketAddr) -> impl Iterator<Item = (&'static str, String)> {
    VARIABLES.into_iter().map(move |(name, form)| {
        let value = match form {
            Form::Base => base(address),
            Form::Origin => format!("http://{address}"),
        };
        (name, value)
    })
}

/// The variables that name other proxies, in capitals; small letters are as usual.
const PROXIES: [&str; 3] = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"];

/// What keeps a command from asking another proxy for ours, where it has another: the exceptions it
/// has, and this machine.
pub(super) fn past_proxies(env: &BTreeMap<String, String>) -> Vec<(&'static str, String)> {
    let set = |name: &str| env.get(name).filter(|value| !value.is_empty());
    let either = |name: &str| set(name).or_else(|| set(&name.to_lowercase()));
    if PROXIES.iter().all(|name| either(name).is_none()) {
        return Vec::new();
    }
    let here = "127.0.0.1";
    let except =
        either("NO_PROXY").map_or_else(|| here.to_owned(), |except| format!("{except},{here}"));
    vec![("NO_PROXY", except.clone()), ("no_proxy", except)]
}
