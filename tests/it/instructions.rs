//! Instructions at the front that come and go between two requests of a conversation. Stored
//! changes to its history are still found, and replace exactly the messages they were made from.

use std::collections::{BTreeMap, HashMap};

use longhaul_core::policy::Policy;
use longhaul_core::units::tokens::Tokens;
use longhaul_mock_model::ModelOptions;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::going_back::Notes;
use crate::journey::{Journey, STANDS_FOR_HISTORY, digests, harmless};
use crate::oracle::reader;
use crate::script;

/// Enough messages for several successive compactions in the smaller windows.
const MESSAGES: usize = 160;

/// Content of a conversation.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Steps {
    /// A single request, and calls with their results.
    Calls,
    /// Questions and answers.
    Words,
}

/// Builds the message at `at` after the instructions. Each message has a unique name in its bytes.
fn message(steps: Steps, at: usize) -> Value {
    let text = format!("message {at}. {}", "word ".repeat(120 + at % 7 * 40));
    let call = |at: usize| format!("call-{at}");
    match (steps, at) {
        (_, 0) => json!({"role": "user", "content": text}),
        (Steps::Calls, _) if at.is_multiple_of(2) => {
            json!({"role": "tool", "tool_call_id": call(at - 1), "content": text})
        }
        (Steps::Calls, _) => json!({"role": "assistant", "content": text, "tool_calls": [{
            "id": call(at), "type": "function",
            "function": {"name": "read", "arguments": format!(r#"{{"path":"{at}.rs"}}"#)}}]}),
        (Steps::Words, _) if at.is_multiple_of(2) => json!({"role": "user", "content": text}),
        (Steps::Words, _) => json!({"role": "assistant", "content": text}),
    }
}

/// Builds a body of `head` instructions and the first `messages` messages.
fn body(steps: Steps, head: usize, messages: usize) -> Vec<u8> {
    let system = |at| json!({"role": "system", "content": format!("instruction {at}")});
    let all = (0..head).map(system);
    let all: Vec<Value> = all.chain((0..messages).map(|at| message(steps, at))).collect();
    // Padding: with any number of instructions, the size outside the history rounds to one value.
    let tools = json!([{"type": "function", "function": {"name": "read",
        "description": "reads ".repeat(350)}}]);
    let body = json!({"model": "m", "messages": all, "tools": tools});
    body.to_string().into_bytes()
}

/// Returns the unique name of a message built by [`message`]: its call, or the beginning of its
/// text.
fn name(message: &str) -> String {
    let value = reader::tree(message.as_bytes()).unwrap();
    let call = value["tool_calls"][0]["id"].as_str();
    let name = call.map(|id| format!("makes {id}"));
    let name = name.or_else(|| Some(format!("answers {}", value["tool_call_id"].as_str()?)));
    name.unwrap_or_else(|| {
        let text = value["content"].as_str().unwrap();
        text.split_once('.').unwrap_or((text, "")).0.to_owned()
    })
}

/// State of one conversation's forwarded bodies so far.
#[derive(Default)]
struct Told {
    /// Messages that each text replaced when it first appeared.
    stands_for: HashMap<String, Vec<String>>,
    /// Messages that were forwarded shortened.
    shortened: Vec<String>,
}

impl Told {
    /// Checks that the missing messages are the ones the summary was made from, and that shortened
    /// messages stay shortened.
    fn holds(&mut self, came: &[u8], went: &[u8]) {
        let by_name = |body: &[u8]| -> BTreeMap<String, String> {
            let messages = reader::messages(body).into_iter();
            let messages = messages.filter(|message| !message.contains(STANDS_FOR_HISTORY));
            messages.map(|it| (name(it), it.to_owned())).collect()
        };
        let (before, after) = (by_name(came), by_name(went));
        let gone: Vec<String> =
            before.keys().filter(|name| !after.contains_key(*name)).cloned().collect();
        let went = reader::messages(went);
        let text = went.iter().find(|it| it.contains(STANDS_FOR_HISTORY));
        match text {
            None => {
                assert_eq!(gone, [""; 0], "nothing stands for them");
                assert!(self.stands_for.is_empty(), "what stood for history is gone");
            }
            Some(text) => {
                let made_of = self.stands_for.entry((*text).to_owned());
                assert_eq!(*made_of.or_insert_with(|| gone.clone()), gone);
            }
        }
        for (name, message) in &after {
            let is_whole = *message == before[name];
            let was_shortened = self.shortened.contains(name);
            assert!(!(is_whole && was_shortened), "{name} is whole again");
            if !is_whole && !was_shortened {
                self.shortened.push(name.clone());
            }
        }
    }
}

/// Plays a conversation whose number of instructions cycles through `heads`, one per request. Every
/// `refused`th request is refused as too long.
fn check(steps: Steps, heads: &[usize], policy: &Policy, refused: usize) {
    let mut records = Notes::of_caller(true);
    let mut told = Told::default();
    let requests = (1..=MESSAGES).step_by(2);
    for ((turn, messages), head) in requests.enumerate().zip(heads.iter().cycle()) {
        let came = body(steps, *head, messages);
        let went = records.send(&came, policy, turn % refused == refused - 1);
        told.holds(&came, &went);
    }
    assert!(!told.stands_for.is_empty() || !told.shortened.is_empty());
}

proptest! {
    #![proptest_config(script::cases(24))]

    #[test]
    fn record_replaces_the_same_messages_whatever_instructions_come_first(
        steps in prop::sample::select(vec![Steps::Calls, Steps::Words]),
        heads in prop::collection::vec(0..4_usize, 1..20),
        wishes in script::wishes(),
        window in prop::sample::select(vec![6_000, 8_000, 12_000]),
        refused in 3..30_usize,
    ) {
        let policy = Policy::new(&wishes, Tokens::new(window));
        check(steps, &heads, &policy, refused);
    }
}

/// Plays a conversation through the proxy with a window of 8,000 tokens: `before` instructions
/// until a record exists, `after` from then on.
async fn check_program(steps: Steps, before: usize, after: usize) {
    let mut journey = Journey::start(ModelOptions::with_window(1 << 20), |config| {
        digests(config);
        config.window = Tokens::new(8_000);
    })
    .await;
    let mut told = Told::default();
    let mut played = Vec::new();
    let mut lasting = 0;
    for messages in (1..MESSAGES).step_by(2) {
        let head = if lasting == 0 { before } else { after };
        let step = journey.step(body(steps, head, messages)).await;
        told.holds(&step.sent, &step.forwarded().body);
        lasting += usize::from(!told.stands_for.is_empty());
        played.push(step);
        if lasting > 8 {
            break;
        }
    }
    let name = format!("{steps:?}: {before}, then {after}");
    assert!(lasting > 8, "{name}");
    harmless(&name, &played);
}

#[tokio::test]
async fn record_stays_exact_if_leading_instructions_are_added_or_removed() {
    for steps in [Steps::Calls, Steps::Words] {
        for (before, after) in [(1, 2), (2, 1), (1, 0), (0, 1), (2, 3), (1, 1)] {
            check_program(steps, before, after).await;
        }
    }
}
