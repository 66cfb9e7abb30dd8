//! Tests of frozen segments: a record and the history alone give the same bytes.

use super::*;
use crate::planning::splice::Splice;
use crate::policy::record::CompactionRecord;
use crate::policy::segments::{SegmentForm, SegmentedText};
use serde_json::{Value, json};

/// Number of steps: about twenty windows.
const STEPS: usize = 600;
const WINDOW: u32 = 16_000;

/// Returns the messages of a session with a request every ten steps. With `marks`, the client marks the
/// newest request for the provider's cache.
fn session(steps: usize) -> Vec<Value> {
    let mut messages = vec![json!({"role": "system", "content": "s"})];
    for at in 0..steps {
        if at % 10 == 0 {
            let text = format!("task {at}: fix ISSUE-{}", 4_000 + 37 * at);
            messages.push(json!({"role": "user", "content": text}));
        }
        let arguments = json!({"path": format!("src/part_{at}.rs")}).to_string();
        let call = json!({"id": format!("c{at}"),
            "function": {"name": "read", "arguments": arguments}});
        messages.push(
            json!({"role": "assistant", "content": format!("step {at}"), "tool_calls": [call]}),
        );
        let names = (0..40).map(|name| format!("fn name_{at}_{name}() "));
        let result = names.collect::<String>() + &"some words ".repeat(250);
        messages.push(json!({"role": "tool", "tool_call_id": format!("c{at}"), "content": result}));
    }
    messages
}

fn policy() -> Policy {
    let settings = CompactionSettings { prune: false, ..CompactionSettings::default() };
    Policy::new(&settings, Tokens::new(WINDOW))
}

/// Plans a request; returns its forwarded body, its text in place of history, and the record that its
/// acceptance leaves.
fn forwarded(
    messages: &[Value],
    base: Option<RecordMatch>,
) -> (Vec<u8>, Option<SegmentedText>, Option<RecordMatch>) {
    let body = json!({"messages": messages}).to_string();
    let conversation = read(body.as_bytes()).unwrap();
    let prior = PriorRecords { adopted: base.clone(), ..PriorRecords::default() };
    let out = plan(&conversation, &policy(), &prior, SummarySource::Digest);
    let record = out.fresh_digest.then(|| {
        let record = out.view.to_record(&conversation);
        // A record is stored as JSON.
        let stored = serde_json::to_string(&record).unwrap();
        assert_eq!(serde_json::from_str::<CompactionRecord>(&stored).unwrap(), record);
        RecordMatch { prefix_end: messages.len(), adopted: true, record: Arc::new(record) }
    });
    let bytes = match out.view.replacements(&conversation) {
        None => body.into_bytes(),
        Some(edits) => Splice::new(&conversation, &edits).unwrap().apply(),
    };
    (bytes, out.view.summary().cloned(), record.or(base))
}

#[test]
fn a_process_without_the_record_sends_the_same_bytes() {
    let all = session(STEPS);
    let (mut base, mut merges, mut cuts) = (None, 0, 0);
    let mut before: Option<SegmentedText> = None;
    for end in (3..=all.len()).filter(|&end| all[end - 1]["role"] != "assistant") {
        let (with, text, next) = forwarded(&all[..end], base);
        // A process without a record folds the whole history, so every tenth request is enough.
        if end % 10 == 0 || text != before {
            let (without, _, _) = forwarded(&all[..end], None);
            assert!(with == without, "{end}");
        }
        base = next;
        if let (Some(old), Some(new)) = (&before, &text)
            && old != new
        {
            cuts += 1;
            let frozen = old.segments().last().unwrap().end;
            let is_frozen = new.get(..frozen) == old.get(..frozen);
            merges += usize::from(!is_frozen);
            let covered = new.segments().last().unwrap().until;
            assert!(covered > old.segments().last().unwrap().until);
        }
        before = text;
    }
    assert!(merges > 0 && cuts > merges, "{cuts} cuts, {merges} merges");
    let text = before.unwrap();
    let compactions: u32 = text.segments().iter().map(|it| it.compactions).sum();
    assert_eq!(compactions as usize, cuts + 1);
    // Two requests of the oldest part, which was merged.
    for shown in ["ISSUE-4370", "ISSUE-5480"] {
        assert!(text.contains(shown), "{shown} not in {}", &*text);
    }
}

