//! Recorded sessions, whose reasoning the model did not issue, with and without edits. An oracle keeps whole
//! copies of what stood before each item, and no hashes.

use std::collections::HashSet;
use std::fs;
use std::io::Read;
use std::path::PathBuf;

use flate2::read::GzDecoder;
use serde_json::{Value, json};

use crate::model_state::ModelState;
use crate::options::ModelOptions;
use crate::record::Verdict;
use crate::request::{Api, Caller, list, member, role};
use crate::thinking::{PreservedThinking, ThinkingRules};

/// The maximum number of items of a session: the oracle keeps as many copies.
const ITEMS: usize = 180;

/// Opens the recorded sessions of a folder.
fn sessions(folder: &str) -> Vec<(String, Value)> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/");
    let files = fs::read_dir(format!("{root}{folder}")).unwrap();
    let mut files: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|ending| ending == "gz"));
    files.sort();
    let open = |file: &PathBuf| {
        let (mut body, bytes) = (Vec::new(), fs::read(file).unwrap());
        GzDecoder::new(&*bytes).read_to_end(&mut body).unwrap();
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        (name, serde_json::from_slice(&body).unwrap())
    };
    files.iter().map(open).collect()
}

/// Whether the model made an item.
fn is_made(item: &Value) -> bool {
    let kind = member(item, "type").as_str().unwrap_or("message");
    role(item) == "assistant" || kind != "message" && !kind.ends_with("_output")
}

/// Returns the numbers of items at which the client asked the model.
fn points(items: &[Value]) -> Vec<usize> {
    let ids = |items: &[Value], ending: &str| -> HashSet<String> {
        let items = items.iter().filter(|item| {
            member(item, "type").as_str().is_some_and(|kind| kind.ends_with(ending))
        });
        items.filter_map(|item| member(item, "call_id").as_str().map(str::to_owned)).collect()
    };
    let first = items.iter().rposition(|item| member(item, "type") == "compaction");
    let first = first.map_or(1, |at| at + 2);
    let is_point = |end: &usize| {
        let is_asked = !is_made(&items[end - 1]) && items.get(*end).is_none_or(is_made);
        is_asked && ids(&items[..*end], "_call").is_subset(&ids(&items[..*end], "_output"))
    };
    (first..=items.len()).filter(is_point).collect()
}

/// A provider that keeps a copy of what stood before each item.
#[derive(Default)]
struct Oracle {
    /// For each item of the session, what stood before it; `None` if before the first request.
    before: Vec<Option<Vec<Value>>>,
}

impl Oracle {
    /// Returns the items that do not hold in `given`, which stands for the first items of the session.
    fn lost(&self, given: &[Value], is_bound: impl Fn(&Value) -> bool) -> Vec<usize> {
        let is_lost = |at: &usize| {
            let before = self.before.get(*at).and_then(Option::as_ref);
            is_bound(&given[*at]) && before.is_some_and(|before| before[..] != given[..*at])
        };
        (0..given.len()).filter(is_lost).collect()
    }

    /// Receives `given`, to which the model answers with the rest up to the next request.
    fn receive(&mut self, given: &[Value], session: &[Value]) {
        self.before.resize(given.len(), None);
        let mut before = given.to_vec();
        for item in &session[given.len()..] {
            self.before.push(Some(before.clone()));
            before.push(item.clone());
        }
    }
}

