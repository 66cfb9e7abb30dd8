//! Reading request bodies: accepted content, token estimates, and bodies that are bypassed.

use super::*;
use crate::dialect::body_reader::MAX_PIECES;

/// A request body with these members and one user message.
fn beside(members: &str) -> String {
    format!(r#"{{{members}"messages":[{{"role":"user","content":"hi"}}]}}"#)
}

/// A request body whose only message is an assistant message with these members.
fn message(members: &str) -> String {
    format!(r#"{{"messages":[{{"role":"assistant",{members}}}]}}"#)
}

fn refused(body: &str) -> Option<Bypass> {
    read(body.as_bytes()).err()
}

/// Checks the estimate of a message with these members, without the four tokens of every message.
#[track_caller]
fn check(members: &str, expect: u32) {
    let body = message(members);
    let tokens = read(body.as_bytes()).unwrap().messages()[0].tokens;
    assert_eq!(tokens, Tokens::new(4 + expect), "{members}");
}

#[test]
fn message_tokens_are_chars_over_four_plus_a_flat_image_cost() {
    check(r#""content":"""#, 0);
    check(r#""content":"1234567""#, 1);
    check(r#""content":"12345678""#, 2);
    check(r#""content":"金庫\u756a号""#, 1);
    let parts = |parts: &str| format!(r#""content":[{parts}]"#);
    let text = r#"{"type":"text","text":"1234"}"#;
    check(&parts(&[text, text, text].join(",")), 3);
    let image = r#"{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}"#;
    check(&parts(&[text, image, image].join(",")), 2_401);
    // An unknown part of forty characters, including its text.
    let other = r#"{"type":"thinking","text":"12345678901"}"#;
    assert_eq!(other.len(), 40);
    check(&parts(&[text, other].join(",")), 11);
}

/// The estimate of a message with this part, and the bytes of the part.
fn part(part: &str) -> (u32, u32) {
    let body = message(&format!(r#""content":[{part}]"#));
    let tokens = read(body.as_bytes()).unwrap().messages()[0].tokens;
    (tokens.get() - 4, u32::try_from(part.len()).unwrap())
}

#[test]
fn inline_data_is_not_counted_as_text() {
    let inline = |kind: &str, base64: &str| {
        let data = format!("data:x/y;base64,{base64}");
        let part_of = |key: &str| format!(r#"{{"type":"{kind}","{kind}":{{"{key}":"{data}"}}}}"#);
        part(&part_of("data"))
    };
    let (small, large) = ("QUJD".repeat(1_000), "QUJ\\/".repeat(2_000_000));
    for kind in ["file", "document"] {
        let (tokens, bytes) = inline(kind, &small);
        assert_eq!(tokens, 1_200 + bytes / 128, "{kind}");
        assert_eq!(inline(kind, &large).0, 20_000, "{kind}");
    }
    for kind in ["input_audio", "video_url"] {
        let (tokens, bytes) = inline(kind, &small);
        assert_eq!(tokens, bytes / 1_024, "{kind}");
        assert_eq!(inline(kind, &large).0, 9_765, "{kind}");
    }
    let (tokens, bytes) = inline("yet_to_come", &small);
    assert_eq!(tokens, bytes / 4);
    assert_eq!(inline("yet_to_come", &large).0, 20_000);
}

#[test]
fn references_cost_a_flat_amount_and_plain_text_documents_their_length() {
    for reference in [
        r#"{"type":"file","file":{"file_id":"file-abc"}}"#,
        r#"{"type":"video_url","video_url":{"url":"https://example.com/a.mp4"}}"#,
        r#"{"type":"input_audio","input_audio":{"data":"AAAA","format":"wav"}}"#,
    ] {
        assert_eq!(part(reference).0, 1_200, "{reference}");
    }
    let words = "some plain words ".repeat(1_000);
    let plain = format!(r#"{{"type":"document","source":{{"type":"text","data":"{words}"}}}}"#);
    let (tokens, bytes) = part(&plain);
    assert_eq!(tokens, bytes / 4);
}

#[test]
fn low_detail_image_costs_85_tokens() {
    let image = |members: &str| part(&format!(r#"{{"type":"image_url",{members}}}"#)).0;
    assert_eq!(image(r#""image_url":{"url":"data:,a","detail":"low"}"#), 85);
    assert_eq!(image(r#""image_url":"data:,a","detail":"low""#), 85);
    for other in ["high", "auto", "lower"] {
        let detail = format!(r#""image_url":{{"url":"low","detail":"{other}"}}"#);
        assert_eq!(image(&detail), 1_200, "{other}");
    }
    assert_eq!(image(r#""image_url":null,"detail":null"#), 1_200);
}

#[test]
fn calls_reasoning_and_refusals_count_in_addition_to_text() {
    let call = r#"{"id":"a","type":"function","function":{"name":"read","arguments":"12345678"}}"#;
    check(&format!(r#""content":"1234","tool_calls":[{call},{call}]"#), 7);
    // Counted as spelt, including quotation marks.
    check(r#""content":"1234","reasoning_content":"123456""#, 3);
    check(r#""content":"1234","refusal":"123456""#, 3);
    // Reasoning repeated under several keys counts once, at its longest.
    check(r#""reasoning_content":"123","reasoning":"123","reasoning_details":[{"text":"abc"}]"#, 4);
    check(r#""content":"1234","reasoning_content":null"#, 1);
}

#[test]
fn only_text_parts_are_text() {
    let body = message(
        r#""content":[{"type":"text","text":"seen"},{"type":"thinking","text":"thought"}]"#,
    );
    let conversation = read(body.as_bytes()).unwrap();
    let message = &conversation.messages()[0];
    assert_eq!(conversation.text(message), "seen");
    assert_eq!(message.text_tokens, Tokens::new(1));
}

#[test]
fn each_message_has_its_own_parts_and_calls() {
    let message = |at: u32| {
        format!(
            r#"{{"role":"assistant","content":[{{"type":"text","text":"step {at}"}}],"tool_calls":[
                {{"id":"{at}","function":{{"name":"read","arguments":"{at}"}}}}]}}"#
        )
    };
    let body = format!(r#"{{"messages":[{},{}]}}"#, message(1), message(2));
    let conversation = read(body.as_bytes()).unwrap();
    for (message, at) in conversation.messages().iter().zip(["1", "2"]) {
        assert_eq!(conversation.text(message), format!("step {at}"));
        let calls = conversation.calls(message).iter();
        let arguments = calls.map(|call| call.arguments.unwrap().decode(&body));
        assert_eq!(arguments.collect::<Vec<_>>(), [at]);
    }
}

#[test]
fn prompt_cache_key_is_read_only_if_it_is_a_string() {
    for (value, expect) in [(r#""k""#, Some("k")), ("null", None), ("7", None)] {
        let body = beside(&format!(r#""prompt_cache_key":{value},"#));
        let conversation = read(body.as_bytes()).unwrap();
        let key = conversation.params().prompt_cache_key;
        let key = key.map(|key| key.decode(&body));
        assert_eq!(key.as_deref(), expect, "{value}");
    }
}

#[test]
fn routing_and_thinking_params_keep_their_spelling() {
    let body = beside(
        r#""provider": {"order":["a"]},"temperature":1,"us\u0065r":"u","think":false,"reasoning":{"effort":"low"},"#,
    );
    let conversation = read(body.as_bytes()).unwrap();
    let envelope = conversation.params();
    let spelt = |pairs: &[(Literal, Span)]| {
        let pairs = pairs.iter();
        pairs
            .map(|(key, value)| format!("{}:{}", key.span().slice(&body), value.slice(&body)))
            .collect::<Vec<_>>()
    };
    assert_eq!(spelt(&envelope.routing), [r#""provider":{"order":["a"]}"#, r#""us\u0065r":"u""#]);
    assert_eq!(spelt(&envelope.thinking), [r#""think":false"#, r#""reasoning":{"effort":"low"}"#]);
}

#[test]
fn maps_known_roles_and_keeps_any_other_as_other() {
    for (name, expect) in [
        ("assistant", Role::Assistant),
        ("developer", Role::Developer),
        ("function", Role::Function),
        ("system", Role::System),
        ("tool", Role::Tool),
        (r"us\u0065r", Role::User),
        ("User", Role::Other),
        ("", Role::Other),
    ] {
        let body = format!(r#"{{"messages":[{{"role":"{name}","content":"a"}}]}}"#);
        let conversation = read(body.as_bytes()).unwrap();
        assert_eq!(conversation.messages()[0].role, expect, "{name}");
    }
}

#[test]
fn tool_and_function_schemas_are_counted_together() {
    let body = beside(r#""tools":[{"x":123}],"functions":[1,2,3,4],"#);
    let conversation = read(body.as_bytes()).unwrap();
    assert_eq!(conversation.params().tool_tokens, Tokens::new(2 + 2));
    // The message itself costs the overhead of every message.
    assert_eq!(conversation.tokens(), Tokens::new(2 + 2 + 4));
}

#[test]
fn only_a_stream_value_of_true_requests_streaming() {
    for (members, expect) in [
        (r#""stream":true,"#, true),
        (r#""stream":false,"#, false),
        (r#""stream":null,"#, false),
        (r#""stream":"true","#, false),
        ("", false),
    ] {
        let body = beside(members);
        let streaming = read(body.as_bytes()).unwrap().params().streaming;
        assert_eq!(streaming, expect, "{members}");
    }
}

#[test]
fn null_members_are_read_as_absent() {
    for members in [
        r#""content":null"#,
        r#""content":[{"type":null,"text":"a"},{"type":"text","text":null}]"#,
        r#""name":null"#,
        r#""tool_call_id":null"#,
        r#""tool_calls":null"#,
        r#""function_call":null"#,
        r#""tool_calls":[{"id":null,"function":{"name":null,"arguments":"{}"}}]"#,
    ] {
        assert_eq!(refused(&message(members)), None, "{members}");
    }
    assert_eq!(refused(&beside(r#""model":null,"#)), None);
    let cached = |value: &str| {
        let part = format!(r#"{{"type":"text","text":"a","cache_control":{value}}}"#);
        let body = message(&format!(r#""content":[{part}]"#));
        let conversation = read(body.as_bytes()).unwrap();
        let span = conversation.parts(&conversation.messages()[0])[0].cache_mark;
        span.map(|span| span.slice(&body).to_owned())
    };
    let ephemeral = r#"{"type":"ephemeral"}"#;
    assert_eq!(cached(ephemeral).as_deref(), Some(ephemeral));
    assert_eq!(cached("null"), None);
}

/// The names and arguments of the calls of a message with these members.
fn calls(members: &str) -> Vec<[Option<String>; 2]> {
    let body = message(members);
    let conversation = read(body.as_bytes()).unwrap();
    let calls = conversation.calls(&conversation.messages()[0]).iter();
    let spelt = |it: Option<Literal>| it.map(|it| it.decode(&body).into_owned());
    calls.map(|call| [call.name, call.arguments].map(spelt)).collect()
}

#[test]
fn reads_calls_in_old_and_new_format_with_the_inner_name() {
    let read = [["read", "{}"].map(|it| Some(it.to_owned()))];
    for members in [
        r#""tool_calls":[{"id":"a","function":{"name":"read","arguments":"{}"}}]"#,
        r#""tool_calls":[{"id":"a","name":"x","function":{"name":"read","arguments":"{}"}}]"#,
        r#""tool_calls":{"id":"a","function":{"name":"read","arguments":"{}"}}"#,
        r#""tool_calls":[{"id":"a","custom":{"name":"read","input":"{}"}}]"#,
        r#""function_call":{"name":"read","arguments":"{}"}"#,
    ] {
        assert_eq!(calls(members), read, "{members}");
    }
}

#[test]
fn call_function_or_arguments_of_another_type_are_left_unread() {
    assert_eq!(calls(r#""tool_calls":[{"id":"a","function":"read"}]"#), [[None, None]]);
    for arguments in [r#"{"path":"a.rs"}"#, "null", "[1]"] {
        let function = format!(r#"{{"name":"read","arguments":{arguments}}}"#);
        assert_eq!(
            calls(&format!(r#""tool_calls":[{{"id":"a","function":{function}}}]"#)),
            [[Some("read".to_owned()), None]]
        );
    }
}

#[test]
fn rejects_duplicate_keys_that_longhaul_reads() {
    for member in [
        r#""messages":[],"#,
        r#""model":"m","#,
        r#""max_tokens":1,"#,
        r#""max_completion_tokens":1,"#,
        r#""stream":true,"#,
    ] {
        let twice = format!("{{{}}}", member.repeat(2).trim_end_matches(','));
        assert_eq!(refused(&twice), Some(Bypass::Duplicate), "{member}");
    }
    for member in [
        r#""content":"a","#,
        r#""name":"a","#,
        r#""refusal":"a","#,
        r#""role":"user","#,
        r#""tool_call_id":"a","#,
        r#""tool_calls":[],"#,
        r#""function_call":{},"#,
    ] {
        let twice = message(member.repeat(2).trim_end_matches(','));
        assert_eq!(refused(&twice), Some(Bypass::Duplicate), "{member}");
    }
    for member in [r#""type":"text","#, r#""text":"a","#, r#""cache_control":{},"#] {
        let part = member.repeat(2);
        let twice = message(&format!(r#""content":[{{{}}}]"#, part.trim_end_matches(',')));
        assert_eq!(refused(&twice), Some(Bypass::Duplicate), "{member}");
    }
    for call in [
        r#"{"id":"a","id":"a"}"#,
        r#"{"function":{},"function":{}}"#,
        r#"{"function":{"name":"a","name":"a"}}"#,
        r#"{"function":{"arguments":"","arguments":""}}"#,
    ] {
        let twice = message(&format!(r#""tool_calls":[{call}]"#));
        assert_eq!(refused(&twice), Some(Bypass::Duplicate), "{call}");
    }
}

#[test]
fn keys_with_a_shared_meaning_may_occur_together() {
    for members in [
        r#""tools":[],"functions":[],"#,
        r#""user":"u","provider":{},"service_tier":"flex","#,
        r#""reasoning_effort":"low","thinking":{},"#,
        r#""max_tokens":1,"max_completion_tokens":1,"#,
    ] {
        assert_eq!(refused(&beside(members)), None, "{members}");
    }
    let thoughts = r#""reasoning":"a","reasoning_content":"a","reasoning_details":[]"#;
    assert_eq!(refused(&message(thoughts)), None);
}

#[test]
fn wrong_types_and_malformed_json_have_different_errors() {
    for (value, expect) in [("7", Bypass::Shape), ("-", Bypass::Malformed)] {
        for body in [
            format!(r#"{{"messages":{value}}}"#),
            format!(r#"{{"messages":[{value}]}}"#),
            format!(r#"{{"model":{value},"messages":[]}}"#),
            message(&format!(r#""content":{value}"#)),
            message(&format!(r#""content":[{value}]"#)),
            message(&format!(r#""name":{value}"#)),
            message(&format!(r#""tool_calls":{value}"#)),
            message(&format!(r#""tool_calls":[{value}]"#)),
        ] {
            assert_eq!(refused(&body), Some(expect), "{body}");
        }
    }
}

#[test]
fn rejects_an_overlong_model_name() {
    let named = |bytes| format!(r#"{{"model":"{}","messages":[]}}"#, "m".repeat(bytes));
    assert_eq!(refused(&named(510)), None);
    assert_eq!(refused(&named(511)), Some(Bypass::Shape));
}

#[test]
fn rejects_a_body_with_too_many_messages_parts_or_calls() {
    let many = |before: &str, piece: &str, pieces: usize, behind: &str| {
        let pieces = vec![piece; pieces].join(",");
        refused(&format!("{before}{pieces}{behind}"))
    };
    let messages = |count| many(r#"{"messages":["#, r#"{"role":""}"#, count, "]}");
    assert_eq!(messages(MAX_PIECES), None);
    assert_eq!(messages(MAX_PIECES + 1), Some(Bypass::TooLarge));
    for list in ["content", "tool_calls"] {
        let before = format!(r#"{{"messages":[{{"role":"assistant","{list}":["#);
        // Parts and calls count while their message is read, before the message itself does.
        assert_eq!(many(&before, "{}", MAX_PIECES, "]}]}"), None, "{list}");
        let refused = many(&before, "{}", MAX_PIECES + 1, "]}]}");
        assert_eq!(refused, Some(Bypass::TooLarge), "{list}");
    }
}
