//! Last events and bodies of providers, as documented or as observed.

mod between;
mod kept;

use proptest::prelude::*;

use super::*;
use crate::overflow::Overflow;
use crate::overflow::RuleSet;

/// Source of the shape, end of the reply, and the prompt, output and cached tokens in it.
type Shape = (&'static str, &'static str, (u32, Option<u32>, Option<u32>));

const EVENTS: &[Shape] = &[
    (
        "OpenAI, API reference: stream_options.include_usage",
        r#"{"id":"c","object":"chat.completion.chunk","choices":[],"usage":{"prompt_tokens":1117,"completion_tokens":46,"total_tokens":1163,"prompt_tokens_details":{"cached_tokens":1024,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":0}},"service_tier":"default"}"#,
        (1117, Some(46), Some(1024)),
    ),
    (
        "OpenRouter, docs: usage accounting",
        r#"{"id":"gen-1","provider":"Anthropic","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}],"usage":{"prompt_tokens":194,"completion_tokens":2,"total_tokens":196,"cost":0.95,"cost_details":{"upstream_inference_cost":19},"prompt_tokens_details":{"cached_tokens":10,"cache_write_tokens":100},"completion_tokens_details":{"reasoning_tokens":0}}}"#,
        (194, Some(2), Some(10)),
    ),
    (
        "Anthropic's message_delta, as gateways pass it on",
        r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":21,"cache_creation_input_tokens":100,"cache_read_input_tokens":18879,"output_tokens":393}}"#,
        (19_000, Some(393), Some(18_879)),
    ),
    (
        "LiteLLM, docs: prompt caching, where the prompt includes the cache",
        r#"{"choices":[],"usage":{"prompt_tokens":2006,"completion_tokens":300,"total_tokens":2306,"prompt_tokens_details":{"cached_tokens":1920},"cache_creation_input_tokens":0,"cache_read_input_tokens":1920}}"#,
        (2006, Some(300), Some(1920)),
    ),
    (
        "Gemini's OpenAI endpoint: thinking is in the total alone",
        r#"{"choices":[{"delta":{"role":"assistant"},"finish_reason":"stop","index":0}],"created":1,"model":"gemini-2.5-flash","object":"chat.completion.chunk","usage":{"completion_tokens":18,"prompt_tokens":32,"total_tokens":276}}"#,
        (32, Some(244), None),
    ),
    (
        "Mistral, API reference",
        r#"{"id":"c","choices":[{"index":0,"delta":{"content":""},"finish_reason":"stop"}],"usage":{"prompt_tokens":33,"total_tokens":97,"completion_tokens":64}}"#,
        (33, Some(64), None),
    ),
    (
        "DeepSeek, docs: context caching",
        r#"{"choices":[{"index":0,"delta":{"content":""},"finish_reason":"stop"}],"usage":{"prompt_tokens":700,"completion_tokens":9,"total_tokens":709,"prompt_cache_hit_tokens":640,"prompt_cache_miss_tokens":60}}"#,
        (700, Some(9), Some(640)),
    ),
    (
        "Moonshot, docs: usage in the last choice",
        r#"{"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop","usage":{"prompt_tokens":19,"completion_tokens":13,"total_tokens":32,"cached_tokens":16}}]}"#,
        (19, Some(13), Some(16)),
    ),
    (
        "Groq, API reference: x_groq in the last chunk",
        r#"{"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"x_groq":{"id":"req_1","usage":{"queue_time":0.08,"prompt_tokens":24,"prompt_time":0.004,"completion_tokens":220,"completion_time":0.35,"total_tokens":244,"total_time":0.35}}}"#,
        (24, Some(220), None),
    ),
    (
        "xAI, docs: reasoning beside the completion",
        r#"{"choices":[],"usage":{"prompt_tokens":41,"completion_tokens":87,"total_tokens":500,"prompt_tokens_details":{"text_tokens":41,"audio_tokens":0,"image_tokens":0,"cached_tokens":4},"completion_tokens_details":{"reasoning_tokens":372},"num_sources_used":0}}"#,
        (41, Some(459), Some(4)),
    ),
    (
        "vLLM, UsageInfo in its protocol",
        r#"{"id":"c","choices":[],"usage":{"prompt_tokens":16,"total_tokens":27,"completion_tokens":11,"prompt_tokens_details":null}}"#,
        (16, Some(11), None),
    ),
    (
        "SGLang, UsageInfo in its protocol",
        r#"{"id":"c","choices":[],"usage":{"prompt_tokens":35,"total_tokens":99,"completion_tokens":64,"prompt_tokens_details":{"cached_tokens":30},"reasoning_tokens":0}}"#,
        (35, Some(64), Some(30)),
    ),
    (
        "llama.cpp, server readme: timings with the last chunk",
        r#"{"choices":[{"finish_reason":"stop","index":0,"delta":{}}],"timings":{"cache_n":236,"prompt_n":1,"prompt_ms":30.9,"prompt_per_token_ms":30.9,"predicted_n":35,"predicted_ms":661.06}}"#,
        (237, Some(35), Some(236)),
    ),
    (
        "Ollama, openai.go: its last chunk with include_usage",
        r#"{"id":"c","object":"chat.completion.chunk","system_fingerprint":"fp_ollama","choices":[],"usage":{"prompt_tokens":26,"completion_tokens":298,"total_tokens":324}}"#,
        (26, Some(298), None),
    ),
    (
        "LM Studio, docs: chat completions with stats",
        r#"{"choices":[],"usage":{"prompt_tokens":24,"completion_tokens":53,"total_tokens":77},"stats":{"tokens_per_second":51.4,"time_to_first_token":0.1},"model_info":{"context_length":4096}}"#,
        (24, Some(53), None),
    ),
    (
        "DashScope, docs: OpenAI compatible mode",
        r#"{"choices":[],"object":"chat.completion.chunk","usage":{"prompt_tokens":3019,"completion_tokens":104,"total_tokens":3123,"prompt_tokens_details":{"cached_tokens":2048}}}"#,
        (3019, Some(104), Some(2048)),
    ),
    (
        "DashScope, docs: its own names",
        r#"{"output":{"choices":[{"message":{"content":""},"finish_reason":"stop"}]},"usage":{"total_tokens":76,"output_tokens":54,"input_tokens":22}}"#,
        (22, Some(54), None),
    ),
    (
        "Azure, REST reference: fields in the order of the alphabet, filter results last",
        r#"{"choices":[],"created":1,"id":"","model":"gpt","object":"chat.completion.chunk","usage":{"completion_tokens":7,"prompt_tokens":50,"total_tokens":57},"prompt_filter_results":[{"prompt_index":0,"content_filter_results":{"hate":{"filtered":false,"severity":"safe"}}}]}"#,
        (50, Some(7), None),
    ),
];