#[test]
fn recorded_reasoning_is_dropped_exactly_behind_edits() {
    let (mut lost, mut kept) = (0, 0);
    for (name, mut body) in sessions("sessions_responses") {
        body["model"] = json!("gpt-6.2-sol");
        let mut items = list(&body["input"]).to_vec();
        for (at, item) in items.iter_mut().enumerate() {
            if member(item, "type") == "reasoning" {
                item["encrypted_content"] = json!(format!("sealed {at}"));
            }
        }
        if items.len() > ITEMS {
            continue;
        }
        let points = points(&items);
        for edits in [&[][..], &[4, 3], &[8, 4, 2]] {
            let model = ModelState::new(ModelOptions::with_window(100_000_000));
            let mut oracle = Oracle::default();
            for (nth, &end) in points.iter().enumerate() {
                let mut given = items[..end].to_vec();
                // From its part of the session on, an edit stands a little before the end.
                for (edit, part) in edits.iter().enumerate() {
                    let since = points.len() / part;
                    if nth >= since && since > 0 {
                        let end = points[since - 1];
                        let outputs = given[..end].iter_mut().rev();
                        let mut outputs = outputs.filter(|item| item.get("output").is_some());
                        if let Some(output) = outputs.nth(3 + edit) {
                            output["output"] = json!("[cleared]");
                        }
                    }
                }
                body["input"] = json!(given);
                let sent = body.to_string().into();
                let judged = model.judge(Api::Responses, &sent, Caller::default());
                assert_eq!(judged.seen.verdict, Verdict::Accepted, "{name} {end}");
                let dropped: Vec<usize> = judged.seen.dropped.iter().map(|it| it.place.0).collect();
                let is_bound = |item: &Value| member(item, "type") == "reasoning";
                let expect = oracle.lost(&given, is_bound);
                assert_eq!(dropped, expect, "{name} {edits:?} {end}");
                lost += expect.len();
                kept += given.iter().filter(|item| is_bound(item)).count() - expect.len();
                oracle.receive(&given, &items[..points.get(nth + 1).copied().unwrap_or(end)]);
            }
        }
    }
    assert!(lost > 500 && kept > 1_000, "{lost} {kept}");
}

#[test]
fn recorded_thinking_is_dropped_from_the_first_edit_on() {
    let (mut lost, mut kept) = (0, 0);
    let mut sessions = sessions("messages/sessions");
    let thinks = |body: &Value| body.to_string().matches("\"signature\":").count() > 20;
    sessions.retain(|(_, body)| thinks(body) && list(&body["messages"]).len() < ITEMS);
    for (name, mut body) in sessions {
        body["model"] = json!("claude-opus-5-5");
        body["thinking"] = json!({"type": "adaptive",
            "block_binding": {"prefix_mismatch_behavior": "drop_block"}});
        let mut messages = list(&body["messages"]).to_vec();
        for (at, message) in messages.iter_mut().enumerate() {
            for block in message["content"].as_array_mut().into_iter().flatten() {
                for seal in ["signature", "data"] {
                    if let Some(seal) = block.get_mut(seal) {
                        *seal = json!(format!("sealed {at} {seal}"));
                    }
                }
            }
        }
        let is_thinking = |block: &Value| {
            let kind = member(block, "type").as_str().unwrap_or_default();
            matches!(kind, "redacted_thinking" | "thinking")
        };
        let ends = (1..=messages.len()).filter(|end| role(&messages[end - 1]) == "user");
        let ends: Vec<usize> = ends.collect();
        for edited in [false, true] {
            let thinking = ThinkingRules::ByModel(PreservedThinking::default());
            let options = ModelOptions { thinking, ..ModelOptions::with_window(100_000_000) };
            let model = ModelState::new(options);
            let caller = Caller {
                betas: vec!["thinking-binding-controls-2026-08-01".to_owned()],
                ..Caller::default()
            };
            let since = ends.len() / 2;
            for (nth, &end) in ends.iter().enumerate() {
                let mut given = messages[..end].to_vec();
                let edit = (edited && nth >= since).then(|| ends[since / 2] - 1);
                if let Some(edit) = edit {
                    let cleared = json!({"type": "text", "text": "[cleared]"});
                    match given[edit]["content"].as_array_mut() {
                        Some(blocks) => blocks.push(cleared),
                        None => given[edit]["content"] = json!([cleared]),
                    }
                }
                body["messages"] = json!(given);
                let sent = body.to_string().into();
                let judged = model.judge(Api::Messages, &sent, caller.clone());
                assert_eq!(judged.seen.verdict, Verdict::Accepted, "{name} {end}");
                let thinks = given.iter().enumerate().flat_map(|(at, message)| {
                    let blocks = list(member(message, "content")).iter().enumerate();
                    let blocks = blocks.filter(|(_, block)| is_thinking(block));
                    blocks.map(move |(block, _)| (at, block)).collect::<Vec<_>>()
                });
                let expect: Vec<_> =
                    thinks.clone().filter(|(at, _)| edit.is_some_and(|edit| *at > edit)).collect();
                let dropped: Vec<_> = judged.seen.dropped.iter().map(|it| it.place).collect();
                assert_eq!(dropped, expect, "{name} {edited} {end}");
                lost += expect.len();
                kept += thinks.count() - expect.len();
            }
        }
    }
    assert!(lost > 500 && kept > 1_000, "{lost} {kept}");
}
