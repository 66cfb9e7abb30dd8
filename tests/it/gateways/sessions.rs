//! Three windows and more of recorded sessions in each API, message by message.

use longhaul_mock_model::{
    ReplayRequest, SessionRecording, ValidityRules, broken_input_rules, messages_session,
    responses_session, session,
};
use serde_json::{Value, json};

use super::{Compressed, Service};
use crate::messages::validity::newly_broken;

/// A model that binds its thinking.
const BINDING: &str = "claude-opus-5-1";
const WINDOW: u64 = 32_768;
/// Part of the window that is left for instructions and tools.
const RESERVE: u64 = WINDOW / 8;

/// A session and what its API demands.
struct Api {
    recording: SessionRecording,
    /// Key of the messages in a body.
    key: &'static str,
    model: &'static str,
    /// Returns the rules that the first body obeys and the second one breaks.
    broken: fn(&[u8], &[u8]) -> Vec<String>,
    /// Least mean number of tokens from one break to the next.
    tokens_to_break: u64,
}

impl Api {
    fn chat() -> Self {
        Self {
            recording: session().unwrap(),
            key: "messages",
            model: "gpt-5.1",
            broken: |_, after| {
                let broken = ValidityRules::standard().broken_by(after);
                broken.map(|rule| rule.id.to_owned()).into_iter().collect()
            },
            tokens_to_break: 12_000,
        }
    }

    fn messages(model: &'static str) -> Self {
        Self {
            recording: messages_session().unwrap(),
            key: "messages",
            model,
            broken: |before, after| {
                newly_broken(before, after).into_iter().map(str::to_owned).collect()
            },
            tokens_to_break: 12_000,
        }
    }

    /// Returns the session with a model that binds its thinking. Thinking leaves the open round too, which
    /// these models accept.
    fn bound_messages() -> Self {
        Self {
            broken: |before, after| {
                let mut broken = newly_broken(before, after);
                broken.retain(|id| !["m-bound-round", "m-thinking-deepseek"].contains(id));
                broken.into_iter().map(str::to_owned).collect()
            },
            ..Self::messages(BINDING)
        }
    }

    fn responses() -> Self {
        Self {
            recording: responses_session().unwrap(),
            key: "input",
            model: "gpt-5.1",
            broken: |before, after| {
                let allowed = broken_input_rules(before);
                let broken = broken_input_rules(after).into_iter();
                broken.filter(|rule| !allowed.contains(rule)).map(ToString::to_string).collect()
            },
            // The largest messages take as much, and behind them a cut leaves more.
            tokens_to_break: 7_500,
        }
    }

    /// Returns the bodies of all requests. The recording has the cache marks of its last request alone, so
    /// there are none.
    fn bodies(&self) -> Vec<Value> {
        let requests = self.recording.requests();
        let without_marks = |request: ReplayRequest<'_>| {
            let mut body: Value = serde_json::from_slice(&request.body()).unwrap();
            body["model"] = json!(self.model);
            if self.model == BINDING {
                body["thinking"] = json!({"type": "adaptive"});
            }
            for message in body[self.key].as_array_mut().unwrap() {
                for block in message["content"].as_array_mut().into_iter().flatten() {
                    block.as_object_mut().unwrap().remove("cache_control");
                }
            }
            body
        };
        requests.map(without_marks).collect()
    }

    /// Checks that a provider accepts the messages in place of those of `body`.
    #[track_caller]
    fn check_valid(&self, body: &Value, reply: &Compressed) {
        let mut changed = body.clone();
        changed[self.key] = Value::Array(reply.messages.clone());
        let (before, after) = (body.to_string(), changed.to_string());
        let broken = (self.broken)(before.as_bytes(), after.as_bytes());
        assert_eq!(broken, [""; 0], "{} messages", reply.messages.len());
        let sent = body[self.key].as_array().unwrap();
        assert_eq!(reply.messages.last(), sent.last(), "the newest message is the client's own");
    }
}

/// Sends every request of the session, and returns the replies.
async fn play(service: &Service, api: &Api) -> Vec<Compressed> {
    let mut replies: Vec<Compressed> = Vec::new();
    let (mut breaks, mut sum) = (0, 0);
    for body in api.bodies() {
        let reply = service.compress(&body[api.key], api.model).await;
        api.check_valid(&body, &reply);
        assert!(reply.after <= WINDOW - RESERVE, "{} tokens", reply.after);
        if let Some(earlier) = replies.last() {
            breaks += u64::from(!reply.extends(earlier));
        }
        sum = reply.before;
        replies.push(reply);
    }
    assert!(sum > 3 * WINDOW, "{sum} tokens");
    assert!((2..=sum / api.tokens_to_break).contains(&breaks), "{breaks} breaks");
    replies
}

/// Plays the session, and checks that another proxy without its records answers alike.
async fn check(api: &Api) {
    let settings = [("window", "32768")];
    let service = Service::start(&settings).await;
    let last = play(&service, api).await.pop().unwrap();
    assert!(!last.applied.is_empty());
    let other = Service::start(&settings).await;
    let bodies = api.bodies();
    let alone = other.compress(&bodies.last().unwrap()[api.key], api.model).await;
    assert!(alone.list == last.list, "without records");
}

#[tokio::test]
async fn messages_of_chat_completions_keep_their_prefix_between_breaks() {
    check(&Api::chat()).await;
}

#[tokio::test]
async fn messages_of_the_messages_api_keep_their_prefix_between_breaks() {
    check(&Api::messages("claude-sonnet-4-5")).await;
}

#[tokio::test]
async fn items_of_the_responses_api_keep_their_prefix_between_breaks() {
    check(&Api::responses()).await;
}

fn is_thinking(block: &Value) -> bool {
    block["type"] == "thinking"
}

/// Returns the number of blocks of thinking.
fn thoughts(messages: &[Value]) -> usize {
    let blocks = messages.iter().filter_map(|it| it["content"].as_array()).flatten();
    blocks.filter(|block| is_thinking(block)).count()
}

#[tokio::test]
async fn bound_thinking_leaves_with_the_edit_before_it() {
    let api = Api::bound_messages();
    let service = Service::start(&[("window", "32768")]).await;
    let bodies = api.bodies();
    let body = bodies.last().unwrap();
    assert!(thoughts(body["messages"].as_array().unwrap()) > 0);
    let reply = service.compress(&body["messages"], api.model).await;
    assert!(reply.after < reply.before);
    assert_eq!(thoughts(&reply.messages), 0);
    // What the model thinks over the edit stays.
    let replies = play(&service, &api).await;
    let mut edited = replies.iter().filter(|reply| reply.after < reply.before);
    assert!(edited.any(|reply| thoughts(&reply.messages) > 0));
}

#[tokio::test]
async fn thinking_of_an_unknown_model_forbids_every_edit() {
    let api = Api::messages("smart");
    let service = Service::start(&[("window", "32768")]).await;
    let kept = Service::start(&[("window", "32768"), ("thinking.removal_disabled", "true")]).await;
    let bodies = api.bodies();
    let messages = &bodies.last().unwrap()["messages"];
    for (service, model) in [(&service, "smart"), (&kept, BINDING)] {
        let reply = service.compress(messages, model).await;
        assert_eq!(Value::Array(reply.messages), *messages, "{model}");
        assert_eq!((reply.before, reply.after), (0, 0));
    }
}
