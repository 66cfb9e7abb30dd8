//! Figures of the heuristics: recall on unseen refusals, false positives on look-alikes.
//!
//! The held-out part yields counts only, so that no rule is built from it.

use std::collections::BTreeMap;

use crate::overflow::tests::unseen::{LARGE, Reply, SMALL, fixture, is_overflow};
use crate::overflow::{Evidence, Overflow, RequestFacts, RequestText, Verdict};

/// Recognised refusals and all refusals, by family.
type Recall = BTreeMap<String, (usize, usize)>;

fn recall(replies: &[Reply]) -> Recall {
    let mut found = Recall::new();
    for reply in replies.iter().filter(|reply| reply.overflow) {
        let recognised = usize::from(is_overflow(reply.judge(LARGE)));
        let both = format!("{}, {}", reply.family, reply.language);
        for family in [&reply.family, "all", &reply.language, &both] {
            let (yes, all) = found.entry(family.to_owned()).or_default();
            *yes += recognised;
            *all += 1;
        }
    }
    found
}

/// Adds up the recall of several parts and prints a line for each family and each language.
fn total(parts: impl IntoIterator<Item = Recall>) -> Recall {
    let mut sum = Recall::new();
    for (name, (yes, all)) in parts.into_iter().flatten() {
        let entry = sum.entry(name).or_default();
        *entry = (entry.0 + yes, entry.1 + all);
    }
    println!("| family or language | recognised | refusals |\n|---|--:|--:|");
    for (name, (yes, all)) in &sum {
        println!("| {name} | {yes} | {all} |");
    }
    sum
}

/// Returns the look-alikes that are taken for an overflow, and the number of look-alikes.
fn false_positives(replies: &[Reply]) -> (Vec<&Reply>, usize) {
    let alike = || replies.iter().filter(|reply| !reply.overflow);
    let wrong = alike().filter(|reply| {
        let Some(request) = quoted_request(reply) else {
            return is_overflow(reply.judge(LARGE));
        };
        let text = RequestText::new(request.as_bytes(), "");
        is_overflow(reply.judge(RequestFacts { text, ..SMALL }))
    });
    (wrong.collect(), alike().count())
}

/// Returns the request that a statement quotes: a message of the words between quotation marks. Its size
/// explains nothing, since size counts whatever a statement quotes.
fn quoted_request(reply: &Reply) -> Option<String> {
    let body: serde_json::Value = serde_json::from_str(reply.body.as_deref()?).ok()?;
    let message = body.pointer("/error/message")?.as_str()?;
    let mark = if message.contains('"') { '"' } else { '\'' };
    let (_, behind) = message.split_once(mark)?;
    let (quoted, _) = behind.rsplit_once(mark)?;
    (reply.family == "quotes user text")
        .then(|| serde_json::json!({"messages": [{"role": "user", "content": quoted}]}).to_string())
}

/// Returns the upper bound of the 95% interval of a share of which none of `all` was seen.
fn upper_bound(wrong: usize, all: usize) -> f64 {
    // Wilson's score interval.
    let count = |number: usize| f64::from(u32::try_from(number).unwrap());
    let (wrong, all, z) = (count(wrong), count(all), 1.96_f64);
    let share = wrong / all;
    let spread = z * (share * (1.0 - share) / all + z * z / (4.0 * all * all)).sqrt();
    (share + z * z / (2.0 * all) + spread) / (1.0 + z * z / all)
}

/// Prints the figures of a part, checks recall and false positives, and returns the recall.
fn check(part: &str, replies: &[Reply]) -> Recall {
    let found = recall(replies);
    for (family, (yes, all)) in &found {
        println!("{part}: {family}: {yes} of {all}");
    }
    let (wrong, all) = false_positives(replies);
    let bound = 100.0 * upper_bound(wrong.len(), all);
    println!("{part}: {} of {all} look-alikes, at most {bound:.2}%", wrong.len());
    let at_least = |family: &str, percent: usize| {
        // Three authors wrote no refusal with a code.
        let (yes, all) = found.get(family).copied().unwrap_or_default();
        assert!(yes * 100 >= all * percent, "{part}: {family}: {yes} of {all}");
    };
    at_least("all", 95);
    at_least("code", 99);
    at_least("numbers", 98);
    let bodies: Vec<_> = wrong.iter().map(|one| (&one.who, one.status, &one.body)).collect();
    assert!(wrong.is_empty(), "{part}: {bodies:?}");
    found
}

#[test]
fn reaches_the_required_recall_on_unseen_wordings() {
    check("development", &fixture!("unseen/development.jsonl"));
    check("held out", &fixture!("unseen/held_out.jsonl"));
}

#[test]
fn reaches_the_required_recall_on_blind_wordings() {
    let found = total([
        check("first author", &fixture!("unseen/blind_1.jsonl")),
        check("second author", &fixture!("unseen/blind_2.jsonl")),
        check("third author", &fixture!("unseen/blind_3.jsonl")),
        check("fourth author", &fixture!("unseen/blind_4.jsonl")),
        check("fifth author", &fixture!("unseen/blind_5.jsonl")),
        check("sixth author", &fixture!("unseen/blind_6.jsonl")),
    ]);
    // Rules may be added, but none of these may be lost.
    let recognised = found["all"].0;
    assert!(recognised >= 898, "{recognised}");
}

#[test]
fn reaches_the_required_recall_on_the_list_of_a_reader_of_the_rules() {
    check("seventh list", &fixture!("unseen/blind_7.jsonl"));
}

#[test]
fn reaches_the_required_recall_on_the_list_of_an_author_of_public_reports() {
    check("eighth list", &fixture!("unseen/blind_8.jsonl"));
}

#[test]
fn words_about_a_small_request_raise_no_suspicion() {
    let replies = fixture!("unseen/development.jsonl");
    let words = replies.iter().filter(|one| one.overflow && one.family == "words");
    let unknown = words.filter(|one| !is_overflow(one.judge_by_table()));
    for reply in unknown {
        let verdict = reply.judge(SMALL);
        let suspects =
            matches!(verdict, Verdict::Overflow(Overflow { evidence: Evidence::Suspected(_), .. }));
        assert!(!suspects, "{} {:?}", reply.who, reply.body);
    }
}

/// Only a bare `Bad Request`, a web page, and a model's own window leave the cause open. The other look-alikes are in
/// languages that are read: no repetition makes them an overflow.
#[test]
fn a_look_alike_names_a_cause_in_every_language_that_is_read() {
    let lists = [
        fixture!("unseen/development.jsonl"),
        fixture!("unseen/blind_1.jsonl"),
        fixture!("unseen/blind_2.jsonl"),
        fixture!("unseen/blind_3.jsonl"),
        fixture!("unseen/blind_4.jsonl"),
        fixture!("unseen/blind_5.jsonl"),
        fixture!("unseen/blind_6.jsonl"),
        fixture!("unseen/blind_7.jsonl"),
        fixture!("unseen/blind_8.jsonl"),
        fixture!("unseen/held_out.jsonl"),
    ];
    let open = |one: &&Reply| matches!(one.judge(LARGE), Verdict::Unexplained(Some(_)));
    let counts = lists.map(|list| {
        let open = list.iter().filter(|one| !one.overflow).filter(open);
        open.inspect(|one| println!("{} {:?}", one.status, one.body)).count()
    });
    assert_eq!(counts.iter().sum::<usize>(), 8, "{counts:?}");
}
