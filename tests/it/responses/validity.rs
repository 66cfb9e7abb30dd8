//! Forwarded inputs break no rule that the request obeyed, wherever history is cut, and change in
//! outputs and summaries only.

use longhaul_core::conversation::Conversation;
use longhaul_core::dialect::Dialect;
use longhaul_core::planning::plan::{Replacement, SummarySource, plan};
use longhaul_core::planning::recovery::{RecoveryDecision, plan_recovery};
use longhaul_core::planning::splice::Splice;
use longhaul_core::planning::view::ForwardedView;
use longhaul_core::policy::placement::Placement;
use longhaul_core::policy::record::PriorRecords;
use longhaul_core::policy::{CompactionSettings, Policy};
use longhaul_core::units::tokens::Tokens;
use longhaul_mock_model::{
    broken_by_rewrite, broken_input_rules, broken_server_rules, is_shortened_call,
    torn_from_reasoning,
};
use proptest::prelude::*;
use serde_json::Value;

use super::RecordedInput;
use super::inputs::{RandomInput, random_input};

fn read(body: &[u8]) -> Conversation<'_> {
    Dialect::Responses.read(body).unwrap()
}

/// Checks that `sent` breaks no rule that `original` obeyed, and keeps each item that it keeps.
#[track_caller]
fn check_sent(original: &[u8], sent: &[u8], what: &str) {
    // Most bodies break nothing, and the client's own is the longer one.
    let broken = broken_input_rules(sent);
    assert!(
        broken.is_empty() || {
            let allowed = broken_input_rules(original);
            broken.iter().all(|rule| allowed.contains(rule))
        },
        "{what}: {broken:?}"
    );
    let parse = |body: &[u8]| serde_json::from_slice::<Value>(body).unwrap();
    let (before, after) = (parse(original), parse(sent));
    assert_eq!(torn_from_reasoning(&before, &after), None, "{what}");
    assert_eq!(broken_by_rewrite(&before, &after), [""; 0], "{what}");
    // Once a template has refused a separate summary, the summary moves into the user's words.
    let allowed = broken_server_rules(&before);
    let broken = broken_server_rules(&after);
    let mut broken = broken.iter().filter(|rule| **rule != "r-alternation");
    assert!(broken.all(|rule| allowed.contains(rule)), "{what}: {broken:?}");
    for (key, value) in before.as_object().unwrap().iter().filter(|(key, _)| *key != "input") {
        assert_eq!(&after[key], value, "{what}: {key}");
    }
    let (before, after) = (items(&before), items(&after));
    let compaction = before.iter().rposition(|item| item["type"] == "compaction");
    let pinned = compaction.map_or(0, |at| at + 1);
    assert_eq!(before[..pinned], after[..pinned], "{what}: up to the newest compaction");
    // Recovery may clip the newest outputs.
    let is_own = |item: &Value| before.last() == Some(item) || is_cleared(item, before);
    assert!(after.last().is_some_and(is_own), "{what}: the client's own last item");
    // Most items stand where they stood, or as far from the end.
    let pairs = before.iter().zip(after);
    let first = pairs.take_while(|(was, is)| was == is).count();
    let pairs = before[first..].iter().rev().zip(after[first..].iter().rev());
    let last = pairs.take_while(|(was, is)| was == is).count();
    let strange: Vec<&Value> = after[first..after.len() - last]
        .iter()
        .filter(|item| !before.contains(item) && !is_cleared(item, before))
        .filter(|item| !before.iter().any(|own| is_shortened_call(own, item)))
        .collect();
    assert!(strange.len() <= 1, "{what}: {strange:?}");
    for summary in strange {
        assert_eq!(summary["role"], "user", "{what}: {summary}");
        assert!(summary.get("id").is_none(), "{what}");
    }
}

fn items(body: &Value) -> &[Value] {
    body["input"].as_array().unwrap()
}

