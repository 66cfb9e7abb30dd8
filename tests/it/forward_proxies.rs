//! Upstream connections through a forward proxy: by a tunnel, by absolute URL, and by SOCKS.

use std::net::SocketAddr;
use std::process::Command;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

use crate::harness::Proxy;
use crate::program::Program;
use crate::tls;

const ASK: &str = "GET /v1/models HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello";

/// Reaction of a forward proxy once it has the client's target.
#[derive(Clone, Copy)]
pub(crate) enum Then {
    /// Sends these bytes itself.
    Answers(&'static [u8]),
    /// Connects the client to this port on loopback, whatever its target.
    Joins(u16),
}

/// A forward proxy that records the head of every request.
pub(crate) struct Between {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Between {
    pub(crate) async fn start(then: Then) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let notes = Arc::clone(&asked);
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(serve(socket, then, Arc::clone(&notes)));
            }
        });
        Self { address, asked }
    }

    /// Returns the single recorded request.
    fn asked(&self) -> String {
        let asked = self.asked.lock().unwrap();
        assert_eq!(asked.len(), 1, "{asked:?}");
        asked[0].clone()
    }

    fn is_silent(&self) -> bool {
        self.asked.lock().unwrap().is_empty()
    }

    pub(crate) fn url(&self, before: &str) -> String {
        format!("{before}{}", self.address)
    }
}

async fn serve(mut socket: TcpStream, then: Then, notes: Arc<Mutex<Vec<String>>>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        // SOCKS begins with its version byte, which never begins an HTTP head (RFC 1928, 3).
        if head == [5, 1] {
            return serve_socks(socket, then, notes).await;
        }
        match socket.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return,
        }
    }
    notes.lock().unwrap().push(String::from_utf8(head).unwrap());
    match then {
        Then::Answers(answer) => socket.write_all(answer).await.unwrap(),
        Then::Joins(port) => {
            socket.write_all(b"HTTP/1.1 200 Joined\r\n\r\n").await.unwrap();
            join(socket, port).await;
        }
    }
}

/// Serves a SOCKS connection after its version and its method count, which is one.
async fn serve_socks(mut socket: TcpStream, then: Then, notes: Arc<Mutex<Vec<String>>>) {
    let method = socket.read_u8().await.unwrap();
    socket.write_all(&[5, method]).await.unwrap();
    if method == 2 {
        // User and password (RFC 1929, 2).
        assert_eq!(socket.read_u8().await.unwrap(), 1);
        for expect in ["me", "hunter2"] {
            assert_eq!(text(&mut socket).await, expect);
        }
        socket.write_all(&[1, 0]).await.unwrap();
    }
    let mut asked = [0; 4];
    socket.read_exact(&mut asked).await.unwrap();
    assert_eq!(asked, [5, 1, 0, 3], "to connect to a name");
    let name = text(&mut socket).await;
    let port = socket.read_u16().await.unwrap();
    notes.lock().unwrap().push(format!("{method} {name}:{port}"));
    socket.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).await.unwrap();
    match then {
        Then::Answers(answer) => {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") && socket.read_buf(&mut head).await.unwrap() > 0 {}
            socket.write_all(answer).await.unwrap();
        }
        Then::Joins(port) => join(socket, port).await,
    }
}

/// Reads a length-prefixed text.
async fn text(socket: &mut TcpStream) -> String {
    let mut text = vec![0; socket.read_u8().await.unwrap().into()];
    socket.read_exact(&mut text).await.unwrap();
    String::from_utf8(text).unwrap()
}

async fn join(mut socket: TcpStream, port: u16) {
    let mut upstream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    // The two peers decide which side ends first.
    _ = copy_bidirectional(&mut socket, &mut upstream).await;
}

async fn ask(base: &str, changes: &[(&str, &str)]) -> String {
    let proxy = Proxy::start(base, changes).await;
    let mut client = proxy.connect().await;
    client.send(ASK).await;
    client.rest().await
}