const CONTENT: &str = r#"{"choices":[{"index":0,"delta":{"content":"say \"usage\":{\"prompt_tokens\":7} and {\"error\":{\"message\":\"prompt is too long\"}}"},"finish_reason":null}],"usage":null}"#;
const REFUSED: &str =
    r#"{"error":{"message":"prompt is too long: 208732 tokens > 200000 maximum"}}"#;

fn overflow() -> Verdict {
    Verdict::Overflow(Overflow::stated(Some(200_000), Some(208_732)))
}

fn usage((input, output, cached): (u32, Option<u32>, Option<u32>)) -> Usage {
    Usage { input, output, cached, ..Usage::default() }
}

/// Returns the token counts of a reply, without the other fields of its usage.
fn counts(found: ReplyEnd) -> Option<Usage> {
    let usage = found.usage?;
    Some(Usage { written: 0, cost: None, ..usage })
}

fn stream(events: &[&str]) -> String {
    let data = events.iter().map(|event| format!("data: {event}\n\n"));
    data.collect()
}

fn read(reply: &[u8], chunk: usize) -> ReplyEnd {
    let mut tail = ReplyTail::new(Dialect::ChatCompletions);
    for chunk in reply.chunks(chunk) {
        tail.push(chunk);
        assert!(tail.buffer.len() <= TAIL_BYTES && tail.buffer.capacity() <= TAIL_BYTES);
    }
    tail.finish(ClassifierRules::standard(), None)
}

