//! The variables by which agents are told where their endpoint is.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};

use crate::models::Place;

/// What a variable holds.
#[derive(Clone, Copy)]
enum Form {
    /// The base URL, with its version.
    Base,
    /// Without it: the program adds its own path.
    Origin,
}

/// Whose endpoint a variable names, and so whose key goes there.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Whose {
    /// Any provider's.
    Anyones,
    /// OpenRouter's alone, beside others that the same program has.
    OpenRouters,
}

/// Each variable with what it holds, from the manuals of those who read it; first those that most
/// read.
const VARIABLES: [(&str, Form, Whose); 7] = [
    // The SDKs from 1.0 on, and what is built on them; qwen-code, LangChain, Codex.
    ("OPENAI_BASE_URL", Form::Base, Whose::Anyones),
    // The SDKs before it, LiteLLM, aider.
    ("OPENAI_API_BASE", Form::Base, Whose::Anyones),
    // Open WebUI.
    ("OPENAI_API_BASE_URL", Form::Base, Whose::Anyones),
    // aider's own option, which goes before the others.
    ("AIDER_OPENAI_API_BASE", Form::Base, Whose::Anyones),
    // goose.
    ("OPENAI_HOST", Form::Origin, Whose::Anyones),
    // LiteLLM and what is built on it, for models named openrouter/….
    ("OPENROUTER_API_BASE", Form::Base, Whose::OpenRouters),
    // OpenHands.
    ("LLM_BASE_URL", Form::Base, Whose::Anyones),
];

/// Which variables the command finds set, for people.
pub(super) fn help() -> String {
    let mut page = String::from("COMMAND finds set, with the proxy's address for ADDR:\n");
    for (name, form, whose) in VARIABLES {
        let value = match form {
            Form::Base => "http://ADDR/v1",
            Form::Origin => "http://ADDR",
        };
        let unless = match whose {
            Whose::Anyones => "",
            Whose::OpenRouters => ", unless the upstream is another provider's",
        };
        // Writing to a String cannot fail.
        _ = writeln!(page, "  {name:21}  {value}{unless}");
    }
    let proxies = PROXIES.join(", ");
    page + &format!(
        "  {:21}  ADDR's host too, where one of {proxies} is set",
        "NO_PROXY, no_proxy"
    )
}

/// The endpoint that the environment names already, and the variable that does.
pub(super) fn endpoint(env: &BTreeMap<String, String>) -> Option<(&'static str, &str)> {
    VARIABLES.iter().find_map(|&(name, _, _)| {
        let value = env.get(name).filter(|value| !value.is_empty())?;
        Some((name, value.as_str()))
    })
}

/// What agents are given as their base URL.
pub(super) fn base(address: SocketAddr) -> String {
    format!("http://{address}/v1")
}

/// The variables that are set for a proxy at `address` in front of an upstream at `host`.
pub(super) fn for_agents(
    address: SocketAddr,
    host: &str,
) -> impl Iterator<Item = (&'static str, String)> {
    let may_have_openrouters = may_have_openrouters_key(host);
    VARIABLES
        .into_iter()
        .filter(move |(_, _, whose)| match whose {
            Whose::Anyones => true,
            Whose::OpenRouters => may_have_openrouters,
        })
        .map(move |(name, form, _)| {
            let value = match form {
                Form::Base => base(address),
                Form::Origin => format!("http://{address}"),
            };
            (name, value)
        })
}

/// Whether what goes to OpenRouter by default, and the key for it, may go to `host` instead. A host of
/// nobody's that is known, or of this network, is no default: the user has named it, a gateway of
/// theirs say, and means it for all that the command asks. Another provider is meant for its own
/// models: those of OpenRouter are then asked for where they always were, past the proxy.
fn may_have_openrouters_key(host: &str) -> bool {
    match Place::of(host) {
        Place::Local | Place::Unknown => true,
        Place::Provider(name) => name == "openrouter",
    }
}

/// The variables that name other proxies, in capitals; small letters are as usual.
const PROXIES: [&str; 3] = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"];

/// What keeps a command from asking another proxy for ours, where it has another: the exceptions it
/// has, and the address of ours.
pub(super) fn past_proxies(
    env: &BTreeMap<String, String>,
    here: IpAddr,
) -> Vec<(&'static str, String)> {
    let set = |name: &str| env.get(name).filter(|value| !value.is_empty());
    let either = |name: &str| set(name).or_else(|| set(&name.to_lowercase()));
    if PROXIES.iter().all(|name| either(name).is_none()) {
        return Vec::new();
    }
    let except = match either("NO_PROXY") {
        None => here.to_string(),
        // Everything: of a list, which it would be with more, it is a name to many.
        Some(all) if all.trim() == "*" => all.clone(),
        Some(except) => format!("{except},{here}"),
    };
    vec![("NO_PROXY", except.clone()), ("no_proxy", except)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(env: &[(&str, &str)], here: &str, expect: Option<&str>) {
        let named = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
        let set = past_proxies(&env.iter().map(named).collect(), here.parse().unwrap());
        let names = ["NO_PROXY", "no_proxy"];
        let expect = expect.map(|value| names.map(|name| (name, value.to_owned())));
        assert_eq!(set, expect.as_ref().map_or(&[][..], |both| both), "{env:?}");
    }

    #[test]
    fn a_command_that_has_another_proxy_asks_ours_without_it() {
        let proxy = ("https_proxy", "http://corp:3128");
        check(&[], "127.0.0.1", None);
        check(
            &[("NO_PROXY", "corp"), ("HTTP_PROXY", "")],
            "127.0.0.1",
            None,
        );
        check(&[proxy], "127.0.0.1", Some("127.0.0.1"));
        check(&[proxy], "::1", Some("::1"));
        let except = ("no_proxy", "corp,10.0.0.0/8");
        check(
            &[proxy, except],
            "10.1.2.3",
            Some("corp,10.0.0.0/8,10.1.2.3"),
        );
        for all in ["*", " * "] {
            check(&[proxy, ("NO_PROXY", all)], "127.0.0.1", Some(all));
        }
    }
}
