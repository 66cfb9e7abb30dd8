//! The built-in hosts on loopback: one TLS server with their names, behind a forward proxy.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use rustls::pki_types::PrivatePkcs8KeyDer;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls;

use crate::time_limit::bounded;

const NAMES: [&str; 3] = ["api.openai.com", "chatgpt.com", "api.anthropic.com"];

/// A request as a host received it.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) host: String,
    pub(crate) path: String,
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Seen {
    pub(crate) fn has(&self, name: &str, value: &str) -> bool {
        let same = |(own, is): &&(String, String)| own == name && is == value;
        self.fields.iter().find(same).is_some()
    }

    pub(crate) fn field(&self, name: &str) -> &str {
        let mut fields = self.fields.iter();
        fields.find(|(own, _)| own == name).map_or("", |it| &it.1)
    }
}

/// Status, fields beyond the length, and body of an answer.
pub(crate) type Answer = (u16, String, String);

/// The hosts, and the forward proxy through which a proxy finds them.
pub(crate) struct Hosts {
    seen: Arc<Mutex<Vec<Seen>>>,
    ca_file: String,
    proxy: String,
    _folder: tempfile::TempDir,
}

impl Hosts {
    pub(crate) async fn start(answer: impl Fn(&Seen) -> Answer + Send + Sync + 'static) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let ca_file = folder.path().join("ca.pem");
        let acceptor = acceptor(&ca_file);
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = server.local_addr().unwrap();
        let (seen, answer) = (Arc::<Mutex<Vec<Seen>>>::default(), Arc::new(answer));
        let notes = Arc::clone(&seen);
        tokio::spawn(async move {
            while let Ok((socket, _)) = server.accept().await {
                let (acceptor, notes) = (acceptor.clone(), Arc::clone(&notes));
                let answer = Arc::clone(&answer);
                tokio::spawn(async move {
                    let Ok(mut session) = acceptor.accept(socket).await else {
                        return;
                    };
                    while let Some(request) = read(&mut session).await {
                        let (status, fields, body) = answer(&request);
                        notes.lock().unwrap().push(request);
                        let length = body.len();
                        let head = format!(
                            "HTTP/1.1 {status} X\r\n{fields}Content-Length: {length}\r\n\r\n"
                        );
                        if session.write_all((head + &body).as_bytes()).await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move {
            while let Ok((mut socket, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let head = head(&mut socket).await.unwrap_or_default();
                    let known = |name| head.starts_with(&format!("CONNECT {name}:443 "));
                    assert!(NAMES.into_iter().any(known), "{head}");
                    let mut server = TcpStream::connect(at).await.unwrap();
                    _ = socket.write_all(b"HTTP/1.1 200 Joined\r\n\r\n").await;
                    _ = copy_bidirectional(&mut socket, &mut server).await;
                });
            }
        });
        Self { seen, ca_file: ca_file.to_str().unwrap().to_owned(), proxy, _folder: folder }
    }

    /// Returns the settings by which a proxy reaches the hosts.
    pub(crate) fn settings(&self) -> [(&str, &str); 3] {
        [
            ("upstream.ca_file", &self.ca_file),
            ("proxy.https", &self.proxy),
            ("upstream.ask", "false"),
        ]
    }

    /// Returns the environment in which the program reaches the hosts.
    pub(crate) fn environment(&self) -> [(&str, &str); 3] {
        [
            ("LONGHAUL_UPSTREAM_CA_FILE", &self.ca_file),
            ("HTTPS_PROXY", &self.proxy),
            ("LONGHAUL_UPSTREAM_ASK", "false"),
        ]
    }

    /// Returns the requests since the last call.
    pub(crate) fn take(&self) -> Vec<Seen> {
        std::mem::take(&mut self.seen.lock().unwrap())
    }
}

fn acceptor(ca_file: &Path) -> TlsAcceptor {
    let names = NAMES.map(str::to_owned).to_vec();
    let issued = rcgen::generate_simple_self_signed(names).unwrap();
    std::fs::write(ca_file, issued.cert.pem()).unwrap();
    let key = PrivatePkcs8KeyDer::from(issued.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![issued.cert.der().clone()], key.into())
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

async fn head(stream: &mut (impl AsyncRead + Unpin)) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    String::from_utf8(head).ok()
}

async fn read(stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> Option<Seen> {
    let head = head(stream).await?;
    let mut lines = head.lines();
    let path = lines.next()?.split(' ').nth(1)?.to_owned();
    let field = |line: &str| {
        let (name, value) = line.split_once(": ")?;
        Some((name.to_ascii_lowercase(), value.to_owned()))
    };
    let mut seen = Seen {
        host: String::new(),
        path,
        fields: lines.filter_map(field).collect(),
        body: String::new(),
    };
    seen.host = seen.field("host").to_owned();
    let mut body = vec![0; seen.field("content-length").parse().unwrap_or(0)];
    stream.read_exact(&mut body).await.ok()?;
    seen.body = String::from_utf8_lossy(&body).into_owned();
    Some(seen)
}

/// Answers as the hosts do: each accepts its own kind of credential, and refuses every other.
pub(crate) fn strict(request: &Seen) -> Answer {
    let token = request.field("authorization");
    let token = token.get("bearer ".len()..).unwrap_or_default().trim();
    let is_login = token.split('.').count() == 3 && !request.field("chatgpt-account-id").is_empty();
    let refused = |text: &str| {
        let body = serde_json::json!({"error": {"message": text, "type": "invalid_request_error"}});
        (401, "Content-Type: application/json\r\n".to_owned(), body.to_string())
    };
    match request.host.as_str() {
        "chatgpt.com" if is_login && request.path.starts_with("/backend-api/codex/") => answered(),
        _ if token.is_empty() => refused("Missing bearer authentication in header"),
        "chatgpt.com" => refused("Could not parse your authentication token."),
        "api.openai.com" if token.split('.').count() == 3 => {
            refused("You have insufficient permissions. Missing scopes: api.responses.write.")
        }
        "api.openai.com" if token.starts_with("sk-wrong") => refused("Incorrect API key provided"),
        _ => answered(),
    }
}

/// Returns a short answer of the Responses API.
pub(crate) fn answered() -> Answer {
    let body = serde_json::json!({
        "id": "resp_1", "object": "response", "status": "completed", "output": [],
        "usage": {"input_tokens": 10, "output_tokens": 1, "total_tokens": 11},
    });
    (200, "Content-Type: application/json\r\n".to_owned(), body.to_string())
}

/// Posts `body` and returns the whole reply.
pub(crate) async fn post(
    at: SocketAddr,
    path: &str,
    fields: &[(&str, &str)],
    body: &str,
) -> String {
    let mut socket = TcpStream::connect(at).await.unwrap();
    let length = body.len();
    let mut request = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n"
    );
    for (name, value) in fields {
        _ = write!(request, "{name}: {value}\r\n");
    }
    socket.write_all(format!("{request}\r\n{body}").as_bytes()).await.unwrap();
    let mut reply = Vec::new();
    bounded(socket.read_to_end(&mut reply)).await.unwrap();
    String::from_utf8(reply).unwrap()
}

/// Runs `longhaul doctor` in this environment, and returns what it prints.
pub(crate) async fn doctor(environment: &[(&str, &str)]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
    command.arg("doctor").env_clear().envs(environment.iter().copied());
    let output = tokio::task::spawn_blocking(move || command.output().unwrap());
    let output = output.await.unwrap();
    String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
}
