//! Tests of reading and comparing steps.

use super::*;
use serde_json::{Value, json};

/// A tool call by name and arguments.
type Call<'a> = (&'a str, Value);

/// Replies with these calls and this text, in each dialect.
fn replies(calls: &[Call<'_>], text: &str, is_cut: bool) -> [(Dialect, Value); 3] {
    let chat_calls: Vec<Value> = calls
        .iter()
        .enumerate()
        .map(|(at, (name, arguments))| {
            json!({"id": format!("c{at}"), "type": "function",
                "function": {"name": name, "arguments": arguments.to_string()}})
        })
        .collect();
    let content = (!text.is_empty()).then_some(text);
    let mut message = json!({"role": "assistant", "content": content, "refusal": null,
        "reasoning_content": "Which file?"});
    if !chat_calls.is_empty() {
        message["tool_calls"] = chat_calls.into();
    }
    let finish = match (is_cut, calls.is_empty()) {
        (true, _) => "length",
        (false, true) => "stop",
        (false, false) => "tool_calls",
    };
    let chat = json!({"choices": [{"message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 3}});
    let mut blocks = vec![json!({"type": "thinking", "thinking": "Which?", "signature": "x"})];
    if !text.is_empty() {
        blocks.push(json!({"type": "text", "text": text}));
    }
    blocks.extend(calls.iter().enumerate().map(|(at, (name, input))| {
        json!({"type": "tool_use", "id": format!("t{at}"), "name": name, "input": input})
    }));
    let stop = if is_cut { "max_tokens" } else { "end_turn" };
    let messages = json!({"type": "message", "role": "assistant", "content": blocks,
        "stop_reason": stop, "usage": {"input_tokens": 7, "output_tokens": 3}});
    let mut output = vec![json!({"type": "reasoning", "id": "r", "summary": []})];
    if !text.is_empty() {
        output.push(json!({"type": "message", "role": "assistant",
            "content": [{"type": "output_text", "text": text}]}));
    }
    output.extend(calls.iter().enumerate().map(|(at, (name, arguments))| {
        json!({"type": "function_call", "call_id": format!("f{at}"), "name": name,
            "arguments": arguments.to_string()})
    }));
    let mut responses = json!({"object": "response", "status": "completed", "output": output,
        "usage": {"input_tokens": 7, "output_tokens": 3}});
    if is_cut {
        responses["status"] = "incomplete".into();
        responses["incomplete_details"] = json!({"reason": "max_output_tokens"});
    }
    [
        (Dialect::ChatCompletions, chat),
        (Dialect::Messages, messages),
        (Dialect::Responses, responses),
    ]
}

/// Reads the step of each dialect, which must be the same.
fn read(calls: &[Call<'_>], text: &str, is_cut: bool) -> AgentStep {
    let mut steps = replies(calls, text, is_cut).map(|(dialect, reply)| {
        let reply = reply.to_string();
        let usage = read_step(dialect, reply.as_bytes()).unwrap().usage.unwrap();
        let step = AgentStep::read(dialect, reply.as_bytes())
            .unwrap_or_else(|| panic!("no step of {dialect:?}: {reply}"));
        assert_eq!((usage.input, usage.output), (7, Some(3)), "{dialect:?}");
        step
    });
    assert_eq!(steps[0], steps[1]);
    assert_eq!(steps[0], steps[2]);
    std::mem::replace(
        &mut steps[0],
        AgentStep {
            kind: StepKind::Text,
            calls: Vec::new(),
            files: BTreeSet::new(),
            text: String::new(),
        },
    )
}

fn call(name: &str, arguments: Value) -> AgentStep {
    read(&[(name, arguments)], "", false)
}

#[test]
fn a_step_is_the_same_in_every_dialect() {
    let step = read(&[("read_file", json!({"path": "./src//a.rs"}))], "Reading.", false);
    assert_eq!(step.kind, StepKind::Calls);
    assert_eq!(step.calls[0].tool, "read_file");
    assert_eq!(step.calls[0].main_argument, "src//a.rs");
    assert_eq!(step.files.iter().collect::<Vec<_>>(), [&"src//a.rs".to_owned()]);
    assert_eq!(step.text, "Reading.");
}

#[test]
fn the_main_argument_is_the_path_then_the_command_then_any_text() {
    let main = |arguments: Value| call("t", arguments).calls[0].main_argument.clone();
    assert_eq!(main(json!({"old": "x", "file_path": "/a/b/"})), "/a/b");
    assert_eq!(main(json!({"workdir": "/w", "command": ["ls", "-l"]})), "ls -l");
    assert_eq!(main(json!({"cmd": "git   diff\n"})), "git diff");
    assert_eq!(main(json!({"n": 1, "query": "x y"})), "x y");
    assert_eq!(main(json!({"b": 2, "a": true})), "a=true b=2");
    assert_eq!(main(json!({})), "");
}

#[test]
fn text_ends_in_a_question_or_begins_with_a_refusal_or_is_neither() {
    for (text, kind) in [
        ("Which file do you mean?", StepKind::Question),
        ("Done. **Shall I go on?**\n", StepKind::Question),
        ("どのファイルですか？", StepKind::Question),
        ("What is this? It is a parser.", StepKind::Text),
        ("I’m sorry, but I can't help with that.", StepKind::Refusal),
        ("I cannot see the file any more. Which one?", StepKind::Refusal),
        ("Das kann ich nicht tun.", StepKind::Refusal),
        ("Désolé, mais je ne peux pas continuer.", StepKind::Refusal),
        ("Lo siento, pero no puedo hacerlo.", StepKind::Refusal),
        ("К сожалению, я не могу это сделать.", StepKind::Refusal),
        ("抱歉，我无法继续。", StepKind::Refusal),
        ("抱歉，我看错了文件。现在修改。", StepKind::Text),
        ("申し訳ありませんが、お答えできません。", StepKind::Refusal),
        ("죄송하지만 도와드릴 수 없습니다.", StepKind::Refusal),
        ("All tests pass.", StepKind::Text),
    ] {
        assert_eq!(read(&[], text, false).kind, kind, "{text}");
    }
}

#[test]
fn a_refusal_that_the_api_marks_needs_no_words() {
    let chat = json!({"choices": [{"message": {"role": "assistant", "content": null,
        "refusal": "No."}, "finish_reason": "stop"}]});
    let messages = json!({"type": "message", "content": [], "stop_reason": "refusal"});
    let responses = json!({"object": "response", "status": "completed", "output": [{
        "type": "message", "role": "assistant",
        "content": [{"type": "refusal", "refusal": "No."}]}]});
    for (dialect, reply) in [
        (Dialect::ChatCompletions, chat),
        (Dialect::Messages, messages),
        (Dialect::Responses, responses),
    ] {
        let step = AgentStep::read(dialect, reply.to_string().as_bytes()).unwrap();
        assert_eq!(step.kind, StepKind::Refusal, "{dialect:?}");
    }
}

#[test]
fn a_reply_without_a_whole_text_or_call_is_cut_off() {
    assert_eq!(read(&[], "", true).kind, StepKind::CutOff);
    assert_eq!(read(&[], "Half a", true).kind, StepKind::Text);
    assert_eq!(read(&[("t", json!({"a": "b"}))], "", true).kind, StepKind::Calls);
    let half = json!({"choices": [{"finish_reason": "length", "message": {"role": "assistant",
        "tool_calls": [{"id": "c", "type": "function",
            "function": {"name": "t", "arguments": "{\"path\": \"a"}}]}}]});
    let step = AgentStep::read(Dialect::ChatCompletions, half.to_string().as_bytes()).unwrap();
    assert_eq!(step.kind, StepKind::CutOff);
}

#[test]
fn comparison_looks_at_tools_arguments_files_and_kind() {
    let read_a = call("read_file", json!({"path": "a.rs"}));
    let read_b = call("read_file", json!({"path": "b.rs"}));
    let edit_a = call("edit_file", json!({"path": "a.rs", "old": "x"}));
    let asks = read(&[], "Which file?", false);
    let says = read(&[], "It is done.", false);
    let check = |one: &AgentStep, other: &AgentStep, expect: [bool; 5]| {
        for found in [one.compare(other), other.compare(one)] {
            let shared = [
                found.is_same_step(),
                found.same_kind,
                found.same_tools,
                found.same_arguments,
                found.same_files,
            ];
            assert_eq!(shared, expect, "{one:?} {other:?}");
        }
    };
    check(&read_a, &read_a, [true; 5]);
    check(&read_a, &read_b, [false, true, true, false, false]);
    check(&read_a, &edit_a, [false, true, false, false, true]);
    check(&read_a, &asks, [false; 5]);
    check(&asks, &says, [false, false, true, true, true]);
    check(&says, &read(&[], "Other words.", false), [true, true, true, true, true]);
}

#[test]
fn calls_in_another_order_are_the_same_step() {
    let both = |one: &str, other: &str| {
        let path = |path: &str| json!({ "path": path });
        read(&[("read_file", path(one)), ("read_file", path(other))], "", false)
    };
    assert!(both("a", "b").compare(&both("b", "a")).is_same_step());
    assert!(!both("a", "b").compare(&both("a", "c")).is_same_step());
}

#[test]
fn a_patch_names_its_files() {
    let patch = "*** Begin Patch\n*** Update File: a.rs\n@@\n*** Add File: b.rs\n*** End Patch";
    let step = call("apply_patch", json!({ "input": patch }));
    let files: Vec<&str> = step.files.iter().map(String::as_str).collect();
    assert_eq!(files, ["a.rs", "b.rs"]);
}

#[test]
fn a_command_names_the_files_that_it_prints() {
    let command = "bash -lc 'cat src/a.rs | head -n 5' && sed -n 1p .env; rm b.rs; nl c.rs > d.rs";
    let files: Vec<&str> = printed_files(command).collect();
    assert_eq!(files, ["src/a.rs", ".env", "c.rs"]);
}
