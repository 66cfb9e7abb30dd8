//! Checks that every rule is needed: without it, or without any piece of it, the verdict on some
//! reply changes.

use regex_syntax::ast::parse::Parser;
use regex_syntax::ast::{Ast, RepetitionKind};
use serde_json::{Value, json};

use crate::dialect::Dialect;
use crate::overflow::rules::ClassifierRules;
use crate::overflow::tests::replies::{Answer, fixtures};
use crate::overflow::tests::wordings::wordings;
use crate::overflow::tests::{finish, inner, left_alone, refused_lists};
use crate::overflow::vocabulary::{Row, WORDINGS, rows};
use crate::overflow::{ReplyClassifier, Verdict};

/// A reply to classify.
struct Case {
    status: u16,
    body: String,
}

impl Case {
    fn verdict(&self, rules: &ClassifierRules) -> Verdict {
        let reading = ReplyClassifier::new(Dialect::ChatCompletions, self.status, rules, None);
        left_alone(finish(reading, [self.body.as_bytes()]))
    }
}

/// Returns every recorded reply and every wording, each in several variants:
///
/// - as recorded
/// - the message alone
/// - the codes under a message of their own
///
/// Each variant comes with the recorded status, and with a plain 400 if that status is an error.
/// Replies to leave alone come with a 413 too, as Groq's throttling does: only a veto distinguishes
/// them from a byte limit.
fn cases() -> Vec<Case> {
    const CODES: [&str; 4] = ["code", "error_type", "metadata", "type"];
    let mut cases = Vec::new();
    for reply in fixtures().into_iter().chain(wordings()) {
        let status = reply.status;
        let mut statuses = vec![status];
        if status >= 400 {
            statuses.push(400);
        }
        if reply.expected.answer == Answer::Leave {
            statuses.push(413);
        }
        let mut bodies = vec![reply.body.clone()];
        if let Some(Value::Object(error)) = inner(&reply.body) {
            bodies.push(json!({ "error": { "message": error.get("message") } }).to_string());
            let mut coded = error;
            coded.retain(|key, _| CODES.contains(&key.as_str()));
            coded.insert("message".into(), "Provider returned error".into());
            bodies.push(json!({ "error": coded }).to_string());
        }
        for body in bodies {
            for &status in &statuses {
                let body = body.clone();
                cases.push(Case { status, body });
            }
        }
    }
    cases.extend(refused_lists().map(|(status, body)| Case { status, body }));
    cases
}

/// Description of a change to the rows, and the changed rows.
type Mutant = (String, Vec<Row>);

fn all_rows() -> Vec<Row> {
    rows(WORDINGS).collect()
}

/// Whether the pattern of a row is a regular expression.
fn is_pattern(row: &Row) -> bool {
    !row.list.ends_with("-code") && !matches!(row.list, "overflow-number" | "status")
}

/// Returns the place of a row, to be named in a failure.
fn place(row: &Row) -> String {
    let Row { list, language, pattern } = row;
    let start = format!("{list}\t{language}\t{pattern}\t");
    let at = WORDINGS.lines().position(|line| line.starts_with(&start));
    format!("data/wordings.tsv:{}: {list} {pattern}", at.unwrap() + 1)
}

/// Returns, for each row, the rows without it. Statuses have a test of their own.
fn without_each() -> impl Iterator<Item = Mutant> {
    let rows = all_rows();
    let all = rows.clone().into_iter().enumerate();
    all.filter(|(_, row)| row.list != "status").map(move |(at, row)| {
        let mut rest = rows.clone();
        rest.remove(at);
        (place(&row), rest)
    })
}

/// Returns, for each piece of each pattern, the rows without that piece.
fn with_each_piece_less() -> impl Iterator<Item = Mutant> {
    let rows = all_rows();
    let all = rows.clone().into_iter().enumerate();
    all.filter(|(_, row)| is_pattern(row)).flat_map(move |(at, row)| {
        let rows = rows.clone();
        pieces_less(row.pattern).into_iter().map(move |pattern| {
            let mut changed = rows.clone();
            changed[at].pattern = pattern.leak();
            let what = format!("{}: {} does the same", place(&row), changed[at].pattern);
            (what, changed)
        })
    })
}

