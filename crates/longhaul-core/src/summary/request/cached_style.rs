//! Summary call in the `cached` style: repeats the live conversation so that the provider's prompt
//! cache applies.

use crate::conversation::Conversation;
use crate::dialect::Dialect;
use crate::json::quote::quote;
use crate::policy::Policy;
use crate::summary::prompts::Prompts;
use crate::summary::request::{fill_prompt, max_output, open_turn_prompt, parts};
use crate::units::tokens::Tokens;

/// Returns the body of a summary call for all of `conversation` before `cut`. The body repeats
/// `forwarded` byte for byte up to that point, then appends one message with the prompt.
///
/// Returns `None` in these cases:
///
/// - The model's window cannot hold the call.
/// - A provider would refuse the call.
/// - `forwarded` is not a body of this conversation.
pub fn cached_style_body(
    conversation: &Conversation<'_>,
    forwarded: &str,
    cut: usize,
    policy: &Policy,
    prompts: &Prompts,
) -> Option<String> {
    let dialect = conversation.dialect();
    let sent = dialect.read(forwarded.as_bytes()).ok()?;
    // Both bodies have the same messages after the cut.
    let behind = conversation.messages().len().checked_sub(cut)?;
    let mut repeated = sent.messages().len().checked_sub(behind)?;
    // A provider that accepts system messages within a conversation refuses a user message after one.
    while !dialect.facts().allows_user_behind_instructions && is_inner_system(&sent, repeated) {
        repeated -= 1;
    }
    let (end, _) = sent.object_end(repeated.checked_sub(1)?)?;
    let mut asks = Prompts::cached_style().to_owned();
    asks.extend(["\n\n", &fill_prompt(prompts.fresh(), &policy.budgets)]);
    if let Some(turn) = open_turn_prompt(conversation, cut) {
        asks.extend(["\n\n", &turn]);
    }
    let mut output = max_output(&policy.budgets, policy.thresholds.window);
    if sent.grants_reasoning_tokens(output) {
        // The option stays for the cache, and the reasoning comes before the summary.
        output += sent.params().reasoning_budget;
    }
    let size = sent.params().tool_tokens
        + sent.tokens_of(0..repeated)
        + parts::conservative_tokens(&asks)
        + output;
    if size > policy.thresholds.actual_window {
        return None;
    }
    dialect.append_summary_prompt(forwarded, end, &quote(&asks), output)
}

/// Output for which an order to compact leaves room, at most: its text, and some thought.
const COMPACTION_OUTPUT: Tokens = Tokens::new(4_096);

/// Returns the body of a call that orders the provider to compact a conversation, without its last `behind`
/// messages. The body repeats `forwarded`, and adds no words of longhaul.
///
/// Returns `None` in the cases of [`cached_style_body`].
pub fn provider_style_body(
    dialect: Dialect,
    forwarded: &str,
    behind: usize,
    policy: &Policy,
) -> Option<String> {
    let sent = dialect.read(forwarded.as_bytes()).ok()?;
    let repeated = sent.messages().len().checked_sub(behind)?;
    let (end, open) = sent.object_end(repeated.checked_sub(1)?)?;
    let size = sent.params().tool_tokens + sent.tokens_of(0..repeated);
    let output = sent.output_tokens().map(|output| output.min(COMPACTION_OUTPUT));
    let fits = size <= policy.thresholds.max_input(output);
    (open.is_empty() && fits).then(|| dialect.compaction_order(forwarded, end))?
}

