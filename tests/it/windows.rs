//! Model listings of an upstream: which endpoints longhaul queries, with which credentials, and the
//! effect of the answers.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use longhaul::Config;
use longhaul_core::dialect::chat_completions::read;
use longhaul_core::planning::plan::{Replacement, SummarySource, plan};
use longhaul_core::policy::record::PriorRecords;
use longhaul_core::policy::{CompactionSettings, Policy};
use longhaul_core::units::tokens::Tokens;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::caller::{Caller, chat};
use crate::harness::Proxy;
use crate::manual::ask;
use crate::sessions::sessions;
use crate::time_limit::bounded;

/// Answer of a path. Other paths return 404.
#[derive(Clone, Copy)]
enum Page {
    Body(&'static [u8]),
    /// No answer.
    Hangs,
    /// An answer for this credential; a 401 for others.
    For(&'static str, &'static [u8]),
    Status(u16),
}

/// A file of `fixtures/models`.
macro_rules! recorded {
    ($name:literal) => {
        Page::Body(include_bytes!(concat!("../../fixtures/models/", $name)))
    };
}

type Pages = Vec<(&'static str, Page)>;

/// A recorded listing request.
#[derive(Clone)]
struct Heard {
    target: String,
    headers: HeaderMap,
}

/// An upstream that answers every chat except those of `Bearer refused`, and listing requests from
/// its pages.
struct Server {
    address: SocketAddr,
    heard: watch::Receiver<Vec<Heard>>,
}

impl Server {
    async fn start(pages: Pages) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (tell, heard) = watch::channel(Vec::new());
        let (tell, pages) = (Arc::new(Mutex::new(tell)), Arc::new(pages));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (tell, pages) = (Arc::clone(&tell), Arc::clone(&pages));
                tokio::spawn(async move {
                    let serve = service_fn(|request| serve(request, &tell, &pages));
                    // The proxy may disconnect during an answer.
                    _ = http1::Builder::new().serve_connection(TokioIo::new(stream), serve).await;
                });
            }
        });
        Self { address, heard }
    }

    /// Waits for `count` listing requests and returns them.
    async fn questions(&self, count: usize) -> Vec<Heard> {
        let mut heard = self.heard.clone();
        bounded(heard.wait_for(|heard| heard.len() >= count)).await.unwrap().clone()
    }

    fn targets(&self) -> Vec<String> {
        let heard = self.heard.borrow();
        heard.iter().map(|heard| heard.target.clone()).collect()
    }
}

async fn serve(
    request: Request<Incoming>,
    tell: &Mutex<watch::Sender<Vec<Heard>>>,
    pages: &Pages,
) -> Result<Response<Full<Bytes>>, hyper::Error> {
    const ANSWER: &[u8] = br#"{"id":"1","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"ok"},"finish_reason":"stop"}]}"#;
    let (head, body) = request.into_parts();
    body.collect().await?;
    if head.method == Method::POST {
        let mut response = Response::new(Full::from(ANSWER));
        let key = head.headers.get("authorization");
        if key.is_some_and(|key| key == "Bearer refused") {
            *response.status_mut() = StatusCode::UNAUTHORIZED;
        }
        return Ok(response);
    }
    let target = head.uri.path_and_query().unwrap().as_str().to_owned();
    let page = pages.iter().find(|(path, _)| *path == target);
    let heard = Heard { target, headers: head.headers };
    let credential = heard.headers.get("authorization").cloned();
    tell.lock().unwrap().send_modify(|all| all.push(heard));
    let (status, body) = match page.map(|(_, page)| *page) {
        None => (404, Bytes::new()),
        Some(Page::Body(body)) => (200, Bytes::from_static(body)),
        Some(Page::Hangs) => std::future::pending().await,
        Some(Page::For(name, body)) if credential.is_some_and(|it| it == name) => {
            (200, Bytes::from_static(body))
        }
        Some(Page::For(..)) => (401, Bytes::new()),
        Some(Page::Status(status)) => (status, Bytes::from_static(b"{}")),
    };
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = StatusCode::from_u16(status).unwrap();
    Ok(response)
}

