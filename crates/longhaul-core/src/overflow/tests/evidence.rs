//! Evidence and vetoes, by the kinds of sentences that were once misjudged.

use serde_json::json;

use super::*;
use crate::overflow::tests::unseen::{LARGE, is_overflow, judge};
use crate::units::body_limits::BodyLimits;

fn check_error(text: &str, expect: bool) {
    let body = json!({ "error": { "message": text } }).to_string();
    check_body(400, &body, expect);
}

/// Checks whether an error about the words of a request is an overflow.
fn check_with(facts: RequestFacts<'_>, body: &str, expect: bool) {
    let verdict = judge(400, body, facts);
    assert_eq!(is_overflow(verdict), expect, "{body}: {verdict:?}");
}

fn check_body(status: u16, body: &str, expect: bool) {
    let verdict = judge(status, body, LARGE);
    assert_eq!(is_overflow(verdict), expect, "{status} {body}: {verdict:?}");
}

/// Returns the fingerprint of a suspicion.
fn statement(text: &str) -> u64 {
    let body = json!({ "error": { "message": text } }).to_string();
    let verdict = judge(400, &body, LARGE);
    let Verdict::Overflow(Overflow {
        evidence: Evidence::Suspected(Suspicion::Words(statement)),
        ..
    }) = verdict
    else {
        panic!("{text}: {verdict:?}")
    };
    statement
}

#[test]
fn ids_and_sizes_do_not_make_a_statement_new() {
    for (one, other) in [
        (
            "The conversation is too big for us. ray 8f3ab2c",
            "The conversation is too big for us. ray 91cc0de",
        ),
        (
            "The conversation is too big for us (trace 0af7651916cd43dd)",
            "The conversation is too big for us (trace b7ad6b7169203331)",
        ),
        ("对话内容超长，编号8f3a，请删减", "对话内容超长，编号77be1，请删减"),
        ("Диалог слишком длинный, код a1b2", "Диалог слишком длинный, код c3d4e"),
    ] {
        assert_eq!(statement(one), statement(other), "{one}");
    }
    assert_ne!(statement("The conversation is too big"), statement("The transcript is too big"));
}

#[test]
fn sentences_that_begin_like_help_are_evidence_if_they_state_sizes_or_an_overflow() {
    for text in [
        "Seen 150321 tokens, allowed 131072",
        "Seems your conversation is too long",
        "You can send at most 131072 tokens, you sent 150321",
        "You may pass 131072 tokens; this prompt has 150321",
        "Visitors' prompts exceed the context",
        "Voiry: la conversation est trop longue",
        "See: the prompt of 150321 tokens exceeds 131072",
        "Contact support. The history is longer than the window",
        "Siehe da: der Verlauf ist zu lang",
    ] {
        check_error(text, true);
    }
    for text in [
        "Invalid seed. See https://a.example/limits",
        "You can send at most 131072 tokens per minute, you sent 150321",
        "Bad role. Visit the documentation of messages",
    ] {
        check_error(text, false);
    }
}

#[test]
fn two_measured_numbers_outweigh_words_about_small_rooms_tools_and_parts() {
    for text in [
        "The context window is too small for this prompt: needs 150321 tokens, has 131072",
        "The slot is too small: prompt 150321, slot 131072",
        "Prompt of 150321 tokens exceeds 131072. Split it into a second request",
        "150321 tokens exceed the 131072 of every server behind the load balancer",
        "messages with tool calls exceed 131072 tokens: 150321",
        "Tool schemas and messages have 150321 tokens, maximum 131072",
        "150321 tokens + 4096 completion tokens exceed 131072",
        "messages with tool calls exceed the context window",
        "The conversation including the tool results exceeds the model's context",
        "The prompt is too long, please send the rest as a second message",
    ] {
        check_error(text, true);
    }
    for text in [
        "150321 requests a second, the limit is 131072 tokens",
        "Too many tokens: 150321 of 131072 in a minute",
        "The balance of 150321 tokens exceeds 131072",
        "max_tokens is 150321, at most 131072",
        "max_tokens between 256 and 131072, but 150321",
        "max_tokens は 1 から 16384 の範囲（指定値: 150000）",
        "completion of 150321 tokens exceeds 131072",
        "tools: the description exceeds the maximum length",
        "The batch size is too small",
    ] {
        check_error(text, false);
    }
}

#[test]
fn help_below_another_key_vetoes_nothing_and_counts_only_if_nothing_else_does() {
    for key in ["hint", "help", "suggestion", "documentation"] {
        let body = json!({"error": {"message": "The prompt is too long for us",
            key: "Rate limits per minute and quotas are in your billing plan"}});
        check_body(400, &body.to_string(), true);
        let body =
            json!({"error": "bad request", key: "Shorten the prompt: 150321 > 131072 tokens"});
        check_body(400, &body.to_string(), true);
        let body = json!({"error": "bad request", key: "Wait, 150321 > 131072 tokens per minute"});
        check_body(400, &body.to_string(), false);
    }
    let body = json!({"error": {"message": "The prompt of 150321 tokens is too long",
        "hint": "Keep it below 131072 tokens"}});
    let expect = Verdict::Overflow(Overflow::stated(Some(131_072), Some(150_321)));
    assert_eq!(judge(400, &body.to_string(), LARGE), expect);
}

