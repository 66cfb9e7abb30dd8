//! Logins of people: which built-in host receives each form of credential.

mod account;
mod clients;
pub(crate) mod hosts;
mod quota;

use longhaul::Config;
use serde_json::json;

use crate::harness::Proxy;
use crate::program::{Admin, Program};
use hosts::{Hosts, post};

/// A token as `ChatGPT` issues it: header, claims and signature. The signature is made up.
pub(crate) const TOKEN: &str = "Bearer eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ1c2VyLTEifQ.c2ln";
pub(crate) const ACCOUNT: (&str, &str) = ("chatgpt-account-id", "acc-1");
const KEY: &str = "Bearer sk-proj-aaaa";
const CHATGPT: &str = "chatgpt.com /backend-api/codex";
const OPENAI: &str = "api.openai.com /v1";

/// A proxy without an upstream of its own, which reaches the built-in hosts through `hosts`.
async fn proxy(hosts: &Hosts, changes: &[(&str, &str)]) -> Proxy {
    let mut all = hosts.settings().to_vec();
    all.extend(changes);
    Proxy::with(Config::default_with(all).unwrap()).await
}

/// Sends a request with these fields, and returns host and path that received it.
async fn received(proxy: &Proxy, hosts: &Hosts, path: &str, fields: &[(&str, &str)]) -> String {
    let body = json!({"model": "gpt-5", "input": "go", "messages": []}).to_string();
    post(proxy.address, path, fields, &body).await;
    let seen = hosts.take();
    assert_eq!(seen.len(), 1, "{seen:?}");
    for (name, value) in fields.iter().filter(|(_, value)| !value.is_empty()) {
        assert!(seen[0].has(name, value.trim()), "{name}: {seen:?}");
    }
    assert_eq!(seen[0].body, body);
    format!("{} {}", seen[0].host, seen[0].path)
}

/// The header of an account alone, a token alone, and any form of key select nothing.
#[tokio::test]
async fn only_a_token_of_three_parts_with_an_account_selects_the_backend_of_chatgpt() {
    let hosts = Hosts::start(hosts::strict).await;
    let proxy = proxy(&hosts, &[]).await;
    let two = [("authorization", TOKEN), ("authorization", TOKEN), ACCOUNT];
    for (base, fields) in [
        (CHATGPT, &[("authorization", TOKEN), ACCOUNT][..]),
        (CHATGPT, &[("authorization", "bearer  aa.b_-.c"), ACCOUNT]),
        (OPENAI, &[ACCOUNT]),
        (OPENAI, &[("authorization", TOKEN)]),
        (OPENAI, &[("authorization", TOKEN), ("chatgpt-account-id", "")]),
        (OPENAI, &[("authorization", KEY), ACCOUNT]),
        (OPENAI, &[("authorization", "Bearer sk-a.b.c"), ACCOUNT]),
        (OPENAI, &[("authorization", "Bearer a.b"), ACCOUNT]),
        (OPENAI, &[("authorization", "Bearer a..c"), ACCOUNT]),
        (OPENAI, &[("authorization", "Bearer a.b.c.d"), ACCOUNT]),
        (OPENAI, &[("authorization", "Bearer a.b.c d"), ACCOUNT]),
        (OPENAI, &[("authorization", "Basic a.b.c"), ACCOUNT]),
        (OPENAI, &[("authorization", TOKEN), ("api-key", "k"), ACCOUNT]),
        (OPENAI, &[("authorization", TOKEN), ACCOUNT, ("chatgpt-account-id", "acc-2")]),
        (OPENAI, &two),
        (OPENAI, &[("x-upstream", "chatgpt.com"), ("authorization", KEY)]),
    ] {
        let at = received(&proxy, &hosts, "/v1/responses", fields).await;
        assert_eq!(at, format!("{base}/responses"), "{fields:?}");
    }
    let login = [("authorization", TOKEN), ACCOUNT];
    for (path, expect) in [
        ("/v1/responses/compact", "/responses/compact"),
        ("/responses", "/responses"),
        ("/backend-api/codex/responses", "/responses"),
    ] {
        let at = received(&proxy, &hosts, path, &login).await;
        assert_eq!(at, format!("{CHATGPT}{expect}"), "{path}");
    }
    // The API comes first: a request of Anthropic's goes to Anthropic, whatever stands beside it.
    let claude = [("authorization", "Bearer sk-ant-oat01-x"), ACCOUNT];
    for (path, fields) in [("/v1/messages", &login), ("/v1/messages", &claude)] {
        let at = received(&proxy, &hosts, path, fields).await;
        assert_eq!(at, "api.anthropic.com /v1/messages");
    }
    proxy.stop().await;
}

