//! The variables by which agents are told where their endpoint is.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};

use crate::models::HostKind;

/// What a variable holds.
#[derive(Clone, Copy)]
enum UrlForm {
    /// The base URL, with its version.
    Base,
    /// Without it: the program adds its own path.
    Origin,
}

/// Whose endpoint a variable names, and so whose key goes there.
#[derive(Clone, Copy, Eq, PartialEq)]
enum KeyOwner {
    /// Any provider's.
    AnyProvider,
    /// OpenRouter's alone, beside others that the same program has.
    OpenRouter,
}

/// Each variable with what it holds, from the manuals of those who read it; first those that most
/// read.
const ENDPOINT_VARIABLES: [(&str, UrlForm, KeyOwner); 7] = [
    // The SDKs from 1.0 on, and what is built on them; qwen-code, LangChain, Codex.
    ("OPENAI_BASE_URL", UrlForm::Base, KeyOwner::AnyProvider),
    // The SDKs before it, LiteLLM, aider.
    ("OPENAI_API_BASE", UrlForm::Base, KeyOwner::AnyProvider),
    // Open WebUI.
    ("OPENAI_API_BASE_URL", UrlForm::Base, KeyOwner::AnyProvider),
    // aider's own option, which goes before the others.
    (
        "AIDER_OPENAI_API_BASE",
        UrlForm::Base,
        KeyOwner::AnyProvider,
    ),
    // goose.
    ("OPENAI_HOST", UrlForm::Origin, KeyOwner::AnyProvider),
    // LiteLLM and what is built on it, for models named openrouter/….
    ("OPENROUTER_API_BASE", UrlForm::Base, KeyOwner::OpenRouter),
    // OpenHands.
    ("LLM_BASE_URL", UrlForm::Base, KeyOwner::AnyProvider),
];

/// Which variables the command finds set, for people.
pub(super) fn variables_help() -> String {
    let mut page = String::from("COMMAND finds set, with the proxy's address for ADDR:\n");
    for (name, form, whose) in ENDPOINT_VARIABLES {
        let value = match form {
            UrlForm::Base => "http://ADDR/v1",
            UrlForm::Origin => "http://ADDR",
        };
        let unless = match whose {
            KeyOwner::AnyProvider => "",
            KeyOwner::OpenRouter => ", unless the upstream is another provider's",
        };
        // Writing to a String cannot fail.
        _ = writeln!(page, "  {name:21}  {value}{unless}");
    }
    let proxies = PROXY_VARIABLES.join(", ");
    page + &format!(
        "  {:21}  ADDR's host too, where one of {proxies} is set",
        "NO_PROXY, no_proxy"
    )
}

/// The endpoint that the environment names already, and the variable that does.
pub(super) fn existing_endpoint(env: &BTreeMap<String, String>) -> Option<(&'static str, &str)> {
    ENDPOINT_VARIABLES.iter().find_map(|&(name, _, _)| {
        let value = env.get(name).filter(|value| !value.is_empty())?;
        Some((name, value.as_str()))
    })
}

/// What agents are given as their base URL.
pub(super) fn base_url(address: SocketAddr) -> String {
    format!("http://{address}/v1")
}

/// The variables that are set for a proxy at `address` in front of an upstream at `host`.
pub(super) fn agent_variables(
    address: SocketAddr,
    host: &str,
) -> impl Iterator<Item = (&'static str, String)> {
    let may_have_openrouters = accepts_openrouter_key(host);
    ENDPOINT_VARIABLES
        .into_iter()
        .filter(move |(_, _, whose)| match whose {
            KeyOwner::AnyProvider => true,
            KeyOwner::OpenRouter => may_have_openrouters,
        })
        .map(move |(name, form, _)| {
            let value = match form {
                UrlForm::Base => base_url(address),
                UrlForm::Origin => format!("http://{address}"),
            };
            (name, value)
        })
}

/// Whether what goes to OpenRouter by default, and the key for it, may go to `host` instead. A host of
/// nobody's that is known, or of this network, is no default: the user has named it, a gateway of
/// theirs say, and means it for all that the command asks. Another provider is meant for its own
/// models: those of OpenRouter are then asked for where they always were, past the proxy.
fn accepts_openrouter_key(host: &str) -> bool {
    match HostKind::from_host(host) {
        HostKind::Local | HostKind::Unknown => true,
        HostKind::Provider(name) => name == "openrouter",
    }
}

/// The variables that name other proxies, in capitals; small letters are as usual.
const PROXY_VARIABLES: [&str; 3] = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"];

/// What keeps a command from asking another proxy for ours, where it has another: the exceptions it
/// has, and the address of ours.
pub(super) fn proxy_exceptions(
    env: &BTreeMap<String, String>,
    here: IpAddr,
) -> Vec<(&'static str, String)> {
    let set = |name: &str| env.get(name).filter(|value| !value.is_empty());
    let either = |name: &str| set(name).or_else(|| set(&name.to_lowercase()));
    if PROXY_VARIABLES.iter().all(|name| either(name).is_none()) {
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
        let set = proxy_exceptions(&env.iter().map(named).collect(), here.parse().unwrap());
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
