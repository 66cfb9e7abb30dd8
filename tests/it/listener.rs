//! TLS towards clients: protocol negotiation, rejected clients, and certificate renewal.

use std::fs::write;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{self, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls;

use crate::harness::{Proxy, Upstream};
use crate::program::Program;

const ASK: &str = "GET /v1/models HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
const OK: &str = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok";

/// Longer than every deadline, on a paused clock that jumps to the next timer when idle.
const LONG: Duration = Duration::from_hours(1);

/// Certificate files, and the trust root for clients.
struct Files {
    dir: TempDir,
    trusted: CertificateDer<'static>,
}

impl Files {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let trusted = issue(&dir);
        Self { dir, trusted }
    }

    /// Replaces the certificate with a new one.
    fn renew(&mut self) {
        self.trusted = issue(&self.dir);
    }

    fn certificate(&self) -> PathBuf {
        self.dir.path().join("chain.pem")
    }

    fn key(&self) -> PathBuf {
        self.dir.path().join("key.pem")
    }

    /// Starts a proxy that serves this certificate.
    async fn proxy(&self, base: &str) -> Proxy {
        let (certificate, key) = (self.certificate(), self.key());
        let settings = [
            ("tls.certificate_file", certificate.to_str().unwrap()),
            ("tls.key_file", key.to_str().unwrap()),
        ];
        Proxy::start(base, &settings).await
    }

    /// Opens a TLS session with the server at `address`; `None` if its certificate is not trusted.
    async fn session(
        &self,
        address: std::net::SocketAddr,
        offer: &str,
    ) -> Option<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots.add(self.trusted.clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = offer.split(',').map(|name| name.as_bytes().to_vec()).collect();
        let socket = TcpStream::connect(address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let connector = TlsConnector::from(Arc::new(config));
        connector.connect(name, socket).await.ok()
    }
}

fn issue(dir: &TempDir) -> CertificateDer<'static> {
    let issued = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    write(dir.path().join("chain.pem"), issued.cert.pem()).unwrap();
    write(dir.path().join("key.pem"), issued.signing_key.serialize_pem()).unwrap();
    issued.cert.der().clone()
}

/// Answers the upstream's next request.
fn answers(upstream: Upstream) -> tokio::task::JoinHandle<Upstream> {
    tokio::spawn(async move {
        let mut server = upstream.accept().await;
        server.until("\r\n\r\n").await;
        server.send(OK).await;
        server.drain().await;
        upstream
    })
}

#[tokio::test]
async fn serves_clients_over_tls_in_the_negotiated_protocol() {
    let files = Files::new();
    let upstream = Upstream::bind().await;
    let proxy = files.proxy(&upstream.base("")).await;
    let mut upstream = upstream;
    for (offer, expect) in [("http/1.1", "http/1.1"), ("h2,http/1.1", "h2"), ("h2", "h2")] {
        let session = files.session(proxy.address, offer).await.unwrap();
        let agreed = session.get_ref().1.alpn_protocol().unwrap().to_vec();
        assert_eq!(agreed, expect.as_bytes(), "{offer}");
        let served = answers(upstream);
        if expect == "h2" {
            let handshake =
                hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(session));
            let (mut sender, connection) = handshake.await.unwrap();
            tokio::spawn(connection);
            let request = Request::get("https://localhost/v1/models");
            let request = request.body(Empty::<Bytes>::new()).unwrap();
            let reply = sender.send_request(request).await.unwrap();
            assert_eq!(reply.status(), 200);
            let body = reply.into_body().collect().await.unwrap();
            assert_eq!(body.to_bytes(), "ok");
        } else {
            let mut session = session;
            session.write_all(ASK.as_bytes()).await.unwrap();
            let mut reply = String::new();
            session.read_to_string(&mut reply).await.unwrap();
            assert!(reply.starts_with("HTTP/1.1 200 OK\r\n"), "{reply}");
            assert!(reply.ends_with("\r\n\r\nok"), "{reply}");
        }
        upstream = served.await.unwrap();
    }
}

