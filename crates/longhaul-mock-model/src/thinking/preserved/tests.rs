//! Each rule of preserved thinking, by requests to a model.

mod on_demand;

use serde_json::{Value, json};

use super::*;
use crate::judged_request::{JudgedRequest, ModelReply};
use crate::model_state::ModelState;
use crate::options::ModelOptions;
use crate::record::{SeenRequest, Verdict};
use crate::request::Caller;
use crate::script::ScriptStep;
use crate::thinking::{STALE_THINKING, ThinkingRules};

const BINDING: &str = "thinking-binding-controls-2026-08-01";
const ON_DEMAND: &str = "compact-2026-09-04";
const THRESHOLD: &str = "compact-2026-01-12";

/// A Claude model, and an agent.
struct Agent {
    model: ModelState,
    body: Value,
    credential: &'static str,
    betas: Vec<&'static str>,
}

impl Agent {
    fn new(model: &str, account: AccountAge) -> Self {
        let body = json!({"model": model, "max_tokens": 4_000, "system": "Be brief.",
            "thinking": {"type": "adaptive"},
            "tools": [{"name": "f", "input_schema": {"type": "object"}}],
            "messages": [{"role": "user", "content": "go"}]});
        let settings = PreservedThinking { account, reports_account: false };
        let thinking = ThinkingRules::ByModel(settings);
        let options = ModelOptions { thinking, ..ModelOptions::with_window(1_000_000) };
        Self { model: ModelState::new(options), body, credential: "one", betas: Vec::new() }
    }

    /// Makes a history of four steps: answers at 1, 3, 5 and 7, each with thinking at 0.
    fn worked(model: &str, account: AccountAge) -> Self {
        let mut agent = Self::new(model, account);
        for _ in 0..4 {
            assert_eq!(agent.step().verdict, Verdict::Accepted);
        }
        agent
    }

    fn caller(&self) -> Caller {
        Caller {
            credential: self.credential.to_owned(),
            betas: self.betas.iter().map(|&beta| beta.to_owned()).collect(),
            has_account: false,
        }
    }

    fn ask(&self) -> (SeenRequest, String) {
        let body = self.body.to_string().into();
        read(self.model.judge(Api::Messages, &body, self.caller()))
    }

    fn count(&self) -> (SeenRequest, String) {
        read(self.model.count(&self.body.to_string().into(), self.caller()))
    }

    /// Sends the history, and adds the reply and the next words of the user.
    fn step(&mut self) -> SeenRequest {
        let (seen, reply) = self.ask();
        let reply: Value = reply.parse().unwrap();
        let messages = self.messages();
        messages.push(json!({"role": "assistant", "content": reply["content"]}));
        messages.push(json!({"role": "user", "content": format!("next {}", messages.len())}));
        seen
    }

    fn messages(&mut self) -> &mut Vec<Value> {
        self.body["messages"].as_array_mut().unwrap()
    }

    /// Orders a compaction of the first messages. Returns the reply.
    fn order(&mut self, messages: usize) -> Value {
        let all = self.body.clone();
        self.betas.push(ON_DEMAND);
        self.messages().truncate(messages);
        self.body["compaction"] = json!({"type": "summarize"});
        let reply = self.ask().1.parse().unwrap();
        self.body = all;
        reply
    }

    /// Puts a compaction in place of the first messages.
    fn swap(&mut self, messages: usize) {
        let block = self.order(messages)["content"][0].clone();
        let first = json!({"role": "assistant", "content": [block]});
        self.messages().splice(0..messages, [first]);
    }

    fn verdict(&self) -> Verdict {
        self.ask().0.verdict
    }

    /// Asks for drops. Returns the places of the messages.
    fn dropped(&mut self) -> Vec<usize> {
        self.set_binding("drop_block");
        let (seen, reply) = self.ask();
        assert_eq!(seen.verdict, Verdict::Accepted, "{reply}");
        seen.dropped.iter().map(|it| it.place.0).collect()
    }

