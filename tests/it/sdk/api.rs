//! A small API for the SDKs: canned replies over plain sockets, with all requests recorded.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

const CHAT: &str = r#"{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Hello, 世界 👋"},"finish_reason":"stop"}],"usage":{"prompt_tokens":8,"completion_tokens":4,"total_tokens":12}}"#;
const MODELS: &str = r#"{"object":"list","data":[{"id":"m","object":"model","created":1,"owned_by":"a"},{"id":"vendor/other:free","object":"model","created":1,"owned_by":"b"}]}"#;
/// The vector [0.25, -0.5] in the SDKs' format: 32-bit little-endian floats, in base64.
const EMBEDDINGS: &str = r#"{"object":"list","data":[{"object":"embedding","index":0,"embedding":"AACAPgAAAL8="}],"model":"e","usage":{"prompt_tokens":1,"total_tokens":1}}"#;
const REFUSAL: &str = r#"{"error":{"message":"this model takes no requests","type":"invalid_request_error","param":"model","code":"model_refused"}}"#;
const WORDS: [&str; 3] = ["Hello,", " 世界", " 👋"];

/// A running API; it lives as long as the test process.
pub(super) struct Api {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Api {
    pub(super) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("a bound socket");
        let requests = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&requests);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let kept = Arc::clone(&kept);
                thread::spawn(move || serve(&stream, &kept));
            }
        });
        Self { address, requests }
    }

    pub(super) fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Returns the requests since the last call, without `Host` and `Connection`.
    pub(super) fn take_requests(&self) -> Vec<String> {
        std::mem::take(&mut *self.requests.lock().expect("no holder panics"))
    }
}

/// Answers the requests of a connection until it ends.
fn serve(stream: &TcpStream, kept: &Mutex<Vec<String>>) {
    let mut input = BufReader::new(stream);
    while let Some((head, body)) = read_request(&mut input) {
        let reply = reply(&head, &body);
        kept.lock().expect("no holder panics").push(head + &body);
        let mut output = stream;
        for piece in reply {
            if output.write_all(piece.as_bytes()).is_err() {
                return;
            }
        }
    }
}

/// Reads a request: its head without `Host` and `Connection`, and its body.
fn read_request(input: &mut impl BufRead) -> Option<(String, String)> {
    let mut head = String::new();
    let mut length = 0;
    loop {
        let mut line = String::new();
        if input.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let (name, value) = line.split_once(':').unwrap_or((&line, ""));
        match name.to_ascii_lowercase().as_str() {
            "host" | "connection" => continue,
            "content-length" => length = value.trim().parse().expect("a length"),
            _ => {}
        }
        head.push_str(&line);
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    input.read_exact(&mut body).ok()?;
    Some((head, String::from_utf8(body).expect("the SDKs write UTF-8")))
}

/// Returns the reply to a request, split into writes.
fn reply(head: &str, body: &str) -> Vec<String> {
    let target = head.split(' ').nth(1).unwrap_or_default();
    match target {
        "/v1/chat/completions" if body.contains("refused") => {
            vec![whole("400 Bad Request", REFUSAL)]
        }
        "/v1/chat/completions" if body.contains("\"stream\":true") => stream(),
        "/v1/chat/completions" => vec![whole("200 OK", CHAT)],
        "/v1/models" => vec![whole("200 OK", MODELS)],
        "/v1/embeddings" => vec![whole("200 OK", EMBEDDINGS)],
        _ => vec![whole("404 Not Found", "{}")],
    }
}

fn whole(status: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nx-request-id: req_1\r\nContent-Length: {length}\r\n\r\n{body}"
    )
}

/// Five events and `[DONE]`, each in its own chunk, after a comment.
fn stream() -> Vec<String> {
    let event = |choices: &str, usage: &str| {
        format!(
            "data: {{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{choices}],\"usage\":{usage}}}\n\n"
        )
    };
    let delta = |word: &str| {
        let choice =
            format!("{{\"index\":0,\"delta\":{{\"content\":\"{word}\"}},\"finish_reason\":null}}");
        event(&choice, "null")
    };
    let stop = r#"{"index":0,"delta":{},"finish_reason":"stop"}"#;
    let usage = r#"{"prompt_tokens":8,"completion_tokens":4,"total_tokens":12}"#;
    let mut events = vec![": waiting\n\n".to_owned()];
    events.extend(WORDS.map(delta));
    events.extend([event(stop, "null"), event("", usage), "data: [DONE]\n\n".to_owned()]);

    let head =
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
    let mut pieces = vec![head.to_owned()];
    pieces.extend(events.iter().map(|event| format!("{:x}\r\n{event}\r\n", event.len())));
    pieces.push("0\r\n\r\n".to_owned());
    pieces
}
