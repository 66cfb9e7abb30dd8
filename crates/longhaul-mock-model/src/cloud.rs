//! Google Cloud's and Bedrock's forms of the Messages API: the model in the path, strict about the body.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use flate2::Crc;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use serde_json::{Map, Value, json};

use crate::judged_request::{JudgedRequest, ModelReply};
use crate::model_state::ModelState;
use crate::record::{RequestKind, Verdict};
use crate::refusal::RefusalReply;
use crate::request::{Api, Caller};
use crate::script::ScriptStep;

/// The members that a body may have at the top, in either form.
const MEMBERS: [&str; 17] = [
    "anthropic_beta",
    "anthropic_version",
    "cache_control",
    "context_management",
    "max_tokens",
    "messages",
    "metadata",
    "output_config",
    "service_tier",
    "stop_sequences",
    "system",
    "temperature",
    "thinking",
    "tool_choice",
    "tools",
    "top_k",
    "top_p",
];
/// The version of the API that newer SDKs state in place of that of a cloud.
const API_VERSION: &str = "2026-10-21";
const EVENT_STREAM: &str = "application/vnd.amazon.eventstream";

/// A cloud.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Cloud {
    Bedrock,
    Google,
}

/// A request's verb.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Verb {
    Answer,
    Count,
    Stream,
}

/// A request of a cloud, by its path.
#[derive(Debug)]
pub(crate) struct CloudRequest {
    cloud: Cloud,
    verb: Verb,
    model: String,
}

impl CloudRequest {
    /// Reads a path. Returns `None` if the path is not of a cloud, in its very form.
    pub(crate) fn parse(path: &str) -> Option<Self> {
        let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        let request = |cloud, verb, model: &str| {
            let model = model.replace("%3A", ":").replace("%2F", "/").replace("%40", "@");
            (!model.is_empty()).then_some(Self { cloud, verb, model })
        };
        match parts[..] {
            ["model", model, "invoke"] => request(Cloud::Bedrock, Verb::Answer, model),
            ["model", model, "invoke-with-response-stream"] => {
                request(Cloud::Bedrock, Verb::Stream, model)
            }
            [
                "v1" | "v1beta1",
                "projects",
                _,
                "locations",
                _,
                "publishers",
                "anthropic",
                "models",
                model,
            ] => match model.rsplit_once(':')? {
                ("count-tokens", "rawPredict") => request(Cloud::Google, Verb::Count, "-"),
                (model, "rawPredict") => request(Cloud::Google, Verb::Answer, model),
                (model, "streamRawPredict") => request(Cloud::Google, Verb::Stream, model),
                _ => None,
            },
            _ => None,
        }
    }

    /// Judges a request.
    pub(crate) fn judge(
        &self,
        state: &ModelState,
        body: &Bytes,
        headers: &HeaderMap,
    ) -> JudgedRequest {
        let is_bearer =
            headers.get(AUTHORIZATION).is_some_and(|it| it.as_bytes().starts_with(b"Bearer "));
        if !is_bearer || headers.contains_key("x-api-key") {
            return self.refusal("cloud-bearer", 401, "a bearer token is expected");
        }
        let Ok(Value::Object(mut members)) = serde_json::from_slice(body) else {
            return self.refusal("cloud-json", 400, "the body is no object");
        };
        if let Some(error) = self.broken(&members) {
            return self.refusal("cloud-form", 400, &error);
        }
        members.retain(|name, _| !name.starts_with("anthropic_"));
        if self.verb == Verb::Count {
            return state.count(&json!(members).to_string().into(), Caller::of(headers));
        }
        members.insert("model".to_owned(), json!(self.model));
        members.insert("stream".to_owned(), json!(self.verb == Verb::Stream));
        let plain = Bytes::from(json!(members).to_string());
        let judged = state.judge(Api::Messages, &plain, Caller::of(headers));
        match self.cloud {
            Cloud::Bedrock => as_bedrock(judged),
            Cloud::Google => judged,
        }
    }

