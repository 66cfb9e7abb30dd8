//! The environment variables that name an agent's endpoint.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};

use crate::cli::Env;
use crate::config::BaseUrl;
use crate::models::HostKind;

/// End of a base URL with its version. To a URL without a version, the program adds its own path.
const VERSION: &str = "/v1";

/// The provider of the Messages API, as the table of hosts names it.
const ANTHROPIC: &str = "anthropic";
/// The variable that names the endpoint of the Messages API.
pub(in crate::cli) const ANTHROPIC_VARIABLE: &str = "ANTHROPIC_BASE_URL";

/// Default address of `longhaul serve`, as its start names it in these variables.
const SERVE_ORIGIN: &str = "http://127.0.0.1:8484";

/// Each variable with the end of its value, and the one provider whose key is sent there; `None` stands for any.
/// From the manuals of the programs that read it. The most widely read come first.
const ENDPOINT_VARIABLES: [(&str, &str, Option<&str>); 8] = [
    // The SDKs since 1.0 and programs built on them; qwen-code, LangChain, Codex.
    ("OPENAI_BASE_URL", VERSION, None),
    // The SDKs before 1.0, LiteLLM, aider.
    ("OPENAI_API_BASE", VERSION, None),
    // Open WebUI.
    ("OPENAI_API_BASE_URL", VERSION, None),
    // aider's own option, which takes precedence over the others.
    ("AIDER_OPENAI_API_BASE", VERSION, None),
    // goose.
    ("OPENAI_HOST", "", None),
    // LiteLLM and programs built on it, for models named openrouter/….
    ("OPENROUTER_API_BASE", VERSION, Some("openrouter")),
    // Claude Code and Anthropic's SDKs.
    (ANTHROPIC_VARIABLE, "", Some(ANTHROPIC)),
    // OpenHands.
    ("LLM_BASE_URL", VERSION, None),
];

/// Returns the help text that lists the variables set for the command.
pub(super) fn variables_help() -> String {
    let mut page = String::from("Variables set for COMMAND, with the proxy's address for ADDR:\n");
    for (name, end, whose) in ENDPOINT_VARIABLES {
        _ = writeln!(page, "  {name:21}  http://ADDR{end}");
        if whose.is_some() {
            _ = writeln!(page, "  {:21}  not if the upstream is another provider's", "");
        }
    }
    let proxies = PROXY_VARIABLES.join(", ");
    page + &format!(
        "  {:21}  ADDR's host added, if one of these is set:\n  {:21}  {proxies}",
        "NO_PROXY, no_proxy", ""
    )
}

/// Returns the endpoint that the environment already names, and the variable's name. An endpoint of Anthropic's API
/// does not count: it is the upstream of these requests.
pub(super) fn existing_endpoint(env: &Env) -> Option<(&'static str, &str)> {
    ENDPOINT_VARIABLES.iter().find_map(|&(name, _, owner)| {
        let value = env.get(name).filter(|value| !value.is_empty())?;
        (owner != Some(ANTHROPIC)).then_some((name, value.as_str()))
    })
}

/// Returns the origin of `base` if a longhaul of the user is there: `longhaul serve`, or one of `running`.
pub(super) fn own_origin(base: &str, running: &[String]) -> Option<String> {
    let origin = BaseUrl::parse(base).ok()?.origin().replace("//localhost:", "//127.0.0.1:");
    (origin == SERVE_ORIGIN || running.contains(&origin)).then_some(origin)
}

/// Returns the base URL of the Messages API that the command already has, if any. The variable holds the
/// URL without a version.
pub(super) fn messages_base(origin: Option<String>) -> Option<String> {
    let origin = origin?;
    let origin = origin.trim_end_matches('/');
    (!origin.is_empty()).then(|| format!("{origin}/v1"))
}

/// Returns the model that the command line or the environment names, if any.
pub(super) fn named_model(env: &Env, words: &[&OsString]) -> Option<String> {
    let text = |word: &&OsString| word.to_str().map(str::to_owned);
    let pairs = words.iter().zip(words.iter().skip(1));
    let mut named =
        pairs.filter(|(option, _)| **option == "--model").filter_map(|(_, name)| text(name));
    let joined =
        || words.iter().find_map(|word| Some(word.to_str()?.strip_prefix("--model=")?.to_owned()));
    named.next().or_else(joined).or_else(|| env.get("ANTHROPIC_MODEL").cloned())
}