    fn set_binding(&mut self, behaviour: &str) {
        self.betas.push(BINDING);
        self.body["thinking"]["block_binding"] = json!({"prefix_mismatch_behavior": behaviour});
    }

    fn without_thinking(&mut self, messages: &[usize]) {
        for at in messages {
            self.messages()[*at]["content"].as_array_mut().unwrap().remove(0);
        }
    }
}

fn read(judged: JudgedRequest) -> (SeenRequest, String) {
    let reply = match judged.reply {
        ModelReply::Answer(_, steps) => steps.iter().map(sent).collect(),
        ModelReply::Refusal(refusal) => refusal.body.into_owned(),
        ModelReply::Silence => String::new(),
    };
    (judged.seen, reply)
}

fn sent(step: &ScriptStep) -> String {
    match step {
        ScriptStep::Send(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        ScriptStep::Hang | ScriptStep::Reset | ScriptStep::Wait(_) => String::new(),
    }
}

fn opus() -> Agent {
    Agent::worked("claude-opus-5-5", AccountAge::New)
}

const STALE: Verdict = Verdict::Broken(STALE_THINKING);

/// A change of a history, and the messages that lose their thinking.
type Change<'a> = (fn(&mut Agent), &'a [usize]);

/// nc-a-bind.
#[test]
fn thinking_is_bound_to_all_before_it_and_not_to_spelling() {
    let respelt = |agent: &mut Agent| {
        agent.messages()[2]["content"] =
            json!([{"text": "next 2", "type": "text", "cache_control": {"type": "ephemeral"}}]);
        agent.body["tools"].as_array_mut().unwrap().push(
            json!({"name": "late", "input_schema": {"type": "object"}, "defer_loading": true}),
        );
        agent.body["max_tokens"] = json!(3_000);
    };
    let changes: [Change<'_>; 4] = [
        (respelt, &[]),
        (|agent| agent.messages()[2]["content"] = json!("[cleared]"), &[3, 5, 7]),
        (|agent| agent.body["system"] = json!("Be long."), &[1, 3, 5, 7]),
        (|agent| agent.body["tools"][0]["description"] = json!("d"), &[1, 3, 5, 7]),
    ];
    for (at, (change, expect)) in changes.into_iter().enumerate() {
        let mut agent = opus();
        change(&mut agent);
        let refused = if expect.is_empty() { Verdict::Accepted } else { STALE };
        assert_eq!(agent.verdict(), refused, "{at}");
        assert_eq!(agent.dropped(), expect, "{at}");
    }
}

/// nc-a-chain.
#[test]
fn kept_thinking_is_an_unbroken_run() {
    for (gone, expect) in [
        (&[1][..], &[][..]),
        (&[7], &[]),
        (&[1, 3], &[]),
        (&[1, 3, 5, 7], &[]),
        (&[3], &[5, 7]),
        (&[5], &[7]),
    ] {
        let mut agent = opus();
        agent.without_thinking(gone);
        assert_eq!(agent.dropped(), expect, "{gone:?}");
    }
    // A block put back stands where its successor had none.
    let mut agent = opus();
    let put_back = agent.messages()[7].clone();
    agent.without_thinking(&[1, 3, 5, 7]);
    agent.step();
    agent.messages()[7] = put_back;
    assert_eq!(agent.dropped(), [9]);
    // The visible text is not compared, the signature is, whatever the request asks for.
    let mut agent = opus();
    agent.messages()[1]["content"][0]["thinking"] = json!("other");
    assert_eq!(agent.dropped(), [0; 0]);
    let signature = agent.body["messages"][1]["content"][0]["signature"].as_str().unwrap();
    let changed = signature.replace("EstrictSig0", "EstrictSig1");
    agent.messages()[1]["content"][0]["signature"] = json!(changed);
    assert_eq!(agent.verdict(), Verdict::Broken("forged-thinking"));
}

