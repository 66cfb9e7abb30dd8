//! The outcome of whole sessions: how much was kept and how often the prefix changed. Also compares
//! the cost of the input with that of no proxy and an unlimited window.

use std::fmt::Write as _;

use serde::Serialize;

use crate::play::outcome::{PlayOutcome, error_text};
use crate::play::row::PlayRow;
use crate::play::totals::{PlayTotals, percent};
use crate::proxy::KnownModel;
use longhaul_console::amounts::short_usd;
use longhaul_console::table::Table;
use longhaul_console::terminal::paragraph;
use longhaul_console::thousands::with_thousands;
use longhaul_core::cost::pricing::{Price, PriceOrigin, TokenPrices};
use longhaul_core::dialect::usage::Usage;
use longhaul_core::units::usd::Usd;

/// The outcome of one session.
#[derive(Debug, Serialize)]
pub(super) struct SessionReport {
    session: String,
    /// Requests in the session. Those after one that got no answer were not sent.
    session_requests: usize,
    pub(super) window: u32,
    window_source: String,
    /// Whether neither a setting nor the table states the window.
    pub(super) is_assumed: bool,
    /// The reason the session ended early, if it did.
    pub(super) broken_off: Option<String>,
    #[serde(skip)]
    pub(super) rows: Vec<PlayRow>,
    #[serde(flatten)]
    pub(super) totals: PlayTotals,
    pub(super) cost: InputCost,
}

/// The input cost of the answered requests.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct InputCost {
    /// Whether the costs follow list prices, in billionths of a dollar. If not, a new token counts
    /// one and a cached one a tenth.
    pub(super) listed: bool,
    /// The cost with longhaul, including summaries.
    pub(super) with: Usd,
    /// The cost without a proxy: from the first change on, as if the cache held each previous request whole.
    pub(super) without: Usd,
}

impl SessionReport {
    /// Creates the report of a session of `requests` requests to the model `known`.
    pub(super) fn new(
        session: &str,
        requests: usize,
        played: PlayOutcome,
        known: &KnownModel,
    ) -> Self {
        Self {
            session: session.to_owned(),
            session_requests: requests,
            window: known.window.get(),
            window_source: known.window_source.clone(),
            is_assumed: known.largest_window.is_none(),
            broken_off: played.failed_request().map(error_text),
            cost: InputCost::from_rows(&played.rows, known.prices),
            rows: played.rows,
            totals: played.totals,
        }
    }
}

impl InputCost {
    fn from_rows(rows: &[PlayRow], prices: Option<TokenPrices>) -> Self {
        // A price list without a price for cached input cannot price a conversation.
        let listed = prices.filter(|prices| prices.cached.is_some());
        let prices = listed.or_else(relative_prices);
        let cost = |all: u64, cached: u64| {
            let input = u32::try_from(all).unwrap_or(u32::MAX);
            let cached = u32::try_from(cached).unwrap_or(u32::MAX).min(input);
            let writes = prices.is_some_and(|prices| prices.written.is_some());
            let usage = Usage {
                input,
                cached: Some(cached),
                written: if writes { input - cached } else { 0 },
                ..Usage::default()
            };
            prices.and_then(|prices| prices.input_cost(&usage)).unwrap_or(Usd::ZERO)
        };
        let mut sum = Self { listed: listed.is_some(), with: Usd::ZERO, without: Usd::ZERO };
        let (mut before, mut is_changed) = (0, false);
        for row in rows.iter().filter(|row| row.error.is_none()) {
            is_changed |= row.rewritten;
            sum.with += cost(row.tokens_forwarded, row.tokens_cached);
            sum.with += cost(row.tokens_for_summaries, 0);
            sum.without +=
                cost(row.tokens_sent, if is_changed { before } else { row.tokens_cached });
            before = row.tokens_sent;
        }
        sum
    }

    /// Formats the cost with longhaul as a percentage of that without, and the latter in dollars if
    /// list prices are known.
    fn describe(self) -> String {
        let [with, without] = [self.with, self.without].map(|usd| usd.as_nanos().unsigned_abs());
        let paid =
            if self.listed { format!(" of {}", short_usd(self.without)) } else { String::new() };
        format!("{}%{paid}", percent(with, without))
    }
}

