//! Signed thinking of the Messages API: recorded sessions whose thinking the strict model signs and checks.

use longhaul_core::units::tokens::Tokens;
use longhaul_mock_model::{PreservedThinking, ThinkingRules, Verdict};
use serde_json::{Value, json};

use super::proxied::Setup;
use super::subject::sessions;

/// Sessions of a person, of long tool loops, and one that Claude Code had compacted before.
pub(crate) const SESSIONS: [&str; 4] =
    ["cli-0c275b1b", "cli-3a782158", "cli-8dab6c26", "cli-d1423492"];

/// An agent that sends back the thinking of each reply.
pub(crate) struct Agent {
    body: Value,
    /// Ends of the requests.
    pub(crate) ends: Vec<usize>,
    /// Steps whose thinking the agent sends back.
    keeps: Keeps,
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Keeps {
    All,
    /// Without interleaved thinking, only the first step of a turn thinks.
    FirstOfTurn,
}

impl Agent {
    pub(crate) fn new(name: &str, model: &str, thinking: Value, keeps: Keeps) -> Self {
        let (_, body) = sessions().into_iter().find(|(found, _)| found.starts_with(name)).unwrap();
        let mut body: Value = serde_json::from_slice(&body).unwrap();
        body["model"] = json!(model);
        body["max_tokens"] = json!(4_000);
        body["thinking"] = thinking;
        body["stream"] = json!(false);
        let messages = body["messages"].as_array_mut().unwrap();
        for message in messages.iter_mut() {
            if let Some(blocks) = message["content"].as_array_mut() {
                blocks.retain(|block| !is_thinking(block));
            }
        }
        let ends = (1..=messages.len()).filter(|end| messages[end - 1]["role"] == "user");
        let ends = ends.collect();
        Self { body, ends, keeps }
    }

    pub(crate) fn request(&self, end: usize) -> Value {
        super::proxied::request(&self.body, end)
    }

    /// Names another model in every further request.
    pub(crate) fn set_model(&mut self, model: &str) {
        self.body["model"] = json!(model);
    }

    /// Requests this output in every further request.
    pub(crate) fn set_output(&mut self, tokens: u32) {
        self.body["max_tokens"] = json!(tokens);
    }

    /// Adds words of the user to the request that ends at `end`. The recording goes on from there,
    /// without the thinking of the abandoned branch.
    pub(super) fn fork(&mut self, end: usize) {
        self.say(end, "Go back.");
        let messages = self.body["messages"].as_array_mut().unwrap();
        for message in &mut messages[end..] {
            if let Some(blocks) = message["content"].as_array_mut() {
                blocks.retain(|block| !is_thinking(block));
            }
        }
    }

    /// Adds words of the user to the request that ends at `end`.
    pub(crate) fn say(&mut self, end: usize, words: &str) {
        let content = &mut self.body["messages"][end - 1]["content"];
        let words = json!({"type": "text", "text": words});
        match content.as_array_mut() {
            Some(blocks) => blocks.push(words),
            None => *content = json!([{"type": "text", "text": content}, words]),
        }
    }