#[test]
fn codes_of_plans_are_no_overflow_and_codes_in_capitals_are() {
    for code in [
        "LLMContextLengthExceededException",
        "APIPromptTooLongError",
        "contextlengthexceeded",
        "HTTPContextWindowOverflow",
    ] {
        let body = json!({"error": {"code": code, "message": "refused"}});
        check_body(400, &body.to_string(), true);
    }
    for code in [
        "message_limit_reached",
        "chat_limit_exceeded",
        "weekly_token_limit_exceeded",
        "trial_token_limit_reached",
        "usage_limit_reached",
        "conversation_limit_reached",
        "planTokensExceeded",
    ] {
        for status in [400, 403] {
            let body = json!({"error": {"code": code, "message": "refused"}});
            check_body(status, &body.to_string(), false);
        }
    }
}

#[test]
fn the_name_of_a_model_takes_no_word_from_the_statement() {
    for (model, text) in [
        ("mistral/large", "Your prompt is too large"),
        ("max", "maximum context of the chat exceeded"),
        ("long", "The conversation is too long"),
        ("acme/long", "The conversation is too long"),
        ("too-long", "The conversation is too-longish, it exceeds the context"),
        ("gpt-4", "gpt-4: the conversation is too long"),
    ] {
        let body = json!({ "error": text }).to_string();
        check_with(RequestFacts { model, ..LARGE }, &body, true);
    }
    for (model, text) in [
        ("too-long-prompt", "Could not load too-long-prompt"),
        ("acme/prompt-exceeds-8b", "prompt-exceeds-8b is down"),
    ] {
        let body = json!({ "error": text }).to_string();
        check_with(RequestFacts { model, ..LARGE }, &body, false);
    }
}

#[test]
fn tokens_and_characters_of_an_allowance_are_no_overflow() {
    check_error("input of 600120 characters, at most 400000", true);
    for text in [
        "Tokens of this week: 150321 of 131072",
        "Votre abonnement comprend 131072 jetons, et 150321 sont consommés",
        "Ihr Tarif ist verbraucht: 150321 von 131072 Token",
        "В неделю 131072 токена, использовано 150321",
        "本周已用150321个token，共131072",
        "Too many tokens in the past 10 minutes: 150321 of 131072",
    ] {
        check_error(text, false);
    }
    check_error("Ваш тариф читает 98304 токена за раз, в запросе их 150321", true);
    check_error("quota: 600120 of 400000 characters used this month", false);
    check_error("Monatlich 400000 Zeichen, gesendet 600120", false);
    let body = json!({"error": {"code": "usage_limit", "message": "600120 characters > 400000"}});
    check_body(400, &body.to_string(), false);
}

#[test]
fn errors_within_envelopes_of_a_success_are_seen_unless_there_is_an_answer() {
    let error = "prompt is too long: 150321 tokens > 131072";
    for body in [
        json!({"data": {"error": {"message": error}}}),
        json!({"result": {"data": {"Error": error}}}),
        json!({"status": "error", "data": {"message": error}}),
        json!({"success": false, "response": {"message": error}}),
        json!({"detail": error}),
        json!({"errors": {"prompt": ["is too long (150321 > 131072)"]}}),
        json!({"choices": [{"index": 0, "Error": {"message": error}}]}),
    ] {
        check_body(200, &body.to_string(), true);
        check_body(200, &format!("data: {body}\n\n"), true);
        check_body(400, &body.to_string(), true);
    }
    for body in [
        json!({"data": {"error": {"message": error}, "text": "an answer"}}),
        json!({"data": {"error": {"message": error}, "response": {"output": "an answer"}}}),
        json!({"status": "error", "data": {"message": error, "reply": "an answer"}}),
        json!({"detail": error, "output": [{"text": "an answer"}]}),
        json!({"a": {"b": {"c": {"error": error}}}}),
        json!({"data": {"error": null}, "note": error}),
        json!({"data": {"message": {"role": "assistant", "content": error}}, "detail": "done"}),
        json!({"choices": [{"message": {"content": "an answer"}, "Error": {"message": error}}]}),
    ] {
        check_body(200, &body.to_string(), false);
        let answer = r#"{"choices":[{"delta":{"content":"an answer"}}]}"#;
        check_body(200, &format!("data: {body}\n\ndata: {answer}\n\n"), false);
    }
}

