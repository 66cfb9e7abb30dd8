//! A thousand requests over more than ten windows, with forks, undos, parallel calls, images and
//! restarts. The client never sees an error, and every invariant holds after each request.

use longhaul::Config;
use longhaul_mock_model::{ModelOptions, TokenDensity};
use serde_json::json;

use crate::journey::{Journey, STANDS_FOR_HISTORY, Step, grows, harmless};
use crate::oracle::reader::messages;

const REQUESTS: usize = 1_000;
const WINDOW: u64 = 32_768;
const WINDOWS: u64 = 10;
/// Maximum forwarded body of any session in this window: slightly over three bytes per token, plus
/// the JSON overhead.
const FORWARDED_BYTES: usize = 160_000;
/// Bytes of an image; its token count depends on its kind, not its size.
const IMAGE: usize = 1_500;

/// A growing session, generated from a seed.
struct Session {
    state: u64,
    /// The messages as JSON.
    messages: Vec<String>,
    ids: usize,
    images: usize,
    parallel: usize,
}

impl Session {
    fn new(seed: u64) -> Self {
        let system = json!({"role": "system", "content": "You are an agent. ".repeat(60)});
        let mut session = Self {
            state: seed,
            messages: vec![system.to_string()],
            ids: 0,
            images: 0,
            parallel: 0,
        };
        session.user();
        session
    }

    fn draw(&mut self, below: usize) -> usize {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        usize::try_from((mixed ^ (mixed >> 31)) >> 33).unwrap() % below
    }

    fn words(&mut self, count: usize) -> String {
        let seed = self.draw(1_000_000);
        let words = (0..count).map(|at| format!("w{}", (seed + at * 7_919) % 10_007));
        words.collect::<Vec<_>>().join(" ")
    }

    fn push(&mut self, message: &serde_json::Value) {
        self.messages.push(message.to_string());
    }

    /// Adds a user request, sometimes with an image.
    fn user(&mut self) {
        let count = 20 + self.draw(100);
        let words = self.words(count);
        if self.draw(4) == 0 {
            self.images += 1;
            let url = format!("data:image/png;base64,{}", "A".repeat(IMAGE));
            self.push(&json!({"role": "user", "content": [
                {"type": "text", "text": words},
                {"type": "image_url", "image_url": {"url": url}}]}));
        } else {
            self.push(&json!({"role": "user", "content": words}));
        }
    }

    /// Adds one to four parallel calls with their results.
    fn step(&mut self) {
        let width = if self.draw(3) == 0 { 2 + self.draw(3) } else { 1 };
        self.parallel += usize::from(width > 1);
        let ids: Vec<String> = (0..width).map(|at| format!("call_{}", self.ids + at)).collect();
        self.ids += width;
        let calls: Vec<_> = ids
            .iter()
            .map(|id| {
                let arguments = json!({"path": format!("src/{id}.rs")}).to_string();
                json!({"id": id, "type": "function",
                    "function": {"name": "read", "arguments": arguments}})
            })
            .collect();
        let mut message = json!({"role": "assistant", "content": null, "tool_calls": calls});
        if self.draw(2) == 0 {
            message["reasoning_content"] = json!(self.words(15));
        }
        self.push(&message);
        for id in ids {
            let count = match self.draw(12) {
                0 => 1_200,
                1..=3 => 300,
                _ => 60,
            };
            let words = self.words(count);
            self.push(&json!({"role": "tool", "tool_call_id": id, "content": words}));
        }
    }

    /// Adds events up to the next request.
    fn go_on(&mut self) {
        if self.draw(6) == 0 {
            let count = 10 + self.draw(200);
            let words = self.words(count);
            self.push(&json!({"role": "assistant", "content": words}));
            self.user();
        } else {
            self.step();
        }
    }

