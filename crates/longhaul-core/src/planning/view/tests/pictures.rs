//! Pictures of old results leave with the results of their step, in each API. Those of the user stay.

use super::*;
use crate::dialect::Dialect;
use crate::planning::splice::Splice;

/// A picture, in the form of an API.
const CHAT: &str = r#"{"type":"image_url","image_url":{"url":"data:image/png;base64,xxxxxxxxxx"}}"#;
const MESSAGES: &str =
    r#"{"type":"image","source":{"type":"base64","data":"xxxxxxxxxxxxxxxxxxxxx"}}"#;
const RESPONSES: &str =
    r#"{"type":"input_image","image_url":"data:image/png;base64,xxxxxxxxxxxxxx"}"#;

/// Forwards two steps, of which the older one is cleared. `older` is its result, with what follows.
fn forwarded(dialect: Dialect, older: &str) -> String {
    let step = |id: u8, result: &str| match dialect {
        Dialect::ChatCompletions => format!(
            r#"{{"role":"assistant","content":null,"tool_calls":[{{"id":"{id}","type":"function","function":{{"name":"f","arguments":"{{}}"}}}}]}},{{"role":"tool","tool_call_id":"{id}","content":{result}}}"#
        ),
        Dialect::Messages => format!(
            r#"{{"role":"assistant","content":[{{"type":"tool_use","id":"{id}","name":"f","input":{{}}}}]}},{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"{id}","content":{result}}}]}}"#
        ),
        Dialect::Responses => format!(
            r#"{{"type":"function_call","call_id":"{id}","name":"f","arguments":"{{}}"}},{{"type":"function_call_output","call_id":"{id}","output":{result}}}"#
        ),
    };
    let (key, user) = match dialect {
        Dialect::ChatCompletions => ("messages", CHAT),
        Dialect::Messages => ("messages", MESSAGES),
        Dialect::Responses => ("input", RESPONSES),
    };
    let user = format!(r#"{{"role":"user","content":[{user}]}}"#);
    let body = format!(r#"{{"{key}":[{user},{},{}]}}"#, step(1, older), step(2, older));
    let conversation = dialect.read(body.as_bytes()).unwrap();
    let newest = conversation.batches().last().unwrap().results.start;
    let view = cleared(&conversation, newest);
    let Some(cuts) = view.replacements(&conversation) else {
        return "nothing".to_owned();
    };
    let saved = conversation.tokens() - view.tokens(&conversation);
    assert!(saved > Tokens::new(1_000), "{saved}");
    let mut prune_state = PruneState::new(&conversation, Some(&rule()));
    prune_state.ingest_until(conversation.messages().len());
    prune_state.clear_before(newest);
    assert_eq!(prune_state.freed(), saved, "the fold measures what the view saves");
    let spliced = String::from_utf8(Splice::new(&conversation, &cuts).unwrap().apply()).unwrap();
    assert!(spliced.contains(&user) && spliced.ends_with(&format!("{}]}}", step(2, older))));
    let (before, after) = body.split_once(&step(1, older)).unwrap();
    spliced.strip_prefix(before).unwrap().strip_suffix(after).unwrap().to_owned()
}

#[test]
fn a_picture_in_a_result_leaves_with_and_without_text() {
    for (dialect, picture, text) in [
        (Dialect::ChatCompletions, CHAT, r#"{"type":"text","text":"#),
        (Dialect::Messages, MESSAGES, r#"{"type":"text","text":"#),
        (Dialect::Responses, RESPONSES, r#"{"type":"input_text","text":"#),
    ] {
        for content in [format!("[{picture}]"), format!(r#"[{text}"ok"}},{picture}]"#)] {
            let sent = forwarded(dialect, &content);
            let placeholder = format!(r#"[{text}"{CLEARED}"}}]"#);
            assert!(sent.contains(&placeholder) && !sent.contains(picture), "{sent}");
        }
    }
}

#[test]
fn pictures_that_a_client_shows_behind_results_leave_with_the_step() {
    let behind = |text: &str| {
        format!(
            r#""(see attached image)"}},{{"role":"user","content":[{{"type":"text","text":"{text}"}},{CHAT},{CHAT}]"#
        )
    };
    for shown in ["Attached image(s) from tool result:", "Attached media from tool result:"] {
        let sent = forwarded(Dialect::ChatCompletions, &behind(shown));
        let marker = r#"{"type":"text","text":"[image]"}"#;
        let expect = behind(shown).replace(CHAT, marker);
        assert!(sent.ends_with(&format!("{expect}}}")), "{sent}");
    }
    // A picture that the user attaches while tools run is the user's own.
    assert_eq!(forwarded(Dialect::ChatCompletions, &behind("Look at this:")), "nothing");
}
