//! Calls of the tools that agents have, and files that count as shown.

use super::*;

fn check(name: &str, parameters: &Value, arguments: Option<Value>) {
    let reading = FileReading { files: vec![PathBuf::from("/a/part-01.txt")], pause: None };
    let body = json!({"tools": [
        {"type": "function", "function": {"name": "think", "parameters": {}}},
        {"type": "function", "function": {"name": name, "parameters": parameters}}]});
    let chat = ChatBody::parse(body.to_string().as_bytes()).unwrap();
    let read = arguments.map(|arguments| ReadStep::Read(name.to_owned(), arguments));
    let ended = read.is_some().then_some(ReadStep::End);
    assert_eq!(reading.step(&chat, 0), read);
    assert_eq!(reading.step(&chat, 1), ended);
}

#[test]
fn a_read_call_gets_the_path_and_only_required_arguments() {
    let schema = json!({"properties": {"filePath": {"type": "string"}, "offset": {"type": "number"}},
        "required": ["filePath"]});
    check("Read", &schema, Some(json!({"filePath": "/a/part-01.txt"})));
    let schema = json!({"properties": {"absolute_path": {}, "limit": {"type": "integer", "minimum": 5}},
        "required": ["absolute_path", "limit"]});
    let told = json!({"absolute_path": "/a/part-01.txt", "limit": 5});
    check("read_file", &schema, Some(told));
}

#[test]
fn a_shell_tool_gets_a_command() {
    let schema = json!({"properties": {"command": {"type": "string"}, "description": {"type": "string"},
        "is_background": {"type": "boolean"}},
        "required": ["command", "description", "is_background"]});
    let told = json!({"command": "cat /a/part-01.txt", "description": "Read the next part",
        "is_background": false});
    check("run_shell_command", &schema, Some(told));
}

#[test]
fn makes_no_call_without_a_reading_tool() {
    check("write_file", &json!({"required": ["path"]}), None);
}

#[test]
fn a_part_counts_once_and_only_whole_in_an_accepted_chat() {
    let folder = tempfile::tempdir().unwrap();
    let reading = FileReading::write(folder.path(), 2).unwrap();
    let text = fs::read_to_string(reading.files.first().unwrap()).unwrap();
    let seen = |content: &str, verdict| {
        let turn = crate::judged_request::JudgedRequest::not_a_chat("/");
        let body = json!({"messages": [{"role": "tool", "content": content}]});
        SeenRequest { kind: RequestKind::Chat, verdict, body: body.to_string().into(), ..turn.seen }
    };
    let density = TokenDensity::STANDARD;
    let cut = text.replace("line 050", "line");
    let none = [seen(&text, Verdict::Overflowed), seen(&cut, Verdict::Accepted)];
    assert_eq!(reading.shown_tokens(density, &none), 0);
    let twice = [seen(&text, Verdict::Accepted), seen(&text, Verdict::Accepted)];
    assert_eq!(reading.shown_tokens(density, &twice), density.text_tokens(&text));
    assert!((2_500..4_000).contains(&density.text_tokens(&text)));
}
