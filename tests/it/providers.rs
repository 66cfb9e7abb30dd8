//! The recipes of `docs/how-to/providers.md`, each run as the page prints it, against a model with
//! the provider's host, path, key header and list of models.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use longhaul_mock_model::{Model, ModelOptions};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::caller::Caller;
use crate::forward_proxies::{Between, Then};
use crate::program::Program;
use crate::tls;

const PAGE: &str = include_str!("../../docs/how-to/providers.md");
const KEY: &str = "sk-recipe";
const LISTED: &str = r#"{"object":"list","data":[{"id":"gpt-4o","object":"model"}]}"#;
const WINDOW: u64 = 32_768;

/// A provider: its addresses, and its answers to requests other than chats.
struct Provider {
    heading: &'static str,
    /// The authority that its requests name; a local server's port is one of the test.
    authority: &'static str,
    chats: &'static str,
    key_header: &'static str,
    /// A request of the agent, by its path at longhaul.
    asks: (&'static str, &'static str),
    model: &'static str,
    /// Paths that it answers with a file of `fixtures/models`, or with a list without windows.
    pages: &'static [(&'static str, &'static str)],
    /// The line of `longhaul doctor` about the window; `None` if doctor asks another provider.
    window: Option<&'static str>,
}

const CHAT: (&str, &str) = (
    "/v1/chat/completions",
    r#"{"model":"gpt-4o","messages":[{"role":"user","content":"Hello"}]}"#,
);
const MESSAGE: (&str, &str) = (
    "/v1/messages",
    r#"{"model":"claude-sonnet-4-5","max_tokens":64,"messages":[{"role":"user","content":"Hello"}]}"#,
);

const PREDICTION: (&str, &str) = (
    "/v1/projects/p/locations/global/publishers/anthropic/models/claude-sonnet-4-5:rawPredict",
    r#"{"anthropic_version":"vertex-2023-10-16","max_tokens":64,"messages":[{"role":"user","content":"Hello"}]}"#,
);

const PROVIDERS: [Provider; 11] = [
    Provider {
        heading: "OpenAI",
        authority: "api.openai.com",
        chats: "/v1/chat/completions",
        key_header: "authorization",
        asks: CHAT,
        model: "gpt-4o",
        pages: &[("/v1/models", "")],
        window: Some("gpt-4o: 128,000 tokens (table, openai gpt-4o)"),
    },
    Provider {
        heading: "OpenRouter",
        authority: "openrouter.ai",
        chats: "/api/v1/chat/completions",
        key_header: "authorization",
        asks: CHAT,
        model: "example/wide",
        pages: &[("/api/v1/models", "openrouter.json")],
        window: Some("example/wide: 131,072 tokens (as the upstream answers)"),
    },
    Provider {
        heading: "Anthropic",
        authority: "api.anthropic.com",
        chats: "/v1/messages",
        key_header: "x-api-key",
        asks: MESSAGE,
        model: "claude-sonnet-4-5",
        pages: &[],
        window: None,
    },
    Provider {
        heading: "Azure OpenAI",
        authority: "RESOURCE.openai.azure.com",
        chats: "/openai/v1/chat/completions",
        key_header: "api-key",
        asks: CHAT,
        model: "my-deployment",
        pages: &[("/openai/v1/models", "")],
        window: Some("my-deployment: 200,000 tokens (assumed"),
    },
    Provider {
        heading: "Amazon Bedrock",
        authority: "bedrock-runtime.us-east-1.amazonaws.com",
        chats: "/anthropic/v1/messages",
        key_header: "authorization",
        asks: MESSAGE,
        model: "claude-sonnet-4-5",
        pages: &[],
        window: None,
    },
    Provider {
        heading: "Google Cloud",
        authority: "aiplatform.googleapis.com",
        chats: PREDICTION.0,
        key_header: "authorization",
        asks: PREDICTION,
        model: "claude-sonnet-4-5",
        pages: &[],
        window: None,
    },
    Provider {
        heading: "Microsoft Foundry",
        authority: "RESOURCE.services.ai.azure.com",
        chats: "/anthropic/v1/messages",
        key_header: "x-api-key",
        asks: MESSAGE,
        model: "claude-sonnet-4-5",
        pages: &[],
        window: None,
    },
    Provider {
        heading: "vLLM",
        authority: "localhost:8000",
        chats: "/v1/chat/completions",
        key_header: "authorization",
        asks: CHAT,
        model: "served",
        pages: &[("/v1/models", "vllm.json")],
        window: Some("served: 32,768 tokens (as the upstream answers)"),
    },
    Provider {
        heading: "llama.cpp",
        authority: "localhost:8080",
        chats: "/v1/chat/completions",
        key_header: "authorization",
        asks: CHAT,
        model: "example.gguf",
        pages: &[("/v1/models", "llama-cpp-models-old.json"), ("/props", "llama-cpp-props.json")],
        window: Some("example.gguf: 32,768 tokens (as the upstream answers)"),
    },
    Provider {
        heading: "Ollama",
        authority: "localhost:11434",
        chats: "/v1/chat/completions",
        key_header: "authorization",
        asks: CHAT,
        model: "served",
        pages: &[("/v1/models", "ollama-models.json"), ("/api/ps", "ollama-ps.json")],
        window: Some("served: 32,768 tokens (as the upstream answers)"),
    },
    Provider {
        heading: "LM Studio",
        authority: "localhost:1234",
        chats: "/v1/chat/completions",
        key_header: "authorization",
        asks: CHAT,
        model: "served",
        pages: &[("/v1/models", ""), ("/api/v0/models", "lm-studio.json")],
        window: Some("served: 32,768 tokens (as the upstream answers)"),
    },
];