/// Whether the last of the first `upto` messages is an object of instructions, and not the first.
fn is_inner_system(sent: &Conversation<'_>, upto: usize) -> bool {
    let at = upto.checked_sub(1).filter(|at| *at > 0);
    let message = at.and_then(|at| Some((at, sent.message(at)?)));
    message
        .is_some_and(|(at, it)| it.role.is_instruction() && sent.object_span(at) == Some(it.span))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::chat_completions::read;
    use crate::policy::CompactionSettings;
    use serde_json::Value;

    const BODY: &str = r#"{ "model":"m", "n":2, "plugins":[{"id":"web"}], "web_search_options":{}, "tools": [ {"x":1} ],"tool_choice":"required","max_tokens":9,
        "messages" : [ {"role":"system","content":"s"} ,{"content":"do \u0041", "role":"user"},
          {"role":"assistant","content":"done"},{"role":"user","content":"more"}] ,"stream":false,"stop":"x","user":"u",
        "stream_options":{"include_usage":true}}"#;

    fn policy(window: u32) -> Policy {
        Policy::new(&CompactionSettings::default(), Tokens::new(window))
    }

    #[test]
    fn repeats_the_forwarded_body_byte_for_byte_and_appends_a_prompt() {
        let conversation = read(BODY.as_bytes()).unwrap();
        let prompts = Prompts::default();
        let body = cached_style_body(&conversation, BODY, 3, &policy(32_000), &prompts).unwrap();
        let upto = BODY.find("{\"role\":\"user\",\"content\":\"more\"").unwrap() - 1;
        let messages = BODY.find("[ {\"role\":\"system\"").unwrap();
        assert!(body.contains(&BODY[messages..upto]));
        assert!(body.contains(r#""tools":[ {"x":1} ]"#));
        let value: Value = serde_json::from_str(&body).unwrap();
        let keys: Vec<&String> = value.as_object().unwrap().keys().collect();
        assert_eq!(
            keys,
            ["model", "tools", "max_tokens", "messages", "stream", "user", "stream_options"]
        );
        assert_eq!((&value["stream"], &value["max_tokens"]), (&true.into(), &4_096.into()));
        let all = value["messages"].as_array().unwrap();
        assert_eq!(all.len(), 4);
        assert_eq!(all[3]["role"], "user");
        let asked = all[3]["content"].as_str().unwrap();
        assert!(asked.contains("## Next Steps") && !asked.contains("{words}"));
        // Without this, a model in the middle of its work mistakes the prompt for the user's next
        // request.
        assert!(asked.starts_with("Stop here") && asked.contains("do not call any tool"));
    }

    #[test]
    fn keys_that_change_the_answer_or_add_services_are_removed() {
        // Keys of public reports.
        let reported = include_str!("../../../../../fixtures/reports/summary_cached.json");
        let reported = reported.trim_end().trim_end_matches('}');
        let body = format!(
            r#"{reported},"model":"openai/gpt-x:online","models":["a/b:free","c/d:nitro:ONLINE"],
            "cache_salt":"s","unknown":1,"messages":[{{"role":"user","content":"go"}},
            {{"role":"assistant","content":"done"}},{{"role":"user","content":"more"}}]}}"#
        );
        let conversation = read(body.as_bytes()).unwrap();
        let prompts = Prompts::default();
        let asked = cached_style_body(&conversation, &body, 2, &policy(32_000), &prompts).unwrap();
        let asked: Value = serde_json::from_str(&asked).unwrap();
        let keys: Vec<&String> = asked.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["model", "models", "cache_salt", "messages", "stream"]);
        assert_eq!(asked["model"], "openai/gpt-x");
        assert_eq!(asked["models"], serde_json::json!(["a/b:free", "c/d:nitro"]));
    }

    #[test]
    fn no_request_is_made_if_it_exceeds_the_window() {
        let long = BODY.replace("done", &"word ".repeat(20_000));
        let conversation = read(long.as_bytes()).unwrap();
        let prompts = Prompts::default();
        assert_eq!(cached_style_body(&conversation, &long, 3, &policy(28_000), &prompts), None);
        assert!(cached_style_body(&conversation, &long, 3, &policy(32_000), &prompts).is_some());
    }

    #[test]
    fn a_body_of_another_conversation_is_not_repeated() {
        let conversation = read(BODY.as_bytes()).unwrap();
        let other = r#"{"messages":[]}"#;
        assert_eq!(
            cached_style_body(&conversation, other, 3, &policy(32_000), &Prompts::default()),
            None
        );
    }

    #[test]
    fn a_request_may_fill_the_window_to_the_token() {
        let conversation = read(BODY.as_bytes()).unwrap();
        let prompts = Prompts::default();
        let asked = |holds: usize| {
            let mut policy = policy(32_000);
            policy.thresholds.actual_window = Tokens::new(u32::try_from(holds).unwrap());
            cached_style_body(&conversation, BODY, 3, &policy, &prompts)
        };
        let body: Value = serde_json::from_str(&asked(32_000).unwrap()).unwrap();
        let asks = body["messages"][3]["content"].as_str().unwrap();
        assert!(asks.is_ascii());
        // The tools (2), three messages with overhead (12), one token of text in two of them (2),
        // the prompt, and the reply.
        let size = 2 + (3 * 4 + 2) + asks.len().div_ceil(4) + 4_096;
        assert!(asked(size).is_some());
        assert_eq!(asked(size - 1), None);
    }

    #[test]
    fn prompt_does_not_follow_a_system_message_that_the_provider_knows() {
        let body = r#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"go"},
            {"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}}]},
            {"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"r"}]},
            {"role":"system","content":"<total_tokens>9</total_tokens>"},
            {"role":"assistant","content":"so"},{"role":"user","content":"on"}]}"#;
        let conversation = crate::dialect::messages::read(body.as_bytes()).unwrap();
        let prompts = Prompts::default();
        let call = cached_style_body(&conversation, body, 4, &policy(32_000), &prompts).unwrap();
        let call: Value = serde_json::from_str(&call).unwrap();
        let roles = call["messages"].as_array().unwrap().iter();
        let roles: Vec<&str> = roles.map(|it| it["role"].as_str().unwrap()).collect();
        assert_eq!(roles, ["user", "assistant", "user", "user"]);
    }

    #[test]
    fn output_of_a_call_exceeds_the_granted_reasoning_or_no_call_is_made() {
        for (thinking, output) in [
            (r#""thinking":{"type":"enabled","budget_tokens":4095}"#, Some(4_096)),
            (r#""thinking":{"type":"enabled","budget_tokens": 4096 }"#, Some(8_192)),
            (r#""reasoning":{"max_tokens":4096}"#, Some(8_192)),
            (r#""reasoning":{"max_tokens":99999999999}"#, None),
            (r#""reasoning":{"effort":"high"},"enable_thinking":true"#, Some(4_096)),
        ] {
            let body = BODY.replacen('{', &format!("{{{thinking},"), 1);
            let conversation = read(body.as_bytes()).unwrap();
            let prompts = Prompts::default();
            let asked = cached_style_body(&conversation, &body, 3, &policy(32_000), &prompts);
            let asked = asked.map(|call| call.parse::<Value>().unwrap()["max_tokens"].clone());
            assert_eq!(asked, output.map(Value::from), "{thinking}");
        }
    }

    #[test]
    fn always_requests_a_stream_exactly_once() {
        for stream in ["", r#","stream":false"#, r#","stream":true"#] {
            let body = BODY.replace(r#","stream":false"#, stream);
            let conversation = read(body.as_bytes()).unwrap();
            let asked =
                cached_style_body(&conversation, &body, 3, &policy(32_000), &Prompts::default());
            let asked = asked.unwrap();
            let streams: Vec<&str> = asked.matches(r#""stream":"#).collect();
            assert_eq!(streams.len(), 1, "{asked}");
            assert!(asked.contains(r#""stream":true"#), "{asked}");
        }
    }
}
