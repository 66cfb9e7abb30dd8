//! A proxy that holds the upstream's key and requires tokens from its clients.

use http::Method;
use longhaul_mock_model::{Model, ModelOptions, RequestKind};
use std::io::Write as _;
use std::process::Command;
use tempfile::NamedTempFile;

use crate::caller::{Caller, talk};
use crate::manual::ask;
use crate::program::Program;

const TOKEN: &str = "0123456789abcdef0123456789abcdef";
const KEY: &str = "sk-of-the-proxy";

/// Creates a temporary file that the program can read.
fn file(text: &str) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

#[tokio::test]
async fn only_a_valid_client_token_is_served_with_the_proxys_key() {
    let model = Model::start(ModelOptions::with_window(32_768)).await.unwrap();
    let (tokens, key) = (file(TOKEN), file(KEY));
    let settings = [
        ("LONGHAUL_CLIENT_TOKENS_FILE", tokens.path().to_str().unwrap()),
        ("LONGHAUL_UPSTREAM_API_KEY_FILE", key.path().to_str().unwrap()),
    ];
    let program = Program::told(&model.url(), &settings);
    let caller = Caller::of(program.address());
    let url = format!("http://{}/v1", program.address());
    let wrong = format!("Bearer {TOKEN}x");
    for fields in [&[][..], &[("authorization", &*wrong)]] {
        let chat = caller.ask_with(fields, talk(1, 10)).await;
        let models = ask((Method::GET, &url, "/v1/models"), fields, b"").await;
        let manual = (Method::POST, &*url, "/__longhaul__/compact");
        let compacted = ask(manual, fields, &talk(1, 10)).await;
        for (status, body) in [
            (chat.status, chat.body),
            (models.status, models.body),
            (compacted.status, compacted.body),
        ] {
            let said: serde_json::Value = serde_json::from_slice(&body).unwrap();
            assert_eq!((status, &said["error"]["code"]), (401, &"invalid_token".into()));
        }
    }
    assert!(model.seen().is_empty(), "the upstream hears nothing of them");
    // A browser's preflight request asks what its page may send. It carries no token itself.
    let preflight = [("origin", "https://app.example"), ("access-control-request-method", "POST")];
    let chats = (Method::OPTIONS, &*url, "/v1/chat/completions");
    assert_eq!(ask(chats, &preflight, b"").await.status, 404, "the model's");
    let seen = model.seen();
    assert_eq!(seen.len(), 1);
    assert!(!seen[0].headers.contains_key("authorization"));

    let right = format!("Bearer {TOKEN}");
    // Past the window, so that the summary call and the retry carry the key too.
    let fields = [("authorization", &*right), ("x-api-key", TOKEN)];
    for chat in [talk(1, 10), talk(20, 2_000)] {
        assert_eq!(caller.ask_with(&fields, chat).await.status, 200);
    }
    let seen = model.seen().split_off(1);
    assert!(seen.iter().any(|seen| seen.kind == RequestKind::Summary));
    for seen in seen {
        let shown: Vec<_> = seen.headers.get_all("authorization").iter().collect();
        assert_eq!(shown, [&format!("Bearer {KEY}")], "{:?}", seen.kind);
        let told = format!("{:?}", seen.headers);
        assert!(!told.contains(TOKEN), "{:?}", seen.kind);
    }
    let said = program.ended();
    assert!(!said.contains(TOKEN) && !said.contains(KEY), "{said}");
}

#[test]
fn warns_if_the_upstream_receives_no_api_key() {
    let tokens = file(TOKEN);
    let path = tokens.path().to_str().unwrap();
    let upstream = "https://api.example.com/v1";
    let env = [("LONGHAUL_CLIENT_TOKENS_FILE", path)];
    let words = "https://api.example.com receives no API key";
    let said = Program::told(upstream, &env).ended();
    assert_eq!(said.matches(words).count(), 1, "{said}");
    let checked = Command::new(env!("CARGO_BIN_EXE_longhaul"))
        .args(["check", "--upstream", upstream])
        .env_clear()
        .envs(env)
        .output()
        .unwrap();
    let said = String::from_utf8(checked.stderr).unwrap();
    assert_eq!(checked.status.code(), Some(0), "{said}");
    assert_eq!(said.matches(words).count(), 1, "{said}");
}

