//! The tallies as Markdown tables.

use crate::tally::{Tally, percent};
use crate::{Budget, Method};
use std::fmt::Write as _;

/// Renders a table per budget with a row per method.
pub(crate) fn render(methods: &[Method], sums: &[[Tally; Budget::ALL.len()]]) -> String {
    let mut text = String::new();
    for (at, budget) in Budget::ALL.iter().enumerate() {
        let title = budget.title();
        _ = writeln!(
            text,
            "## {title}\n\n| | all | far, only in results | cuts | tokens each | wanted |\n\
             |---|--:|--:|--:|--:|--:|"
        );
        for (method, tallies) in methods.iter().zip(sums) {
            let (Some(tally), name) = (tallies.get(at), name(method)) else {
                continue;
            };
            _ = writeln!(
                text,
                "| {name} | {} | {} | {} | {} | {} / {} |",
                percent(tally.all),
                percent(tally.far),
                tally.cuts,
                tally.tokens / tally.cuts.max(1),
                tally.all.wanted(),
                tally.far.wanted(),
            );
        }
        text.push('\n');
    }
    text
}

pub(crate) fn name(method: &Method) -> &'static str {
    match method {
        Method::Baseline(baseline) => baseline.name(),
        Method::Ours(name, _) => name,
    }
}
