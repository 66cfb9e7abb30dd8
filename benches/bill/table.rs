//! Bills as Markdown tables.

use crate::Run;
use crate::bill::Bill;
use crate::prices::Prices;
use std::fmt::Write as _;

/// Maximum number of dearer sessions listed by name.
const NAMED: usize = 3;
/// Cost ratio from which a session counts as dearer: rounding and placeholders account for up to
/// half a percent.
const DEARER: u64 = 10_050;
/// Cost ratio from which a session counts as much dearer.
pub(crate) const MUCH_DEARER: u64 = 10_200;

/// Renders the sums of each run as a row, followed by the sessions that became dearer.
pub(crate) fn render(runs: &[&Run], prices: [Prices; 3]) -> String {
    let mut text = heading("window", prices);
    for run in runs {
        _ = writeln!(text, "| {} | {}", run.window, row(&run.total(), prices));
    }
    text.push_str("\n| window | dearer by 0.5% under any prices |");
    for prices in prices {
        _ = write!(text, " by 2% at {} |", prices.name);
    }
    text.push_str(" the worst |\n|--:|--:|");
    text.push_str(&"--:|".repeat(prices.len()));
    text.push_str("---|\n");
    for run in runs {
        _ = writeln!(text, "| {} | {}", run.window, dearer(run, prices));
    }
    text
}

/// Formats the figures of a bill as cells.
pub(crate) fn row(bill: &Bill, prices: [Prices; 3]) -> String {
    let mut text = String::new();
    for prices in prices {
        _ = write!(text, "{} | ", share(bill.ratio(prices)));
    }
    _ = write!(
        text,
        "{} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
        share(bill.ratio_without_calls()),
        percent(bill.cached()),
        percent(bill.kept()),
        percent(bill.pinned()),
        percent(bill.kept_of_free()),
        per_session(bill),
        bill.condensed,
        bill.summaries,
        bill.retries,
        bill.broken_off,
        percent((bill.answered * 10_000 / bill.requests.max(1)) as u64),
    );
    text
}

fn dearer(run: &Run, prices: [Prices; 3]) -> String {
    let mut found: Vec<(u64, Prices, &str)> = run
        .bills
        .iter()
        .map(|(name, bill)| (bill.worst(prices), name))
        .filter(|((ratio, _), _)| *ratio > DEARER)
        .map(|((ratio, prices), name)| (ratio, prices, &**name))
        .collect();
    found.sort_by(|one, other| other.0.cmp(&one.0).then_with(|| one.2.cmp(other.2)));
    let much = prices.map(|prices| {
        let much = |(_, bill): &&(String, Bill)| bill.ratio(prices) > MUCH_DEARER;
        run.bills.iter().filter(much).count().to_string()
    });
    let named: Vec<String> = found
        .iter()
        .take(NAMED)
        .map(|(ratio, prices, name)| {
            let more = percent(ratio - 10_000);
            format!("{name} +{more} at {}", prices.name)
        })
        .collect();
    format!("{} | {} | {} |", found.len(), much.join(" | "), named.join(", "))
}

/// Prefix changes per session.
pub(crate) fn per_session(bill: &Bill) -> String {
    let hundredths = bill.changes * 100 / bill.sessions.max(1);
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

/// Renders a row per session, the ones with the most changes first.
pub(crate) fn sessions(run: &Run, prices: [Prices; 3]) -> String {
    let mut bills: Vec<&(String, Bill)> = run.bills.iter().collect();
    bills.sort_by_key(|(_, bill)| std::cmp::Reverse(bill.changes));
    let mut text = heading(&format!("{} at {}", run.profile, run.window), prices);
    for (name, bill) in bills {
        _ = writeln!(text, "| {name} | {}", row(bill, prices));
    }
    text
}

fn heading(first: &str, prices: [Prices; 3]) -> String {
    let mut text = format!("| {first} |");
    for prices in prices {
        _ = write!(text, " {} |", prices.name);
    }
    text.push_str(
        " without calls | cached | sent on | pinned | sent on but pinned | changes a session | of them condensed | summaries | sent twice | \
         broken off | requests answered |\n|--:|",
    );
    text.push_str(&"--:|".repeat(prices.len() + 11));
    text.push('\n');
    text
}

/// Formats ten-thousandths as a decimal number with three digits.
pub(crate) fn share(ten_thousandths: u64) -> String {
    let thousandths = (ten_thousandths + 5) / 10;
    format!("{}.{:03}", thousandths / 1_000, thousandths % 1_000)
}

/// Formats ten-thousandths as a percentage with one digit.
pub(crate) fn percent(ten_thousandths: u64) -> String {
    let tenths = (ten_thousandths + 5) / 10;
    format!("{}.{}%", tenths / 10, tenths % 10)
}
