//! Rules and faults of compactions on demand.

use super::*;

/// A change of a history whose first block is the second argument.
type Breach = fn(&mut Agent, Value);

/// nc-a-first, nc-a-one, nc-a-seal, nc-a-excludes and nc-a-open.
#[test]
fn a_block_on_demand_stands_first_alone_and_unchanged() {
    let block = |agent: &mut Agent| agent.messages()[0]["content"][0].clone();
    let breaches: [(&str, &str, Breach); 9] = [
        ("nc-a-first", "compaction_block_misplaced", |agent, _| {
            agent.messages().insert(0, json!({"role": "user", "content": "go"}));
        }),
        ("nc-a-one", "at most one", |agent, block| {
            agent.messages()[0]["content"] = json!([block, block]);
        }),
        ("nc-a-seal", "compaction_signature_invalid", |agent, _| {
            agent.messages()[0]["content"][0]["signature"] = json!("EstrictSig0");
        }),
        ("nc-a-seal", "compaction_content_mismatch", |agent, _| {
            agent.messages()[0]["content"][0]["content"] = json!("other");
        }),
        ("nc-a-seal", "citations: Extra inputs", |agent, _| {
            agent.messages()[0]["content"][0]["citations"] = Value::Null;
        }),
        ("nc-a-excludes", "task_budget", |agent, _| {
            agent.body["output_config"] = json!({"task_budget": {"remaining": 5}});
        }),
        ("nc-a-excludes", "compact_20260112", |agent, _| {
            agent.betas.push(THRESHOLD);
            agent.body["context_management"] = json!({"edits": [{"type": "compact_20260112"}]});
        }),
        ("nc-a-excludes", "tool_choice", |agent, _| {
            agent.body["compaction"] = json!({"type": "summarize"});
            agent.body["tool_choice"] = json!({"type": "any"});
        }),
        ("nc-a-open", "tool_use", |agent, _| {
            agent.body["compaction"] = json!({"type": "summarize"});
            let call = json!({"type": "tool_use", "id": "t", "name": "f", "input": {}});
            agent.messages().push(json!({"role": "assistant", "content": [call]}));
        }),
    ];
    for (rule, words, breach) in breaches {
        let mut agent = opus();
        agent.swap(5);
        assert_eq!(agent.verdict(), Verdict::Accepted);
        agent.messages()[0]["content"][0]["cache_control"] = json!({"type": "ephemeral"});
        assert_eq!(agent.verdict(), Verdict::Accepted, "a mark changes nothing");
        let first = block(&mut agent);
        breach(&mut agent, first);
        let (seen, reply) = agent.ask();
        // Some other rule may refuse an open call first.
        let is_rule = seen.verdict == Verdict::Broken(rule) && reply.contains(words);
        assert!(is_rule, "{rule} {words}: {:?} {reply}", seen.verdict);
    }
}

/// nc-a-empty and nc-a-529.
#[test]
fn a_provider_may_fail_at_its_own_compaction() {
    use crate::options::CompactionFault::{Empty, Item, Order};
    for reason in ["max_tokens", "tool_use", "refusal", "end_turn", "model_context_window_exceeded"]
    {
        let mut agent = opus();
        agent.model.change(|options| options.compaction = Empty(reason));
        let reply = agent.order(5);
        assert_eq!((&reply["content"], &reply["stop_reason"]), (&json!([]), &json!(reason)));
        let iterations = &reply["usage"]["iterations"];
        assert!(iterations[0]["input_tokens"].as_u64().unwrap() > 0, "billed: {iterations}");
    }
    for status in [400, 404, 529] {
        let mut agent = opus();
        agent.swap(5);
        agent.model.change(|options| options.compaction = Item(status));
        assert_eq!(agent.ask().0.status, status);
        agent.model.change(|options| options.compaction = Order(status));
        assert_eq!(agent.verdict(), Verdict::Accepted, "the item alone");
        agent.body["compaction"] = json!({"type": "summarize"});
        assert_eq!(agent.ask().0.status, status);
    }
}
