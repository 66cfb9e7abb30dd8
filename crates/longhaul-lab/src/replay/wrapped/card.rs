//! The card as text and as a picture, from the same values.

use super::Tally;
use crate::client_logs::{ClientLogs, DAYS};
use longhaul_console::amounts::{percent, short_tokens, short_usd};
use longhaul_console::terminal::{paragraph, wrapped};
use longhaul_console::thousands::with_thousands;

/// The card's forms, with a name in braces for each value.
const TEXT: &str = include_str!("card.txt");
pub(super) const PICTURE: &str = include_str!("card.svg");
/// Columns of a value and its name in the text.
const COLUMNS: usize = 36;

/// Returns the values of the card by their names in its forms.
pub(super) fn values(logs: &ClientLogs, tally: &Tally) -> Vec<(&'static str, String)> {
    let count = |number: usize| with_thousands(number as u64);
    let (hits, finished) = (tally.over + tally.compacted, tally.finished);
    let (sent, saved) = (tally.all.totals.tokens_sent, tally.all.totals.tokens_saved);
    let share = percent(saved.unsigned_abs(), sent).unwrap_or_default();
    let (tokens, less) =
        (short_tokens(saved.unsigned_abs()), if saved < 0 { "more" } else { "less" });
    let saved = format!("{tokens} tokens {less}");
    let headline = match hits {
        0 if tally.played == 0 && tally.unknown > 0 => {
            format!("Nothing played: the window of {} is unknown. Set --window.", tally.unknown)
        }
        0 => format!("No session met its window. {saved}."),
        1 => format!("Hit the wall once. {finished} of 1 would have finished. {saved}."),
        _ => {
            format!("Hit the wall {hits} times. {finished} of {hits} would have finished. {saved}.")
        }
    };
    let (with, without) = (tally.priced.cost_with, tally.priced.cost_without);
    let cost = percent(with.as_nanos().unsigned_abs(), without.as_nanos().unsigned_abs());
    let paid = match cost {
        Some(_) => format!("{} of {}, by known list prices", short_usd(with), short_usd(without)),
        None => "no list price is known".to_owned(),
    };
    let sources = logs.sources.iter();
    let sources = sources.map(|(source, (logs, _))| format!("{} {}", source.name(), count(*logs)));
    let (longest, agent) = logs.longest.map_or((0, ""), |(most, source)| (most, source.name()));
    vec![
        ("headline", headline),
        ("hits", count(hits)),
        ("over", count(tally.over)),
        ("compacted", count(tally.compacted)),
        ("finished", format!("{finished} of {hits}")),
        ("tokens", tokens),
        ("less", less.to_owned()),
        ("share", format!("{share}% of the {}", short_tokens(sent))),
        ("cost", cost.map_or_else(|| "unknown".to_owned(), |cost| format!("{cost}%"))),
        ("paid", paid),
        ("played", count(tally.played)),
        ("days", DAYS.to_string()),
        ("sessions", count(logs.sources.values().map(|(logs, _)| logs).sum())),
        ("sources", sources.collect::<Vec<_>>().join(", ")),
        ("requests", count(logs.sources.values().map(|(_, requests)| requests).sum())),
        ("longest", count(longest)),
        ("agent", agent.to_owned()),
        ("farther", count(tally.farther)),
        ("unknown", count(tally.unknown)),
        ("older", count(logs.older)),
        ("skipped", count(logs.skipped)),
    ]
}

/// Returns a form of the card with its values.
pub(super) fn filled(form: &str, values: &[(&str, String)]) -> String {
    values
        .iter()
        .fold(form.to_owned(), |page, (name, value)| page.replace(&format!("{{{name}}}"), value))
}

/// Returns the card for a terminal of `width` columns.
pub(super) fn text(values: &[(&str, String)], width: Option<usize>) -> String {
    let page = filled(TEXT, values);
    let lines = page.lines().map(|line| match line.split('|').collect::<Vec<_>>()[..] {
        [value, name, note] => {
            let row = format!("{value:>9}  {name:<23}  ");
            wrapped(&row, note, COLUMNS, Some(width.unwrap_or(100).min(100)))
        }
        _ => paragraph(line, width),
    });
    lines.collect()
}
