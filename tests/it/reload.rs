//! Settings reloaded on SIGHUP: the requests they apply to, and the effect of invalid ones.

use std::fs::write;
use std::path::PathBuf;

use http::Method;
use longhaul_mock_model::{Model, ModelOptions, RequestKind};
use tempfile::TempDir;

use crate::caller::{Caller, chat, talk};
use crate::dashboard::json_of;
use crate::harness::{Upstream, Wire};
use crate::journey::bodies;
use crate::manual;
use crate::program::{Admin, Program};

const READ: &str = "reloaded the settings";
const TOKEN: &str = "0123456789abcdef0123456789abcdef";
const OTHER: &str = "fedcba9876543210fedcba9876543210";

/// A folder with a settings file and the files it names.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn put(&self, name: &str, text: &str) {
        write(self.path(name), text).unwrap();
    }

    /// Starts a program with the settings in `settings.toml`, and `more` in the environment.
    fn program(&self, upstream: &str, more: &[(&str, &str)], admin: Admin) -> Program {
        let settings = self.path("settings.toml");
        let mut environment = vec![("LONGHAUL_CONFIG", settings.to_str().unwrap())];
        environment.extend(more);
        Program::with_admin(upstream, &environment, admin)
    }
}

fn protecting(tokens: u32) -> String {
    format!("[prune]\nprotect_tokens = {tokens}\n")
}

#[tokio::test]
async fn requests_use_the_last_valid_settings_after_a_reload() {
    let model = Model::start(ModelOptions::with_window(200_000)).await.unwrap();
    let folder = Folder::new();
    folder.put("settings.toml", &protecting(1_000_000));
    let program = folder.program(&model.url(), &[], Admin::Free);
    let caller = Caller::of(program.address());
    let shown = async || {
        let admin = format!("http://{}/v1", program.admin());
        let page = manual::ask((Method::GET, &*admin, "/config"), &[], b"").await;
        String::from_utf8(page.body.to_vec()).unwrap()
    };
    let ask = async || caller.ask(chat(40, 2_000)).await.action().to_owned();
    assert_eq!(ask().await, "");
    assert!(shown().await.contains("1000000"));

    folder.put("settings.toml", &protecting(40_000));
    program.reads_again(READ, 1).await;
    assert!(program.said().contains("changed=\"prune.protect_tokens\""));
    assert_eq!(ask().await, "prune");
    assert!(!shown().await.contains("1000000"));

    // Wrong in kind, in combination, in a named file, or missing: nothing changes.
    for (wrong, named) in [
        ("[prune]\nprotect_tokens = \"many\"\n", "prune.protect_tokens"),
        ("mode = \"off\"\n[prune", "settings.toml"),
        ("mode = \"off\"\nmood = 1\n", "mood"),
        ("mode = \"off\"\nclient_tokens_file = \"none\"\n", "client_tokens_file"),
    ] {
        folder.put("settings.toml", wrong);
        program.reads_again(named, 1).await;
        assert_eq!(ask().await, "prune", "{wrong}");
    }
    std::fs::remove_file(folder.path("settings.toml")).unwrap();
    program.reads_again("settings not reloaded", 5).await;
    assert_eq!(ask().await, "prune");

    folder.put("settings.toml", "mode = \"off\"\n");
    program.reads_again(READ, 2).await;
    assert_eq!(ask().await, "");
}

#[tokio::test]
async fn reload_can_hide_summaries_that_were_shown() {
    let model = Model::start(ModelOptions::default()).await.unwrap();
    let folder = Folder::new();
    folder.put("settings.toml", "[admin]\nshow_content = true\n");
    let program = folder.program(&model.url(), &[], Admin::Free);
    let caller = Caller::of(program.address());
    for body in bodies(&longhaul_mock_model::session().unwrap()) {
        assert_eq!(caller.ask(body).await.status, 200);
    }
    let all = json_of(program.admin(), "/conversations").await;
    let path = format!("/conversations/{}", all["conversations"][0]["id"].as_str().unwrap());
    assert!(json_of(program.admin(), &path).await["summary"].is_string());
    let last = format!("{path}/last");
    let explained = json_of(program.admin(), &last).await;
    assert!(explained.to_string().contains("\"subject\""), "{explained}");
    folder.put("settings.toml", "[admin]\nshow_content = false\n");
    program.reads_again(READ, 1).await;
    let shown = json_of(program.admin(), &path).await;
    assert!(shown.get("summary").is_none());
    let explained = json_of(program.admin(), &last).await;
    assert!(!explained.to_string().contains("\"subject\""), "{explained}");
    assert!(!shown["points"].as_array().unwrap().is_empty(), "the rest is");
}

#[tokio::test]
async fn reload_logs_settings_that_change_only_on_restart() {
    let folder = Folder::new();
    folder.put("settings.toml", "");
    let program = folder.program("http://127.0.0.1:9/v1", &[], Admin::Off);
    folder.put("settings.toml", "[limits]\ndrain = \"1s\"\nbody = \"1MiB\"\n");
    program.reads_again("change only on restart: limits.drain\n", 1).await;
    assert!(program.said().contains("changed=\"limits.body\""));
}