    /// Takes the thinking of the reply to the request that ends at `end` into the recorded answer.
    pub(crate) fn take(&mut self, end: usize, reply: &[u8]) {
        let reply: Value = serde_json::from_slice(reply).unwrap();
        let messages = self.body["messages"].as_array_mut().unwrap();
        let asked = messages[end - 1]["content"].as_array();
        let only_results = asked.is_some_and(|blocks| {
            let mut blocks = blocks.iter();
            blocks.all(|block| block["type"] == "tool_result")
        });
        if self.keeps == Keeps::FirstOfTurn && only_results {
            return;
        }
        let Some(answer) = messages.get_mut(end).filter(|it| it["role"] == "assistant") else {
            return;
        };
        let thinking = reply["content"][0].clone();
        assert!(is_thinking(&thinking), "{reply}");
        match answer["content"].as_array_mut() {
            Some(blocks) => {
                // A repeated request has another reply.
                blocks.retain(|block| !is_thinking(block));
                blocks.insert(0, thinking);
            }
            None => {
                answer["content"] = json!([thinking, {"type": "text", "text": answer["content"]}]);
            }
        }
    }
}

fn is_thinking(block: &Value) -> bool {
    let kind = block["type"].as_str();
    matches!(kind, Some("redacted_thinking" | "thinking"))
}

/// Plays a session. Returns the verdicts on each request, in the order of the sends.
async fn play(
    name: &str,
    window: u64,
    rules: ThinkingRules,
    agent: &mut Agent,
) -> Vec<Vec<Verdict>> {
    let setup = Setup::start(window, |config| {
        config.window = Tokens::new(u32::try_from(window * 3 / 4).unwrap());
    })
    .await;
    setup.model.change(|options| options.thinking = rules);
    let mut verdicts = Vec::new();
    for end in agent.ends.clone() {
        let before = setup.model.seen().len();
        let body = agent.request(end);
        let reply = setup.ask(&body).await;
        let seen = setup.model.seen().split_off(before);
        let sent: Vec<Verdict> = seen.iter().map(|it| it.verdict).collect();
        let text = String::from_utf8_lossy(&reply.body).into_owned();
        assert_eq!(reply.status, 200, "{name} {window} {end}: {sent:?} {text}");
        assert!(sent.len() <= 2, "{name} {window} {end}: {sent:?}");
        let longest = seen.iter().map(|it| it.body.len()).max();
        assert!(longest.unwrap() <= body.to_string().len(), "{name} {end}");
        // The provider checks a count as it checks a request.
        let mut counted = body.clone();
        counted.as_object_mut().unwrap().remove("max_tokens");
        assert_eq!(setup.count(&counted).await.status, 200, "{name} {window} {end}");
        let counted = setup.last().verdict;
        assert!(!matches!(counted, Verdict::Broken(_)), "{name} {end}: {counted:?}");
        agent.take(end, &reply.body);
        verdicts.push(sent);
    }
    verdicts
}

fn count(verdicts: &[Vec<Verdict>], what: Verdict) -> usize {
    verdicts.iter().flatten().filter(|it| **it == what).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_model_that_binds_thinking_refuses_one_edit_and_the_client_sees_none() {
    let adaptive = json!({"type": "adaptive"});
    for rules in [ThinkingRules::Bound, ThinkingRules::ByModel(PreservedThinking::default())] {
        let mut refusals = 0;
        for name in SESSIONS {
            for window in [40_000, 80_000] {
                let mut agent = Agent::new(name, "claude-opus-5-5", adaptive.clone(), Keeps::All);
                let verdicts = play(name, window, rules, &mut agent).await;
                let stale = count(&verdicts, Verdict::Broken("stale-thinking"));
                assert!(stale <= 1, "{name} {window}: {stale}");
                refusals += stale;
                let accepted = count(&verdicts, Verdict::Accepted);
                assert_eq!(accepted, agent.ends.len(), "{name} {window}");
            }
        }
        assert!(refusals > 4, "{rules:?}: {refusals}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn manual_thinking_stays_at_the_start_of_the_turn() {
    let manual = json!({"type": "enabled", "budget_tokens": 2_000});
    for name in SESSIONS {
        for keeps in [Keeps::All, Keeps::FirstOfTurn] {
            for window in [48_000, 100_000] {
                let model = "claude-sonnet-4-5-20250929";
                let mut agent = Agent::new(name, model, manual.clone(), keeps);
                let rules = ThinkingRules::Unenforced;
                let verdicts = play(name, window, rules, &mut agent).await;
                let broken = verdicts.iter().flatten();
                let broken = broken.filter(|it| matches!(it, Verdict::Broken(_)));
                assert_eq!(broken.count(), 0, "{name} {window}: {verdicts:?}");
            }
        }
    }
}
