//! Unit tests of clearing, step by step. The whole rule is compared with an oracle elsewhere.

use super::*;
use crate::dialect::chat_completions::read;

/// Result that only refers to the read before it.
const STUB: &str = "File unchanged since last read. What the earlier read in this conversation brought is \
                    current still: go by that instead of reading it anew.";

/// Builds a question, then a read of the same file for each of `results`. The first result is
/// message 2, the next message 4, and so on.
fn body(results: &[&str]) -> String {
    let reads: Vec<_> = results.iter().map(|result| ("a.rs", *result)).collect();
    body_of(&reads)
}

/// Like [`body`], with a file for each read.
fn body_of(reads: &[(&str, &str)]) -> String {
    let steps = reads.iter().enumerate().map(|(at, (file, result))| {
        format!(
            r#",{{"role":"assistant","content":null,"tool_calls":[{{"id":"c{at}","type":"function","function":{{"name":"read","arguments":"{{\"path\":\"{file}\"}}"}}}}]}},{{"role":"tool","tool_call_id":"c{at}","content":"{result}"}}"#
        )
    });
    let steps: String = steps.collect();
    format!(r#"{{"messages":[{{"role":"user","content":"go"}}{steps}]}}"#)
}

fn long() -> String {
    "x".repeat(4_000)
}

/// Rule that clears all but the newest results whenever it is applied.
pub(crate) fn rule() -> PruneRule {
    PruneRule {
        protect: Tokens::ZERO,
        minimum: Tokens::ZERO,
        user_turns: 0,
        exempt_tools: Vec::new(),
        keep_errors: false,
        kept_words: None,
        clips_calls: true,
        placeholder: Placeholder::Fixed,
        recall: None,
    }
}

fn times(tokens: Tokens, times: u32) -> Tokens {
    Tokens::new(tokens.get() * times)
}

/// Returns the state after adding five equal results, with the size of one and the tokens that
/// clearing it frees.
fn five(rule: &PruneRule) -> (PruneState, Tokens, Tokens) {
    let body = body(&[&*long(); 5]);
    let mut prune_state = PruneState::new(&read(body.as_bytes()).unwrap(), Some(rule));
    prune_state.ingest_until(11);
    let (tokens, frees) = (prune_state.results()[0].tokens, prune_state.results()[0].frees);
    assert!(Tokens::ZERO < frees && frees < tokens);
    (prune_state, tokens, frees)
}

/// Whether the rule would fire for all results added so far.
fn fires(prune_state: &mut PruneState, rule: &PruneRule, user_turns: u32) -> bool {
    prune_state.extend_clearable(rule.protect);
    prune_state.would_fire(rule, user_turns)
}

fn decisions(prune_state: &PruneState) -> Vec<ClearDecision> {
    prune_state.results().iter().map(|result| result.decision).collect()
}

#[test]
fn all_results_but_the_newest_are_clearable_once_extended() {
    let (mut prune_state, _, frees) = five(&rule());
    assert_eq!((prune_state.clearable_tokens(), prune_state.freed()), (Tokens::ZERO, Tokens::ZERO));
    prune_state.extend_clearable(Tokens::ZERO);
    assert_eq!(prune_state.clearable_tokens(), times(frees, 4));
    assert_eq!((prune_state.freed(), prune_state.cleared_before()), (Tokens::ZERO, 0));
    prune_state.clear_all_clearable();
    assert_eq!(
        (prune_state.clearable_tokens(), prune_state.freed()),
        (Tokens::ZERO, times(frees, 4))
    );
    assert_eq!(prune_state.cleared().count(), 4);
    assert!(!fires(&mut prune_state, &rule(), 0), "nothing is left for it");
    assert_eq!(prune_state.cleared_before(), 9);
    prune_state.clear_all_clearable();
    assert_eq!(prune_state.freed(), times(frees, 4));
}

#[test]
fn the_result_that_exceeds_the_protected_size_is_clearable_too() {
    for (short_of, may_go) in [(0, 3), (1, 4)] {
        let (mut prune_state, tokens, frees) = five(&rule());
        prune_state.extend_clearable(Tokens::new(tokens.get() * 2 - short_of));
        assert_eq!(prune_state.clearable_tokens(), times(frees, may_go), "{short_of}");
    }
}

#[test]
fn only_ingested_results_are_clearable() {
    let body = body(&[&*long(); 5]);
    let mut prune_state = PruneState::new(&read(body.as_bytes()).unwrap(), Some(&rule()));
    prune_state.extend_clearable(Tokens::ZERO);
    assert_eq!(prune_state.clearable_tokens(), Tokens::ZERO);
    let frees = prune_state.results()[0].frees;
    // Before a message, and with it.
    for (messages, may_go) in [(4, 0), (5, 1), (6, 1), (7, 2)] {
        prune_state.ingest_until(messages);
        prune_state.extend_clearable(Tokens::ZERO);
        assert_eq!(prune_state.clearable_tokens(), times(frees, may_go), "{messages}");
    }
}

#[test]
fn an_image_is_freed_with_and_without_text() {
    let weigh = |content: &str| {
        let body =
            body(&["", ""]).replacen(r#""content":"""#, &format!(r#""content":{content}"#), 1);
        let prune_state = PruneState::new(&read(body.as_bytes()).unwrap(), Some(&rule()));
        let result = &prune_state.results()[0];
        (result.decision, result.tokens, result.frees)
    };
    let text = format!(r#"{{"type":"text","text":"{}"}}"#, long());
    let image = r#"{"type":"image_url","image_url":{"url":"data:image/png;base64,xxxxxxxxxx"}}"#;
    let (decision, tokens, frees) = weigh(&format!("[{text}]"));
    let with_image = weigh(&format!("[{text},{image}]"));
    assert_eq!(with_image, (decision, tokens, frees + Tokens::new(1_200)));
    let placeholder = Tokens::estimate_text("[Old tool result content cleared]");
    let without_text = (decision, Tokens::ZERO, Tokens::new(1_200) - placeholder);
    assert_eq!(weigh(&format!("[{image}]")), without_text);
    let short = r#"{"type":"text","text":"done"}"#;
    let (_, tokens, frees) = weigh(&format!("[{short},{image}]"));
    assert_eq!((tokens, frees), (Tokens::new(1), Tokens::new(1_201) - placeholder));
    let reference = r#"{"type":"file","file_id":"f"}"#;
    assert_eq!(weigh(&format!("[{reference}]")).0, ClearDecision::Empty);
}

#[test]
fn minimum_counts_text_only_but_images_are_freed_too() {
    let image = r#"{"type":"image_url","image_url":{"url":"data:,"}}"#;
    let text = format!(r#"[{{"type":"text","text":"{}"}},{image}]"#, long());
    let body = body(&["?"; 5]).replace(r#""?""#, &text);
    let mut prune_state = PruneState::new(&read(body.as_bytes()).unwrap(), Some(&rule()));
    prune_state.ingest_until(11);
    let image = Tokens::new(1_200);
    let frees = prune_state.results()[0].frees;
    let least = |minimum| PruneRule { minimum, ..rule() };
    let most = times(frees - image, 4);
    assert!(!fires(&mut prune_state, &least(most), 0));
    assert!(fires(&mut prune_state, &least(Tokens::new(most.get() - 1)), 0));
    assert_eq!(prune_state.clearable_tokens(), times(frees, 4));
    prune_state.clear_all_clearable();
    assert_eq!(prune_state.freed(), times(frees, 4));
    assert!(!fires(&mut prune_state, &rule(), 0), "nothing is left for it");
}

#[test]
fn rule_fires_above_its_minimum_and_from_its_user_turns_on() {
    let (mut prune_state, _, frees) = five(&rule());
    let fires_for = |prune_state: &mut PruneState, minimum, turns| {
        let rule = PruneRule { minimum, user_turns: 2, ..rule() };
        fires(prune_state, &rule, turns)
    };
    let most = times(frees, 4);
    assert!(!fires_for(&mut prune_state, most, 2));
    assert!(fires_for(&mut prune_state, Tokens::new(most.get() - 1), 2));
    assert!(!fires_for(&mut prune_state, Tokens::ZERO, 1));
    assert!(fires_for(&mut prune_state, Tokens::ZERO, 3));
}

#[test]
fn summarised_results_free_no_tokens() {
    let (mut prune_state, _, frees) = five(&rule());
    prune_state.clear_before(5);
    assert_eq!(prune_state.freed(), times(frees, 2));
    prune_state.mark_summarised(4);
    assert_eq!(prune_state.freed(), frees);
    // A second time, the same summary changes nothing.
    prune_state.mark_summarised(4);
    assert_eq!(prune_state.freed(), frees);
    prune_state.extend_clearable(Tokens::ZERO);
    assert_eq!(prune_state.clearable_tokens(), times(frees, 2));
    prune_state.mark_summarised(8);
    assert_eq!((prune_state.freed(), prune_state.clearable_tokens()), (Tokens::ZERO, frees));
    prune_state.clear_all_clearable();
    assert_eq!(prune_state.freed(), frees);
    prune_state.mark_summarised(2);
    assert_eq!(prune_state.freed(), frees);
}

#[test]
fn clearable_results_are_visible_and_would_free_tokens() {
    let long = long();
    let body = body(&[&long, "ok", &long, &long, &long]);
    let mut prune_state = PruneState::new(&read(body.as_bytes()).unwrap(), Some(&rule()));
    prune_state.ingest_until(11);
    prune_state.extend_clearable(Tokens::ZERO);
    let waits = |prune_state: &PruneState| {
        [2, 4, 6, 8, 10].map(|message| prune_state.is_clearable(message))
    };
    // The second gains no tokens, the last is the newest.
    assert_eq!(waits(&prune_state), [true, false, true, true, false]);
    prune_state.mark_summarised(6);
    assert_eq!(waits(&prune_state), [false, false, true, true, false]);
    prune_state.clear_all_clearable();
    assert_eq!(waits(&prune_state), [false; 5]);
}

#[test]
fn clear_before_clears_exactly_up_to_the_recorded_message() {
    let (mut prune_state, _, frees) = five(&rule());
    prune_state.clear_before(6);
    assert_eq!((prune_state.freed(), prune_state.cleared_before()), (times(frees, 2), 5));
    assert_eq!(prune_state.clearable_tokens(), Tokens::ZERO);
    prune_state.clear_before(3);
    assert_eq!((prune_state.freed(), prune_state.cleared_before()), (times(frees, 2), 5));
    // The rule sees the remaining results.
    for (minimum, expect) in [(times(frees, 2), false), (frees, true)] {
        assert_eq!(fires(&mut prune_state, &PruneRule { minimum, ..rule() }, 0), expect);
    }
    // This includes results that the rule would not clear yet.
    prune_state.clear_before(11);
    assert_eq!(prune_state.freed(), times(frees, 5));
}

#[test]
fn each_retained_result_has_a_reason() {
    use ClearDecision::{BelowMinimum, Cleared, NewestBatch, Protected, TooFewTurns};
    let explained = |turns| {
        let (mut prune_state, tokens, _) = five(&rule());
        prune_state.clear_before(3);
        prune_state.extend_clearable(times(tokens, 2));
        let rule = PruneRule { user_turns: 2, ..rule() };
        prune_state.assign_retention_reasons(&rule, turns);
        decisions(&prune_state)
    };
    assert_eq!(explained(2), [Cleared, BelowMinimum, BelowMinimum, Protected, NewestBatch]);
    assert_eq!(explained(1), [Cleared, TooFewTurns, TooFewTurns, Protected, NewestBatch]);
}

/// Returns the state for a read, a second read, a stub that refers to it, and two more reads.
fn pointed_at() -> (PruneState, Tokens) {
    let long = long();
    let body = body(&[&long, &long, STUB, &long, &long]);
    let prune_state = PruneState::new(&read(body.as_bytes()).unwrap(), Some(&rule()));
    let frees = prune_state.results()[0].frees;
    (prune_state, frees)
}

#[test]
fn a_result_that_a_later_stub_refers_to_is_kept() {
    use ClearDecision::{Cleared, Pinned, Protected};
    let (mut prune_state, frees) = pointed_at();
    prune_state.ingest_until(11);
    prune_state.extend_clearable(Tokens::ZERO);
    assert_eq!(prune_state.clearable_tokens(), times(frees, 2));
    prune_state.clear_all_clearable();
    assert_eq!(decisions(&prune_state), [Cleared, Pinned, Pinned, Cleared, Protected]);
    assert_eq!((prune_state.freed(), prune_state.restored), (times(frees, 2), 0));
}

/// Returns a state with two clearable results; the next to be added is a stub for the second of
/// them.
fn about_to_be_pointed_at() -> (PruneState, Tokens) {
    let long = long();
    let reads = ["a.rs", "b.rs", "c.rs", "b.rs", "d.rs"];
    let mut reads = reads.map(|file| (file, &*long));
    reads[3].1 = STUB;
    let body = body_of(&reads);
    let mut prune_state = PruneState::new(&read(body.as_bytes()).unwrap(), Some(&rule()));
    let frees = prune_state.results()[0].frees;
    prune_state.ingest_until(7);
    prune_state.extend_clearable(Tokens::ZERO);
    assert_eq!(prune_state.clearable_tokens(), times(frees, 2));
    (prune_state, frees)
}

#[test]
fn a_summarised_clearable_result_is_deducted_once_when_pinned() {
    let (mut prune_state, frees) = about_to_be_pointed_at();
    prune_state.mark_summarised(5);
    assert_eq!(prune_state.clearable_tokens(), Tokens::ZERO);
    prune_state.ingest_until(11);
    prune_state.extend_clearable(Tokens::ZERO);
    assert_eq!(prune_state.clearable_tokens(), frees);
}

#[test]
fn a_pinned_result_is_deducted_with_its_image() {
    let image = r#"{"type":"image_url","image_url":{"url":"data:,"}}"#;
    let text = format!(r#"[{{"type":"text","text":"{}"}},{image}]"#, long());
    let reads = [("a.rs", "?"), ("b.rs", "?"), ("c.rs", ""), ("b.rs", STUB)];
    let body = body_of(&reads).replace(r#""?""#, &text);
    let mut prune_state = PruneState::new(&read(body.as_bytes()).unwrap(), Some(&rule()));
    let frees = prune_state.results()[0].frees;
    prune_state.ingest_until(7);
    prune_state.extend_clearable(Tokens::ZERO);
    assert_eq!(prune_state.clearable_tokens(), times(frees, 2));
    prune_state.ingest_until(9);
    assert_eq!(prune_state.clearable_tokens(), frees);
    assert_eq!(prune_state.clearable_text_tokens(), frees - Tokens::new(1_200));
}

#[test]
fn a_clearable_result_is_kept_when_a_stub_refers_to_it() {
    let (mut prune_state, frees) = about_to_be_pointed_at();
    prune_state.ingest_until(9);
    assert_eq!(prune_state.clearable_tokens(), frees);
    // With the third: it has a newer one after it.
    let minimum = times(frees, 2);
    assert!(!fires(&mut prune_state, &PruneRule { minimum, ..rule() }, 0));
    prune_state.clear_all_clearable();
    assert_eq!((prune_state.freed(), prune_state.restored), (times(frees, 2), 0));
}

#[test]
fn a_cleared_result_is_restored_when_a_stub_refers_to_it() {
    for (hidden, left) in [(0, 1), (4, 1), (5, 0)] {
        let (mut prune_state, frees) = pointed_at();
        prune_state.ingest_until(5);
        prune_state.clear_before(5);
        prune_state.mark_summarised(hidden);
        let before = prune_state.freed();
        prune_state.ingest_until(7);
        assert_eq!((decisions(&prune_state)[1], prune_state.restored), (ClearDecision::Pinned, 1));
        // Results covered by a summary had freed no tokens.
        assert_eq!(before, times(frees, left + u32::from(hidden == 0)));
        assert_eq!(prune_state.freed(), times(frees, u32::from(hidden == 0)));
        assert_eq!(prune_state.frees_in(Clearing::Past, 0..7), frees);
    }
}

/// Checks the decision of the first of two results, of a tool called `read`.
fn check(result: &str, rule: &PruneRule, expect: ClearDecision) {
    let body = body(&[result, "x"]);
    let prune_state = PruneState::new(&read(body.as_bytes()).unwrap(), Some(rule));
    let first = &prune_state.results()[0];
    assert_eq!(first.decision, expect, "{result}");
    assert_eq!(first.frees > Tokens::ZERO, expect == ClearDecision::Protected);
}

#[test]
fn results_that_save_nothing_or_are_exempt_are_never_cleared() {
    let long = long();
    let failure = format!("Error: {long}");
    check(&long, &rule(), ClearDecision::Protected);
    check("", &rule(), ClearDecision::Empty);
    check("ok", &rule(), ClearDecision::NotShorter);
    check(&failure, &rule(), ClearDecision::Protected);
    let keeps = PruneRule { keep_errors: true, ..rule() };
    check(&failure, &keeps, ClearDecision::Error);
    check(&long, &keeps, ClearDecision::Protected);
    for (tool, expect) in [("read", ClearDecision::Exempt), ("write", ClearDecision::Protected)] {
        let exempt = PruneRule { exempt_tools: vec![tool.to_owned()], ..rule() };
        check(&long, &exempt, expect);
    }
    check("[Old tool result content cleared]", &rule(), ClearDecision::Placeholder);
}

#[test]
fn without_a_rule_there_is_nothing_to_clear() {
    let body = body(&[&*long(); 3]);
    let prune_state = PruneState::new(&read(body.as_bytes()).unwrap(), None);
    assert!(prune_state.results().is_empty());
}

#[test]
fn a_clearing_frees_the_results_from_a_message_on() {
    let (mut prune_state, _, frees) = five(&rule());
    let check = |prune_state: &PruneState, clearing, start, count| {
        let expect = times(frees, count);
        assert_eq!(prune_state.frees_in(clearing, start..11), expect, "{start}");
    };
    check(&prune_state, Clearing::UpToLimit, 0, 0);
    prune_state.extend_clearable(Tokens::ZERO);
    for (start, count) in [(0, 4), (2, 4), (3, 3), (8, 1), (9, 0), (11, 0)] {
        check(&prune_state, Clearing::UpToLimit, start, count);
        check(&prune_state, Clearing::Past, start, 0);
    }
    prune_state.clear_all_clearable();
    check(&prune_state, Clearing::Past, 3, 3);
}