/// Returns the variables to set for a proxy at `address` in front of an upstream at `host`. With
/// `has_messages`, requests of the Messages API have another upstream.
pub(super) fn agent_variables(
    address: SocketAddr,
    host: &str,
    has_messages: bool,
) -> impl Iterator<Item = (&'static str, String)> + use<'_> {
    ENDPOINT_VARIABLES
        .into_iter()
        .filter(move |(_, _, whose)| match *whose {
            Some(ANTHROPIC) => may_have_anthropic_key(host, has_messages),
            owner => owner.is_none_or(|owner| accepts_key_of(owner, host)),
        })
        .map(move |(name, end, _)| (name, format!("http://{address}{end}")))
}

/// Returns the name under which agents know the provider at `host`; `None` if the host is unknown.
pub(in crate::cli) fn provider_name(host: &str) -> Option<&'static str> {
    match HostKind::from_host(host) {
        HostKind::Provider(name) => Some(name),
        HostKind::Local | HostKind::Unknown => None,
    }
}

/// Whether requests of the Messages API, with a key of Anthropic's, may go to an upstream at `host`. With
/// `has_messages`, these requests have another upstream.
pub(in crate::cli) fn may_have_anthropic_key(host: &str, has_messages: bool) -> bool {
    has_messages || accepts_key_of(ANTHROPIC, host)
}

/// Whether traffic meant for `provider`, and its key, may go to `host` instead.
///
/// - An unknown host, or one on this network, may have it. The user has named that host, a gateway
///   for example, for all requests of the command.
/// - Another known provider may not, since it is meant for its own models. The models of `provider` are
///   then requested directly, past the proxy.
fn accepts_key_of(provider: &str, host: &str) -> bool {
    provider_name(host).is_none_or(|name| name == provider)
}

/// The variables that name other proxies, in capitals; lower case is also in use.
const PROXY_VARIABLES: [&str; 3] = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"];

/// Returns the variables that keep a command from reaching longhaul through another proxy. They
/// hold the existing exceptions and longhaul's address; empty if no other proxy is set.
pub(super) fn proxy_exceptions(env: &Env, here: IpAddr) -> Vec<(&'static str, String)> {
    let set = |name: &str| env.get(name).filter(|value| !value.is_empty());
    let either = |name: &str| set(name).or_else(|| set(&name.to_lowercase()));
    if PROXY_VARIABLES.iter().all(|name| either(name).is_none()) {
        return Vec::new();
    }
    let except = match either("NO_PROXY") {
        None => here.to_string(),
        // `*` already covers everything. With more entries, many programs would read it as a name
        // in a list.
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
    fn another_provider_receives_no_key_of_anthropic() {
        for (host, has_messages, expect) in [
            ("openrouter.ai", false, false),
            ("api.deepseek.com", false, false),
            ("openrouter.ai", true, true),
            ("api.anthropic.com", false, true),
            ("127.0.0.1", false, true),
        ] {
            assert_eq!(may_have_anthropic_key(host, has_messages), expect, "{host}");
        }
    }

    #[test]
    fn adds_its_own_address_to_no_proxy_if_a_proxy_is_set() {
        let proxy = ("https_proxy", "http://corp:3128");
        check(&[], "127.0.0.1", None);
        check(&[("NO_PROXY", "corp"), ("HTTP_PROXY", "")], "127.0.0.1", None);
        check(&[proxy], "127.0.0.1", Some("127.0.0.1"));
        check(&[proxy], "::1", Some("::1"));
        let except = ("no_proxy", "corp,10.0.0.0/8");
        check(&[proxy, except], "10.1.2.3", Some("corp,10.0.0.0/8,10.1.2.3"));
        for all in ["*", " * "] {
            check(&[proxy, ("NO_PROXY", all)], "127.0.0.1", Some(all));
        }
    }
}