/// nc-a-swap.
#[test]
fn thinking_behind_a_block_holds_if_its_turns_follow_at_once() {
    let mut agent = opus();
    agent.swap(5);
    assert_eq!(agent.verdict(), Verdict::Accepted);
    assert_eq!(agent.dropped(), [0; 0]);
    for change in [(|agent| agent.body["system"] = json!("Be long.")) as fn(&mut Agent), |agent| {
        agent.messages()[2]["content"] = json!("[cleared]");
    }] {
        let mut agent = opus();
        agent.swap(5);
        change(&mut agent);
        assert_eq!(agent.verdict(), STALE);
    }
    // The first kept message has the role of the last covered one.
    for (covered, expect) in [(9, STALE), (10, Verdict::Accepted)] {
        let mut agent = opus();
        agent.messages().push(json!({"role": "user", "content": "and more"}));
        agent.step();
        agent.swap(covered);
        assert_eq!(agent.verdict(), expect, "{covered}");
    }
    // Another model wrote the block.
    for (model, expect) in [("claude-sonnet-5", STALE), ("claude-opus-5-5", Verdict::Accepted)] {
        let mut agent = opus();
        agent.body["model"] = json!(model);
        agent.swap(5);
        agent.body["model"] = json!("claude-opus-5-5");
        assert_eq!(agent.verdict(), expect, "{model}");
    }
}

/// nc-a-after.
#[test]
fn thinking_made_behind_a_block_needs_the_block() {
    let mut agent = opus();
    let covered = agent.messages()[..5].to_vec();
    agent.swap(5);
    agent.step();
    agent.messages().splice(0..1, covered);
    assert_eq!(agent.dropped(), [9]);
}

/// nc-a-insert.
#[test]
fn a_message_behind_a_block_costs_the_thinking_and_not_the_block() {
    let mut agent = opus();
    agent.swap(5);
    agent.messages().insert(1, json!({"role": "user", "content": "rules"}));
    assert_eq!(agent.verdict(), STALE);
    assert_eq!(agent.dropped(), [2, 4]);
}

/// nc-a-silent.
#[test]
fn silent_faults_are_flagged() {
    let mut agent = opus();
    let covered = agent.messages()[..5].to_vec();
    agent.swap(5);
    let (seen, _) = agent.ask();
    assert_eq!((seen.verdict, seen.flags), (Verdict::Accepted, Vec::new()));
    let mut left = covered;
    left.iter_mut().for_each(bare);
    agent.messages().splice(1..1, left);
    agent.messages().iter_mut().skip(1).for_each(bare);
    let (seen, _) = agent.ask();
    assert_eq!((seen.verdict, seen.flags), (Verdict::Accepted, vec![COVERED_LEFT]));
    agent.messages().remove(0);
    let (seen, _) = agent.ask();
    assert_eq!((seen.verdict, seen.flags), (Verdict::Accepted, vec![BLOCK_LEFT_OUT]));
}

fn bare(message: &mut Value) {
    if let Some(blocks) = message["content"].as_array_mut() {
        blocks.retain(|block| block.get("signature").or_else(|| block.get("data")).is_none());
    }
}

