//! The product's promises for every body: it is read as the oracle reads it, cleared by the exact
//! rule, compacted soundly, and otherwise unchanged.
//!
//! Each function panics if a promise is broken. Tests and the fuzzer call them with their own
//! bodies.

use longhaul_core::conversation::Conversation;
use longhaul_core::conversation::parse_cache::ParseCache;
use longhaul_core::dialect::Dialect;
use longhaul_core::dialect::bypass::Bypass;
use longhaul_core::dialect::chat_completions::read;
use longhaul_core::planning::plan::{Replacement, SummarySource, plan};
use longhaul_core::planning::recovery::{RecoveryDecision, RecoveryStep, plan_recovery};
use longhaul_core::planning::splice::Splice;
use longhaul_core::planning::view::ForwardedView;
use longhaul_core::policy::Policy;
use longhaul_core::policy::placement::Placement;
use longhaul_core::policy::record::PriorRecords;
use longhaul_core::units::scope::Scope;
use longhaul_core::units::tokens::Tokens;
use longhaul_mock_model::ValidityRules;
use serde_json::{Value, json};

use crate::oracle::pruner::{self, Rule};
use crate::oracle::reader::{self, Reading, messages};
use crate::subject;

/// Checks the product against the oracle, and the forwarded body against the promises.
pub(crate) fn prunes_by_the_rule(body: &str, rule: &Rule) {
    let outcome = pruner::prune(body, rule);
    let (cleared, restored) = subject::cleared(body, rule);
    let differ: Vec<_> = cleared
        .keys()
        .chain(outcome.cleared.keys())
        .map(|message| (message, cleared.get(message), outcome.cleared.get(message)))
        .filter(|(_, ours, oracles)| ours != oracles)
        .take(3)
        .collect();
    assert!(differ.is_empty(), "ours and the literal rule's: {differ:?}");
    assert_eq!(restored, outcome.restored, "restored reads");
    let forwarded = match subject::forwarded(body.as_bytes(), rule) {
        Err(why) => {
            assert_eq!(why, Bypass::Nothing);
            assert!(outcome.cleared.is_empty());
            return;
        }
        Ok(forwarded) => String::from_utf8(forwarded).unwrap(),
    };
    assert!(!outcome.cleared.is_empty());
    only_the_cuts_differ(body, &forwarded, &outcome);
    assert_eq!(reader::tree(forwarded.as_bytes()).unwrap(), pruner::expected(body, &outcome));
    pairs_stay(body, &forwarded);
    planning_again_leaves_it(&forwarded, rule, &outcome);
}

/// Checks that longhaul's own output is not cleared further.
///
/// The exception is a restored read, which may be cleared. When the rule fired, that read counted
/// as freed. In the output all else is already freed, so the read makes the rule fire later,
/// together with newer results. It is kept then too.
fn planning_again_leaves_it(forwarded: &str, rule: &Rule, outcome: &pruner::Outcome) {
    let (again, _) = subject::cleared(forwarded, rule);
    if outcome.restored == 0 {
        let further: Vec<_> = again.keys().collect();
        assert!(further.is_empty(), "cleared further: {further:?}");
    }
    for pinned in &outcome.pinned {
        assert!(!again.contains_key(pinned), "{pinned} is pointed at");
    }
}

/// Compares both texts: equal up to each cut, with one shorter JSON value there, and equal after
/// the last cut.
fn only_the_cuts_differ(body: &str, forwarded: &str, outcome: &pruner::Outcome) {
    let contents = reader::contents(body);
    let (mut from, mut to) = (0, 0);
    for message in outcome.cleared.keys() {
        let content = contents[*message].unwrap();
        let start = content.as_ptr().addr() - body.as_ptr().addr();
        let kept = &body[from..start];
        assert!(forwarded[to..].starts_with(kept), "bytes before a cut");
        to += kept.len();
        let mut values = serde_json::Deserializer::from_str(&forwarded[to..]).into_iter::<Value>();
        values.next().unwrap().unwrap();
        let put = values.byte_offset();
        assert!(put < content.len(), "each cut shrinks");
        from = start + content.len();
        to += put;
    }
    assert_eq!(&forwarded[to..], &body[from..], "bytes behind the last cut");
}

/// Checks that every call and every result is still present, in order and with its id.
fn pairs_stay(body: &str, forwarded: &str) {
    let without_text = |body: &str| -> Reading {
        let tree = reader::tree(body.as_bytes()).unwrap();
        let mut reading = reader::reading(&tree).unwrap();
        for message in &mut reading.messages {
            if matches!(message.role.as_str(), "tool" | "function") {
                message.text.clear();
                message.chars = 0;
            }
        }
        reading
    };
    assert_eq!(without_text(body), without_text(forwarded));
}