/// Checks the facts from the end of a reply, under several chunk sizes.
fn check(name: &str, reply: &str, expect: ReplyEnd) {
    for chunk in [1, 7, 1_000, reply.len().max(1)] {
        let found = read(reply.as_bytes(), chunk);
        assert_eq!(found, expect, "{name}, chunks of {chunk}");
    }
}

fn reply_end(usage: Option<Usage>, finish: Option<FinishReason>, verdict: Verdict) -> ReplyEnd {
    ReplyEnd { usage, finish, has_content: true, verdict }
}

#[test]
fn the_usage_of_every_provider_is_read_from_the_end_of_a_stream() {
    for &(name, event, counts) in EVENTS {
        for before in [1, 100] {
            let mut events = vec![CONTENT; before];
            events.extend([event, "[DONE]"]);
            let found = read(stream(&events).as_bytes(), 100);
            assert_eq!(tests::counts(found), Some(usage(counts)), "{name}");
            assert_eq!(found.verdict, Verdict::Fine, "{name}");
            assert!(found.has_content, "{name}");
        }
    }
}

#[test]
fn the_usage_of_every_provider_is_read_from_the_end_of_a_body() {
    for &(name, body, counts) in EVENTS {
        let text = serde_json::to_string(&CONTENT.repeat(100)).unwrap();
        let long = body.replacen('{', &format!("{{\"text\":{text},"), 1);
        for reply in [body, &long] {
            let found = read(reply.as_bytes(), 100);
            assert_eq!(tests::counts(found), Some(usage(counts)), "{name}");
        }
    }
}

