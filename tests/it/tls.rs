//! Trust roots of the proxy: the machine's roots and the operator's file, no others.

use std::path::Path;
use std::sync::Arc;

use memchr::memmem;
use rustls::pki_types::PrivatePkcs8KeyDer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls;

use crate::caller::talk;
use crate::harness::Proxy;
use crate::program::fed;

const ASK: &str = "GET /v1/models HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

/// Returns the server's side of TLS with a self-signed certificate for `name`, written to `ca_file`.
pub(crate) fn acceptor(ca_file: &Path, name: &str) -> TlsAcceptor {
    let issued = rcgen::generate_simple_self_signed(vec![name.into()]).unwrap();
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

/// Starts an upstream with a self-signed certificate for `name`, written to `ca_file`. It answers
/// one request and returns its head and the data received with it.
pub(crate) async fn upstream(ca_file: &Path, name: &str) -> (u16, tokio::task::JoinHandle<String>) {
    let acceptor = acceptor(ca_file, name);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let served = tokio::spawn(async move {
        let (socket, _) = listener.accept().await.unwrap();
        // A client that does not trust the certificate aborts the handshake.
        let Ok(mut session) = acceptor.accept(socket).await else {
            return String::new();
        };
        let mut read = Vec::new();
        while memmem::find(&read, b"\r\n\r\n").is_none()
            && session.read_buf(&mut read).await.unwrap() > 0
        {}
        session.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello").await.unwrap();
        String::from_utf8_lossy(&read).into_owned()
    });
    (port, served)
}

async fn ask(port: u16, changes: &[(&str, &str)]) -> String {
    let proxy = Proxy::start(&format!("https://localhost:{port}/v1"), changes).await;
    let mut client = proxy.connect().await;
    client.send(ASK).await;
    client.rest().await
}

#[tokio::test]
async fn trusts_a_private_ca_from_the_configured_file() {
    let dir = tempfile::tempdir().unwrap();
    let ca_file = dir.path().join("ca.pem");
    for http2 in ["off", "auto"] {
        let (port, served) = upstream(&ca_file, "localhost").await;
        let trusting = [("upstream.ca_file", ca_file.to_str().unwrap()), ("upstream.http2", http2)];
        let reply = ask(port, &trusting).await;
        assert!(reply.starts_with("HTTP/1.1 200 OK\r\n") && reply.ends_with("hello"), "{reply}");
        served.await.unwrap();
    }
}

/// Runs the program with `arguments` and standard input `body`, against an upstream with a self-signed
/// certificate for `name`. Returns both outputs.
async fn output_of(
    (name, is_trusted): (&str, bool),
    arguments: &'static [&str],
    body: &[u8],
) -> String {
    let dir = tempfile::tempdir().unwrap();
    let ca_file = dir.path().join("ca.pem");
    let acceptor = acceptor(&ca_file, name);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("https://localhost:{}/v1", listener.local_addr().unwrap().port());
    let served = tokio::spawn(async move {
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            assert!(acceptor.accept(socket).await.is_err());
        }
    });
    let body = body.to_owned();
    let output = tokio::task::spawn_blocking(move || {
        let environment = [
            ("LONGHAUL_UPSTREAM", base.as_str()),
            ("LONGHAUL_UPSTREAM_CA_FILE", ca_file.to_str().unwrap()),
        ];
        let environment = &environment[..=usize::from(is_trusted)];
        fed(arguments, environment, &body)
    });
    let output = output.await.unwrap();
    served.abort();
    String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
}

#[tokio::test]
async fn commands_say_why_a_certificate_is_refused() {
    let certificates =
        [(("localhost", false), "UnknownIssuer"), (("other.test", true), "not valid for name")];
    for (certificate, reason) in certificates {
        let ask = &["check", "--model", "m", "--ask"];
        let output = output_of(certificate, ask, b"").await;
        assert!(output.contains(reason), "{output}");
        let output = output_of(certificate, &["compact"], &talk(20, 2_000)).await;
        assert!(output.contains(reason), "{output}");
    }
}

#[tokio::test]
async fn rejects_an_upstream_certificate_of_an_unknown_ca() {
    let dir = tempfile::tempdir().unwrap();
    let (port, served) = upstream(&dir.path().join("ca.pem"), "localhost").await;
    let reply = ask(port, &[]).await;
    assert!(reply.contains("x-longhaul-fault: upstream_tls\r\n"), "{reply}");
    served.await.unwrap();
}
