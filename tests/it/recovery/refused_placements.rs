//! Conversations with a refused summary placement, turn by turn.

use std::sync::{Arc, Mutex};

use longhaul::Config;
use longhaul::config::PlacementSetting;
use longhaul_core::units::tokens::Tokens;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

use super::scripted;
use crate::harness::Proxy;
use crate::journey::{STANDS_FOR_HISTORY, digests};

/// The status and the message of a refusal.
type Refusal = (u16, &'static str);

/// A refusal that longhaul recognises.
const ALTERNATE: Refusal =
    (400, "Conversation roles must alternate user/assistant/user/assistant/...");
const TOO_LONG: Refusal = (
    400,
    "This model's maximum context length is 28000 tokens. However, your messages resulted in 28100 tokens.",
);
/// A refusal that longhaul does not recognise.
const BAD: Refusal = (422, "Bad list of messages.");

/// A proxy before an upstream that refuses some lists of messages and answers the rest.
struct Scene {
    proxy: Proxy,
    asked: Arc<Mutex<Vec<Vec<u8>>>>,
}

/// The outcome of a turn.
struct Turn {
    sent: Vec<u8>,
    status: u16,
    /// The bodies that the upstream received for the turn, in order.
    asked: Vec<Vec<u8>>,
}

impl Scene {
    async fn start(refuses: impl FnMut(&[Value]) -> Option<Refusal> + Send + 'static) -> Self {
        Self::with(|_| (), refuses).await
    }

    /// Starts a scene in which only the operator's setting states the model's window.
    async fn set(refuses: impl FnMut(&[Value]) -> Option<Refusal> + Send + 'static) -> Self {
        let setting = Some("a test".to_owned());
        Self::with(|config| config.window_place = setting, refuses).await
    }

    async fn with(
        alter: impl FnOnce(&mut Config),
        refuses: impl FnMut(&[Value]) -> Option<Refusal> + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}/v1", listener.local_addr().unwrap());
        let asked = Arc::default();
        tokio::spawn(serve(listener, Arc::clone(&asked), refuses));
        let settings = [("upstream.base", base.as_str()), ("upstream.ask", "false")];
        let mut config = Config::default_with(settings).unwrap();
        digests(&mut config);
        config.summary.placement = PlacementSetting::Auto;
        config.compaction.prune = false;
        config.window = Tokens::new(32_000);
        alter(&mut config);
        let proxy = Proxy::with(config).await;
        Self { proxy, asked }
    }

    /// Plays a conversation turn by turn until it would no longer fit unchanged.
    async fn play(&self, name: &str) -> Vec<Turn> {
        self.play_asking(name, 100).await
    }

    /// Like [`Scene::play`], with `output` tokens requested in each turn.
    async fn play_asking(&self, name: &str, output: u32) -> Vec<Turn> {
        let mut turns = Vec::new();
        let mut messages = vec![json!({"role": "system", "content": name})];
        for turn in 0..38 {
            let question =
                format!("question {turn} of {name} {}", "lorem ipsum dolor ".repeat(150));
            messages.push(json!({"role": "user", "content": question}));
            let sent = json!({"model": "m", "max_tokens": output, "messages": messages});
            let sent = sent.to_string();
            let url = format!("http://{}/v1", self.proxy.address);
            let arrived = super::ask(&url, sent.as_bytes()).await;
            turns.push(Turn {
                sent: sent.into_bytes(),
                status: arrived.status,
                asked: std::mem::take(&mut *self.asked.lock().unwrap()),
            });
            messages.push(json!({"role": "assistant", "content": "word ".repeat(100)}));
        }
        turns
    }
}

async fn serve(
    listener: TcpListener,
    asked: Arc<Mutex<Vec<Vec<u8>>>>,
    mut refuses: impl FnMut(&[Value]) -> Option<Refusal>,
) {
    loop {
        let (mut socket, _) = listener.accept().await.unwrap();
        let body = scripted::body(&mut socket).await.unwrap();
        let parsed: Value = serde_json::from_slice(&body).unwrap();
        let refused = refuses(parsed["messages"].as_array().unwrap());
        asked.lock().unwrap().push(body);
        answer(&mut socket, refused).await;
    }
}