/// Returns the command lines of the page, by heading.
fn recipes() -> BTreeMap<&'static str, Vec<&'static str>> {
    let sections = PAGE.split("\n## ").skip(1);
    let recipe = |section: &'static str| {
        let (heading, text) = section.split_once('\n').unwrap();
        let lines = text.lines().filter_map(|line| line.strip_prefix("    "));
        (heading, lines.collect())
    };
    sections.map(recipe).collect()
}

/// Requests that a provider received: method, authority, path and key.
type Received = Arc<Mutex<Vec<[String; 4]>>>;

/// A provider: its own front, which forwards to a strict model.
struct Front {
    provider: &'static Provider,
    model: Caller,
    received: Received,
}

impl Front {
    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let (head, body) = request.into_parts();
        let field = |name: &str| {
            let value = head.headers.get(name);
            value.map_or("", |value| value.to_str().unwrap()).to_owned()
        };
        let key = [self.provider.key_header, "authorization"].map(field);
        self.received.lock().unwrap().push([
            head.method.to_string(),
            field("host"),
            head.uri.path().to_owned(),
            key.into_iter().find(|key| !key.is_empty()).unwrap_or_default(),
        ]);
        let body = body.collect().await.unwrap().to_bytes();
        let path = head.uri.path();
        let page = self.provider.pages.iter().find(|(page, _)| *page == path);
        let (status, body) = match (&head.method, page) {
            (&Method::GET, Some((_, ""))) => (200, LISTED.into()),
            (&Method::GET, Some((_, file))) => {
                let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/models");
                (200, std::fs::read(folder.join(file)).unwrap().into())
            }
            (&Method::POST, _) if path == self.provider.chats => {
                let bearer = field("authorization");
                let fields = [("authorization", &*bearer)];
                let fields = if bearer.is_empty() { &[] } else { &fields[..] };
                let reply = self.model.ask_at(self.provider.asks.0, fields, body).await;
                (reply.status, reply.body)
            }
            _ => (404, Bytes::new()),
        };
        let mut reply = Response::new(Full::new(body));
        *reply.status_mut() = StatusCode::from_u16(status).unwrap();
        let json = http::HeaderValue::from_static("application/json");
        reply.headers_mut().insert("content-type", json);
        reply
    }

    async fn serve(self: Arc<Self>, socket: impl AsyncRead + AsyncWrite + Unpin + 'static) {
        let answer = service_fn(move |request| {
            let front = Arc::clone(&self);
            async move { Ok::<_, Infallible>(front.answer(request).await) }
        });
        // A client may leave at any time.
        _ = http1::Builder::new().serve_connection(TokioIo::new(socket), answer).await;
    }
}

/// Serves a front on a free port, over TLS where `acceptor` is there.
async fn serve(front: Front, acceptor: Option<TlsAcceptor>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let front = Arc::new(front);
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let front = Arc::clone(&front);
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                match acceptor {
                    None => front.serve(socket).await,
                    Some(acceptor) => {
                        if let Ok(session) = acceptor.accept(socket).await {
                            front.serve(session).await;
                        }
                    }
                }
            });
        }
    });
    port
}