/// Whether an item is an output of `before` with another text in its shape.
fn is_cleared(item: &Value, before: &[Value]) -> bool {
    before.iter().any(|kept| {
        let (mut kept, mut item) = (kept.clone(), item.clone());
        let is_same_shape = kept["output"].is_string() == item["output"].is_string()
            && kept["output"].is_array() == item["output"].is_array();
        kept["output"] = Value::Null;
        item["output"] = Value::Null;
        is_same_shape && kept == item
    })
}

/// Returns the body that `view` makes of a conversation, if the view changes it.
fn forwarded(conversation: &Conversation<'_>, view: &ForwardedView) -> Option<Vec<u8>> {
    let plan = view.replacements(conversation)?;
    Some(Splice::new(conversation, &plan).expect("the plan is sound").apply())
}

/// Checks every cut of a body, with a summary in place of what it covers.
fn check_cuts(body: &[u8], what: &str) {
    let conversation = read(body);
    let head = conversation.head_len();
    for &cut in conversation.boundaries() {
        if cut <= head || cut == conversation.messages().len() {
            continue;
        }
        let replacement = Replacement::History {
            from: head,
            to: cut,
            text: "s".into(),
            placement: Placement::Separate,
        };
        // A short history is no longer than its summary.
        let Some(splice) = Splice::new(&conversation, &[replacement]) else {
            continue;
        };
        check_sent(body, &splice.apply(), &format!("{what} cut at {cut}"));
    }
}

/// Checks the plans and the recovery of a body at this window. Returns whether any of them changed it.
fn check_plans(body: &[u8], window: u32, what: &str) -> bool {
    let policy = Policy::new(&CompactionSettings::default(), Tokens::new(window));
    let conversation = read(body);
    let prior = PriorRecords::default();
    let first = plan(&conversation, &policy, &prior, SummarySource::Digest);
    let sent = forwarded(&conversation, &first.view);
    if let Some(sent) = &sent {
        check_sent(body, sent, what);
        assert!(sent.len() < body.len(), "{what}");
        if !first.view.is_condensed() {
            let again = read(sent);
            let replanned = plan(&again, &policy, &prior, SummarySource::Digest);
            assert_eq!(forwarded(&again, &replanned.view), None, "{what}: planned again");
        }
    }
    let recovered =
        plan_recovery(&conversation, &policy, &prior, &first.view, SummarySource::Digest);
    if let RecoveryDecision::Retry(view, _) = recovered {
        let retried = forwarded(&conversation, &view).expect("a retry differs");
        check_sent(body, &retried, what);
        return true;
    }
    sent.is_some()
}

#[test]
fn every_cut_of_a_recorded_session_is_valid() {
    for session in RecordedInput::all() {
        let body = session.body.to_string();
        assert_eq!(broken_input_rules(body.as_bytes()), [""; 0], "{}", session.name);
        check_cuts(body.as_bytes(), &session.name);
    }
}

#[test]
fn every_plan_for_a_recorded_session_is_valid() {
    let mut changed = 0;
    for session in RecordedInput::all() {
        let points = session.points();
        for &point in points.iter().rev().step_by(points.len().div_ceil(4).max(1)) {
            let body = session.request(point);
            for window in [40_000, 64_000, 128_000] {
                let what = format!("{} at {point}, {window}", session.name);
                changed += usize::from(check_plans(&body, window, &what));
            }
        }
    }
    assert!(changed > 100, "{changed}");
}

/// A history of a few words and images by reference, shorter in bytes than its digest.
#[test]
fn every_plan_for_images_with_few_bytes_is_valid() {
    let events =
        [2_511_388_021, 3_846_549_831, 2_263_243_265, 262_366_286, 810_130_580, 202_123_872];
    let input = RandomInput(events.to_vec());
    check_plans(&input.body(), 4_000, "images");
}

proptest! {
    #[test]
    fn every_cut_of_a_random_input_is_valid(input in random_input()) {
        check_cuts(&input.body(), "random");
    }

    #[test]
    fn every_plan_for_a_random_input_is_valid(input in random_input(), window in 4_000..40_000_u32) {
        check_plans(&input.body(), window, "random");
    }
}