#[test]
fn a_code_that_repeats_the_status_says_nothing() {
    let silent = Verdict::Overflow(Overflow::from_empty_reply());
    for body in [
        json!({"error": {"code": 400, "message": ""}}),
        json!({"statusCode": "400", "message": null}),
        json!({"status": 400, "error": {}}),
    ] {
        assert_eq!(judge(400, &body.to_string(), LARGE), silent, "{body}");
    }
    for body in [
        json!({"error": {"code": 1210, "message": ""}}),
        json!({"error": {"code": 400, "type": "invalid_api_key", "message": ""}}),
    ] {
        check_body(400, &body.to_string(), false);
    }
}

#[test]
fn a_limit_of_bytes_is_recognised_by_the_size_of_the_body() {
    // 270,000 letters of three bytes.
    let request = format!(r#"{{"messages":[{{"content":"{}"}}]}}"#, "文".repeat(270_000));
    let facts = RequestFacts { text: RequestText::new(request.as_bytes(), ""), ..LARGE };
    let verdict = |status, text: &str| judge(status, &json!({ "error": text }).to_string(), facts);
    for text in [
        "body 812345 > 524288",
        "payload has 810100 bytes, 524288 accepted",
        "请求体大小810100，上限524288",
    ] {
        let limits = BodyLimits::of_bytes(524_288);
        assert_eq!(verdict(400, text), Verdict::BodyTooLarge(limits), "{text}");
    }
    for text in
        ["body 812345 > 524288, try again in a minute", "body 112345 > 524288", "812345 > 524288"]
    {
        let found = verdict(400, text);
        assert!(!matches!(found, Verdict::BodyTooLarge(_)), "{text}");
        assert!(!is_overflow(found), "{text}");
    }
    assert_eq!(verdict(404, "body 812345 > 524288"), Verdict::Fine);
}

#[test]
fn stale_thinking_is_recognised_although_the_request_quotes_it() {
    let text = "messages.1.content.0: Invalid `signature` in `thinking` block. \
                The block is bound to a different conversation.";
    let request = json!({"messages": [{"role": "user", "content": format!("I saw: {text}")}]});
    let request = request.to_string();
    let facts = RequestFacts { text: RequestText::new(request.as_bytes(), ""), ..LARGE };
    let body = json!({"error": {"message": text}}).to_string();
    assert_eq!(judge(400, &body, facts), Verdict::StaleThinking);
}

#[test]
fn names_in_the_request_that_look_like_codes_are_no_overflow() {
    let request = json!({
        "model": "prompt_too_long",
        "context_length_exceeded": true,
        "tool_choice": {"function": {"name": "promptTooLong"}},
        "messages": [{"role": "INPUT_TOO_LARGE", "content": "x"}],
        "tools": [{"function": {"parameters": {"properties": {"max-context-exceeded": {}}}}}],
        "stop": ["ContextWindowExceededError"],
        "metadata": {"contextlengthexceeded": "token_limit_exceeded"},
    });
    let request = request.to_string();
    let target = "/v1/chat/completions/history_overflow?mode=context%5Foverflow&prompt_exceeded=1";
    let facts = RequestFacts { text: RequestText::new(request.as_bytes(), target), ..LARGE };
    for text in [
        "400 Unknown key: 'context_length_exceeded'",
        "Unknown key: CONTEXT_LENGTH_EXCEEDED",
        "context_length_exceeded: extra fields not permitted",
        "Additional properties are not allowed ('context_length_exceeded' was unexpected)",
        "`body.context_length_exceeded` is not expected",
        "Unrecognized property \"contextLengthExceeded\"",
        "Property max-context-exceeded is invalid",
        "properties.max_context_exceeded: missing type",
        "Invalid schema near max-context-exceeded",
        "tool_choice: no function promptTooLong",
        "tool_choice names 'prompt_too_long', which is no function",
        "Function prompttoolong is not declared",
        "Unknown role: INPUT_TOO_LARGE",
        "'input_too_large' is not one of system, user, assistant",
        "Role <INPUT_TOO_LARGE> is unexpected",
        "Unknown model prompt_too_long",
        "The model `prompt_too_long` cannot chat",
        "No deployment PROMPT_TOO_LONG",
        "Stop word ContextWindowExceededError is refused",
        "stop[0] 'ContextWindowExceededError': refused",
        "Unknown label contextlengthexceeded",
        "metadata value token_limit_exceeded is reserved",
        "No handler for /v1/chat/completions/history_overflow",
        "Unknown mode context_overflow",
        "mode=context_overflow is unknown",
        "Query argument prompt_exceeded is unknown",
        "未知参数：context_length_exceeded",
        "未知のキー「context_length_exceeded」です。",
    ] {
        let body = json!({"error": {"message": text}}).to_string();
        check_with(facts, &body, false);
        check_with(facts, text, false);
    }
    for body in [
        json!({"error": {"code": "context_length_exceeded", "message": "refused"}}),
        json!({"error": "context_length_exceeded"}),
        json!({"error": {"message": "refused: chat_too_long_for_context"}}),
    ] {
        check_with(facts, &body.to_string(), true);
    }
}
