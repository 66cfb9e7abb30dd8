//! Situations of public reports: whole conversations, an upstream that refuses by stated rules, and a strict
//! model that answers the rest.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use longhaul::Config;
use longhaul_mock_model::{Model, ModelOptions};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use crate::caller::Caller;
use crate::harness::Proxy;
use crate::journey::digests;
use crate::recovery::scripted;

const WORDS: &str =
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho ";
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk";

/// A line of `fixtures/reports/situations.jsonl`.
#[derive(Deserialize)]
struct Situation {
    id: String,
    #[serde(rename = "use")]
    split: String,
    path: String,
    #[serde(default)]
    headers: Map<String, Value>,
    send: Send,
    rules: Vec<Rule>,
    /// Whether no rule of the strict model holds.
    #[serde(default)]
    takes_anything: bool,
    /// Refusals that the client may see.
    shown: usize,
    /// Requests that the upstream may refuse.
    refused: usize,
    /// Texts of the last request that the upstream accepts.
    #[serde(default)]
    must_stay: Vec<Value>,
    body: Value,
}

/// Requests that the client sends.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Send {
    /// So many times the whole conversation.
    whole: usize,
    /// Numbers of messages.
    lengths: Vec<usize>,
    /// First and last step: a request behind each result and each message of the user.
    each_step: Option<(usize, Option<usize>)>,
    /// The last step is the first above this size.
    until_first_above_tokens: Option<usize>,
    then_the_same_again: usize,
    then_with_one_more_each: Option<More>,
}

#[derive(Deserialize)]
struct More {
    times: usize,
    messages: Vec<Value>,
}

/// A refusal, and the requests that it answers. A token has four bytes.
#[derive(Clone, Deserialize)]
struct Rule {
    tokens_above: Option<usize>,
    bytes_above: Option<usize>,
    messages_above: Option<usize>,
    body_contains: Option<String>,
    status: u16,
    content_type: String,
    body: String,
}

impl Rule {
    /// Returns the refusal of a request, if the rule holds.
    fn refusal(&self, body: &str) -> Option<(u16, String, Vec<u8>)> {
        let (bytes, tokens, messages) = (body.len(), body.len() / 4, items(&parsed(body)).len());
        let is_above = |size: usize, limit: Option<usize>| limit.is_some_and(|limit| size > limit);
        let is_refused = is_above(tokens, self.tokens_above)
            || is_above(bytes, self.bytes_above)
            || is_above(messages, self.messages_above)
            || self.body_contains.as_ref().is_some_and(|text| body.contains(text));
        let text = self.body.replace("{tokens}", &tokens.to_string());
        let text = text.replace("{messages}", &messages.to_string());
        is_refused.then(|| (self.status, self.content_type.clone(), text.into_bytes()))
    }
}

fn parsed(body: &str) -> Value {
    serde_json::from_str(body).unwrap()
}

fn key(body: &Value) -> &'static str {
    if body.get("messages").is_some() { "messages" } else { "input" }
}

fn items(body: &Value) -> &Vec<Value> {
    body[key(body)].as_array().unwrap()
}