#[test]
fn a_fork_keeps_the_segments_of_the_part_that_it_shares() {
    let all = session(260);
    let (_, trunk, base) = forwarded(&all, None);
    let trunk = trunk.unwrap();
    let covered = trunk.segments().last().unwrap().until;
    let mut fork = all[..all.len() - 4].to_vec();
    fork.push(json!({"role": "user", "content": "no, the other way"}));
    assert!(fork.len() > covered);
    for base in [None, base] {
        let (_, text, _) = forwarded(&fork, base);
        assert_eq!(text.as_ref(), Some(&trunk));
    }
}

#[test]
fn a_client_with_cache_marks_gets_a_part_for_each_segment() {
    let mut all = session(STEPS);
    let plain = forwarded(&all, None).1.unwrap();
    assert_eq!(plain.form(), SegmentForm::Text);
    let mark = json!({"type": "ephemeral"});
    let request = json!([{"type": "text", "text": "go on", "cache_control": mark}]);
    all.push(json!({"role": "user", "content": request}));
    let (body, text, _) = forwarded(&all, None);
    let text = text.unwrap();
    assert_eq!(text.form(), SegmentForm::Parts);
    let body: Value = serde_json::from_slice(&body).unwrap();
    let summary = body["messages"].as_array().unwrap().iter();
    let parts =
        summary.filter_map(|message| message["content"].as_array()).max_by_key(|it| it.len());
    let parts = parts.unwrap();
    assert_eq!(parts.len(), text.segments().len() + 1);
    // The end of the frame follows the mark.
    let marks: Vec<&Value> = parts.iter().map(|part| &part["cache_control"]).collect();
    let (last, others) = marks.split_last().unwrap();
    let (own, earlier) = others.split_last().unwrap();
    assert!(last.is_null() && earlier.iter().all(|it| it.is_null()));
    assert_eq!(*own, &mark);
}

#[test]
fn an_added_cache_mark_keeps_the_number_and_the_order_of_marks() {
    let count = |body: &[u8]| {
        let text = String::from_utf8_lossy(body).into_owned();
        text.matches("cache_control").count()
    };
    let marked = |mark: &Value| {
        let part = json!([{"type": "text", "text": "go on", "cache_control": mark}]);
        json!({"role": "user", "content": part})
    };
    let (hour, short) = (json!({"type": "ephemeral", "ttl": "1h"}), json!({"type": "ephemeral"}));
    for marks in 0..=4 {
        let mut all = session(STEPS);
        // Marks in the head, and the last one at the end.
        if marks > 0 {
            all.splice(0..0, (1..marks).map(|_| marked(&hour)));
            all.push(marked(&short));
        }
        let (body, text, _) = forwarded(&all, None);
        let expect = if marks == 0 { 0 } else { 4.min(marks + 1) };
        assert!(text.is_some());
        // Marks in replaced messages are gone.
        assert!(count(&body) <= expect, "{marks}");
        let body: Value = serde_json::from_slice(&body).unwrap();
        let lifetimes = body["messages"].as_array().unwrap().iter();
        let lifetimes = lifetimes
            .filter_map(|message| message["content"].as_array())
            .flatten()
            .filter(|part| !part["cache_control"].is_null())
            .map(|part| part["cache_control"]["ttl"] == "1h");
        let lifetimes: Vec<bool> = lifetimes.collect();
        assert!(lifetimes.is_sorted_by(|a, b| a >= b), "{lifetimes:?}");
    }
}

#[test]
fn no_cache_mark_is_added_if_that_is_switched_off() {
    let mark = json!({"type": "ephemeral"});
    let request = json!([{"type": "text", "text": "go on", "cache_control": mark}]);
    let mut all = session(STEPS);
    all.push(json!({"role": "user", "content": request}));
    let body = json!({"messages": all}).to_string();
    let conversation = read(body.as_bytes()).unwrap();
    let marks = |adds_cache_mark| {
        let mut policy = policy();
        policy.settings.adds_cache_mark = adds_cache_mark;
        let prior = PriorRecords::default();
        let out = plan(&conversation, &policy, &prior, SummarySource::Digest);
        let edits = out.view.replacements(&conversation).unwrap();
        let forwarded = Splice::new(&conversation, &edits).unwrap().apply();
        String::from_utf8(forwarded).unwrap().matches("cache_control").count()
    };
    assert_eq!((marks(false), marks(true)), (1, 2));
}