#[test]
fn the_last_usage_of_a_stream_wins() {
    let counts = |n: u32| format!(r#"{{"choices":[],"usage":{{"prompt_tokens":{n}}}}}"#);
    let reply = stream(&[&counts(1), CONTENT, &counts(2), "[DONE]"]);
    let found = read(reply.as_bytes(), 10);
    assert_eq!(found.usage, Some(usage((2, None, None))));
}

#[test]
fn finish_reasons_are_read_in_every_format() {
    let reasons = [
        (r#""finish_reason":"length""#, FinishReason::Length),
        (r#""finish_reason":"stop""#, FinishReason::Stop),
        (r#""finish_reason":"tool_calls""#, FinishReason::ToolCalls),
        (r#""finish_reason":"model_context_window_exceeded""#, FinishReason::WindowFull),
        (
            r#""finish_reason":"length","native_finish_reason":"model_context_window_exceeded""#,
            FinishReason::WindowFull,
        ),
        (r#""finish_reason":"stop","stop_reason":"a word""#, FinishReason::Stop),
        (r#""finish_reason":null,"stop_reason":"max_tokens""#, FinishReason::Length),
        (r#""stop_reason":"model_context_window_exceeded""#, FinishReason::WindowFull),
    ];
    for (reason, expect) in reasons {
        let event = format!(r#"{{"choices":[{{"index":0,"delta":{{}},{reason}}}]}}"#);
        let expect = reply_end(None, Some(expect), Verdict::Fine);
        check(reason, &stream(&[CONTENT, &event, "[DONE]"]), expect);
        let text = "a".repeat(2 * TAIL_BYTES);
        let body = format!(r#"{{"choices":[{{"message":{{"content":"{text}"}},{reason}}}]}}"#);
        check(reason, &body, expect);
    }
}

#[test]
fn an_error_after_content_is_classified_like_any_other() {
    let refused = reply_end(None, None, overflow());
    check("an event", &stream(&[CONTENT, REFUSED, "[DONE]"]), refused);
    let named = format!("{}event: error\ndata: {REFUSED}\n\n", stream(&[CONTENT; 50]));
    check("a named event", &named, refused);
    let in_a_chunk = REFUSED.replacen(
        '{',
        r#"{"choices":[{"delta":{"content":""},"finish_reason":"error"}],"#,
        1,
    );
    let wrapped = reply_end(None, Some(FinishReason::Other), overflow());
    check("OpenRouter", &stream(&[CONTENT, &in_a_chunk]), wrapped);
    let throttled = r#"{"error":{"message":"Rate limit reached","code":429}}"#;
    let failed = reply_end(None, None, Verdict::Failed);
    check("a throttle", &stream(&[CONTENT, throttled]), failed);
    let both = stream(&[CONTENT, REFUSED, throttled]);
    check("a throttle behind an overflow", &both, refused);
}

#[test]
fn model_output_yields_neither_usage_nor_verdict() {
    let quoted = serde_json::to_string(&stream(&[CONTENT, REFUSED, EVENTS[0].1])).unwrap();
    let delta = format!(r#"{{"choices":[{{"delta":{{"content":{quoted}}}}}]}}"#);
    let call = format!(
        r#"{{"choices":[{{"delta":{{"tool_calls":[{{"function":{{"arguments":{quoted}}}}}]}}}}]}}"#
    );
    let body = format!(r#"{{"choices":[{{"message":{{"content":{quoted}}}}}]}}"#);
    let object = format!(r#"{{"choices":[{{"message":{{"arguments":{}}}}}]}}"#, EVENTS[0].1);
    let nothing = reply_end(None, None, Verdict::Fine);
    check("content", &stream(&[delta.as_str(); 20]), nothing);
    check("arguments", &stream(&[call.as_str(); 20]), nothing);
    check("a body", &body, nothing);
    check("a long body", &body.replace("say", &"say".repeat(3_000)), nothing);
    check("arguments that are an object", &object, nothing);
}

#[test]
fn text_that_is_neither_json_nor_a_stream_is_a_failure() {
    let page = ReplyEnd { has_content: false, ..reply_end(None, None, Verdict::Failed) };
    check("a page", "<html><body>Sign in</body></html>", page);
    check("a line", &format!("text {REFUSED}"), page);
}

#[test]
fn an_empty_reply_has_no_content() {
    let silent = |usage| ReplyEnd { has_content: false, ..reply_end(usage, None, Verdict::Fine) };
    check("nothing", "", silent(None));
    check("white space", " \r\n", silent(None));
    check("only the mark", &stream(&["[DONE]"]), silent(None));
    let role = r#"{"choices":[{"delta":{"role":"assistant","content":""}}]}"#;
    let counts = r#"{"choices":[],"usage":{"prompt_tokens":9}}"#;
    check("no delta", &stream(&[role, counts, "[DONE]"]), silent(Some(usage((9, None, None)))));
    let empty = r#"{"choices":[{"message":{"role":"assistant","content":null},"finish_reason":"length"}],"usage":{"prompt_tokens":9,"completion_tokens":0}}"#;
    let length =
        ReplyEnd { finish: Some(FinishReason::Length), ..silent(Some(usage((9, Some(0), None)))) };
    check("a body", empty, length);
}

#[test]
fn reading_starts_at_the_first_complete_event() {
    let long = format!(r#"{{"choices":[{{"delta":{{"content":"{}"}}}}]}}"#, "a".repeat(5_000));
    let reply = stream(&[&long, EVENTS[0].1, "[DONE]"]).replace("\n\n", "\r\n\r\n");
    let counts = Some(usage(EVENTS[0].2));
    check("behind a long event", &reply, reply_end(counts, None, Verdict::Fine));
    // The first kept line may look like anything.
    let inside = format!("data: {}data: {REFUSED}", "a".repeat(TAIL_BYTES));
    check("within an event", &inside, reply_end(None, None, Verdict::Fine));
}

#[test]
fn a_stream_is_complete_after_done_or_finish_reason_and_usage() {
    let is_whole = |reply: &str| {
        let mut tail = ReplyTail::new(Dialect::ChatCompletions);
        tail.push(reply.as_bytes());
        tail.is_complete()
    };
    let last = r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#;
    let counted = EVENTS[0].1;
    assert!(is_whole(&stream(&[CONTENT, "[DONE]"])));
    assert!(is_whole(&stream(&[CONTENT, last, counted])));
    assert!(is_whole(&stream(&[&"a".repeat(5_000), counted, "[DONE]"])));
    assert!(!is_whole(""));
    assert!(!is_whole(&stream(&[CONTENT])));
    assert!(!is_whole(&stream(&[CONTENT, last])), "counts may follow");
    assert!(!is_whole(&stream(&[CONTENT, counted])), "it may go on");
    assert!(!is_whole("data: [DO"));
    assert!(!is_whole(&counted[..counted.len() - 1]), "a body's end is its own");
}

proptest! {
    #[test]
    fn any_chunking_gives_the_same_reply_end(
        pieces in prop::collection::vec(prop_oneof![
            any::<Vec<u8>>(),
            prop::sample::select(EVENTS).prop_map(|(_, event, _)| stream(&[event]).into_bytes()),
            prop::sample::select(vec![
                "data: ", "\n", "\r\n\r\n", "{\"usage\":", "\"", "\\", "}", "[", "event: error\n",
                "{\"choices\":[", "\"finish_reason\":\"length\"", CONTENT, REFUSED,
            ])
            .prop_map(|text| text.as_bytes().to_vec()),
            (0..6_000_usize).prop_map(|length| vec![b'a'; length]),
        ], 0..12),
        chunk in 1..9_000_usize,
    ) {
        let reply = pieces.concat();
        prop_assert_eq!(read(&reply, chunk), read(&reply, reply.len().max(1)));
    }

    #[test]
    fn skipped_events_do_not_change_the_reply_end(
        events in prop::collection::vec(prop_oneof![
            30 => Just(stream(&[r#"{"choices":[{"delta":{"content":"b"},"finish_reason":null}]}"#])),
            3 => prop::sample::select(EVENTS).prop_map(|(_, event, _)| stream(&[event])),
            3 => prop::sample::select(vec![
                r#"{"choices":[{"delta":{},"finish_reason":"length"}]}"#,
                r#"{"choices":[{"delta":{},"finish_reason" : "stop"}]}"#,
                r#"{"choices":[{"delta":{},"native_finish_reason":"model_context_window_exceeded"}]}"#,
                r#"{"choices":[{"delta":{"role":"assistant"}}]}"#,
                "[DONE]", "no object", CONTENT, REFUSED,
            ])
            .prop_map(|event| stream(&[event])),
            1 => prop::sample::select(vec![
                ": a comment\n\n", "event: error\ndata: {}\n\n", "data: {\ndata: }\n\n", "\n", "\r",
                "id: 1\n",
            ])
            .prop_map(str::to_owned),
        ], 0..60),
        feeds in prop::sample::select(vec!["\n", "\r\n"]),
    ) {
        let reply = events.concat().replace('\n', feeds);
        let lost = reply.len() > TAIL_BYTES;
        let kept = &reply.as_bytes()[reply.len().saturating_sub(TAIL_BYTES)..];
        let mut all = ReplyEnd::unread(lost);
        for_each_event(events_with_start(kept, lost), |event| all.read(Dialect::ChatCompletions, event, RuleSet::table_only(ClassifierRules::standard())));
        let found = read(reply.as_bytes(), reply.len().max(1));
        // A reply that does not begin as a stream is not read as one.
        if reply.starts_with(['d', ':', 'e', 'i']) {
            prop_assert_eq!(found, all);
        }
    }
}
