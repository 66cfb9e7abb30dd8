//! The bill for a range of clearing parameters: the tokens that the rule protects, the minimum it
//! clears and the turns it waits for.

use crate::bill::Bill;
use crate::options::Options;
use crate::play::{Setup, play};
use crate::prices::PRICES;
use crate::sessions::Failure;
use crate::table::{MUCH_DEARER, per_session, percent, share};
use crate::{Recorded, setup, workers};
use std::fmt::Write as _;

const WINDOW: u64 = 200_000;
const PROTECT: [u64; 3] = [40_000, 20_000, 80_000];
const MINIMUM: [u64; 3] = [20_000, 10_000, 40_000];
const TURNS: [u32; 2] = [2, 0];

/// A point of the sweep.
struct Point {
    protect: u64,
    minimum: u64,
    turns: u32,
}

/// Prints a row for each point as soon as its result is available, the default first.
pub(crate) fn print(options: &Options, recorded: &[Recorded]) -> Result<(), Failure> {
    let mut text = format!("## `standard` at {WINDOW}\n\n| protect | minimum | user turns |");
    for prices in PRICES {
        _ = write!(text, " {} |", prices.name);
    }
    text.push_str(" sent on | cached | changes a session | 2% dearer |\n|--:|--:|--:|");
    text.push_str(&"--:|".repeat(PRICES.len() + 4));
    println!("{text}");
    let points = TURNS.into_iter().flat_map(|turns| {
        PROTECT.into_iter().flat_map(move |protect| {
            MINIMUM.into_iter().map(move |minimum| Point {
                protect,
                minimum,
                turns,
            })
        })
    });
    for point in points {
        let setup = point.setup(options);
        let title = format!("{}/{}/{}", point.protect, point.minimum, point.turns);
        let bills = workers::each(&title, recorded, |one| {
            if point.leaves(one) {
                return Ok(Bill::untouched(&one.direct));
            }
            Ok(Bill::of(
                &play(&one.session.replay, &setup)?,
                &one.direct,
                one.pinned,
            ))
        })?;
        println!("{}", point.row(&bills));
    }
    Ok(())
}

impl Point {
    /// Whether a session is too short for any clearing.
    fn leaves(&self, one: &Recorded) -> bool {
        let whole = one.wholes.last().copied().unwrap_or(0);
        whole <= self.protect + self.minimum
    }

    fn setup(&self, options: &Options) -> Setup {
        let mut setup = setup(options, "standard", WINDOW);
        let numbers = [
            ("prune.protect_tokens", self.protect.to_string()),
            ("prune.minimum_tokens", self.minimum.to_string()),
            ("prune.min_user_turns", self.turns.to_string()),
        ];
        let numbers = numbers.map(|(key, value)| (key.to_owned(), value));
        setup.settings.extend(numbers);
        setup
    }

    fn row(&self, bills: &[Bill]) -> String {
        let total: Bill = bills.iter().cloned().sum();
        let dearer = bills
            .iter()
            .filter(|bill| bill.worst(PRICES).0 > MUCH_DEARER);
        let mut text = format!("| {} | {} | {} |", self.protect, self.minimum, self.turns);
        for prices in PRICES {
            _ = write!(text, " {} |", share(total.ratio(prices)));
        }
        _ = write!(
            text,
            " {} | {} | {} | {} |",
            percent(total.kept()),
            percent(total.cached()),
            per_session(&total),
            dearer.count(),
        );
        text
    }
}
