//! What becomes of a conversation whose rewritten form is refused, turn by turn.

use std::sync::{Arc, Mutex};

use longhaul::Config;
use longhaul::config::Placing;
use longhaul::rewrite::tokens::Tokens;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

use super::scripted;
use crate::harness::Proxy;
use crate::journey::{STANDS_FOR_HISTORY, digests};

/// What an upstream says to these messages, if it refuses them.
type Refuses = fn(&[Value]) -> Option<&'static str>;

/// Known for what it is.
const ALTERNATE: &str = "Conversation roles must alternate user/assistant/user/assistant/...";

/// A proxy before an upstream that refuses some lists of messages with 400 and answers the rest.
struct Scene {
    proxy: Proxy,
    asked: Arc<Mutex<Vec<Vec<u8>>>>,
}

/// What became of one turn.
struct Turn {
    sent: Vec<u8>,
    status: u16,
    /// What the upstream was asked for it, in order.
    asked: Vec<Vec<u8>>,
}

impl Scene {
    async fn start(refuses: Refuses) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}/v1", listener.local_addr().unwrap());
        let asked = Arc::default();
        tokio::spawn(serve(listener, Arc::clone(&asked), refuses));
        let settings = [("upstream.base", base.as_str()), ("upstream.ask", "false")];
        let mut config = Config::default_with(settings).unwrap();
        digests(&mut config);
        config.summary.placement = Placing::Auto;
        config.wishes.prune = false;
        config.window = Tokens::new(32_000);
        let proxy = Proxy::with(config).await;
        Self { proxy, asked }
    }

    /// A conversation turn by turn, up to where it would not fit as it came.
    async fn play(&self, name: &str) -> Vec<Turn> {
        let mut turns = Vec::new();
        let mut messages = vec![json!({"role": "system", "content": name})];
        for turn in 0..19 {
            let question = format!("question {turn} {}", "lorem ipsum dolor ".repeat(300));
            messages.push(json!({"role": "user", "content": question}));
            let sent = json!({"model": "m", "messages": messages}).to_string();
            let url = format!("http://{}/v1", self.proxy.address);
            let arrived = super::ask(&url, sent.as_bytes()).await;
            turns.push(Turn {
                sent: sent.into_bytes(),
                status: arrived.status,
                asked: std::mem::take(&mut *self.asked.lock().unwrap()),
            });
            messages.push(json!({"role": "assistant", "content": "word ".repeat(200)}));
        }
        turns
    }
}

async fn serve(listener: TcpListener, asked: Arc<Mutex<Vec<Vec<u8>>>>, refuses: Refuses) {
    loop {
        let (mut socket, _) = listener.accept().await.unwrap();
        let body = scripted::body(&mut socket).await.unwrap();
        let parsed: Value = serde_json::from_slice(&body).unwrap();
        let refused = refuses(parsed["messages"].as_array().unwrap());
        asked.lock().unwrap().push(body);
        answer(&mut socket, refused).await;
    }
}

async fn answer(socket: &mut TcpStream, refused: Option<&str>) {
    let (status, body) = match refused {
        Some(why) => (400, json!({"error": {"message": why}})),
        None => (
            200,
            json!({"choices": [{"index": 0, "message": {"role": "assistant", "content": "on"}}]}),
        ),
    };
    let body = body.to_string();
    let head = format!(
        "HTTP/1.1 {status} x\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    let reply = head + &body;
    socket.write_all(reply.as_bytes()).await.unwrap();
}

fn text(message: &Value) -> &str {
    message["content"].as_str().unwrap()
}

fn is_rewritten(messages: &[Value]) -> bool {
    let stands = |message| text(message).contains(STANDS_FOR_HISTORY);
    messages.iter().any(stands)
}

/// How often each turn was sent, from the first that was sent twice on.
fn sends(turns: &[Turn]) -> Vec<usize> {
    let counts = turns.iter().map(|turn| turn.asked.len());
    counts.skip_while(|&sends| sends == 1).collect()
}

#[tokio::test]
async fn what_is_refused_in_both_forms_is_tried_in_neither_again() {
    let scene = Scene::start(|messages| is_rewritten(messages).then_some(ALTERNATE)).await;
    let turns = scene.play("s").await;
    assert!(turns.iter().all(|turn| turn.status == 200));
    let sends = sends(&turns);
    assert!(sends.len() > 3, "{sends:?}");
    assert_eq!(sends[..2], [2, 2]);
    assert!(sends[2..].iter().all(|&sends| sends == 1), "{sends:?}");
    let last = turns.last().unwrap();
    assert_eq!(last.asked, std::slice::from_ref(&last.sent));
}