/// Checks that the product reads a body as the oracle does, also with a cache of its messages.
pub(crate) fn reads_alike(body: &str) {
    let tree = reader::tree(body.as_bytes()).unwrap();
    let mut expected = reader::reading(&tree).unwrap();
    let roles = ["assistant", "developer", "function", "system", "tool", "user"];
    for message in &mut expected.messages {
        if !roles.contains(&message.role.as_str()) {
            "?".clone_into(&mut message.role);
        }
    }
    let recall = ParseCache::new(Scope::new(&[0; 32], &[]));
    let caller = Scope::new(&[1; 32], &[]);
    let recalled =
        || Dialect::ChatCompletions.read_cached(body.as_bytes(), caller, &recall).unwrap();
    // With a cold cache, then message by message, then many messages at once.
    let readings = [read(body.as_bytes()).unwrap(), recalled(), recalled(), recalled()];
    for conversation in readings {
        assert_eq!(subject::reading(&conversation), expected);
        boundaries_part_no_unit(&conversation, &expected);
    }
}

fn boundaries_part_no_unit(conversation: &Conversation<'_>, reading: &Reading) {
    let messages = &reading.messages;
    let answers = |at: usize| {
        let role = messages.get(at).map(|message| message.role.as_str());
        matches!(role, Some("tool" | "function"))
    };
    let boundaries = conversation.boundaries();
    assert!(boundaries.is_sorted_by(|one, next| one < next));
    assert_eq!(boundaries.first(), Some(&conversation.head_len()));
    for &at in &boundaries[1..] {
        let before = &messages[at - 1];
        assert!(!answers(at), "a result behind the boundary {at}");
        assert!(
            before.role != "assistant" || before.calls.is_empty(),
            "calls before the boundary {at} have no results"
        );
        let next = messages.get(at).map(|message| message.role.as_str());
        assert!(before.role != "user" || next != Some("user"), "user messages parted");
    }
}

/// Checks that the product accepts exactly the valid JSON of the right shape. Returns the reason if
/// it refuses a body.
pub(crate) fn judged_rightly(body: &[u8]) -> Result<(), Bypass> {
    let outcome = read(body).map(drop);
    let json = reader::is_json(body);
    match outcome {
        Ok(()) => assert!(json, "read, and is no JSON"),
        Err(Bypass::Malformed) => assert!(!json, "called malformed, and is JSON"),
        Err(Bypass::Duplicate) => {
            let text = std::str::from_utf8(body).unwrap();
            assert!(!json || reader::repeats_a_key(text), "no key comes twice");
        }
        Err(why) => assert_eq!(why, Bypass::Shape),
    }
    // For a body with a repeated key, the product may report another reason first.
    let repeats = || str::from_utf8(body).is_ok_and(reader::repeats_a_key);
    if json
        && !(outcome.is_err() && repeats())
        && let Some(tree) = reader::tree(body)
    {
        let shaped = reader::reading(&tree).is_some();
        assert_eq!(outcome.is_ok(), shaped, "the shape of a chat completion");
        if shaped {
            reads_alike(std::str::from_utf8(body).unwrap());
        }
    }
    outcome
}

/// Whether the newest message may be shortened.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Newest {
    Kept,
    Shortened,
}

/// Returns the bytes of a view, after checking the promises for every forwarded body. Returns the
/// original body if the view changes nothing or is not sound.
pub(crate) fn forwarded(
    conversation: &Conversation<'_>,
    body: &[u8],
    policy: &Policy,
    view: &ForwardedView,
    newest: Newest,
) -> Vec<u8> {
    let valid = ValidityRules::standard().broken_by(body).is_none();
    let Some(plan) = view.replacements(conversation) else {
        return body.to_vec();
    };
    let Some(splice) = Splice::new(conversation, &plan) else {
        assert!(!valid, "what came in order can be rewritten: {:?}", plan.as_slice());
        return body.to_vec();
    };
    let out = splice.apply();
    assert!(out.len() <= body.len(), "never longer");
    // An image has few bytes if its address does, and a digest may have as many.
    let is_smaller =
        || !conversation.is_text_only() && view.tokens(conversation) < conversation.tokens();
    assert!(out.len() < body.len() || is_smaller(), "strictly smaller");
    // If a member name is repeated, the trees of the oracle and of the strict model keep the last
    // member. The product refuses such bodies.
    let sent = read(&out).map(|sent| sent.tokens());
    costs_what_it_says(conversation, view, sent.unwrap());
    let (before, after) = (messages(body), messages(&out));
    let head = before.iter().take_while(|message| instructs(message)).count();
    assert_eq!(before[..head], after[..head], "the head");
    let begun = usize::from(before.last().is_some_and(|last| begins_an_answer(last)));
    let kept = before.iter().rev().skip(begun);
    let kept = begun + kept.take_while(|message| role(message) == "user").count();
    // Merged text goes into the message directly after the history that it replaces.
    let merged = before.len() - view.summarised_until();
    let takes_in = |back| policy.settings.placement == Placement::Merged && back == merged;
    let waits = 1..=kept;
    let newest = usize::from(newest == Newest::Kept && !before.is_empty());
    for back in waits.chain(kept + 1..=newest) {
        let (came, went) = (before[before.len() - back], after[after.len() - back]);
        assert!(
            came == went || takes_in(back) && ends_with(went, came),
            "what waits: {came}\nbecame {went}"
        );
    }
    if valid {
        let broken = ValidityRules::standard().broken_by(&out);
        assert_eq!(broken.map(|rule| rule.id), None);
    }
    out
}