/// Returns the prices for a model without list prices: one for a new token, a tenth for a cached
/// one, as most providers charge.
fn relative_prices() -> Option<TokenPrices> {
    Some(TokenPrices {
        input: Price::from_dollars_per_million("1")?,
        cached: Price::from_dollars_per_million("0.1"),
        written: None,
        output: None,
        origin: PriceOrigin::Listed,
    })
}

/// Renders a table with a row for each session, and one of totals if there are several.
pub(super) fn render_table(reports: &[SessionReport], width: Option<usize>) -> String {
    let mut table = Table::of_numbers(HEADING);
    for report in reports {
        let window = marked_window(report.window, report.is_assumed);
        let (totals, requests) = (&report.totals, report.session_requests);
        table.push(row_cells(&report.session, window, totals, requests, Some(report.cost)));
    }
    if reports.len() > 1 {
        table.push(totals_row(reports));
    }
    let mut page = table.render(width);
    page.push('\n');
    let early = reports.iter().filter_map(|report| Some((report, report.broken_off.as_ref()?)));
    for (report, why) in early.clone() {
        _ = writeln!(page, "{} ended early: {why}\n", report.session);
    }
    page.push_str(&paragraph(LEGEND, width));
    let changed = reports.iter().filter(|report| report.totals.prefix_changes > 0).count();
    let all = reports.len();
    _ = match (early.count(), changed) {
        (0, 0) => page.write_str("\nlonghaul changes nothing: every session fits its window.\n"),
        (0, _) => write!(page, "\nlonghaul changes {changed} of {all} sessions. {NEXT}"),
        (early, _) => writeln!(page, "\n{early} of {all} sessions ended early: raise --window."),
    };
    page
}

/// Formats a window, with the mark of the legends if it is assumed.
pub(super) fn marked_window(window: u32, is_assumed: bool) -> String {
    with_thousands(window) + if is_assumed { "*" } else { "" }
}

/// The next step after a report.
pub(super) const NEXT: &str = "Next: longhaul run -- claude, or another agent.\n";

const COLUMNS: usize = 9;

const HEADING: [&str; COLUMNS] =
    ["session", "window", "answered", "sent", "kept", "changes", "cached", "summaries", "cost"];

const LEGEND: &str = include_str!("sessions_legend.txt");

fn totals_row(reports: &[SessionReport]) -> [String; COLUMNS] {
    let mut totals = PlayTotals::default();
    for report in reports {
        totals.add(&report.rows);
    }
    let requests = reports.iter().map(|report| report.session_requests).sum();
    let mut costs = reports.iter().map(|report| report.cost);
    // Dollars and relative costs cannot be added.
    let cost = costs.next().and_then(|first| {
        costs.try_fold(first, |sum, cost| {
            (cost.listed == sum.listed).then(|| InputCost {
                with: sum.with + cost.with,
                without: sum.without + cost.without,
                ..sum
            })
        })
    });
    row_cells("all", String::new(), &totals, requests, cost)
}

