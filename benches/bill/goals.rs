//! The goals of the bill, and how far a run is from them.

use crate::Run;
use crate::goal::{Goal, HEADING};
use crate::prices::Prices;
use crate::table::{MUCH_DEARER, percent};
use std::fmt::Write as _;

/// Minimum cached share by window, in ten-thousandths.
const CACHED: [(u64, u64); 3] = [(32_000, 9_400), (64_000, 9_600), (128_000, 9_750)];
/// Maximum prefix changes per session by window, in hundredths.
const CHANGES: [(u64, u64); 2] = [(32_000, 250), (128_000, 50)];
/// Below this window, no session may become much dearer under `auto`.
const SMALL: u64 = 100_000;

/// The goals for all sessions together, as far as `runs` covers them.
pub(crate) fn of_all(runs: &[Run], prices: [Prices; 3]) -> String {
    let mut text = format!("{HEADING}\n");
    for run in runs {
        let total = run.total();
        let name = format!("`{}` at {}", run.profile, run.window);
        let auto = run.profile == "auto";
        let aim = |aims: &[(u64, u64)]| {
            let aim = aims.iter().find(|(window, _)| auto && *window == run.window);
            aim.map(|(_, aim)| *aim)
        };
        if let Some(aim) = aim(&CACHED) {
            let what = format!("{name}: cached share");
            let line = Goal::AtLeast(aim).line(&what, total.cached(), percent);
            _ = writeln!(text, "{line}");
        }
        if let Some(aim) = aim(&CHANGES) {
            let what = format!("{name}: prefix changes a session");
            let found = (total.changes * 100 / total.sessions.max(1)) as u64;
            _ = writeln!(text, "{}", Goal::AtMost(aim).line(&what, found, hundredths));
        }
        if (auto && run.window < SMALL) || run.profile == "frugal" {
            let much = run.bills.iter().filter(|(_, bill)| bill.worst(prices).0 > MUCH_DEARER);
            let what = format!("{name}: sessions more than 2% dearer under any prices");
            let line = Goal::AtMost(0).line(&what, much.count() as u64, whole);
            _ = writeln!(text, "{line}");
        }
    }
    text
}

/// Formats hundredths as a decimal number.
pub(crate) fn hundredths(hundredths: u64) -> String {
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

pub(crate) fn whole(number: u64) -> String {
    number.to_string()
}
