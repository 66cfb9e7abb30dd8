//! Tests of a walk: unknown reasoning, chains and compactions.

use serde_json::json;

use super::*;

const RULES: BindingRules = BindingRules {
    is_chained: false,
    takes_all_later: false,
    counts_reasoning: true,
    reads_failing: false,
    is_bound_to_caller: true,
    reads: |_, _| true,
};

/// Builds a prompt from words: `u…` a user's, `r…` reasoning, `c…` a compaction, any other the model's.
fn prompt(words: &str) -> Prompt {
    let unit = |(at, word): (usize, &str)| {
        let part = match word.get(..1) {
            Some("r") => Part::Reasoning(word.to_owned()),
            Some("c") => Part::Compaction(Some(word.to_owned())),
            _ => Part::Other,
        };
        let is_made = !word.starts_with('u');
        let role = if is_made { "assistant" } else { "user" };
        let hash = hash(&json!(word), &[]);
        Unit { part, hash, is_made, role: role.to_owned(), place: (at, 0), id: None }
    };
    let units = words.split_whitespace().enumerate().map(unit).collect();
    Prompt { start: 1, caller: 1, model: "m".to_owned(), units }
}

/// Sends prompts. Returns the reasoning that does not hold in each.
fn lost(rules: &BindingRules, prompts: &[&str]) -> Vec<String> {
    let mut book = ReasoningBook::default();
    let lost = prompts.iter().map(|words| {
        let prompt = prompt(words);
        let judged = book.judge(&prompt, rules);
        let lost = judged.dropped(|_| "").into_iter().map(|it| it.key).collect::<Vec<_>>();
        book.commit(&prompt, judged, Vec::new());
        lost.join(" ")
    });
    lost.collect()
}

#[test]
fn unknown_reasoning_is_bound_to_the_request_that_it_answers() {
    for (prompts, expect) in [
        // The same history goes on.
        (&["u1", "u1 r1 a u2", "u1 r1 a u2 r2 b u3"][..], ["", "", ""]),
        // The client sends the reply together with an edit before it.
        (&["u1 u2", "u1 uX r1 a u3", "u1 uX r1 a u3"], ["", "r1", "r1"]),
        // The edit was in the request that the reply answers.
        (&["u1 u2 r1 a u3", "u1 uX r1 a u3", "u1 uX r1 a u3 r2 b u4"], ["", "r1", "r1"]),
        // A request between two steps was not seen.
        (&["u1", "u1 r1 a u2 r2 b u3", "u1 r1 a u2 r2 b u3"], ["", "", ""]),
        (&["u1 u2", "u1 u2 r1 a u3 r2 b u4", "u1 uX r1 a u3 r2 b u4"], ["", "", "r1 r2"]),
        // A fork repeats the history up to the fork.
        (&["u1", "u1 r1 a u2", "u1 r1 a u3"], ["", "", ""]),
    ] {
        assert_eq!(lost(&RULES, prompts), expect, "{prompts:?}");
    }
}

#[test]
fn a_chain_may_lose_its_ends_but_no_link() {
    let chained = BindingRules { is_chained: true, counts_reasoning: false, ..RULES };
    let all = "u1 r1 a u2 r2 b u3 r3 d u4";
    for (kept, expect) in [
        ("u1 a u2 r2 b u3 r3", ""),
        ("u1 r1 a u2 r2 b u3", ""),
        ("u1 a u2 b u3", ""),
        ("u1 r1 a u2 b u3 r3", "r3"),
    ] {
        let kept = format!("{kept} d u4");
        assert_eq!(lost(&chained, &[all, &kept])[1], expect, "{kept}");
    }
    let removed = ["u1", "u1 r1 a u2", "u1 a u2 b u3", "u1 a u2 b u3 r3 d u4"];
    let put_back = [&removed[..], &["u1 r1 a u2 b u3 r3 d u4"]].concat();
    assert_eq!(lost(&chained, &put_back), ["", "", "", "", "r3"]);
}

/// Covers `covered` by `c1` and sends a prompt behind `known`.
fn swapped(rules: &BindingRules, known: &str, covered: &str, sent: &str) -> String {
    let mut book = ReasoningBook::default();
    let first = prompt(known);
    let judged = book.judge(&first, rules);
    book.commit(&first, judged, Vec::new());
    let pass = prompt(covered);
    let judged = book.judge(&pass, rules);
    book.cover(&pass, &judged, "c1", true);
    let sent = prompt(sent);
    let judged = book.judge(&sent, rules);
    judged.dropped(|_| "").into_iter().map(|it| it.key).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_compaction_stands_for_its_prefix() {
    let known = "u1 r1 a u2 r2 b u3 r3 d u4";
    let covered = "u1 r1 a u2";
    for (sent, expect) in [
        ("c1 r2 b u3 r3 d u4", ""),
        ("u1 c1 r2 b u3 r3 d u4", ""),
        ("u1 r1 a c1 r2 b u3 r3 d u4", ""),
        ("c1 uX r2 b u3 r3 d u4", "r2 r3"),
        ("c1 r2 b uX r3 d u4", "r3"),
        ("u1 r1 a u2 r2 b u3 r3 d u4", ""),
    ] {
        assert_eq!(swapped(&RULES, known, covered, sent), expect, "{sent}");
    }
}

#[test]
fn the_first_turn_behind_a_joined_compaction_keeps_no_chained_reasoning() {
    let chained = BindingRules { is_chained: true, counts_reasoning: false, ..RULES };
    let known = "u1 r1 a u2 u3 r2 b u4";
    assert_eq!(swapped(&chained, known, "u1 r1 a u2", "c1 u3 r2 b u4"), "r2");
    assert_eq!(swapped(&chained, known, "u1 r1 a u2 u3", "c1 r2 b u4"), "");
}