/// Checks that a view's estimate equals the estimate of the forwarded body. Sums of rounded numbers
/// differ by at most one per item.
fn costs_what_it_says(conversation: &Conversation<'_>, view: &ForwardedView, sent: Tokens) {
    let said = view.tokens(conversation);
    let clips = view.to_record(conversation).clips;
    let (mut more, mut less) = (Tokens::ZERO, Tokens::ZERO);
    for cut in view.replacements(conversation).iter().flatten() {
        match cut {
            // The framing of the message that replaces history; with a merge, one framing is saved.
            Replacement::History { .. } => {
                more += Tokens::new(4);
                less += Tokens::new(4);
            }
            Replacement::Arguments { .. } | Replacement::Image { .. } => {
                more += Tokens::new(1);
                less += Tokens::new(1);
            }
            Replacement::Output { .. }
            | Replacement::Provider { .. }
            | Replacement::Thinking { .. }
            | Replacement::Words { .. } => {}
            Replacement::Result { at, .. } => {
                let message = conversation.message(*at).unwrap();
                // The note of a clipping.
                let is_clip = clips.iter().any(|clip| clip.message == *at);
                more += Tokens::new(if is_clip { 16 } else { 2 });
                less += Tokens::new(1);
                // The estimate ignores non-text parts that a clip removes.
                if is_clip {
                    let parts = conversation.parts(message).iter();
                    less += parts.map(|part| part.tokens).sum();
                }
            }
        }
    }
    assert!(sent <= said + more, "{sent} are sent, {said} were said");
    assert!(said <= sent + less, "{sent} are sent, {said} were said");
}

/// Whether a message is `other` with a text inserted before its own words.
fn ends_with(message: &str, other: &str) -> bool {
    let tree = |message: &str| reader::tree(message.as_bytes()).unwrap();
    let (mut message, mut other) = (tree(message), tree(other));
    let (content, own) = (message["content"].take(), other["content"].take());
    let ends = match (&content, &own) {
        (Value::String(content), Value::String(own)) => content.ends_with(&format!("\n\n{own}")),
        (Value::Array(content), Value::Array(own)) => content.ends_with(own),
        (Value::Array(content), Value::String(own)) => {
            content.last() == Some(&json!({"type": "text", "text": own}))
        }
        _ => false,
    };
    ends && message == other
}

fn role(message: &str) -> String {
    let message = reader::tree(message.as_bytes()).unwrap();
    message["role"].as_str().unwrap_or_default().to_owned()
}

/// Whether the message is the start of an answer that the model continues.
fn begins_an_answer(message: &str) -> bool {
    let message = reader::tree(message.as_bytes()).unwrap();
    let calls = ["tool_calls", "function_call"];
    message["role"] == "assistant" && calls.iter().all(|call| message[call].is_null())
}

fn instructs(message: &str) -> bool {
    matches!(role(message).as_str(), "system" | "developer")
}

/// Checks the promises for the plan of a body, and for its recovery.
pub(crate) fn compacts_soundly(body: &[u8], policy: &Policy) {
    let Ok(conversation) = read(body) else {
        return;
    };
    let known = PriorRecords::default();
    let planned = plan(&conversation, policy, &known, SummarySource::Digest).view;
    forwarded(&conversation, body, policy, &planned, Newest::Kept);
    match plan_recovery(&conversation, policy, &known, &planned, SummarySource::Digest) {
        RecoveryDecision::Summarise(_) => panic!("nobody is there to ask"),
        RecoveryDecision::GiveUp => {}
        RecoveryDecision::Retry(view, rung) => {
            let refused = planned.tokens(&conversation);
            assert!(
                view.tokens(&conversation) <= refused.percent(97),
                "no request that is hardly smaller"
            );
            let newest = match rung {
                RecoveryStep::Clipped => Newest::Shortened,
                RecoveryStep::Cleared
                | RecoveryStep::Digest
                | RecoveryStep::Images
                | RecoveryStep::Summary => Newest::Kept,
            };
            forwarded(&conversation, body, policy, &view, newest);
        }
    }
}
