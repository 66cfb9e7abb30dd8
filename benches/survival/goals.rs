//! The goals of this benchmark, and how far a run is from them.

use crate::Budget;
use crate::goal::{Goal, HEADING};
use crate::tally::Tally;
use std::fmt::Write as _;

/// Minimum survival by budget, in thousandths: of all identifiers, and of those last seen far back
/// and only in results.
const AIMS: [(Budget, u64, u64); Budget::ALL.len()] = [
    (Budget::Percent(50), 970, 850),
    (Budget::Percent(25), 920, 750),
    (Budget::Tokens(32_000), 960, 790),
];

/// Renders the goals against the survival under one method.
pub(crate) fn render(name: &str, tallies: &[Tally; Budget::ALL.len()]) -> String {
    let mut text = format!("{HEADING}\n");
    for (tally, (budget, all, far)) in tallies.iter().zip(AIMS) {
        for (what, aim, share) in [
            ("all", all, tally.all),
            ("far, only in results", far, tally.far),
        ] {
            let what = format!("{name}, {}: {what}", budget.title());
            let found = share.thousandths().unwrap_or(0);
            _ = writeln!(text, "{}", Goal::AtLeast(aim).line(&what, found, percent));
        }
    }
    text
}

/// Formats thousandths as a percentage.
fn percent(thousandths: u64) -> String {
    format!("{}.{}%", thousandths / 10, thousandths % 10)
}