#[tokio::test]
async fn foreign_pages_and_host_names_are_refused_the_proxys_key() {
    let model = Model::start(ModelOptions::with_window(32_768)).await.unwrap();
    let program = Program::told(&model.url(), &[("LONGHAUL_UPSTREAM_API_KEY", KEY)]);
    let caller = Caller::of(program.address());
    let page = |origin| [("origin", origin), ("content-type", "text/plain")];
    for origin in ["https://pages.example", "http://x{y.pages.example"] {
        let refused = caller.ask_with(&page(origin), talk(1, 10)).await;
        let said: serde_json::Value = serde_json::from_slice(&refused.body).unwrap();
        assert_eq!(refused.status, 403, "{origin}");
        assert_eq!(said["error"]["code"], "foreign_page");
    }
    // DNS rebinding: a name that resolves to this address, so that the browser treats the request
    // as same-origin.
    let url = format!("http://{}/v1", program.address());
    let rebound = [("host", "pages.example"), ("accept-language", "en")];
    let refused = ask((Method::GET, &url, "/v1/models"), &rebound, b"").await;
    let said: serde_json::Value = serde_json::from_slice(&refused.body).unwrap();
    assert_eq!(refused.status, 403);
    assert_eq!(said["error"]["code"], "unknown_host");
    // Programs are refused under that name too: the proxy cannot tell them apart.
    let refused = ask((Method::GET, &url, "/v1/models"), &[("host", "evil.example")], b"").await;
    let said: serde_json::Value = serde_json::from_slice(&refused.body).unwrap();
    assert_eq!((refused.status, &said["error"]["code"]), (403, &"unknown_host".into()));
    assert!(model.seen().is_empty());
    let own = page("http://localhost:3000");
    assert_eq!(caller.ask_with(&own, talk(1, 10)).await.status, 200);
}

/// The image sets `public`, and the model may need no key.
#[tokio::test]
async fn a_foreign_page_reaches_no_keyless_model_through_an_open_listener() {
    let model = Model::start(ModelOptions::with_window(32_768)).await.unwrap();
    let program = Program::told(&model.url(), &[("LONGHAUL_PUBLIC", "true")]);
    let caller = Caller::of(program.address());
    let page = ("origin", "http://pages.example");
    for fields in [
        &[page][..],
        &[("host", "pages.example"), page],
        &[("origin", "http://x`y.pages.example")],
        &[("origin", "null")],
        &[("sec-fetch-site", "cross-site")],
    ] {
        let refused = caller.ask_with(fields, talk(1, 10)).await;
        assert_eq!(refused.status, 403, "{fields:?}");
    }
    assert!(model.seen().is_empty());
    for fields in [
        &[][..],
        &[("host", "longhaul.example")],
        &[page, ("authorization", "Bearer k")],
        &[("origin", "vscode-webview://1a2b")],
    ] {
        let served = caller.ask_with(fields, talk(1, 10)).await;
        assert_eq!(served.status, 200, "{fields:?}");
    }
}

#[tokio::test]
async fn upstream_key_from_the_environment_replaces_the_clients_key() {
    let model = Model::start(ModelOptions::with_window(32_768)).await.unwrap();
    let program = Program::told(&model.url(), &[("LONGHAUL_UPSTREAM_API_KEY", KEY)]);
    let caller = Caller::of(program.address());
    for fields in [&[][..], &[("authorization", "Bearer dummy")]] {
        assert_eq!(caller.ask_with(fields, talk(1, 10)).await.status, 200);
    }
    for seen in model.seen() {
        assert_eq!(seen.headers["authorization"], format!("Bearer {KEY}"));
    }
}