fn row_cells(
    session: &str,
    window: String,
    totals: &PlayTotals,
    requests: usize,
    cost: Option<InputCost>,
) -> [String; COLUMNS] {
    [
        session.to_owned(),
        window,
        format!("{}/{requests}", totals.answered),
        with_thousands(totals.tokens_sent),
        format!("{}%", percent(totals.tokens_forwarded, totals.tokens_sent)),
        totals.prefix_changes.to_string(),
        format!("{}%", totals.cached_percent()),
        totals.summaries.to_string(),
        cost.map_or_else(|| "–".to_owned(), InputCost::describe),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_core::units::tokens::Tokens;

    fn row(sent: u64, forwarded: u64, cached: u64) -> PlayRow {
        PlayRow {
            tokens_sent: sent,
            tokens_forwarded: forwarded,
            tokens_cached: cached,
            rewritten: sent != forwarded,
            ..PlayRow::default()
        }
    }

    fn listed() -> TokenPrices {
        TokenPrices {
            input: Price::from_dollars_per_million("2").unwrap(),
            cached: Price::from_dollars_per_million("0.5"),
            written: None,
            output: None,
            origin: PriceOrigin::Listed,
        }
    }

    fn check(rows: &[PlayRow], prices: Option<TokenPrices>, expect: (i64, i64), told: &str) {
        let cost = InputCost::from_rows(rows, prices);
        assert_eq!((cost.with.as_nanos(), cost.without.as_nanos()), expect);
        assert_eq!(cost.describe(), told);
    }

    #[test]
    fn direct_cost_assumes_each_request_caches_the_previous_one() {
        let rows = [row(1_000, 1_000, 0), row(3_000, 3_000, 1_000)];
        let whole = 1_000 * 2_000 + 2_000 * 2_000 + 1_000 * 500;
        check(&rows, Some(listed()), (whole, whole), "100% of $0.0065");
    }

    #[test]
    fn unchanged_requests_cost_the_same_whatever_the_cache_holds() {
        let rows = [row(1_000, 1_000, 0), row(3_000, 3_000, 0)];
        check(&rows, Some(listed()), (8_000_000, 8_000_000), "100% of $0.0080");
    }

    #[test]
    fn longhaul_cost_counts_uncached_input_and_summary_tokens() {
        let mut cleared = row(3_000, 1_500, 500);
        cleared.tokens_for_summaries = 100;
        let rows = [row(1_000, 1_000, 0), cleared];
        let with = 1_000 * 2_000 + 1_000 * 2_000 + 500 * 500 + 100 * 2_000;
        check(&rows, Some(listed()), (with, 6_500_000), "68% of $0.0065");
    }

    #[test]
    fn cached_tokens_cost_a_tenth_if_no_cached_price_is_listed() {
        let rows = [row(1_000, 1_000, 0), row(2_000, 2_000, 1_000)];
        check(&rows, None, (2_100_000, 2_100_000), "100%");
        let uncached = TokenPrices { cached: None, ..listed() };
        check(&rows, Some(uncached), (2_100_000, 2_100_000), "100%");
    }

    #[test]
    fn cache_writes_cost_the_listed_write_price() {
        let writes = TokenPrices { written: Price::from_dollars_per_million("4"), ..listed() };
        check(
            &[row(1_000, 500, 100)],
            Some(writes),
            (400 * 4_000 + 100 * 500, 4_000_000),
            "41% of $0.0040",
        );
    }

    #[test]
    fn a_request_without_an_answer_costs_nothing_on_either_side() {
        let mut lost = row(9_000, 0, 0);
        lost.error = Some("gone".to_owned());
        check(&[row(1_000, 1_000, 0), lost], None, (1_000_000, 1_000_000), "100%");
    }

    fn bill(session: &str, rows: Vec<PlayRow>, prices: Option<TokenPrices>) -> SessionReport {
        let known = KnownModel {
            window: Tokens::ZERO,
            actual_window: Tokens::ZERO,
            window_source: String::new(),
            largest_window: None,
            prices,
        };
        SessionReport::new(session, 3, PlayOutcome::from_rows(rows), &known)
    }

    #[test]
    fn total_row_shows_a_cost_only_if_all_sessions_use_one_unit() {
        let of = |prices: [Option<TokenPrices>; 2]| {
            let reports = prices.map(|prices| bill("a.json", vec![row(1_000, 500, 0)], prices));
            render_table(&reports, None)
        };
        let last = |page: &str| {
            let lines = page.lines().take_while(|line| !line.is_empty());
            let words = lines.last().unwrap().split_whitespace();
            words.map(str::to_owned).collect::<Vec<_>>()
        };
        let all = ["all", "2/6", "2,000", "50%", "0", "0%", "0"];
        let page = of([None, None]);
        assert_eq!(last(&page), [&all[..], &["50%"]].concat(), "{page}");
        let page = of([None, Some(listed())]);
        assert_eq!(last(&page), [&all[..], &["–"]].concat(), "{page}");
    }

    #[test]
    fn report_says_why_a_session_ended_early() {
        let mut lost = row(9_000, 0, 0);
        lost.error = Some("the words".to_owned());
        lost.status = 400;
        let page = render_table(&[bill("a.json", vec![lost], None)], None);
        assert!(page.contains("a.json ended early: 400 the words"), "{page}");
    }
}
