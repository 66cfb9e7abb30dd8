//! Several upstreams of one proxy, each under its own path.

use std::fs::write;

use http::Method;
use longhaul_mock_model::{Model, ModelOptions, RequestKind};
use tempfile::TempDir;

use crate::caller::talk;
use crate::harness::{Upstream, Wire};
use crate::manual;
use crate::program::Program;
use crate::received_reply::ReceivedReply;

const OK: &str = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok";

/// A program with mounts, and the directory of its settings.
struct Mounted {
    program: Program,
    _settings: TempDir,
}

impl Mounted {
    /// Starts a program in front of `upstream` and of each of `mounts` under its path. `KEY` in a
    /// mount's settings is replaced with a file that holds its key.
    fn start(upstream: &str, mounts: &[(&str, &str)], more: &str, env: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (settings, key) = (folder.path().join("s.toml"), folder.path().join("key"));
        write(&key, "sk-of-the-mount").unwrap();
        let tables = mounts.iter().map(|(path, base)| {
            format!("[[mount]]\npath = \"{path}\"\nupstream = \"{base}\"\n{more}\n")
        });
        let text: String = tables.collect();
        write(&settings, text.replace("KEY", key.to_str().unwrap())).unwrap();
        let mut environment = vec![("LONGHAUL_CONFIG", settings.to_str().unwrap())];
        environment.extend(env);
        Self { program: Program::told(upstream, &environment), _settings: folder }
    }

    async fn ask(&self, path: &str, key: &str, body: &[u8]) -> ReceivedReply {
        let url = format!("http://{}/v1", self.program.address());
        let key = format!("Bearer {key}");
        let fields = [("authorization", &*key)];
        manual::ask((Method::POST, &url, path), &fields, body).await
    }
}

#[tokio::test]
async fn windows_and_records_of_one_upstream_do_not_apply_to_another() {
    let small = Model::start(ModelOptions::with_window(16_384)).await.unwrap();
    let large = Model::start(ModelOptions::with_window(200_000)).await.unwrap();
    let mounted = Mounted::start(&small.url(), &[("/large", &large.url())], "", &[]);
    let chat = talk(20, 2_000);
    let here = mounted.ask("/v1/chat/completions", "k", &chat).await;
    assert_eq!(here.status, 200);
    assert!(here.action().contains("retry"), "{}", here.action());
    assert!(small.seen().iter().any(|seen| seen.kind == RequestKind::Summary));

    // Neither the window learned here nor the record made from it applies to the other mount.
    let there = mounted.ask("/large/v1/chat/completions?a=1", "k", &chat).await;
    assert_eq!((there.status, there.action()), (200, ""));
    let seen = large.seen();
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].body, chat);
    assert_eq!(seen[0].target, "/v1/chat/completions?a=1");

    // Here both still apply: no second refusal.
    let before = small.seen().len();
    let again = mounted.ask("/v1/chat/completions", "k", &chat).await;
    assert!(!again.action().contains("retry"), "{}", again.action());
    assert_eq!(small.seen().len(), before + 1);
    let said = mounted.program.ended();
    assert_eq!(said.matches("mount=\"/large\"").count(), 1, "{said}");
}

#[tokio::test]
async fn overflow_of_a_mount_uses_only_that_mounts_upstream() {
    let large = Model::start(ModelOptions::with_window(200_000)).await.unwrap();
    let small = Model::start(ModelOptions::with_window(16_384)).await.unwrap();
    let mounted = Mounted::start(&large.url(), &[("/small", &small.url())], "", &[]);
    let chat = talk(20, 2_000);
    let there = mounted.ask("/small/v1/chat/completions", "k", &chat).await;
    assert_eq!(there.status, 200);
    assert!(there.action().contains("retry"), "{}", there.action());
    let by_hand = mounted.ask("/small/__longhaul__/compact", "k", &chat).await;
    assert_eq!(by_hand.status, 200);
    assert!(by_hand.body.len() < chat.len());
    assert!(large.seen().is_empty(), "all of it is asked of the mount");
}

#[tokio::test]
async fn each_upstream_receives_only_its_own_key() {
    let general = Model::start(ModelOptions::with_window(32_768)).await.unwrap();
    let own = Model::start(ModelOptions::with_window(32_768)).await.unwrap();
    let env = [("LONGHAUL_UPSTREAM_API_KEY", "sk-general")];
    for (more, expect) in
        [("api_key_file = \"KEY\"", "Bearer sk-of-the-mount"), ("", "Bearer sk-of-the-client")]
    {
        let mounted = Mounted::start(&general.url(), &[("/own", &own.url())], more, &env);
        for path in ["/v1/chat/completions", "/own/v1/chat/completions"] {
            let answer = mounted.ask(path, "sk-of-the-client", &talk(1, 10)).await;
            assert_eq!(answer.status, 200, "{path}");
        }
        let shown = |model: &Model| model.seen().last().unwrap().headers["authorization"].clone();
        assert_eq!(shown(&general), "Bearer sk-general");
        assert_eq!(shown(&own), expect);
    }
}

