//! Paths to which the proxy adds a key of its own.

use http::Method;
use longhaul_mock_model::{Model, ModelOptions};
use std::io::Write as _;

use crate::manual::ask;
use crate::program::Program;

const TOKEN: &str = "0123456789abcdef0123456789abcdef";
const KEY: &str = "sk-of-the-proxy";

/// Paths of the origin outside the endpoints of its base.
const ELSEWHERE: [&str; 9] = [
    "/acct-evil/gw/chat/completions",
    "//v1/acct-evil/chat/completions",
    "/v1/acct/../acct-evil/models",
    "/v1/acct/models/..%2f..%2facct-evil",
    "/v1/acct/models/%2e%2e/files",
    "/v1/acct/models/..;a/files",
    "/v1/acct/models/..%5cfiles",
    "/v1/acct/files",
    "/admin/keys",
];

#[tokio::test]
async fn client_token_grants_only_endpoints_under_the_base() {
    let model = Model::start(ModelOptions::with_window(32_768)).await.unwrap();
    let mut tokens = tempfile::NamedTempFile::new().unwrap();
    writeln!(tokens, "{TOKEN}").unwrap();
    let settings = [
        ("LONGHAUL_CLIENT_TOKENS_FILE", tokens.path().to_str().unwrap()),
        ("LONGHAUL_UPSTREAM_API_KEY", KEY),
        ("LONGHAUL_UPSTREAM_KEY_PATHS", "batches/*"),
    ];
    let program = Program::told(&format!("{}/acct", model.url()), &settings);
    let url = format!("http://{}/v1", program.address());
    let right = format!("Bearer {TOKEN}");
    let fields = [("authorization", &*right)];
    for path in ELSEWHERE {
        let answer = ask((Method::GET, &url, path), &fields, b"").await;
        let said: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
        let found = (answer.status, &said["error"]["code"]);
        assert_eq!(found, (403, &"key_path".into()), "{path}");
    }
    assert!(model.seen().is_empty(), "nothing is sent upstream");
    let allowed = [
        ("/v1/acct/models/a%2Fb", "/v1/acct/models/a%2Fb"),
        ("/models", "/v1/acct/models"),
        ("/v1/batches/1", "/v1/acct/batches/1"),
    ];
    for (path, _) in allowed {
        ask((Method::GET, &url, path), &fields, b"").await;
    }
    let seen = model.seen();
    assert_eq!(seen.len(), allowed.len());
    for (seen, (_, target)) in seen.iter().zip(allowed) {
        assert_eq!(seen.target, target);
        assert_eq!(seen.headers["authorization"], format!("Bearer {KEY}"));
    }
}

#[tokio::test]
async fn paths_without_the_proxys_key_carry_the_clients_own_credentials() {
    let model = Model::start(ModelOptions::with_window(32_768)).await.unwrap();
    let base = format!("{}/acct", model.url());
    let program = Program::told(&base, &[("LONGHAUL_UPSTREAM_API_KEY", KEY)]);
    let url = format!("http://{}/v1", program.address());
    for path in ELSEWHERE {
        let fields = [("authorization", "Bearer own")];
        ask((Method::GET, &url, path), &fields, b"").await;
    }
    let seen = model.seen();
    assert_eq!(seen.len(), ELSEWHERE.len());
    for (seen, path) in seen.iter().zip(ELSEWHERE) {
        assert_eq!(seen.target, path);
        assert_eq!(seen.headers["authorization"], "Bearer own", "{path}");
    }
}