fn is_hello(reply: &str) -> bool {
    reply.starts_with("HTTP/1.1 200 OK\r\n") && reply.ends_with("\r\n\r\nhello")
}

#[tokio::test]
async fn https_upstream_is_reached_through_a_connect_tunnel() {
    let dir = tempfile::tempdir().unwrap();
    let ca_file = dir.path().join("ca.pem");
    for (scheme, port, http2) in
        [("http://me:hunter2@", "", "off"), ("me:hunter2@", ":8443", "auto")]
    {
        let (upstream, served) = tls::upstream(&ca_file, "upstream.test").await;
        let between = Between::start(Then::Joins(upstream)).await;
        let settings = [
            ("upstream.ca_file", ca_file.to_str().unwrap()),
            ("upstream.http2", http2),
            ("proxy.https", &between.url(scheme)),
        ];
        let reply = ask(&format!("https://upstream.test{port}/v1"), &settings).await;
        assert!(is_hello(&reply), "{reply}");
        let asked = between.asked();
        let place = format!("upstream.test{}", if port.is_empty() { ":443" } else { port });
        assert!(asked.starts_with(&format!("CONNECT {place} HTTP/1.1\r\n")), "{asked}");
        assert!(asked.contains("Proxy-Authorization: Basic bWU6aHVudGVyMg==\r\n"), "{asked}");
        let heard = served.await.unwrap();
        assert!(heard.starts_with("GET /v1/models HTTP/1.1\r\n"), "{heard}");
        assert!(!heard.to_lowercase().contains("proxy-"), "{heard}");
    }
}

#[tokio::test]
async fn http_upstream_is_requested_from_the_proxy_by_absolute_url() {
    let between = Between::start(Then::Answers(OK)).await;
    let settings = [("proxy.http", &*between.url("http://me:hunter2@"))];
    let reply = ask("http://upstream.test/v1", &settings).await;
    assert!(is_hello(&reply), "{reply}");
    let asked = between.asked();
    let line = "GET http://upstream.test/v1/models HTTP/1.1\r\n";
    assert!(asked.starts_with(line), "{asked}");
    assert!(asked.contains("Host: upstream.test\r\n"), "{asked}");
    let shown = "proxy-authorization: basic bwu6ahvudgvymg==\r\n";
    assert!(asked.to_lowercase().contains(shown), "{asked}");
}

#[tokio::test]
async fn socks_proxy_receives_the_host_name_and_the_schemes_default_port() {
    for (before, expect) in
        [("socks5://", "0 upstream.test:80"), ("socks://me:hunter2@", "2 upstream.test:80")]
    {
        let between = Between::start(Then::Answers(OK)).await;
        let settings = [("proxy.all", &*between.url(before))];
        let reply = ask("http://upstream.test/v1", &settings).await;
        assert!(is_hello(&reply), "{reply}");
        assert_eq!(between.asked(), expect);
    }
    let dir = tempfile::tempdir().unwrap();
    let ca_file = dir.path().join("ca.pem");
    let (upstream, served) = tls::upstream(&ca_file, "upstream.test").await;
    let between = Between::start(Then::Joins(upstream)).await;
    let settings = [
        ("upstream.ca_file", ca_file.to_str().unwrap()),
        ("proxy.all", &*between.url("socks5h://")),
    ];
    assert!(is_hello(&ask("https://upstream.test/v1", &settings).await));
    assert_eq!(between.asked(), "0 upstream.test:443");
    served.await.unwrap();
}

#[tokio::test]
async fn loopback_upstream_is_reached_without_the_proxy() {
    let between = Between::start(Then::Answers(OK)).await;
    let straight = Between::start(Then::Answers(OK)).await;
    let settings = [("proxy.all", &*between.url("http://"))];
    let reply = ask(&format!("{}/v1", straight.url("http://")), &settings).await;
    assert!(is_hello(&reply), "{reply}");
    assert!(between.is_silent());
    assert!(straight.asked().starts_with("GET /v1/models HTTP/1.1\r\n"));
}

