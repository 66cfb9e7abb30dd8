//! Each rule of the provider, by requests to a model.

use serde_json::{Value, json};

use crate::judged_request::ModelReply;
use crate::model_state::ModelState;
use crate::options::ModelOptions;
use crate::record::{SeenRequest, Verdict};
use crate::request::{Api, Caller};
use crate::script::ScriptStep;

/// A model from GPT-6.2 on, and an agent.
struct Agent {
    model: ModelState,
    body: Value,
    credential: &'static str,
    has_account: bool,
}

impl Agent {
    fn new() -> Self {
        let body = json!({"model": "gpt-6.2-sol", "store": false, "instructions": "Be brief.",
            "include": ["reasoning.encrypted_content"],
            "tools": [{"type": "function", "name": "f"}],
            "input": [{"role": "user", "content": "go"}]});
        let model = ModelState::new(ModelOptions::with_window(100_000));
        Self { model, body, credential: "Bearer one", has_account: false }
    }

    /// Sends the history. Returns the record and the reply.
    fn ask(&self) -> (SeenRequest, String) {
        let caller = Caller {
            credential: self.credential.to_owned(),
            has_account: self.has_account,
            ..Caller::default()
        };
        let judged = self.model.judge(Api::Responses, &self.body.to_string().into(), caller);
        let reply = match judged.reply {
            ModelReply::Answer(_, steps) => steps.iter().map(sent).collect(),
            ModelReply::Refusal(refusal) => refusal.body.into_owned(),
            ModelReply::Silence => String::new(),
        };
        (judged.seen, reply)
    }

    /// Sends the history, and adds the reply and the next words of the user.
    fn step(&mut self) -> SeenRequest {
        let (seen, reply) = self.ask();
        let reply: Value = reply.parse().unwrap();
        let items = self.items();
        items.extend(reply["output"].as_array().unwrap().iter().cloned());
        items.push(json!({"role": "user", "content": format!("next {}", items.len())}));
        seen
    }

    /// Makes a history of three steps, with reasoning at 1, 4 and 7.
    fn worked() -> Self {
        let mut agent = Self::new();
        for _ in 0..3 {
            assert_eq!(agent.step().dropped, []);
        }
        agent
    }

    fn items(&mut self) -> &mut Vec<Value> {
        self.body["input"].as_array_mut().unwrap()
    }

    /// Orders a compaction of the first `items` items.
    fn compacted(&mut self, items: usize) -> Value {
        let all = self.body.clone();
        self.items().truncate(items);
        self.items().push(json!({"type": "compaction_trigger"}));
        let reply: Value = self.ask().1.parse().unwrap();
        self.body = all;
        reply["output"][0].clone()
    }

    fn verdict(&self) -> Verdict {
        self.ask().0.verdict
    }

    /// Returns the places of the dropped items.
    fn dropped(&self) -> Vec<usize> {
        let (seen, reply) = self.ask();
        assert_eq!(seen.verdict, Verdict::Accepted, "{reply}");
        seen.dropped.iter().map(|it| it.place.0).collect()
    }
}