/// Runs `longhaul doctor` with the arguments of a recipe.
async fn doctor(
    provider: &Provider,
    arguments: &[String],
    environment: &[(&str, &str)],
) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
    command
        .args(["doctor", "--model", provider.model])
        .args(["--listen", ":0", "--admin", "off"])
        .args(arguments)
        .env_clear()
        .env("OPENAI_API_KEY", KEY)
        .envs(environment.iter().copied());
    let ended = tokio::task::spawn_blocking(move || command.output().unwrap());
    let output = ended.await.unwrap();
    let page = String::from_utf8(output.stdout).unwrap();
    (output.status.code(), page)
}

async fn play(provider: &'static Provider, recipe: &[&str]) {
    let model = Model::start(ModelOptions::with_window(WINDOW)).await.unwrap();
    let received = Received::default();
    let front =
        Front { provider, model: Caller::of(model.addr()), received: Arc::clone(&received) };
    let folder = tempfile::tempdir().unwrap();
    let authority = folder.path().join("ca.pem");
    let is_local = provider.authority.starts_with("localhost:");
    let acceptor = (!is_local).then(|| tls::acceptor(&authority, provider.authority));
    let port = serve(front, acceptor).await;
    let between = Between::start(Then::Joins(port)).await;
    let tunnel = between.url("http://");
    let remote = [
        ("LONGHAUL_PROXY_HTTPS", tunnel.as_str()),
        ("LONGHAUL_UPSTREAM_CA_FILE", authority.to_str().unwrap()),
    ];
    let environment: &[(&str, &str)] = if is_local { &[] } else { &remote };

    let started = recipe.iter().find(|line| line.starts_with("longhaul"));
    let words = started.unwrap().split_whitespace().skip(1);
    let here = format!("localhost:{port}");
    let arguments: Vec<String> = words
        .map(
            |word| {
                if is_local { word.replace(provider.authority, &here) } else { word.to_owned() }
            },
        )
        .collect();
    let is_named = |word: &String| word.contains(&here);
    assert_eq!(is_local, arguments.iter().any(is_named), "{}", provider.heading);

    if let Some(window) = provider.window {
        let (code, page) = doctor(provider, &arguments, environment).await;
        assert_eq!(code, Some(0), "{}: {page}", provider.heading);
        assert!(page.contains(window), "{}: {page}", provider.heading);
        let asked = received.lock().unwrap().clone();
        for (page, _) in provider.pages {
            let is_asked = asked.iter().any(|[_, _, path, _]| path == page);
            assert!(is_asked, "{}: {page} of {asked:?}", provider.heading);
        }
    }
    received.lock().unwrap().clear();

    let program = Program::with_arguments(&arguments, environment);
    let key = match provider.key_header {
        "authorization" => format!("Bearer {KEY}"),
        _ => KEY.to_owned(),
    };
    let (path, body) = provider.asks;
    let mut fields = vec![(provider.key_header, key.as_str())];
    if path == MESSAGE.0 {
        fields.push(("anthropic-version", "2023-06-01"));
    }
    let reply = Caller::of(program.address()).ask_at(path, &fields, body).await;
    assert_eq!(reply.status, 200, "{}: {reply:?}", provider.heading);
    let host = if is_local { &here } else { provider.authority };
    let expect = ["POST", host, provider.chats, &key].map(str::to_owned);
    assert_eq!(
        *received.lock().unwrap(),
        [expect],
        "{}: the host, the path and the key",
        provider.heading
    );
    model.stop().await;
}

#[tokio::test]
async fn each_recipe_reaches_its_provider_with_the_key_and_finds_the_window() {
    let recipes = recipes();
    let mut headings: Vec<&str> = PROVIDERS.iter().map(|provider| provider.heading).collect();
    headings.push("Any other endpoint");
    headings.sort_unstable();
    assert_eq!(recipes.keys().copied().collect::<Vec<_>>(), headings);
    for provider in &PROVIDERS {
        play(provider, &recipes[provider.heading]).await;
    }
}

#[tokio::test]
async fn a_recipe_for_an_agent_names_the_default_address() {
    let lines = recipes().into_values().flatten();
    let bases = lines.filter(|line| line.contains("_BASE_URL="));
    let paths = bases.map(|line| line.split_once("=http://127.0.0.1:8484").unwrap().1);
    // The order is that of the headings.
    assert_eq!(paths.collect::<Vec<_>>(), ["", "", "/v1"]);
}