async fn answer(socket: &mut TcpStream, refused: Option<Refusal>) {
    let (status, body) = match refused {
        Some((status, why)) => (status, json!({"error": {"message": why}})),
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

fn alternates(messages: &[Value]) -> bool {
    let repeats = |pair: &[Value]| pair[0]["role"] == pair[1]["role"];
    !messages.windows(2).any(repeats)
}

/// Returns the number of sends per turn, from the first turn that was sent twice.
fn sends(turns: &[Turn]) -> Vec<usize> {
    let counts = turns.iter().map(|turn| turn.asked.len());
    counts.skip_while(|&sends| sends == 1).collect()
}

#[tokio::test]
async fn sends_the_original_after_both_placements_are_refused() {
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

/// Beyond the model's window, each turn sent unchanged would be refused once.
#[tokio::test]
async fn placement_accepted_after_an_overflow_stays_in_use() {
    let mut chances = 2;
    let scene = Scene::start(move |messages| {
        let rewritten = is_rewritten(messages);
        if rewritten && chances > 0 {
            chances -= 1;
            return Some(ALTERNATE);
        }
        let chars: usize = messages.iter().map(|message| text(message).len()).sum();
        (chars > 112_000).then_some(TOO_LONG)
    })
    .await;
    let turns = scene.play("s").await;
    assert!(turns.iter().all(|turn| turn.status == 200));
    let sends = sends(&turns);
    assert_eq!(sends[..2], [2, 2]);
    let twice = sends.iter().filter(|&&sends| sends == 2).count();
    assert_eq!(twice, 3, "the two forms, and the overflow: {sends:?}");
    let last = turns.last().unwrap();
    assert_eq!(last.asked.len(), 1);
    assert!(is_rewritten(&messages(&last.asked[0])));
}

/// The first two refusals fall back to the original, because a single one may be chance. Then the
/// other placement is used.
#[tokio::test]
async fn unknown_refusals_fall_back_to_the_original_then_another_placement() {
    let scene = Scene::start(|messages| (!alternates(messages)).then_some(BAD)).await;
    let turns = scene.play("s").await;
    assert!(turns.iter().all(|turn| turn.status == 200));
    let sends = sends(&turns);
    assert_eq!(sends[..2], [2, 2]);
    assert!(sends.len() > 3 && sends[2..].iter().all(|&sends| sends == 1), "{sends:?}");
    for turn in turns.iter().filter(|turn| turn.asked.len() == 2) {
        assert_eq!(turn.asked[1], turn.sent);
    }
    let last = turns.last().unwrap();
    assert!(last.asked[0].len() < last.sent.len());
}

#[tokio::test]
async fn unknown_refusals_of_both_placements_fall_back_to_the_original() {
    let scene = Scene::start(|messages| is_rewritten(messages).then_some(BAD)).await;
    let turns = scene.play("s").await;
    assert!(turns.iter().all(|turn| turn.status == 200));
    let sends = sends(&turns);
    let twice = sends.iter().filter(|&&sends| sends == 2).count();
    assert!((3..=4).contains(&twice), "{sends:?}");
    assert_eq!(*sends.last().unwrap(), 1);
    let last = turns.last().unwrap();
    assert_eq!(last.asked, std::slice::from_ref(&last.sent));
}

/// A refusal that does not repeat is forgotten: the placement is tried again and stays in use.
#[tokio::test]
async fn single_unexplained_refusal_costs_one_retry_and_is_forgotten() {
    let mut chances = 1;
    let scene = Scene::start(move |messages| {
        let refused = is_rewritten(messages) && chances > 0;
        chances -= u32::from(refused);
        refused.then_some(BAD)
    })
    .await;
    let turns = scene.play("s").await;
    assert!(turns.iter().all(|turn| turn.status == 200));
    let sends = sends(&turns);
    assert_eq!(sends[0], 2);
    assert!(sends.len() > 2 && sends[1..].iter().all(|&sends| sends == 1), "{sends:?}");
    let last: Value = serde_json::from_slice(&turns.last().unwrap().asked[0]).unwrap();
    let messages = last["messages"].as_array().unwrap();
    assert!(is_rewritten(messages) && !alternates(messages));
}

/// If the original is refused as well, the conversation is not retried again.
#[tokio::test]
async fn stops_retrying_if_the_original_is_refused_too() {
    let long = |messages: &[Value]| messages.len() > 30 || is_rewritten(messages);
    let scene = Scene::start(move |messages| long(messages).then_some(BAD)).await;
    let turns = scene.play("s").await;
    let sends = sends(&turns);
    assert_eq!(sends[0], 2, "{sends:?}");
    assert!(sends[1..].iter().all(|&sends| sends == 1), "{sends:?}");
    assert_eq!(turns.last().unwrap().status, 422);
}

#[tokio::test]
async fn relays_refusals_explained_by_their_status_or_wording() {
    for refusal in [
        (404, "Bad list of messages."),
        (500, "Bad list of messages."),
        (400, "Too many requests."),
        (400, "max_tokens is too large."),
    ] {
        let scene = Scene::start(move |messages| is_rewritten(messages).then_some(refusal)).await;
        let turns = scene.play("s").await;
        assert!(turns.iter().all(|turn| turn.asked.len() == 1));
        assert_eq!(turns.last().unwrap().status, refusal.0);
    }
}

/// Output tokens so large that a conversation stops fitting long before it is cut.
const MUCH: u32 = 12_000;

fn messages(body: &[u8]) -> Vec<Value> {
    let body: Value = serde_json::from_slice(body).unwrap();
    body["messages"].as_array().unwrap().clone()
}

/// Returns the first turn that the upstream received in two forms.
fn asked_twice(turns: &[Turn]) -> &Turn {
    let twice = turns.iter().find(|turn| turn.asked.len() == 2);
    twice.unwrap()
}

#[tokio::test]
async fn alternation_refusal_merges_the_summary_if_the_original_cannot_fit() {
    let scene = Scene::set(|messages| (!alternates(messages)).then_some(ALTERNATE)).await;
    let turns = scene.play_asking("one", MUCH).await;
    assert!(turns.iter().all(|turn| turn.status == 200));
    let sends = sends(&turns);
    assert_eq!(sends[0], 2);
    assert!(sends.len() > 3 && sends[1..].iter().all(|&sends| sends == 1), "{sends:?}");
    let [separate, merged] = [0, 1].map(|send| messages(&asked_twice(&turns).asked[send]));
    assert!(is_rewritten(&separate) && is_rewritten(&merged) && alternates(&merged));
    // From there on the model uses the merged placement.
    let other = scene.play_asking("another", MUCH).await;
    assert!(other.iter().all(|turn| turn.asked.len() == 1));
    assert!(is_rewritten(&messages(&other.last().unwrap().asked[0])));
}

#[tokio::test]
async fn refusal_of_both_placements_keeps_the_default_for_other_chats() {
    let scene = Scene::set(|messages| is_rewritten(messages).then_some(ALTERNATE)).await;
    let turns = scene.play_asking("one", MUCH).await;
    let sends = sends(&turns);
    assert_eq!(sends[0], 2);
    assert!(sends[1..].iter().all(|&sends| sends == 1), "{sends:?}");
    assert_eq!(asked_twice(&turns).status, 400);
    let other = scene.play_asking("another", MUCH).await;
    assert!(!alternates(&messages(&asked_twice(&other).asked[0])));
}

#[tokio::test]
async fn sends_an_oversized_original_if_the_window_is_unknown() {
    let scene = Scene::start(|messages| is_rewritten(messages).then_some(ALTERNATE)).await;
    let turns = scene.play_asking("one", MUCH).await;
    assert!(turns.iter().all(|turn| turn.status == 200));
    let twice = asked_twice(&turns);
    assert_eq!(twice.asked[1], twice.sent);
}