fn sent(step: &ScriptStep) -> String {
    match step {
        ScriptStep::Send(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        ScriptStep::Hang | ScriptStep::Reset | ScriptStep::Wait(_) => String::new(),
    }
}

/// nc-o-prefix.
#[test]
fn reasoning_behind_an_edit_is_dropped_and_newer_reasoning_holds() {
    let mut agent = Agent::worked();
    agent.items()[3]["content"] = json!("changed");
    assert_eq!(agent.dropped(), [4, 7]);
    assert_eq!(agent.step().dropped.len(), 2);
    assert_eq!(agent.dropped(), [4, 7], "the reasoning at 10 was made over the edit");
    agent.items().remove(7);
    agent.items().remove(4);
    let torn = Verdict::Broken("r-reasoning-precede");
    assert_eq!(agent.verdict(), torn);
    for (what, change) in [
        ("tools", (|body: &mut Value| body["tools"] = json!([])) as fn(&mut Value)),
        ("format", |body| body["text"] = json!({"format": {"type": "json_object"}})),
        ("first words", |body| body["input"][0]["content"] = json!("stop")),
    ] {
        let mut agent = Agent::worked();
        change(&mut agent.body);
        assert_eq!(agent.dropped(), [1, 4, 7], "{what}");
    }
}

/// nc-o-instructions and nc-o-append.
#[test]
fn instructions_and_what_is_appended_change_nothing() {
    let mut agent = Agent::worked();
    agent.body["instructions"] = json!("Be long.");
    agent.body["metadata"] = json!({"a": "b"});
    agent.items().extend([
        json!({"type": "configuration_update", "reasoning": {"effort": "high"}}),
        json!({"type": "additional_tools", "role": "developer", "tools": []}),
        json!({"role": "developer", "content": "Be long."}),
    ]);
    assert_eq!(agent.dropped(), [0; 0]);
}

/// nc-o-report.
#[test]
fn the_response_reports_each_drop_whole_and_in_streams() {
    let mut agent = Agent::worked();
    assert!(!agent.ask().1.contains("input_transformations"));
    let id = agent.body["input"][7]["id"].clone();
    agent.items()[6]["content"] = json!("changed");
    let reply: Value = agent.ask().1.parse().unwrap();
    let expect = json!([{"id": id, "reason": "prefix_mismatch"}]);
    assert_eq!(reply["input_transformations"], expect);
    agent.body["stream"] = json!(true);
    let events = agent.ask().1;
    assert_eq!(events.matches(&format!("\"input_transformations\":{expect}")).count(), 3);
}

/// nc-o-compaction-exempt.
#[test]
fn reasoning_behind_a_compaction_holds() {
    for head in [0, 1, 3] {
        let mut agent = Agent::worked();
        let item = agent.compacted(4);
        agent.items().splice(head..4, [item]);
        assert_eq!(agent.dropped(), [0; 0], "{head}");
        agent.step();
        assert_eq!(agent.dropped(), [0; 0], "{head}: reasoning made behind the item");
    }
    let mut agent = Agent::worked();
    let original = agent.items()[..4].to_vec();
    let item = agent.compacted(4);
    agent.items().splice(0..4, [item]);
    agent.step();
    agent.items().splice(0..1, original);
    assert_eq!(agent.dropped(), [10], "made behind the item, and sent without the item");
}

/// nc-o-update-adjacent.
#[test]
fn two_updates_in_succession_are_refused() {
    let update = json!({"type": "configuration_update", "reasoning": {"effort": "high"}});
    let mut agent = Agent::worked();
    agent.items().extend([update.clone(), update]);
    assert_eq!(agent.verdict(), Verdict::Broken("nc-o-update-adjacent"));
}

/// nc-o-owner.
#[test]
fn another_organisation_loses_reasoning_and_is_refused_a_compaction() {
    let mut agent = Agent::worked();
    let item = agent.compacted(4);
    agent.credential = "Bearer other";
    assert_eq!(agent.dropped(), [1, 4, 7]);
    agent.items().splice(0..4, [item]);
    let (seen, reply) = agent.ask();
    assert_eq!(seen.verdict, Verdict::Broken("nc-o-owner"));
    assert!(reply.contains("invalid_encrypted_content"), "{reply}");
}

/// nc-o-model.
#[test]
fn an_older_model_drops_the_reasoning_of_a_newer_one() {
    let mut agent = Agent::worked();
    agent.body["model"] = json!("gpt-6.3-sol");
    agent.step();
    assert_eq!(agent.dropped(), [0; 0]);
    agent.body["model"] = json!("gpt-6.2-sol");
    assert_eq!(agent.dropped(), [10]);
    // GPT-6 checks no prefix and reports nothing.
    agent.items()[0]["content"] = json!("changed");
    agent.body["model"] = json!("gpt-6-astra");
    assert_eq!(agent.dropped(), [1, 4, 7, 10]);
    assert!(!agent.ask().1.contains("input_transformations"));
    let mut older = Agent::new();
    older.body["model"] = json!("gpt-6-astra");
    older.step();
    older.items()[0]["content"] = json!("changed");
    assert_eq!(older.dropped(), [0; 0]);
    older.body["model"] = json!("gpt-6.2-sol");
    assert_eq!(older.dropped(), [0; 0]);
}

/// nc-o-trigger-last.
#[test]
fn a_trigger_yields_exactly_one_compaction_and_no_message() {
    let mut agent = Agent::worked();
    agent.body["stream"] = json!(true);
    agent.items().push(json!({"type": "compaction_trigger"}));
    let events = agent.ask().1;
    assert_eq!(events.matches("event: response.output_item.done").count(), 1, "{events}");
    assert!(events.contains(r#""type":"compaction""#) && !events.contains(r#""type":"message""#));
    agent.items().push(json!({"role": "user", "content": "go"}));
    assert_eq!(agent.verdict(), Verdict::Broken("r-compaction-trigger"));
}

/// nc-o-opaque.
#[test]
fn an_item_that_differs_by_a_byte_is_refused() {
    let mut agent = Agent::worked();
    let id = agent.body["input"][4]["id"].as_str().unwrap().to_owned();
    let content = agent.body["input"][4]["encrypted_content"].as_str().unwrap().to_owned();
    let changed = format!("{}B", &content[..content.len() - 1]);
    agent.items()[4]["encrypted_content"] = json!(changed);
    let (seen, reply) = agent.ask();
    assert_eq!(seen.verdict, Verdict::Broken("nc-o-opaque"));
    let text = format!("The encrypted content for item {id} could not be verified. Reason:");
    assert!(reply.contains(&text) && reply.contains("invalid_encrypted_content"), "{reply}");
}

/// nc-o-ids.
#[test]
fn other_rules_hold_for_items_that_are_not_dropped() {
    let mut agent = Agent::worked();
    agent.items().remove(4);
    assert_eq!(agent.verdict(), Verdict::Broken("r-reasoning-precede"));
    // GPT-6 takes a call without its reasoning.
    agent.body["model"] = json!("gpt-6-astra");
    agent.items().retain(|item| item["type"] != "reasoning");
    assert_eq!(agent.verdict(), Verdict::Accepted);
    agent.body["model"] = json!("gpt-5.4");
    assert_eq!(agent.verdict(), Verdict::Broken("r-reasoning-precede"));
    // A dropped item may have lost its answer.
    let mut agent = Agent::worked();
    agent.items()[0]["content"] = json!("changed");
    agent.items().remove(8);
    assert_eq!(agent.dropped(), [1, 4, 7]);
}

/// nc-o-usage.
#[test]
fn dropped_items_are_no_input() {
    let mut agent = Agent::worked();
    agent.items()[7]["summary"] = json!([{"type": "summary_text", "text": "a".repeat(330)}]);
    let all = agent.ask().0.prompt_tokens;
    agent.body["tools"] = json!([{"type": "function", "name": "g"}]);
    let left = agent.ask().0.prompt_tokens;
    assert!((100..150).contains(&(all - left)), "{all} {left}");
}

/// nc-o-login.
#[test]
fn a_login_has_no_scope_at_the_host_of_the_api() {
    let mut agent = Agent::new();
    (agent.credential, agent.has_account) = ("Bearer a.b.c", true);
    let (seen, reply) = agent.ask();
    assert_eq!((seen.verdict, seen.status), (Verdict::Broken("nc-o-login"), 403));
    assert!(reply.contains("Missing scopes: api.responses.write"), "{reply}");
    agent.model.change(|options| options.server = crate::server_rules::ModelServer::ChatGpt);
    agent.body["stream"] = json!(true);
    assert_eq!(agent.verdict(), Verdict::Accepted);
}

/// nc-o-compact-window.
#[test]
fn the_path_for_windows_compacts() {
    let mut agent = Agent::worked();
    let compact = |agent: &Agent| {
        let caller = Caller { credential: agent.credential.to_owned(), ..Caller::default() };
        let judged = agent.model.compact(&agent.body.to_string().into(), caller)?;
        let ModelReply::Refusal(reply) = judged.reply else { panic!("{:?}", judged.reply) };
        Some((judged.seen.verdict, reply.body.into_owned()))
    };
    let (verdict, reply) = compact(&agent).unwrap();
    assert_eq!(verdict, Verdict::Accepted, "{reply}");
    let window: Value = reply.parse().unwrap();
    let output = window["output"].as_array().unwrap();
    assert_eq!(output.last().unwrap()["type"], "compaction");
    assert_eq!(output.len(), 5, "four messages of the user and the item");
    *agent.items() = output.clone();
    assert_eq!(agent.step().dropped, []);
    agent.items().push(json!({"type": "configuration_update", "reasoning": {"effort": "low"}}));
    assert_eq!(compact(&agent).unwrap().0, Verdict::Broken("nc-o-compact-window"));
    agent.model.change(|options| options.compacts_updates = true);
    assert_eq!(compact(&agent).unwrap().0, Verdict::Accepted);
    agent.model.change(|options| options.window = 10);
    let (verdict, reply) = compact(&agent).unwrap();
    assert_eq!(verdict, Verdict::Overflowed);
    assert!(reply.contains("context_length_exceeded"), "{reply}");
    agent.model.change(|options| options.server = crate::server_rules::ModelServer::ChatGpt);
    assert!(compact(&agent).is_none());
}