/// Writes out what stands for something long: see `fixtures/README.md`.
fn expanded(value: &Value, numbers: &[(String, i64)]) -> Value {
    let filled = |text: &str| {
        let names = numbers.iter();
        names.fold(text.to_owned(), |text, (name, it)| {
            text.replace(&format!("{{{name}}}"), &it.to_string())
        })
    };
    let repeated =
        |text: &str, length: usize| -> String { text.chars().cycle().take(length).collect() };
    match value {
        Value::String(text) => filled(text).into(),
        Value::Array(list) => {
            let list =
                list.iter().flat_map(|item| match item["$repeat"].as_array().map(Vec::as_slice) {
                    Some([name, from, to, items]) => (from.as_i64().unwrap()..to.as_i64().unwrap())
                        .flat_map(|number| {
                            let name = (name.as_str().unwrap().to_owned(), number);
                            let numbers = [numbers, &[name]].concat();
                            expanded(items, &numbers).as_array().unwrap().clone()
                        })
                        .collect(),
                    _ => vec![expanded(item, numbers)],
                });
            list.collect()
        }
        Value::Object(members) => {
            let size = |key: &str| usize::try_from(members.get(key)?.as_u64()?).ok();
            if let Some(size) = size("$text") {
                let tag = filled(members["tag"].as_str().unwrap()) + " ";
                let rest = repeated(WORDS, size - tag.len());
                return (tag + &rest).into();
            }
            if let Some(size) = size("$png") {
                let head = members.get("head").and_then(Value::as_str).unwrap_or_default();
                return (head.to_owned() + &repeated(PNG, size / 4 * 4)).into();
            }
            if let Some([count, line]) =
                members.get("$lines").and_then(Value::as_array).map(Vec::as_slice)
            {
                let line = line.as_str().unwrap().to_owned() + "\n";
                return line.repeat(usize::try_from(count.as_u64().unwrap()).unwrap()).into();
            }
            members.iter().map(|(key, it)| (key.clone(), expanded(it, numbers))).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// Whether a request may end behind this message or item.
fn ends_request(item: &Value) -> bool {
    let content = item["content"].as_array().into_iter().flatten();
    matches!(item["role"].as_str(), Some("tool" | "user"))
        || item["type"] == "function_call_output"
        || content.into_iter().any(|part| part["type"] == "tool_result")
}

impl Situation {
    /// Returns the bodies that the client sends, in order.
    fn requests(&self) -> Vec<String> {
        let body = expanded(&self.body, &[]);
        let all = items(&body);
        let of = |items: &[Value]| {
            let mut body = body.clone();
            body[key(&self.body)] = items.into();
            body.to_string()
        };
        let is_end =
            |at: &usize| ends_request(&all[*at - 1]) && !all.get(*at).is_some_and(ends_request);
        let steps: Vec<usize> = (1..=all.len()).filter(is_end).collect();
        let mut lengths = match self.send.each_step {
            Some((from, to)) => steps[from..to.unwrap_or(steps.len()).min(steps.len())].to_vec(),
            None if self.send.lengths.is_empty() => vec![all.len(); self.send.whole],
            None => self.send.lengths.clone(),
        };
        if let Some(tokens) = self.send.until_first_above_tokens {
            let fits = lengths.iter().position(|length| of(&all[..*length]).len() / 4 > tokens);
            lengths.truncate(fits.unwrap() + 1);
        }
        let last = *lengths.last().unwrap();
        lengths.extend(vec![last; self.send.then_the_same_again]);
        let mut bodies: Vec<String> = lengths.iter().map(|length| of(&all[..*length])).collect();
        if let Some(more) = &self.send.then_with_one_more_each {
            let longer = |times: usize| {
                [&all[..last], &vec![more.messages.clone(); times].concat()].concat()
            };
            bodies.extend((1..=more.times).map(|times| of(&longer(times))));
        }
        bodies
    }

    /// Plays the situation. Returns what is wrong; nothing if all is as expected.
    async fn wrong(&self) -> Vec<String> {
        let model = Model::start(ModelOptions::with_window(10_000_000)).await.unwrap();
        let (address, seen) = upstream(self, model.addr()).await;
        let base = format!("http://{address}/v1");
        let changes = [("upstream.base", &*base), ("upstream.ask", "false")];
        let mut config = Config::default_with(changes).unwrap();
        digests(&mut config);
        let proxy = Proxy::with(config).await;
        let caller = Caller::of(proxy.address);
        let fields: Vec<(&str, &str)> =
            self.headers.iter().map(|(name, it)| (&**name, it.as_str().unwrap())).collect();
        let (mut shown, mut sent) = (0, 0);
        for body in self.requests() {
            let reply = caller.ask_at(&self.path, &fields, body).await;
            shown += usize::from(reply.status != 200);
            sent += 1;
        }
        let seen = seen.lock().unwrap();
        let refused = seen.iter().filter(|(_, status)| *status != 200).count();
        let accepted = seen.iter().rfind(|(_, status)| *status == 200);
        let last = accepted.map(|(body, _)| &**body).unwrap_or_default();
        let lost = expanded(&json!(self.must_stay), &[]);
        let lost = lost.as_array().unwrap().iter().filter(|text| {
            let text = text.to_string();
            !last.contains(text.trim_matches('"').trim_end_matches("\\n"))
        });
        let lost = lost.count();
        let rules = [
            (shown <= self.shown, format!("the client saw {shown} of {sent} refused")),
            (refused <= self.refused, format!("{refused} of {} sends were refused", seen.len())),
            (seen.len() - refused + shown == sent, "not every request was answered".to_owned()),
            (lost == 0, format!("{lost} texts are lost")),
        ];
        rules.into_iter().filter(|(holds, _)| !holds).map(|(_, what)| what).collect()
    }
}

/// The bodies that an upstream received, each with the status of the reply.
type Received = Arc<Mutex<Vec<(String, u16)>>>;

/// Starts an upstream that refuses by the rules of a situation. The strict model answers all other requests.
async fn upstream(situation: &Situation, model: SocketAddr) -> (SocketAddr, Received) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let received = Received::default();
    let (seen, rules) = (Arc::clone(&received), situation.rules.clone());
    let takes_anything = situation.takes_anything;
    // The longer form of a path that a client shortened.
    let path = format!("/v1{}", situation.path.trim_start_matches("/v1"));
    let beta = situation.headers.get("anthropic-beta").and_then(Value::as_str).map(str::to_owned);
    tokio::spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            let Some(body) = scripted::body(&mut socket).await else {
                continue;
            };
            let body = String::from_utf8(body).unwrap();
            let refusal = rules.iter().find_map(|rule| rule.refusal(&body));
            let (status, content_type, text) = match refusal {
                Some(refusal) => refusal,
                None if takes_anything => (200, "application/json".to_owned(), b"{}".to_vec()),
                None => {
                    let fields = [("x-api-key", "k"), ("anthropic-version", "2023-06-01")];
                    let beta = beta.as_deref().map(|beta| ("anthropic-beta", beta));
                    let fields: Vec<_> = fields.into_iter().chain(beta).collect();
                    let reply = Caller::of(model).ask_at(&path, &fields, body.clone()).await;
                    let content_type = reply.headers["content-type"].to_str().unwrap().to_owned();
                    (reply.status, content_type, reply.body.to_vec())
                }
            };
            seen.lock().unwrap().push((body, status));
            let head = format!(
                "HTTP/1.1 {status} Played\r\ncontent-type: {content_type}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                text.len()
            );
            _ = socket.write_all(&[head.as_bytes(), &text].concat()).await;
        }
    });
    (address, received)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn situations_of_public_reports_end_as_a_user_expects() {
    let lines = include_str!("../../../fixtures/reports/situations.jsonl").lines();
    let (mut wrong, mut held_out) = (Vec::new(), 0);
    for line in lines {
        let situation: Situation = serde_json::from_str(line).unwrap();
        held_out += usize::from(situation.split == "held out");
        let faults = situation.wrong().await;
        if !faults.is_empty() {
            wrong.push(format!("{} ({}): {}", situation.id, situation.split, faults.join("; ")));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(held_out, 5);
}
