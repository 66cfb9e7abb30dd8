//! Reader of request bodies: shapes, steps, boundaries and estimates.

use super::*;
use crate::conversation::HistoryKeeper::{Client, CompactingProvider, OrderedCompaction, Provider};
use crate::conversation::PartKind;
use crate::dialect::body_reader::MAX_PIECES;
use crate::json::span::Span;

/// A request body with these items.
fn items(items: &[&str]) -> String {
    format!(r#"{{"model":"m","input":[{}]}}"#, items.join(","))
}

fn refused(body: &str) -> Option<Bypass> {
    read(body.as_bytes()).err()
}

const USER: &str = r#"{"role":"user","content":"do it"}"#;
const REASONING: &str = r#"{"type":"reasoning","id":"rs_1","summary":[]}"#;
const CALL: &str = r#"{"type":"function_call","call_id":"c1","name":"read","arguments":"{}"}"#;
const OUTPUT: &str = r#"{"type":"function_call_output","call_id":"c1","output":"12 files"}"#;
const SECOND_CALL: &str =
    r#"{"type":"custom_tool_call","call_id":"c2","name":"patch","input":"diff"}"#;
const SECOND_OUTPUT: &str = r#"{"type":"custom_tool_call_output","call_id":"c2","output":"ok"}"#;
const SAID: &str =
    r#"{"type":"message","role":"assistant","content":[{"type":"output_text","text":"done"}]}"#;
const DEVELOPER: &str = r#"{"type":"message","role":"developer","content":"be brief"}"#;
const COMPACTION: &str = r#"{"type":"compaction","encrypted_content":"gAAA"}"#;
const REFERENCE: &str = r#"{"type":"item_reference","id":"msg_1"}"#;

#[track_caller]
fn check_boundaries(all: &[&str], expect: &[usize]) {
    let body = items(all);
    let conversation = read(body.as_bytes()).unwrap();
    assert_eq!(conversation.boundaries(), expect, "{body}");
}

fn roles(all: &[&str]) -> Vec<Role> {
    let body = items(all);
    let conversation = read(body.as_bytes()).unwrap();
    conversation.messages().iter().map(|it| it.role).collect()
}

#[test]
fn items_of_one_model_step_form_one_message() {
    let all = [USER, REASONING, SAID, CALL, SECOND_CALL, OUTPUT, SECOND_OUTPUT, SAID];
    let body = items(&all);
    let conversation = read(body.as_bytes()).unwrap();
    assert_eq!(roles(&all), [Role::User, Role::Assistant, Role::Tool, Role::Tool, Role::Assistant]);
    let step = &conversation.messages()[1];
    assert_eq!(conversation.text(step), "done");
    assert_eq!(conversation.calls(step).len(), 2);
    assert!(step.has_reasoning);
    assert_eq!(step.span.slice(&body), [REASONING, SAID, CALL, SECOND_CALL].join(","));
    let batch = &conversation.batches()[0];
    assert_eq!((batch.results.clone(), batch.complete_at), (2..4, Some(4)));
    let called = |at| {
        let call = conversation.call_for_result(batch, at).unwrap();
        call.name.unwrap().decode(&body).into_owned()
    };
    assert_eq!([called(2), called(3)], ["read", "patch"]);
    assert_eq!(conversation.text(&conversation.messages()[2]), "12 files");
}

#[test]
fn boundaries_lie_before_users_and_before_reasoning_after_outputs() {
    check_boundaries(&[USER, REASONING, CALL, OUTPUT, REASONING, SAID, USER], &[0, 1, 3, 4, 5]);
    // The call may belong to the reasoning before the first output.
    let interleaved = [USER, REASONING, CALL, OUTPUT, SECOND_CALL, SECOND_OUTPUT, SAID, USER];
    check_boundaries(&interleaved, &[0, 1, 6, 7]);
    // Without reasoning, every step stands alone.
    let plain = [USER, CALL, OUTPUT, SECOND_CALL, SECOND_OUTPUT, SAID, USER];
    check_boundaries(&plain, &[0, 1, 3, 5, 6, 7]);
    // Reasoning without the item that it needs.
    check_boundaries(&[USER, REASONING, USER], &[0, 1, 3]);
}

#[test]
fn a_call_and_its_output_stay_together_despite_items_between() {
    check_boundaries(&[USER, CALL, USER, SAID, USER, OUTPUT, SAID, USER], &[0, 1, 7, 8]);
    let inserted = [USER, CALL, DEVELOPER, OUTPUT, SAID];
    assert_eq!(roles(&inserted), [Role::User, Role::Assistant, Role::Tool, Role::Assistant]);
    let body = items(&inserted);
    let conversation = read(body.as_bytes()).unwrap();
    assert_eq!(conversation.text(&conversation.messages()[1]), "");
    assert_eq!(conversation.batches()[0].complete_at, Some(3));
    check_boundaries(&inserted, &[0, 1, 3, 4]);
    // The developer speaks between two steps of one turn.
    check_boundaries(&[USER, REASONING, CALL, OUTPUT, DEVELOPER, SAID], &[0, 1, 5]);
}

#[test]
fn references_and_unknown_items_have_no_boundary_beside_them() {
    check_boundaries(
        &[USER, REFERENCE, USER, REFERENCE, CALL, OUTPUT, REFERENCE, USER],
        &[0, 1, 2, 3, 6, 7],
    );
    let unknown = r#"{"type":"dream","id":"d_1"}"#;
    check_boundaries(&[USER, CALL, OUTPUT, unknown, SAID, USER], &[0, 1, 4, 5]);
    let bare = r#"{"id":"msg_1"}"#;
    check_boundaries(&[USER, bare, USER], &[0, 1, 2, 3]);
}

#[test]
fn everything_up_to_the_newest_compaction_is_head() {
    let all =
        [USER, CALL, OUTPUT, COMPACTION, DEVELOPER, COMPACTION, REASONING, CALL, OUTPUT, USER];
    let body = items(&all);
    let conversation = read(body.as_bytes()).unwrap();
    assert_eq!(conversation.head_len(), 6);
    assert_eq!(conversation.boundaries(), [6, 8, 9]);
    assert_eq!(conversation.batches().len(), 1);
    assert_eq!(conversation.messages()[2].role, Role::Other);
    let image = r#"{"role":"user","content":[{"type":"input_image","image_url":"u"}]}"#;
    let body = items(&[image, COMPACTION, image]);
    let conversation = read(body.as_bytes()).unwrap();
    let kind = |at: usize| conversation.parts(&conversation.messages()[at])[0].kind;
    assert_eq!((kind(0), kind(2)), (PartKind::Other, PartKind::Image));
}

#[test]
fn different_compactions_have_different_prefix_keys() {
    use crate::prefix::keys::PrefixKeys;
    let key = |compaction: &str| {
        let body = items(&[USER, compaction, USER, SAID]);
        let conversation = read(body.as_bytes()).unwrap();
        let keys = PrefixKeys::new(&conversation, Scope::new(&[0; 32], &[]));
        keys.newest().unwrap()
    };
    let other = r#"{"type":"compaction","encrypted_content":"gBBB"}"#;
    assert_eq!(key(COMPACTION), key(COMPACTION));
    assert_ne!(key(COMPACTION), key(other));
}

#[test]
fn no_boundary_separates_a_tool_definition_from_its_calls() {
    let search = r#"{"type":"tool_search_call","call_id":"s","arguments":{}}"#;
    let found = r#"{"type":"tool_search_output","call_id":"s","tools":[{"type":"function","name":"patch"}]}"#;
    check_boundaries(
        &[USER, search, found, SAID, USER, SECOND_CALL, SECOND_OUTPUT, SAID, USER],
        &[0, 1, 7, 8, 9],
    );
    check_boundaries(
        &[USER, search, found, SAID, USER, CALL, OUTPUT, SAID, USER],
        &[0, 1, 3, 4, 5, 7, 8, 9],
    );
}

#[test]
fn tool_definitions_in_the_head_prevent_no_boundary() {
    let tools = r#"{"type":"additional_tools","role":"developer","tools":[{"type":"function","name":"read"}]}"#;
    check_boundaries(&[tools, DEVELOPER, USER, CALL, OUTPUT, SAID, USER], &[2, 3, 5, 6, 7]);
}

#[test]
fn codex_context_messages_are_not_user_requests() {
    let context = r##"{"type":"message","role":"user","content":[{"type":"input_text","text":"# AGENTS.md instructions for /x\n\n<INSTRUCTIONS>x</INSTRUCTIONS>"},{"type":"input_text","text":"<environment_context>\n</environment_context>"}]}"##;
    assert_eq!(roles(&[DEVELOPER, context, USER])[1..], [Role::Developer, Role::User]);
    let body = items(&[DEVELOPER, context, USER]);
    assert_eq!(read(body.as_bytes()).unwrap().head_len(), 2);
    let asked = r#"{"role":"user","content":[{"type":"input_text","text":"<environment_context></environment_context>"},{"type":"input_text","text":"and now?"}]}"#;
    assert_eq!(roles(&[asked]), [Role::User]);
}

#[test]
fn detects_history_kept_or_compacted_by_the_provider() {
    let history = |members: &str, input: &str| {
        let body = format!(r#"{{{members}"input":{input}}}"#);
        read(body.as_bytes()).unwrap().params().history
    };
    for (members, expect) in [
        ("", Client),
        (r#""previous_response_id":"resp_1","#, Provider),
        (r#""previous_response_id":null,"conversation":null,"#, Client),
        (r#""conversation":{"id":"conv_1"},"#, Provider),
        (r#""context_management":[{"type":"compaction"}],"#, CompactingProvider),
        (r#""context_management":[],"truncation":"auto","#, Client),
        (r#""context_management":[1],"conversation":"c","#, Provider),
    ] {
        assert_eq!(history(members, r#""hi""#), expect, "{members}");
    }
    let trigger = format!(r#"[{USER},{{"type":"compaction_trigger"}}]"#);
    assert_eq!(history("", &trigger), OrderedCompaction);
    assert_eq!(history(r#""conversation":"c","#, &trigger), Provider);
    assert_eq!(refused(r#"{"previous_response_id":"resp_1"}"#), None);
}

#[test]
fn provider_side_context_makes_a_request_partial() {
    for (members, input, expect) in [
        ("", USER, false),
        (r#""prompt":null,"#, USER, false),
        (r#""prompt":{"id":"p"},"#, USER, true),
        (r#""conversation":"c","#, USER, true),
        ("", REFERENCE, true),
        ("", r#"{"id":"msg_1"}"#, true),
        ("", REASONING, false),
    ] {
        let body = format!(r#"{{{members}"input":[{input}]}}"#);
        let conversation = read(body.as_bytes()).unwrap();
        assert_eq!(conversation.params().is_partial, expect, "{body}");
    }
}

#[test]
fn input_must_be_a_string_or_an_array_of_items() {
    let body = r#"{"input":"hi","instructions":"12345678","tools":[{"x":1}],"max_output_tokens":16,"stream":true}"#;
    let conversation = read(body.as_bytes()).unwrap();
    assert_eq!(conversation.text(&conversation.messages()[0]), "hi");
    let params = conversation.params();
    assert_eq!(params.instructions.unwrap().decode(body), "12345678");
    assert_eq!(params.tool_tokens, Tokens::new(2 + 2));
    assert_eq!(conversation.output_tokens(), Some(Tokens::new(16)));
    assert!(params.streaming);
    for (body, expect) in [
        (r#"{"input":7}"#, Bypass::Shape),
        (r#"{"input":[7]}"#, Bypass::Shape),
        (r#"{"input":null}"#, Bypass::Shape),
        (r#"{"model":"m"}"#, Bypass::Shape),
        (r#"{"input":"a","messages":[]}"#, Bypass::Shape),
        (r#"{"input":"a","model":7}"#, Bypass::Shape),
        (r#"{"input":"a","instructions":[]}"#, Bypass::Shape),
        ("[]", Bypass::Shape),
        (r#"{"input":[-]}"#, Bypass::Malformed),
        (r#"{"input":"a","#, Bypass::Malformed),
    ] {
        assert_eq!(refused(body), Some(expect), "{body}");
    }
}

#[test]
fn only_items_that_longhaul_changes_are_validated_strictly() {
    let output = |value: &str| {
        items(&[&format!(r#"{{"type":"function_call_output","call_id":"c","output":{value}}}"#)])
    };
    for (value, expect) in [
        ("null", None),
        ("[]", None),
        (r#""""#, None),
        ("7", Some(Bypass::Shape)),
        (r#"["a"]"#, Some(Bypass::Shape)),
        (r#"{"text":"a"}"#, Some(Bypass::Shape)),
    ] {
        assert_eq!(refused(&output(value)), expect, "{value}");
    }
    for odd in [
        r#"{"type":"computer_call_output","call_id":"c","output":{"type":"computer_screenshot"}}"#,
        r#"{"type":"dream","content":["a",7],"output":{"a":1}}"#,
        r#"{"type":"reasoning","content":[7],"summary":7}"#,
        r#"{"type":"function_call","call_id":"c","name":"f","arguments":{"a":1}}"#,
        r#"{"type":"mcp_call","output":"a","arguments":"{}"}"#,
        "{}",
    ] {
        assert_eq!(refused(&items(&[odd])), None, "{odd}");
    }
    assert_eq!(refused(&items(&[r#"{"type":"message","content":"a"}"#])), Some(Bypass::Shape));
    for twice in [
        r#"{"type":"message","type":"message","role":"user","content":"a"}"#,
        r#"{"role":"user","content":"a","content":"b"}"#,
        r#"{"type":"function_call_output","call_id":"c","output":"a","outp\u0075t":"b"}"#,
        r#"{"role":"user","content":[{"type":"input_text","text":"a","text":"b"}]}"#,
    ] {
        assert_eq!(refused(&items(&[twice])), Some(Bypass::Duplicate), "{twice}");
    }
    assert_eq!(refused(r#"{"input":"a","input":"b"}"#), Some(Bypass::Duplicate));
}

#[test]
fn shell_chunks_are_read_as_text_and_other_outputs_are_opaque() {
    let shell = r#"{"type":"shell_call_output","call_id":"c","output":[{"stdout":"one ","stderr":"","outcome":{"type":"timeout"}},{"stderr":"three","stdout":"two ","outcome":{}}]}"#;
    let body = items(&[shell]);
    let conversation = read(body.as_bytes()).unwrap();
    assert_eq!(conversation.text(&conversation.messages()[0]), "one threetwo ");
    let local = r#"{"type":"local_shell_call_output","id":"c","call_id":"c","output":"{\"output\":\"long\"}"}"#;
    let body = items(&[local]);
    let conversation = read(body.as_bytes()).unwrap();
    let message = &conversation.messages()[0];
    assert_eq!((conversation.text(message).as_ref(), message.role), ("", Role::Tool));
    assert!(message.tokens > Tokens::new(4));
}

#[test]
fn an_output_of_a_local_shell_may_name_either_id_of_its_call() {
    let call = r#"{"type":"local_shell_call","id":"lsh_1","call_id":"call_1","action":{"type":"exec","command":["ls"]},"status":"completed"}"#;
    let output =
        |ids: &str| format!(r#"{{"type":"local_shell_call_output",{ids},"output":"\"{{}}\""}}"#);
    for (ids, is_paired) in [
        (r#""call_id":"call_1""#, true),
        (r#""id":"call_1""#, true),
        (r#""id":"lsh_1""#, true),
        (r#""id" : "lsh_1","status":"completed""#, true),
        (r#""id":"lsh_1","call_id":"call_1""#, true),
        (r#""id":"lsh_2""#, false),
        (r#""id":"lsh_1","call_id":"lsh_1""#, false),
    ] {
        let output = output(ids);
        let body = items(&[USER, call, &output, USER, SAID]);
        let conversation = read(body.as_bytes()).unwrap();
        let batch = &conversation.batches()[0];
        let found = (batch.complete_at, batch.call_index(2));
        let expect = if is_paired { (Some(3), Some(0)) } else { (None, None) };
        assert_eq!(found, expect, "{ids}");
        if is_paired {
            check_boundaries(&[USER, call, USER, &output, USER, SAID], &[0, 1, 5, 6]);
        }
    }
}

#[test]
fn encrypted_content_counts_its_estimated_plain_text() {
    let tokens = |item: &str| {
        let body = items(&[item]);
        read(body.as_bytes()).unwrap().messages()[0].tokens
    };
    let encrypted = "g".repeat(2_000);
    let cost = Tokens::new(4 + 212);
    for kind in ["reasoning", "compaction"] {
        let item = format!(r#"{{"type":"{kind}","encrypted_content":"{encrypted}","summary":[]}}"#);
        assert_eq!(tokens(&item), cost, "{kind}");
    }
    assert!(tokens(REASONING) > Tokens::new(4));
}

#[test]
fn cached_parse_equals_a_fresh_parse() {
    let cache = ParseCache::new(Scope::new(&[1; 32], &[]));
    let scope = Scope::new(&[0; 32], &[]);
    let all = [
        DEVELOPER,
        USER,
        REASONING,
        SAID,
        CALL,
        DEVELOPER,
        SECOND_CALL,
        OUTPUT,
        SECOND_OUTPUT,
        COMPACTION,
        REFERENCE,
        USER,
        REASONING,
        CALL,
        OUTPUT,
        SAID,
    ];
    for end in [4, 9, 12, all.len(), all.len()] {
        let body = items(&all[..end]);
        let plain = read(body.as_bytes()).unwrap();
        let cached = read_with(body.as_bytes(), Some((scope, &cache))).unwrap();
        assert_eq!(plain.boundaries(), cached.boundaries());
        let facts = |it: &Conversation<'_>| -> Vec<(Span, Role, Tokens, String)> {
            let messages = it.messages().iter();
            let fact = |message: &Message| {
                (message.span, message.role, message.tokens, it.text(message).into_owned())
            };
            messages.map(fact).collect()
        };
        assert_eq!(facts(&plain), facts(&cached));
        let keys = |it| crate::prefix::keys::PrefixKeys::new(it, scope).newest();
        assert_eq!(keys(&plain), keys(&cached));
    }
}

#[test]
fn no_cut_separates_a_running_program_from_its_calls() {
    let program = r#"{"type":"program","call_id":"p","code":"","id":"pg"}"#;
    let caller = r#"{"caller":{"type":"program","caller_id":"p"},"type""#;
    let call = CALL.replace(r#"{"type""#, caller);
    let [second, third] = ["c2", "c3"].map(|id| (call.replace("c1", id), OUTPUT.replace("c1", id)));
    let all = [USER, program, &call, OUTPUT, &second.0, &second.1, &third.0, &third.1];
    check_boundaries(&all, &[0, 1, 7]);
}

#[test]
fn no_cut_separates_an_answer_from_what_it_may_answer() {
    let shell = r#"{"type":"shell_call_output","call_id":"s","output":[]}"#;
    check_boundaries(&[USER, REFERENCE, USER, shell, USER, SAID], &[0, 1, 5, 6]);
    let request = r#"{"type":"mcp_approval_request","id":"m","name":"f","arguments":"{}","server_label":"s"}"#;
    let response = r#"{"type":"mcp_approval_response","approval_request_id":"m","approve":true}"#;
    check_boundaries(&[USER, request, USER, response, USER], &[0, 1, 5]);
}

#[test]
fn a_result_behind_the_head_belongs_to_the_head() {
    let body = items(&[USER, CALL, COMPACTION, OUTPUT, USER, SAID]);
    let conversation = read(body.as_bytes()).unwrap();
    let policy = crate::policy::Policy::new(
        &crate::policy::CompactionSettings::default(),
        Tokens::new(32_000),
    );
    let head = crate::policy::cut_point::PinnedHead::new(&conversation, &policy, None);
    assert_eq!((conversation.head_len(), head.end), (3, 4));
}

#[test]
fn rejects_a_body_with_too_many_items() {
    let many = |piece: &str, count: usize| {
        let pieces = vec![piece; count].join(",");
        refused(&format!(r#"{{"input":[{pieces}]}}"#))
    };
    // Each of these is a message with one part.
    assert_eq!(many("{}", MAX_PIECES / 2), None);
    assert_eq!(many("{}", MAX_PIECES / 2 + 1), Some(Bypass::TooLarge));
}