/// nc-a-outcome.
#[test]
fn the_outcome_depends_on_model_account_and_request() {
    let dropped = "thinking_dropped";
    let allowed = "thinking_mismatch_allowed";
    for (model, account, binding, header, verdict, report, gone) in [
        ("claude-opus-5-5", AccountAge::New, None, false, STALE, None, 0),
        (
            "claude-opus-5-5",
            AccountAge::New,
            Some("drop_block"),
            true,
            Verdict::Accepted,
            Some(dropped),
            3,
        ),
        (
            "claude-opus-5-5",
            AccountAge::New,
            Some("drop_block"),
            false,
            Verdict::Broken("nc-a-outcome"),
            None,
            0,
        ),
        ("claude-opus-5-5", AccountAge::Old, None, false, Verdict::Accepted, None, 0),
        ("claude-opus-5-5", AccountAge::Old, None, true, Verdict::Accepted, Some(allowed), 0),
        ("claude-opus-5-5", AccountAge::Old, Some("error"), true, STALE, None, 0),
        ("claude-sonnet-5-5", AccountAge::New, None, false, Verdict::Accepted, None, 3),
        ("claude-sonnet-5-5", AccountAge::New, Some("error"), true, STALE, None, 0),
        ("claude-sonnet-5", AccountAge::New, Some("error"), true, Verdict::Accepted, None, 0),
    ] {
        let mut agent = Agent::worked(model, account);
        agent.messages()[2]["content"] = json!("[cleared]");
        if let Some(binding) = binding {
            agent.set_binding(binding);
            agent.betas.clear();
        }
        if header {
            agent.betas.push(BINDING);
        }
        let (seen, reply) = agent.ask();
        let what = format!("{model} {account:?} {binding:?} {header} {reply}");
        assert_eq!(seen.verdict, verdict, "{what}");
        assert_eq!(seen.dropped.len(), gone, "{what}");
        assert_eq!(reply.contains(BINDING), verdict == STALE && !header, "{what}");
        let entry = |kind| format!(r#""type":"{kind}","path":"messages.3.content.0""#);
        assert_eq!(report.is_some(), reply.contains(&entry(report.unwrap_or(dropped))), "{what}");
        let has_list = reply.contains("input_transformations");
        assert_eq!(has_list, header && verdict == Verdict::Accepted, "{what}");
    }
}

/// nc-a-account.
#[test]
fn some_models_drop_the_thinking_of_another_account() {
    for (model, gone) in [("claude-haiku-5-5", 4), ("claude-opus-5-5", 0)] {
        let mut agent = Agent::worked(model, AccountAge::New);
        (agent.credential, agent.betas) = ("other", vec![BINDING]);
        let (seen, reply) = agent.ask();
        assert_eq!((seen.verdict, seen.dropped.len()), (Verdict::Accepted, gone), "{reply}");
        assert!(reply.contains(r#""input_transformations":[]"#), "{reply}");
        let settings = PreservedThinking { reports_account: true, ..PreservedThinking::default() };
        agent.model.change(|options| options.thinking = ThinkingRules::ByModel(settings));
        let reported = agent.ask().1.matches("organization_binding_mismatch").count();
        assert_eq!(reported, gone);
    }
}

/// nc-a-stream and nc-a-usage.
#[test]
fn a_pass_yields_a_whole_block_and_counts_in_its_iteration() {
    let mut agent = opus();
    let reply = agent.order(5);
    assert_eq!(
        (&reply["stop_reason"], reply["content"].as_array().unwrap().len()),
        (&json!("compaction"), 1)
    );
    let usage = &reply["usage"];
    assert_eq!((&usage["input_tokens"], &usage["output_tokens"]), (&json!(0), &json!(0)));
    assert_eq!(usage["iterations"][0]["type"], "compaction");
    assert!(usage["iterations"][0]["input_tokens"].as_u64() > Some(20));
    agent.body["stream"] = json!(true);
    agent.body["compaction"] = json!({"type": "summarize"});
    let events = agent.ask().1;
    assert!(!events.contains("content_block_delta"), "{events}");
    assert!(events.contains(r#""content_block":{"type":"compaction","content":"#), "{events}");
    agent.betas.clear();
    assert_eq!(agent.verdict(), Verdict::Broken("nc-a-header"));
}

/// nc-a-usage.
#[test]
fn dropped_thinking_is_not_counted() {
    let mut agent = Agent::worked("claude-sonnet-5-5", AccountAge::New);
    let all = agent.ask().0.prompt_tokens;
    agent.body["system"] = json!("Be short");
    let left = agent.ask().0.prompt_tokens;
    assert!(all - left > 40, "{all} {left}");
}

/// nc-a-count.
#[test]
fn a_count_checks_as_a_request_does() {
    let mut agent = opus();
    let tokens = |(seen, reply): (SeenRequest, String)| {
        let reply: Value = reply.parse().unwrap();
        reply["input_tokens"].as_u64().ok_or((seen.verdict, reply))
    };
    let whole = tokens(agent.count()).unwrap();
    assert_eq!(whole, agent.ask().0.prompt_tokens);
    agent.body["compaction"] = json!({"type": "summarize"});
    agent.betas = vec![ON_DEMAND];
    assert_eq!(tokens(agent.count()), Ok(whole), "the order is ignored");
    agent.body.as_object_mut().unwrap().remove("compaction");
    agent.swap(5);
    assert!(tokens(agent.count()).is_ok());
    agent.betas.clear();
    assert_eq!(agent.count().0.verdict, Verdict::Broken("nc-a-header"));
    let mut agent = opus();
    agent.messages()[2]["content"] = json!("[cleared]");
    assert_eq!(agent.count().0.verdict, STALE);
}

/// nc-a-threshold and nc-a-stream.
#[test]
fn a_block_at_a_threshold_is_text_that_later_thinking_is_bound_to() {
    let mut agent = opus();
    let edits = json!([{"type": "compact_20260112",
        "trigger": {"type": "input_tokens", "value": 50_000}}]);
    agent.betas = vec![THRESHOLD];
    agent.body["context_management"] = json!({"edits": edits});
    let reply: Value = agent.ask().1.parse().unwrap();
    assert_eq!(reply["content"][0]["type"], "thinking", "below the threshold");
    assert_eq!(reply["usage"]["iterations"].as_array().unwrap().len(), 1);
    let long = "a".repeat(200_000);
    agent.messages().last_mut().unwrap()["content"] = json!(long);
    let events = {
        agent.body["stream"] = json!(true);
        let events = agent.ask().1;
        agent.body["stream"] = json!(false);
        events
    };
    assert_eq!(events.matches("compaction_delta").count(), 1, "{events}");
    assert!(events.contains(r#""content_block":{"type":"compaction","content":null}"#));
    agent.step();
    let at = agent.body["messages"].as_array().unwrap().len() - 2;
    let block = agent.body["messages"][at]["content"][0].clone();
    assert_eq!((&block["type"], block.get("signature")), (&json!("compaction"), None));
    let seen = agent.step();
    assert!(seen.prompt_tokens < 5_000, "all before the block is ignored: {}", seen.prompt_tokens);
    // What stands before the block may change, and its text may not.
    agent.messages()[0]["content"] = json!("other");
    assert_eq!(agent.verdict(), Verdict::Accepted);
    agent.messages().drain(..at);
    assert_eq!(agent.verdict(), Verdict::Accepted);
    agent.messages()[0]["content"][0]["content"] = json!("another summary");
    assert_eq!(agent.verdict(), STALE);
    agent.messages().iter_mut().for_each(bare);
    assert_eq!(agent.verdict(), Verdict::Accepted, "the text is free");
    agent.body.as_object_mut().unwrap().remove("context_management");
    assert_eq!(agent.verdict(), Verdict::Broken("nc-a-threshold"));
    agent.betas = vec![ON_DEMAND];
    assert_eq!(agent.verdict(), Verdict::Broken("nc-a-threshold"));
}

#[test]
fn recorded_thinking_is_bound_to_the_request_that_it_answers() {
    let mut agent = Agent::new("claude-opus-5-5", AccountAge::New);
    let recorded = |at: usize| {
        json!({"role": "assistant", "content": [
            {"type": "thinking", "thinking": "", "signature": format!("recorded {at}")},
            {"type": "text", "text": format!("answer {at}")}]})
    };
    for at in 0..3 {
        assert_eq!(agent.verdict(), Verdict::Accepted);
        agent.messages().push(recorded(at));
        agent.messages().push(json!({"role": "user", "content": format!("next {at}")}));
    }
    // The edit is sent together with the newest answer, which the model made before the edit.
    agent.messages()[2]["content"] = json!("[cleared]");
    assert_eq!(agent.verdict(), STALE);
    assert_eq!(agent.dropped(), [3, 5]);
}
