//! The text files: each line is a phrase that is found in its own words.

use super::super::approval::{APPROVALS, DELAYS, REFUSALS};
use super::super::phrases::{Phrases, fold, lines};
use super::super::proposals::{PERMISSIONS, PROPOSALS};
use super::super::replacement::{
    CORRECTIONS, EQUATIVES, FILLERS, NEGATIONS, NUMBERED, NUMBERS, OLD_VALUES,
};
use super::super::rule_marks::{LEAD_INS, MARKS, NARRATION, REQUESTS};
use std::collections::HashSet;

#[test]
fn each_phrase_is_found_in_its_own_words() {
    let files = [APPROVALS, DELAYS, REFUSALS, PERMISSIONS, PROPOSALS, NARRATION, REQUESTS];
    for file in MARKS.into_iter().chain(files) {
        let phrases = Phrases::new(&[file]);
        for line in lines(file) {
            let words = line.replace(['^', '$', '*'], "").replace('…', " x ");
            assert!(phrases.are_in(&fold(&words)), "{line}");
        }
    }
}

#[test]
fn no_file_states_a_phrase_twice_or_in_upper_case() {
    let files = [APPROVALS, DELAYS, REFUSALS, PERMISSIONS, PROPOSALS, NARRATION, REQUESTS];
    let words =
        [CORRECTIONS, EQUATIVES, FILLERS, LEAD_INS, NEGATIONS, NUMBERED, NUMBERS, OLD_VALUES];
    for file in MARKS.into_iter().chain(files).chain(words) {
        let mut met = HashSet::new();
        for line in lines(file) {
            assert!(met.insert(line), "twice: {line}");
            assert_eq!(line.to_lowercase(), line);
        }
    }
}

#[test]
fn each_language_has_a_file_with_its_sources() {
    for file in MARKS {
        assert!(file.starts_with("# Marks of a rule in "), "{file:.40}");
        assert!(file.contains("\n# Sources: "), "{file:.40}");
    }
}

#[test]
fn a_phrase_is_bound_to_words_clauses_and_gaps() {
    let phrases = Phrases::new(&["^keep\nno … without\nstop$\nобязательн*\n*malı\nне\n不要"]);
    let found = [
        "Keep it.",
        "For tests, keep it.",
        "There is no merge of mine without a review.",
        "Then stop!",
        "Тесты обязательны.",
        "Testler çalışmalı mı",
        "请不要修改",
    ];
    for text in found {
        assert!(phrases.are_in(&fold(text)), "{text}");
    }
    let far = format!("no {} without", "word ".repeat(20));
    let missed = ["I keep it.", "keeper", "The stop word", "nowhere, without", &far];
    for text in missed {
        assert!(!phrases.are_in(&fold(text)), "{text}");
    }
}

#[test]
fn writers_leave_out_marks_of_letters() {
    let phrases = Phrases::new(&["دائما\nеще\nistanbul"]);
    for text in ["دائماً", "ещё", "İstanbul"] {
        assert!(phrases.are_in(&fold(text)), "{text}");
    }
}