    /// Removes the last few messages, and asks something else.
    fn undo(&mut self) {
        let back = 2 + self.draw(60);
        let keep = self.messages.len().saturating_sub(back).max(2);
        let user = |text: &String| text.contains(r#""role":"user""#);
        // Cuts before a user message: everything before one is complete.
        let at = self.messages[..keep].iter().rposition(user).unwrap_or(1);
        self.messages.truncate(at.max(1));
        self.user();
    }

    fn body(&self) -> Vec<u8> {
        let tools = json!([{"type": "function", "function": {"name": "read",
            "parameters": {"type": "object", "properties": {"path": {"type": "string"}}}}}]);
        let messages = self.messages.join(",");
        format!(r#"{{"model":"m","messages":[{messages}],"tools":{tools}}}"#).into_bytes()
    }
}

/// Totals over the session.
#[derive(Default)]
struct Account {
    /// Prefix breaks that shrank the forwarded body by less than a tenth.
    idle: usize,
    compactions: usize,
    retries: usize,
    windows: u64,
    last: Option<(Vec<u8>, Vec<u8>, String)>,
}

impl Account {
    /// Checks a request of the session's main line.
    fn enter(&mut self, name: &str, step: Step) {
        is_kept_to(name, &step);
        let forwarded = step.forwarded().body.to_vec();
        let stands = messages(&forwarded)
            .into_iter()
            .find(|text| text.contains(STANDS_FOR_HISTORY))
            .unwrap_or_default()
            .to_owned();
        self.retries += usize::from(step.upstream.len() == 2);
        if let Some((sent, was, stood)) = &self.last {
            let breaks = grows(sent, &step.sent) && !grows(was, &forwarded);
            let unbroken = was.len() + step.sent.len() - sent.len().min(step.sent.len());
            let gains = forwarded.len() <= unbroken * 9 / 10;
            self.idle += usize::from(breaks && !gains);
            self.compactions += usize::from(stands != *stood);
        }
        self.last = Some((step.sent, forwarded, stands));
    }
}

/// Checks the invariants of every request.
fn is_kept_to(name: &str, step: &Step) {
    let body = step.forwarded().body.clone();
    let (before, after) = (messages(&step.sent), messages(&body));
    assert_eq!(before.first(), after.first(), "{name}: the head");
    let clipped = step.arrived.action().contains("clip");
    assert!(clipped || before.last() == after.last(), "{name}: the end");
    assert!(body.len() <= FORWARDED_BYTES, "{name}: {} bytes", body.len());
    harmless(name, std::slice::from_ref(step));
}

async fn check(name: &str, seed: u64, change: fn(&mut Config)) -> Account {
    let mut journey = Journey::start(ModelOptions::with_window(WINDOW), change).await;
    let mut session = Session::new(seed);
    let mut account = Account::default();
    let (mut asked, mut forks, mut undos) = (0, 0, 0);
    while asked < REQUESTS {
        let at = format!("{name}, request {asked}");
        account.enter(&at, journey.step(session.body()).await);
        asked += 1;
        if asked % 250 == 0 {
            journey.restart().await;
        }
        match session.draw(40) {
            0 => {
                undos += 1;
                session.undo();
            }
            1 => {
                // A sub-agent branches off for a while and is then dropped.
                forks += 1;
                let kept = session.messages.clone();
                session.go_on();
                for _ in 0..3 {
                    let at = format!("{name}, request {asked} of a fork");
                    is_kept_to(&at, &journey.step(session.body()).await);
                    asked += 1;
                    session.go_on();
                }
                session.messages = kept;
                session.go_on();
            }
            _ => session.go_on(),
        }
    }
    assert!(forks >= 10 && undos >= 10, "{forks} forks, {undos} undos");
    assert!(session.images >= 20 && session.parallel >= 100);
    let tokens = TokenDensity::STANDARD.request_tokens(&session.body()).unwrap();
    account.windows = tokens / WINDOW;
    account
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_requests_over_ten_windows_keep_every_invariant() {
    let account = check("with summaries", 1, |_| ()).await;
    assert!(account.windows >= WINDOWS, "{} windows", account.windows);
    assert!(account.compactions >= 10, "{}", account.compactions);
    // A restart drops the learned window, and one refusal restores it.
    assert!(account.retries <= 5 + REQUESTS / 250, "{}", account.retries);
    // A restarted proxy does not know the results that its predecessor had cleared.
    assert!(account.idle <= REQUESTS / 250, "{} breaks", account.idle);
}