#[tokio::test]
async fn failing_forward_proxy_yields_the_upstream_proxy_fault() {
    let address = format!("127.0.0.1:{}", crate::redis_server::free_port());
    let mut ways = vec![
        ("https", format!("http://{address}")),
        ("http", format!("http://{address}")),
        ("https", format!("socks5://{address}")),
        ("http", format!("https://{address}")),
    ];
    for refusal in [
        "HTTP/1.1 407 Proxy Authentication Required\r\n\r\n",
        "HTTP/1.1 403 Forbidden\r\n\r\n",
        "SSH-2.0-OpenSSH_9.9\r\n\r\n",
        "",
    ] {
        let between = Between::start(Then::Answers(refusal.as_bytes())).await;
        ways.push(("https", between.url("http://me:hunter2@")));
    }
    for (scheme, way) in ways {
        let base = format!("{scheme}://upstream.test/v1");
        let reply = ask(&base, &[("proxy.all", &way)]).await;
        assert!(reply.starts_with("HTTP/1.1 502 "), "{way}: {reply}");
        let (_, body) = reply.split_once("\r\n\r\n").unwrap();
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(body["error"]["code"], "upstream_proxy", "{way}");
        assert!(!reply.contains("hunter2"), "{reply}");
    }
}

#[tokio::test]
async fn honours_the_usual_proxy_variables_and_logs_no_password() {
    for (name, except, is_asked) in [
        ("HTTP_PROXY", "", true),
        ("http_proxy", "", true),
        ("all_proxy", "", true),
        ("LONGHAUL_PROXY_HTTP", "", true),
        ("HTTPS_PROXY", "", false),
        ("HTTP_PROXY", "upstream.test", false),
    ] {
        let between = Between::start(Then::Answers(OK)).await;
        let url = between.url("http://me:hunter2@");
        let environment = [(name, &*url), ("NO_PROXY", except)];
        let program = Program::told("http://upstream.test:9/v1", &environment);
        let mut client = crate::harness::Wire::to(program.address()).await;
        client.send(ASK).await;
        let reply = client.rest().await;
        assert_eq!(is_hello(&reply), is_asked, "{name} {except}: {reply}");
        assert_eq!(between.is_silent(), !is_asked, "{name} {except}");
        let said = program.ended();
        assert!(!said.contains("hunter2"), "{said}");
    }
}

#[test]
fn check_hides_proxy_passwords_and_invalid_proxy_urls() {
    let check = |url: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_longhaul"))
            .env_clear()
            .env("HTTPS_PROXY", url)
            .arg("check")
            .output()
            .unwrap();
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8(said).unwrap();
        assert!(!said.contains("hunter2"), "{said}");
        (output.status.code(), said)
    };
    for url in ["http://me:hunter2@proxy:3128", "me:hunter2@proxy:3128"] {
        let (code, said) = check(url);
        assert_eq!(code, Some(0));
        assert!(said.contains("@proxy:3128") && said.contains("env HTTPS_PROXY"), "{said}");
    }
    let (code, said) = check("gopher://hunter2");
    assert_eq!(code, Some(64));
    assert!(said.contains("proxy.https from env HTTPS_PROXY: expected a URL"), "{said}");
}

#[test]
fn run_adds_loopback_to_no_proxy_of_the_command() {
    for (given, expect) in [(None, "127.0.0.1\n"), (Some("a.example"), "a.example,127.0.0.1\n")] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("http_proxy", "http://proxy.example:3128")
            .args(["run", "--", "sh", "-c", "echo $NO_PROXY; echo $no_proxy"]);
        if let Some(given) = given {
            command.env("NO_PROXY", given);
        }
        let said = String::from_utf8(command.output().unwrap().stdout).unwrap();
        assert_eq!(said, expect.repeat(2));
    }
}