#[tokio::test]
async fn routes_a_path_only_to_the_mount_it_literally_matches() {
    let (general, one, two) =
        (Upstream::bind().await, Upstream::bind().await, Upstream::bind().await);
    let (base, at_one, at_two) = (general.base("/v1"), one.base("/api/v1"), two.base(""));
    let mounts = [("/one", &*at_one), ("/one/two", &*at_two)];
    let mounted = Mounted::start(&base, &mounts, "", &[]);
    for (asked, upstream, expect) in [
        ("/one/v1/models?a=/one/two", &one, "/api/v1/models?a=/one/two"),
        ("/one/models", &one, "/api/v1/models"),
        ("/one", &one, "/"),
        ("/one/twofold", &one, "/twofold"),
        ("/one//two/v1", &one, "//two/v1"),
        ("/one/../one/two/x", &one, "/../one/two/x"),
        ("/one/%74wo/x", &one, "/%74wo/x"),
        ("/one/two/v1/models", &two, "/v1/models"),
        ("/one/two/../../v1", &two, "/../../v1"),
        ("/v1/models", &general, "/v1/models"),
        ("/onefold/v1", &general, "/onefold/v1"),
        ("/v1/../one/x", &general, "/v1/../one/x"),
        ("/%6fne/v1", &general, "/%6fne/v1"),
        ("//one/v1", &general, "//one/v1"),
        ("http://elsewhere.internal/one/two/x", &two, "/x"),
    ] {
        let mut client = Wire::to(mounted.program.address()).await;
        client.send(&format!("GET {asked} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")).await;
        let mut server = upstream.accept().await;
        let head = server.until("\r\n\r\n").await;
        assert!(head.starts_with(&format!("GET {expect} HTTP/1.1\r\n")), "{asked}: {head}");
        let host = format!("Host: {}\r\n", upstream.address());
        assert!(head.contains(&host), "{asked}: {head}");
        server.send(OK).await;
        assert!(client.rest().await.ends_with("ok"));
    }
}

#[tokio::test]
async fn warns_of_a_wrong_base_only_before_any_success() {
    const UNKNOWN: &str =
        "HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}";
    let (general, own) = (Upstream::bind().await, Upstream::bind().await);
    let at_own = own.base("/api/v1");
    let mounted = Mounted::start(&general.base("/api/v1"), &[("/own", &at_own)], "", &[]);
    for (asked, upstream, reply) in [
        ("/v1/models", &general, OK),
        ("/v1/models/unknown", &general, UNKNOWN),
        ("/own/v1/models", &own, UNKNOWN),
    ] {
        let mut client = Wire::to(mounted.program.address()).await;
        let head = format!("GET {asked} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        client.send(&head).await;
        let mut server = upstream.accept().await;
        server.until("\r\n\r\n").await;
        server.send(reply).await;
        client.rest().await;
    }
    let said = mounted.program.ended();
    let blamed: Vec<_> = said.lines().filter(|line| line.contains("upstream.base")).collect();
    assert_eq!(blamed.len(), 1, "{said}");
    assert!(blamed[0].contains("became=\"/api/v1/models\""), "{said}");
}

#[tokio::test]
async fn messages_api_requests_go_to_their_upstream_without_the_other_key() {
    let (general, messages) = (Upstream::bind().await, Upstream::bind().await);
    let (base, own) = (general.base("/v1"), messages.base("/v1"));
    let env = [("LONGHAUL_UPSTREAM_MESSAGES", &*own), ("LONGHAUL_UPSTREAM_API_KEY", "sk-general")];
    let program = Program::told(&base, &env);
    let version = "anthropic-version: 2023-06-01\r\n";
    for (line, fields, upstream, key) in [
        ("POST /v1/messages?beta=true", version, &messages, "x-api-key: sk-ant"),
        ("POST /v1/messages", "", &messages, "x-api-key: sk-ant"),
        ("POST /messages/count_tokens", "", &messages, "x-api-key: sk-ant"),
        ("GET /v1/models", version, &messages, "x-api-key: sk-ant"),
        ("GET /v1/models", "", &general, "authorization: Bearer sk-general"),
        ("GET /v1/threads/t/messages", "", &general, "x-api-key: sk-ant"),
        ("GET /v1x/messages", "", &general, "x-api-key: sk-ant"),
    ] {
        let mut client = Wire::to(program.address()).await;
        let head = format!(
            "{line} HTTP/1.1\r\nHost: x\r\nx-api-key: sk-ant\r\n{fields}Content-Length: 0\r\nConnection: close\r\n\r\n"
        );
        client.send(&head).await;
        let mut server = upstream.accept().await;
        let head = server.until("\r\n\r\n").await;
        assert!(head.contains(key), "{line}: {head}");
        let neighbours = if key.contains("general") { "sk-ant" } else { "sk-general" };
        assert!(!head.contains(neighbours), "{line}: {head}");
        server.send(OK).await;
        client.until("ok").await;
    }
}

#[tokio::test]
async fn page_can_read_a_fault_if_the_upstream_allowed_its_origin() {
    let upstream = Upstream::bind().await;
    let program = Program::told(&upstream.base("/v1"), &[]);
    let head = "GET /v1/models HTTP/1.1\r\nHost: x\r\nOrigin: http://localhost:3000\r\nConnection: close\r\n\r\n";
    let mut client = Wire::to(program.address()).await;
    client.send(head).await;
    let mut server = upstream.accept().await;
    server.until("\r\n\r\n").await;
    server
        .send("HTTP/1.1 200 OK\r\nAccess-Control-Allow-Origin: *\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok")
        .await;
    client.until("ok").await;
    drop((server, upstream));
    for (origin, is_shown) in [("localhost:3000", true), ("localhost:4000", false)] {
        let mut client = Wire::to(program.address()).await;
        client.send(&head.replace("localhost:3000", origin)).await;
        let reply = client.until("\r\n\r\n").await.to_lowercase();
        assert!(reply.starts_with("http/1.1 502"), "{reply}");
        let shown = reply.contains("access-control-allow-origin: *");
        assert_eq!(shown, is_shown, "{origin}: {reply}");
    }
}