#[tokio::test]
async fn rejects_plain_http_on_the_tls_listener_with_a_hint() {
    let files = Files::new();
    let proxy = files.proxy("http://127.0.0.1:9").await;
    for said in
        [ASK, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"]
    {
        let mut client = proxy.connect().await;
        client.send(said).await;
        let reply = client.rest().await;
        assert!(reply.starts_with("HTTP/1.1 400 "), "{reply}");
        let (head, body) = reply.split_once("\r\n\r\n").unwrap();
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(body["error"]["code"], "plain_http");
        assert!(head.contains("x-longhaul-fault: plain_http"), "{head}");
        assert!(reply.contains("https://"), "{reply}");
    }
    let mut client = proxy.connect().await;
    client.send("SSH-2.0-OpenSSH_9.9\r\n\r\n").await;
    assert!(client.rest().await.starts_with("HTTP/1.1 400 "));
    assert!(files.session(proxy.address, "http/1.1").await.is_some());
}

#[tokio::test]
async fn closes_a_client_that_stalls_in_the_tls_handshake() {
    let files = Files::new();
    let proxy = files.proxy("http://127.0.0.1:9").await;
    for said in [&b""[..], b"\x16", b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03", b"G"] {
        let mut client = proxy.connect().await;
        client.send_bytes(said).await;
        time::pause();
        let ended = timeout(LONG, client.rest_bytes()).await;
        assert!(ended.is_ok(), "{said:?}");
        time::resume();
    }
    assert!(files.session(proxy.address, "http/1.1").await.is_some());
}

#[tokio::test]
async fn serves_a_renewed_certificate_after_its_files_change() {
    let mut files = Files::new();
    let upstream = Upstream::bind().await;
    let proxy = files.proxy(&upstream.base("")).await;
    let mut before = files.session(proxy.address, "http/1.1").await.unwrap();
    files.renew();
    time::pause();
    time::sleep(LONG / 100).await;
    time::resume();
    assert!(files.session(proxy.address, "http/1.1").await.is_some());
    // Sessions under the old certificate are served as before.
    let served = answers(upstream);
    before.write_all(ASK.as_bytes()).await.unwrap();
    let mut reply = String::new();
    before.read_to_string(&mut reply).await.unwrap();
    assert!(reply.ends_with("\r\n\r\nok"), "{reply}");
    served.await.unwrap();
}

#[tokio::test]
async fn keeps_the_old_certificate_if_the_new_pair_is_unusable() {
    let mut files = Files::new();
    let (certificate, key) = (files.certificate(), files.key());
    let settings = [
        ("LONGHAUL_TLS_CERTIFICATE_FILE", certificate.to_str().unwrap()),
        ("LONGHAUL_TLS_KEY_FILE", key.to_str().unwrap()),
    ];
    let program = Program::told("http://127.0.0.1:9/v1", &settings);
    let shown = async |files: &Files| files.session(program.address(), "h2").await.is_some();
    assert!(shown(&files).await);

    let good = std::fs::read_to_string(&key).unwrap();
    let other = Files::new();
    let others = std::fs::read_to_string(other.key()).unwrap();
    write(&key, &others).unwrap();
    program.reads_again("it is not the key of the first certificate", 1).await;
    assert!(shown(&files).await, "the old pair stays");
    write(&key, "").unwrap();
    program.reads_again("no private key", 1).await;
    assert!(shown(&files).await, "the old pair stays");

    files.renew();
    program.reads_again("certificate reloaded", 1).await;
    assert!(shown(&files).await, "the new pair is shown");
    let said = program.ended();
    assert_eq!(said.matches("keeping the previous one").count(), 2, "{said}");
    for key in [good, others] {
        for line in key.lines() {
            assert!(!said.contains(line), "{said}");
        }
    }
}

#[test]
fn unusable_certificate_files_are_a_configuration_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("chain.pem");
    write(&path, "hello").unwrap();
    for command in [&["check"][..], &["--listen", "127.0.0.1:0"]] {
        let output = Command::new(env!("CARGO_BIN_EXE_longhaul"))
            .env_clear()
            .args(command)
            .env("LONGHAUL_TLS_CERTIFICATE_FILE", &path)
            .env("LONGHAUL_TLS_KEY_FILE", &path)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(64));
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("tls.certificate_file") && said.contains("in PEM"), "{said}");
    }
}

#[test]
fn run_gives_the_command_plain_http_despite_tls_settings() {
    let output = Command::new(env!("CARGO_BIN_EXE_longhaul"))
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("LONGHAUL_TLS_CERTIFICATE_FILE", "none.pem")
        .env("LONGHAUL_TLS_KEY_FILE", "none.pem")
        .args(["run", "--", "sh", "-c", "echo $OPENAI_BASE_URL"])
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.starts_with("http://127.0.0.1:"), "{said}");
}