/// Starts a server, and a proxy in front of it that queries listings. Summaries use no model, so
/// that the first request past a mark reports its action.
async fn begin(pages: Pages, changes: &[(&str, &str)]) -> (Server, Proxy, Caller) {
    let server = Server::start(pages).await;
    let base = format!("http://{}/v1", server.address);
    let mut settings = vec![("upstream.base", base.as_str()), ("summary.model", "none")];
    settings.extend(changes);
    let proxy = Proxy::asking(Config::default_with(settings).unwrap()).await;
    let caller = Caller::of(proxy.address);
    (server, proxy, caller)
}

/// Builds a chat of about 30,000 tokens for `model`: well below the assumed window, but past the
/// mark of 32,768.
fn large(model: &str) -> Vec<u8> {
    let body = String::from_utf8(chat(30, 1_000)).unwrap();
    let named = format!(r#""model":"{model}""#);
    assert!(body.contains(r#""model":"m""#));
    body.replace(r#""model":"m""#, &named).into_bytes()
}

/// Sends the chat until it is compacted: the answer to a listing request takes effect after a short
/// delay.
async fn until_compacted(caller: &Caller, fields: &[(&str, &str)], body: &[u8]) {
    for _ in 0..2_000 {
        let arrived = caller.ask_with(fields, body.to_vec()).await;
        assert_eq!(arrived.status, 200);
        if arrived.action() == "digest" {
            return;
        }
        assert_eq!(arrived.action(), "");
    }
    panic!("what was asked is not used");
}

/// Checks that the window of a model whose server has `pages` is 32,768 tokens, and that the paths
/// in `asked` were requested.
async fn check(model: &str, pages: Pages, asked: &[&str]) {
    let (server, proxy, caller) = begin(pages, &[]).await;
    let body = large(model);
    let first = caller.ask(body.clone()).await;
    assert_eq!((first.status, first.action()), (200, ""));
    server.questions(asked.len()).await;
    until_compacted(&caller, &[], &body).await;
    assert_eq!(server.targets(), asked);
    proxy.stop().await;
}

#[tokio::test]
async fn requests_nothing_else_if_the_models_listing_states_windows() {
    let pages = || vec![("/v1/models", recorded!("vllm.json"))];
    check("served", pages(), &["/v1/models"]).await;
    let pages = || vec![("/v1/models", recorded!("sglang.json"))];
    check("served", pages(), &["/v1/models"]).await;
    let pages = || vec![("/v1/models", recorded!("llama-cpp-models.json"))];
    check("any-name", pages(), &["/v1/models"]).await;
}

#[tokio::test]
async fn follows_listing_pages_to_the_model() {
    let next = "/v1/models?offset=500&limit=500";
    let pages = vec![
        ("/v1/models", recorded!("openrouter.json")),
        (next, recorded!("openrouter-next.json")),
    ];
    check("example/later", pages, &["/v1/models", next]).await;
}

#[tokio::test]
async fn queries_server_specific_endpoints_if_the_listing_has_no_window() {
    let props = ("/props", recorded!("llama-cpp-props.json"));
    let old = ("/v1/models", recorded!("llama-cpp-models-old.json"));
    check("any-name", vec![old, props], &["/v1/models", "/props"]).await;
    let studio = ("/api/v0/models", recorded!("lm-studio.json"));
    let asked = ["/v1/models", "/props", "/api/v0/models", "/api/ps", "/info"];
    check("served", vec![studio], &asked[..3]).await;
    let list = ("/v1/models", recorded!("ollama-models.json"));
    let running = ("/api/ps", recorded!("ollama-ps.json"));
    check("served", vec![list, running], &asked[..4]).await;
    check("any", vec![("/info", recorded!("tgi-info.json"))], &asked).await;
}

#[tokio::test]
async fn listing_request_carries_only_the_callers_credentials() {
    let (server, proxy, caller) = begin(vec![("/v1/models", recorded!("vllm.json"))], &[]).await;
    let fields = [
        ("authorization", "Bearer caller"),
        ("openai-organization", "org"),
        ("cookie", "session=1"),
        ("x-longhaul-prune", "off"),
        ("x-own", "1"),
    ];
    caller.ask_with(&fields, large("served")).await;
    let question = server.questions(1).await.remove(0);
    let mut names: Vec<&str> = question.headers.keys().map(http::HeaderName::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, ["accept", "authorization", "host", "openai-organization"]);
    assert_eq!(question.headers["authorization"], "Bearer caller");
    proxy.stop().await;
}

#[tokio::test]
async fn listing_request_carries_the_proxys_key_and_no_client_token() {
    const TOKEN: &str = "0123456789abcdef0123456789abcdef";
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), TOKEN).unwrap();
    let settings =
        [("client_tokens_file", file.path().to_str().unwrap()), ("upstream.api_key", "sk-ours")];
    let pages = vec![("/v1/models", recorded!("vllm.json"))];
    let (server, proxy, caller) = begin(pages, &settings).await;
    let token = format!("Bearer {TOKEN}");
    let fields = [("authorization", &*token), ("x-api-key", TOKEN)];
    assert_eq!(caller.ask_with(&fields, large("served")).await.status, 200);
    let question = server.questions(1).await.remove(0);
    let mut names: Vec<_> = question.headers.keys().map(http::HeaderName::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, ["accept", "authorization", "host"]);
    assert_eq!(question.headers["authorization"], "Bearer sk-ours");
    assert!(!format!("{} {:?}", question.target, question.headers).contains(TOKEN));
    proxy.stop().await;
}

#[tokio::test]
async fn refused_caller_triggers_no_listing_request_and_blocks_no_other() {
    let pages = vec![("/v1/models", recorded!("vllm.json"))];
    let (server, proxy, caller) = begin(pages, &[]).await;
    let body = large("served");
    for (key, status) in [("Bearer refused", 401), ("Bearer refused", 401), ("Bearer k", 200)] {
        let arrived = caller.ask_with(&[("authorization", key)], body.clone()).await;
        assert_eq!(arrived.status, status);
    }
    until_compacted(&caller, &[("authorization", "Bearer k")], &body).await;
    let questions = server.questions(1).await;
    assert_eq!(questions.len(), 1);
    assert_eq!(questions[0].headers["authorization"], "Bearer k");
    proxy.stop().await;
}

#[tokio::test]
async fn sends_no_listing_request_if_the_path_selects_the_model() {
    let (server, proxy, caller) = begin(vec![("/v1/models", recorded!("vllm.json"))], &[]).await;
    let body = large("served");
    let url = format!("http://{}/v1", proxy.address);
    let deployment = "/openai/deployments/own/chat/completions?api-version=1";
    let arrived = ask((Method::POST, &url, deployment), &[], &body).await;
    assert_eq!(arrived.status, 200);
    // A listing request under that path would arrive before this chat.
    assert_eq!(caller.ask(body.clone()).await.status, 200);
    until_compacted(&caller, &[], &body).await;
    assert_eq!(server.targets(), ["/v1/models"]);
    proxy.stop().await;
}

#[tokio::test]
async fn failed_listing_request_affects_no_chat_and_is_not_repeated() {
    let garbage = Page::Body(b"<html>\xff");
    for page in [Page::Status(401), Page::Status(404), Page::Status(500), garbage, Page::Hangs] {
        let (server, proxy, caller) = begin(vec![("/v1/models", page)], &[]).await;
        for _ in 0..3 {
            let arrived = caller.ask(large("served")).await;
            assert_eq!((arrived.status, arrived.action()), (200, ""));
            server.questions(1).await;
        }
        let lists = |targets: &[String]| targets.iter().filter(|it| *it == "/v1/models").count();
        assert_eq!(lists(&server.targets()), 1, "asked once");
        proxy.stop().await;
    }
}

#[tokio::test]
async fn caller_repeats_the_listing_request_if_anothers_was_refused() {
    const LIST: &[u8] = include_bytes!("../../fixtures/models/vllm.json");
    let pages = vec![("/v1/models", Page::For("Bearer two", LIST))];
    let (server, proxy, caller) = begin(pages, &[]).await;
    let body = large("served");
    caller.ask_with(&[("authorization", "Bearer one")], body.clone()).await;
    server.questions(1).await;
    // A second listing request never starts before the first has ended.
    for _ in 0..2_000 {
        caller.ask_with(&[("authorization", "Bearer two")], body.clone()).await;
        if server.targets().len() == 2 {
            break;
        }
    }
    server.questions(2).await;
    until_compacted(&caller, &[("authorization", "Bearer two")], &body).await;
    assert_eq!(server.targets().len(), 2);
    proxy.stop().await;
}

#[tokio::test]
async fn sends_no_listing_request_with_a_set_window_or_asking_disabled() {
    for change in [("window", "200000"), ("upstream.ask", "off")] {
        let pages = vec![("/v1/models", recorded!("vllm.json"))];
        let (server, proxy, caller) = begin(pages, &[change]).await;
        for _ in 0..3 {
            let arrived = caller.ask(large("served")).await;
            assert_eq!((arrived.status, arrived.action()), (200, ""));
        }
        proxy.stop().await;
        assert!(server.targets().is_empty(), "{change:?}");
    }
}

#[tokio::test]
async fn check_ask_queries_the_upstream_with_the_key_of_the_environment() {
    const LIST: &[u8] = include_bytes!("../../fixtures/models/vllm.json");
    let server = Server::start(vec![("/v1/models", Page::For("Bearer key", LIST))]).await;
    let base = format!("http://{}/v1", server.address);
    let check = |key: &'static str, code: i32| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_longhaul"));
        command.env_clear().env("OPENAI_API_KEY", key);
        command.args(["check", "--model", "served", "--ask", "--upstream", &base]);
        tokio::task::spawn_blocking(move || {
            let output = command.output().unwrap();
            assert_eq!(output.status.code(), Some(code));
            String::from_utf8(output.stdout).unwrap()
        })
    };
    let said = check("key", 0).await.unwrap();
    assert!(
        said.contains(
            "window   32,768 tokens (as the upstream answers), of which the reply leaves 28,672"
        ),
        "{said}"
    );
    assert!(said.contains("asked    32,768 tokens"), "{said}");
    assert!(said.contains("from 23,224 tokens on; from 25,804 on"), "{said}");
    let said = check("other", 1).await.unwrap();
    assert!(said.contains("refuses the credentials"), "{said}");
    assert_eq!(server.targets(), ["/v1/models", "/v1/models"]);
}

/// Returns the results that are cleared.
fn cleared(body: &[u8], policy: &Policy) -> Vec<usize> {
    let conversation = read(body).unwrap();
    let known = PriorRecords { seen: true, ..PriorRecords::default() };
    let outlook = plan(&conversation, policy, &known, SummarySource::Model);
    let plan = outlook.view.replacements(&conversation);
    let cuts = plan.iter().flatten();
    cuts.filter_map(|cut| match cut {
        Replacement::Result { at, .. } => Some(*at),
        Replacement::Arguments { .. }
        | Replacement::History { .. }
        | Replacement::Image { .. }
        | Replacement::Output { .. }
        | Replacement::Provider { .. }
        | Replacement::Thinking { .. }
        | Replacement::Words { .. } => None,
    })
    .collect()
}

/// Returns the settings under which no record is made without an explicit request.
fn without_records() -> CompactionSettings {
    CompactionSettings { proactive: false, ..CompactionSettings::default() }
}

#[test]
fn window_reported_by_the_upstream_never_changes_what_is_cleared() {
    let wishes = without_records();
    let mut some = 0;
    for session in sessions() {
        for window in [16_000, 48_000, 200_000] {
            let policy = || Policy::new(&wishes, Tokens::new(window));
            let plain = cleared(&session.body, &policy());
            some += usize::from(!plain.is_empty());
            for asked in [8_000, 64_000, 1_000_000] {
                let policy = policy().with_window(Tokens::new(asked));
                assert_eq!(
                    cleared(&session.body, &policy),
                    plain,
                    "{}: {window}, asked {asked}",
                    session.name
                );
            }
        }
    }
    assert!(some > 10, "{some} sessions with cleared results");
}

#[test]
fn token_counts_of_the_provider_never_change_what_is_cleared() {
    let wishes = without_records();
    let mut some = 0;
    for session in sessions() {
        for window in [16_000, 48_000, 200_000] {
            let policy = || Policy::new(&wishes, Tokens::new(window));
            let plain = cleared(&session.body, &policy());
            some += usize::from(!plain.is_empty());
            for percent in [25, 40, 66, 90, 133] {
                let holds = Tokens::new(window).percent(percent);
                let policy = policy().with_counted_window(holds);
                assert_eq!(
                    cleared(&session.body, &policy),
                    plain,
                    "{}: {window}, of which it fills {percent}%",
                    session.name
                );
            }
        }
    }
    assert!(some > 10, "{some} sessions with cleared results");
}