#[tokio::test]
async fn no_credential_selects_a_host_once_anything_is_configured() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("tokens");
    std::fs::write(&file, TOKEN.trim_start_matches("Bearer ")).unwrap();
    let file = file.to_str().unwrap();
    let hosts = Hosts::start(hosts::strict).await;
    let login = [("authorization", TOKEN), ACCOUNT];
    for setting in [
        ("upstream.base", "https://api.openai.com/v1/"),
        ("upstream.messages", "https://api.anthropic.com/v1"),
        ("upstream.api_key", "sk-1"),
        ("client_tokens_file", file),
    ] {
        let proxy = proxy(&hosts, &[setting]).await;
        post(proxy.address, "/v1/responses", &login, "{}").await;
        let seen = hosts.take();
        assert_eq!(seen[0].host, "api.openai.com", "{setting:?}");
        proxy.stop().await;
    }
    let settings = dir.path().join("longhaul.toml");
    let mount = "[[mount]]\npath = \"/own\"\nupstream = \"https://api.anthropic.com/v1\"\n";
    std::fs::write(&settings, mount).unwrap();
    let mut environment = hosts.environment().to_vec();
    environment.push(("LONGHAUL_CONFIG", settings.to_str().unwrap()));
    let program = Program::start("", &environment);
    post(program.address(), "/v1/responses", &login, "{}").await;
    assert_eq!(hosts.take()[0].host, "api.openai.com");
    let mut environment = hosts.environment().to_vec();
    environment.push(("LONGHAUL_UPSTREAM", "https://api.openai.com/v1"));
    let program = Program::start("", &environment);
    post(program.address(), "/v1/responses", &login, "{}").await;
    assert_eq!(hosts.take()[0].host, "api.openai.com");
}

#[tokio::test]
async fn a_refusal_at_the_wrong_base_says_so_in_the_log_and_in_doctor() {
    let hosts = Hosts::start(hosts::strict).await;
    let environment = hosts.environment();
    let api = ("LONGHAUL_UPSTREAM", "https://api.openai.com/v1");
    let backend = ("LONGHAUL_UPSTREAM", "https://chatgpt.com/backend-api/codex");
    let login = [("authorization", TOKEN), ACCOUNT];
    let key = [("authorization", KEY)];
    for (upstream, fields, says) in [
        (
            Some(api),
            &login[..],
            Some("refuses a ChatGPT login, which belongs to https://chatgpt.com/"),
        ),
        (Some(backend), &key, Some("an API key belongs to https://api.openai.com/v1")),
        (Some(api), &[("authorization", "Bearer sk-wrong")], None),
        (None, &login, None),
    ] {
        let environment: Vec<_> = environment.into_iter().chain(upstream).collect();
        let program = Program::with_admin("", &environment, Admin::Off);
        post(program.address(), "/v1/responses", fields, r#"{"model":"m","input":"go"}"#).await;
        let said = program.said();
        assert_eq!(said.contains("wrong base"), says.is_some(), "{said}");
        assert!(says.is_none_or(|says| said.contains(says)), "{said}");
        assert!(!said.contains("acc-1") && !said.contains("sk-"), "{said}");
    }
    for (upstream, key, says) in [
        (api, "", "refuses a ChatGPT login, which belongs to https://chatgpt.com/"),
        (backend, "sk-1", "an API key belongs to https://api.openai.com/v1"),
    ] {
        let mut all = environment.to_vec();
        all.extend([upstream, ("LONGHAUL_ADMIN", "off"), ("LONGHAUL_LISTEN", "127.0.0.1:0")]);
        all.extend((!key.is_empty()).then_some(("OPENAI_API_KEY", key)));
        let said = hosts::doctor(&all).await;
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains(says), "{said}");
    }
}