/// Returns variants of a pattern: without each branch of each alternation, without each optional
/// piece, and with each optional piece required.
fn pieces_less(pattern: &str) -> Vec<String> {
    let mut found = Vec::new();
    let tree = Parser::new().parse(pattern).unwrap();
    let mut open = vec![&tree];
    while let Some(node) = open.pop() {
        let mut cut = |from: usize, to: usize| {
            found.push(format!("{}{}", &pattern[..from], &pattern[to..]));
        };
        match node {
            Ast::Alternation(alternation) => {
                let branches = &alternation.asts;
                for (at, branch) in branches.iter().enumerate() {
                    let span = branch.span();
                    match (branches.get(at + 1), at.checked_sub(1)) {
                        (Some(next), _) => cut(span.start.offset, next.span().start.offset),
                        (None, Some(before)) => {
                            cut(branches[before].span().end.offset, span.end.offset);
                        }
                        (None, None) => unreachable!("an alternation has branches"),
                    }
                }
                open.extend(branches);
            }
            Ast::Repetition(repetition) => {
                if repetition.op.kind == RepetitionKind::ZeroOrOne {
                    let (whole, mark) = (repetition.span, repetition.op.span);
                    cut(whole.start.offset, whole.end.offset);
                    cut(mark.start.offset, mark.end.offset);
                }
                open.push(&repetition.ast);
            }
            Ast::Concat(concat) => open.extend(&concat.asts),
            Ast::Group(group) => open.push(&group.ast),
            Ast::Assertion(_)
            | Ast::ClassBracketed(_)
            | Ast::ClassPerl(_)
            | Ast::ClassUnicode(_)
            | Ast::Dot(_)
            | Ast::Empty(_)
            | Ast::Flags(_)
            | Ast::Literal(_) => {}
        }
    }
    found
}

/// Checks that every mutant changes the verdict on some case.
fn check(mutants: impl Iterator<Item = Mutant>) {
    let cases = cases();
    let judged: Vec<Verdict> =
        cases.iter().map(|case| case.verdict(ClassifierRules::standard())).collect();
    let unneeded: Vec<String> = mutants
        .filter(|(_, rows)| {
            let rules = ClassifierRules::from_rows(rows);
            let mut both = cases.iter().zip(&judged);
            both.all(|(case, verdict)| case.verdict(&rules) == *verdict)
        })
        .map(|(what, _)| what)
        .collect();
    assert!(unneeded.is_empty(), "no line of the fixtures needs:\n{}", unneeded.join("\n"));
}

#[test]
fn every_rule_is_needed() {
    check(without_each());
}

/// An error under a vetoed status is not about the window, even if it uses the words of an
/// overflow.
#[test]
fn every_vetoed_status_is_needed() {
    let text = "prompt is too long: 208732 tokens > 200000 maximum";
    for row in all_rows().iter().filter(|row| row.list == "status") {
        let mut without = all_rows();
        without.retain(|one| one != row);
        let rules = ClassifierRules::from_rows(&without);
        let status: u16 = row.pattern.parse().unwrap();
        let outer = json!({ "error": { "message": text } });
        let inner = json!({ "error": { "message": text, "code": status } });
        for (status, body) in [(status, outer), (400, inner)] {
            let body = body.to_string();
            let case = Case { status, body };
            let with = case.verdict(ClassifierRules::standard());
            assert_eq!(with, Verdict::Fine, "{status}");
            let is_overflow = matches!(case.verdict(&rules), Verdict::Overflow(_));
            assert!(is_overflow, "{status}");
        }
    }
}

#[test]
fn every_piece_of_every_pattern_is_needed() {
    check(with_each_piece_less());
}