    /// Returns the reason for which the form of a body is refused.
    fn broken(&self, members: &Map<String, Value>) -> Option<String> {
        let version = match self.cloud {
            Cloud::Bedrock => "bedrock-2023-05-31",
            Cloud::Google => "vertex-2023-10-16",
        };
        let stated = members.get("anthropic_version").and_then(Value::as_str);
        let is_versioned = stated.is_some_and(|it| it == version || it == API_VERSION);
        let streams = members.get("stream").and_then(Value::as_bool);
        let is_counted = self.verb == Verb::Count;
        let is_known = |name: &str| match name {
            "model" => is_counted,
            "stream" => self.cloud == Cloud::Google && !is_counted,
            _ => MEMBERS.contains(&name),
        };
        if let Some(name) = members.keys().find(|name| !is_known(name)) {
            return Some(match self.cloud {
                Cloud::Bedrock => format!("#: extraneous key [{name}] is not permitted"),
                Cloud::Google => format!("{name}: Extra inputs are not permitted"),
            });
        }
        if !is_counted && !is_versioned {
            return Some("anthropic_version: Field required".to_owned());
        }
        if is_counted && !members.contains_key("model") {
            return Some("model: Field required".to_owned());
        }
        let disagrees = streams.unwrap_or(false) != (self.verb == Verb::Stream);
        let is_stated = self.cloud == Cloud::Google && !is_counted;
        (is_stated && disagrees).then(|| "stream: does not agree with the method".to_owned())
    }

    fn refusal(&self, rule: &'static str, status: u16, message: &str) -> JudgedRequest {
        let body = match self.cloud {
            Cloud::Bedrock => json!({"message": message}),
            Cloud::Google => json!({"type": "error",
                "error": {"type": "invalid_request_error", "message": message}}),
        };
        let refusal = RefusalReply::new(status, "application/json", body.to_string());
        let reply = ModelReply::Refusal(refusal);
        JudgedRequest::new(RequestKind::Chat, Verdict::Broken(rule), reply)
    }
}

/// Returns a judged request with the reply in the forms of Bedrock: errors with a message alone, and a stream in
/// frames.
fn as_bedrock(judged: JudgedRequest) -> JudgedRequest {
    let JudgedRequest { seen, reply } = judged;
    let reply = match reply {
        ModelReply::Answer("text/event-stream", steps) => {
            let framed = steps.into_iter().map(|step| match step {
                ScriptStep::Send(events) => ScriptStep::Send(frames(&events)),
                ScriptStep::Hang | ScriptStep::Reset | ScriptStep::Wait(_) => step,
            });
            ModelReply::Answer(EVENT_STREAM, framed.collect())
        }
        ModelReply::Refusal(refusal) => {
            let error: Value = serde_json::from_str(&refusal.body).unwrap_or_default();
            let message = error.pointer("/error/message").and_then(Value::as_str);
            let body = match message {
                Some(message) => {
                    let text = format!("The model returned the following errors: {message}");
                    json!({"message": text}).to_string()
                }
                None => refusal.body.into_owned(),
            };
            ModelReply::Refusal(RefusalReply { body: body.into(), ..refusal })
        }
        ModelReply::Answer(..) | ModelReply::Silence => reply,
    };
    JudgedRequest { seen, reply }
}

/// Returns one frame for each event.
fn frames(events: &[u8]) -> Bytes {
    let text = String::from_utf8_lossy(events);
    let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    let framed = data.flat_map(|data| {
        let chunk = json!({"bytes": STANDARD.encode(data), "p": "abcdef"}).to_string();
        frame(&[(":event-type", "chunk"), (":message-type", "event")], chunk.as_bytes())
    });
    framed.collect()
}

/// Returns a frame of an event stream of AWS.
#[expect(clippy::cast_possible_truncation, reason = "headers and payloads are short")]
pub fn frame(headers: &[(&str, &str)], payload: &[u8]) -> Vec<u8> {
    let mut head = Vec::new();
    for (name, value) in headers {
        head.push(name.len() as u8);
        head.extend_from_slice(name.as_bytes());
        head.push(7);
        head.extend_from_slice(&(value.len() as u16).to_be_bytes());
        head.extend_from_slice(value.as_bytes());
    }
    let length = 16 + head.len() + payload.len();
    let mut frame = (length as u32).to_be_bytes().to_vec();
    frame.extend_from_slice(&(head.len() as u32).to_be_bytes());
    frame.extend_from_slice(&checksum(&frame).to_be_bytes());
    frame.extend_from_slice(&head);
    frame.extend_from_slice(payload);
    frame.extend_from_slice(&checksum(&frame).to_be_bytes());
    frame
}

fn checksum(bytes: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum()
}