#[tokio::test]
async fn reload_rereads_key_and_token_files() {
    let folder = Folder::new();
    folder.put("settings.toml", "");
    folder.put("tokens", TOKEN);
    folder.put("key", "sk-one");
    let (tokens, key) = (folder.path("tokens"), folder.path("key"));
    let environment = [
        ("LONGHAUL_CLIENT_TOKENS_FILE", tokens.to_str().unwrap()),
        ("LONGHAUL_UPSTREAM_API_KEY_FILE", key.to_str().unwrap()),
    ];
    let upstream = Upstream::bind().await;
    let program = folder.program(&upstream.base("/v1"), &environment, Admin::Off);
    let head = |token: &str| {
        format!("GET /v1/models HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n")
    };
    // A single connection throughout: settings apply per request, not per connection.
    let mut client = Wire::to(program.address()).await;
    let mut server = {
        client.send(&head(TOKEN)).await;
        upstream.accept().await
    };
    assert!(server.until("\r\n\r\n").await.contains("Bearer sk-one\r\n"));

    folder.put("tokens", OTHER);
    folder.put("key", "sk-two");
    program.reads_again(READ, 1).await;
    // A request in flight keeps its settings.
    server.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await;
    assert!(client.until("ok").await.starts_with("HTTP/1.1 200 "));
    client.send(&head(TOKEN)).await;
    assert!(client.until("}}").await.starts_with("HTTP/1.1 401 "));
    client.send(&head(OTHER)).await;
    assert!(server.until("\r\n\r\n").await.contains("Bearer sk-two\r\n"));
    server.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await;
    assert!(client.until("ok").await.starts_with("HTTP/1.1 200 "));

    let said = program.ended();
    for secret in [TOKEN, OTHER, "sk-one", "sk-two"] {
        assert!(!said.contains(secret), "{said}");
    }
}

async fn model() -> Model {
    Model::start(ModelOptions::with_window(200_000)).await.unwrap()
}

/// Returns the status of the answer to a chat at `path`.
async fn status(program: &Program, path: &str) -> u16 {
    let url = format!("http://{}/v1", program.address());
    let body = talk(1, 10);
    let answer = manual::ask((Method::POST, &url, path), &[], &body).await;
    answer.status
}

/// Returns the keys that a model received, one for each request.
fn keys(model: &Model) -> Vec<String> {
    let key = |headers: &http::HeaderMap| headers["authorization"].to_str().unwrap().to_owned();
    model.seen().iter().map(|seen| key(&seen.headers)).collect()
}

#[tokio::test]
async fn key_for_a_new_upstream_is_not_used_before_a_restart() {
    let (general, own, next) = (model().await, model().await, model().await);
    let folder = Folder::new();
    let set = |base: &str, mount: &str, key: &str| {
        folder.put("key", &format!("{key}-general"));
        folder.put("own", &format!("{key}-own"));
        let path = |name: &str| folder.path(name).to_str().unwrap().to_owned();
        folder.put(
            "settings.toml",
            &format!(
                "[upstream]\nbase = \"{base}\"\napi_key_file = \"{}\"\n[[mount]]\npath = \"/own\"\n\
                 upstream = \"{mount}\"\napi_key_file = \"{}\"\n",
                path("key"),
                path("own")
            ),
        );
    };
    set(&general.url(), &own.url(), "sk-one");
    let program = folder.program("", &[], Admin::Off);
    let ask = async || {
        for path in ["/v1/chat/completions", "/own/v1/chat/completions"] {
            assert_eq!(status(&program, path).await, 200, "{path}");
        }
    };
    ask().await;
    set(&next.url(), &next.url(), "sk-two");
    // Moves the key to another file, and removes the old file.
    std::fs::rename(folder.path("key"), folder.path("key-two")).unwrap();
    let settings = std::fs::read_to_string(folder.path("settings.toml")).unwrap();
    folder.put("settings.toml", &settings.replace("/key\"", "/key-two\""));
    for times in 1..=2 {
        program.reads_again(READ, times).await;
        ask().await;
    }
    assert_eq!(keys(&general), ["Bearer sk-one-general"; 3]);
    assert_eq!(keys(&own), ["Bearer sk-one-own"; 3]);
    assert!(next.seen().is_empty());

    // A new key for the existing upstreams is applied.
    set(&general.url(), &own.url(), "sk-three");
    program.reads_again(READ, 3).await;
    ask().await;
    assert_eq!(keys(&general)[3..], ["Bearer sk-three-general"]);
    assert_eq!(keys(&own)[3..], ["Bearer sk-three-own"]);
    let said = program.ended();
    assert!(
        said.contains("only on restart: upstream.base, upstream.api_key_file, mount\n"),
        "{said}"
    );
    assert!(!said.contains("sk-"), "{said}");
}

#[tokio::test]
async fn removed_summariser_receives_nothing_after_a_reload() {
    let (general, own, summariser) = (model().await, model().await, model().await);
    let folder = Folder::new();
    let mount = format!("[[mount]]\npath = \"/own\"\nupstream = \"{}\"\n", own.url());
    let elsewhere =
        format!("[summary]\nupstream = \"{}\"\nmodel = \"small\"\n{mount}", summariser.url());
    folder.put("settings.toml", &elsewhere);
    let program = folder.program(&general.url(), &[], Admin::Off);
    let url = format!("http://{}/v1", program.address());
    let compact = async |key: &str| {
        for path in ["/__longhaul__/compact", "/own/__longhaul__/compact"] {
            let fields = [("authorization", key)];
            let body = talk(20, 2_000);
            let compacted = manual::ask((Method::POST, &url, path), &fields, &body).await;
            assert_eq!((compacted.status, compacted.action()), (200, "summary"), "{path}");
        }
    };
    // Separate callers, so that they share no records.
    compact("Bearer one").await;
    let before = summariser.seen().len();
    assert!(before >= 2 && general.seen().is_empty() && own.seen().is_empty());
    folder.put("settings.toml", &mount);
    program.reads_again(READ, 1).await;
    compact("Bearer two").await;
    assert_eq!(summariser.seen().len(), before);
    for model in [general, own] {
        assert!(model.seen().iter().any(|seen| seen.kind == RequestKind::Summary));
    }
}
