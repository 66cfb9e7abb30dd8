//! `longhaul store`: inspects or purges stored records without showing their text.

use std::collections::BTreeMap;

use clap::ArgMatches;
use serde_json::{Value, json};

use crate::cli::Done;
use crate::config::{Config, StoreLocation};
use crate::error::Problem;
use crate::store::{RecordListing, ScopeStats, StoreInspector, totals_file};
use crate::wall_clock;
use longhaul_console::json::pretty_json;
use longhaul_console::printable::shortened;
use longhaul_console::table::{Align, Table};
use longhaul_console::terminal;
use longhaul_console::thousands::with_thousands;
use longhaul_core::units::scope::ScopeTag;

/// The maximum length of a model name, in characters. Clients choose these names and a terminal
/// shows them, so only printable characters are kept.
const MODEL_CHARS: usize = 40;

/// Runs the subcommand of `matches` on the configured store.
pub(super) fn store(config: &Config, matches: &ArgMatches) -> Done {
    let page = run_subcommand(config, matches).map_err(|problem| vec![problem])?;
    crate::cli::print(&page)
}

fn run_subcommand(config: &Config, matches: &ArgMatches) -> Result<String, Problem> {
    let Some((what, own)) = matches.subcommand() else {
        return Err(Problem::CommandLine("expected stats, list or purge".into()));
    };
    let scope = own.get_one::<ScopeTag>("scope").copied();
    let json = own.get_flag("json");
    let store = &config.store;
    let keeps_files = store.location == StoreLocation::Memory && store.lessons.is_some();
    if what == "purge" && scope.is_none() && keeps_files {
        let purged = totals_file::remove(store)?;
        let shown = pretty_json(&json!({ "purged": purged.len() }));
        let names: Vec<_> = purged.iter().map(|path| format!("  {}\n", path.display())).collect();
        let (count, names) = (purged.len(), names.concat());
        let said = format!("{count} files deleted; no store of records is named\n{names}");
        return Ok(if json { shown } else { said });
    }
    let inspector = StoreInspector::open(store)?;
    if what == "purge" && scope.is_none() {
        totals_file::remove(store)?;
    }
    crate::cli::runtime()?.block_on(async {
        let page = match (what, json) {
            ("stats", false) => {
                stats_table(&inspector.stats(scope).await?).render(terminal::width())
            }
            ("stats", true) => pretty_json(&stats_json(&inspector.stats(scope).await?)),
            ("list", false) => list_table(&inspector.list(scope).await?).render(terminal::width()),
            ("list", true) => pretty_json(&list_json(&inspector.list(scope).await?)),
            (_, false) => format!("{} entries deleted\n", inspector.purge(scope).await?),
            (_, true) => pretty_json(&json!({ "purged": inspector.purge(scope).await? })),
        };
        inspector.close().await;
        Ok(page)
    })
}

/// Parses a scope from the digits that [`scope_hex`] returns.
pub(super) fn parse_scope(text: &str) -> Result<ScopeTag, String> {
    let digits = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let number = u64::from_str_radix(text, 16).ok().filter(|_| digits);
    number
        .map(|number| ScopeTag(number.to_be_bytes()))
        .ok_or_else(|| "expected the 16 hexadecimal digits that `store stats` shows".into())
}

fn scope_hex(scope: ScopeTag) -> String {
    format!("{:016x}", u64::from_be_bytes(scope.0))
}

/// Returns the numbers of a scope by name.
fn numbers(stats: &ScopeStats) -> [(&'static str, u64); 5] {
    [
        ("entries", stats.entries),
        ("records", stats.records),
        ("adopted", stats.adopted),
        ("originals", stats.originals),
        ("bytes", stats.bytes),
    ]
}

fn stats_table(scopes: &BTreeMap<ScopeTag, ScopeStats>) -> Table {
    let names = numbers(&ScopeStats::default()).map(|(name, _)| name);
    let mut table = Table::of_numbers(["scope"].into_iter().chain(names));
    let mut all = [0; 5];
    let cells = |scope, row: [u64; 5]| [scope].into_iter().chain(row.map(|it| it.to_string()));
    for (scope, stats) in scopes {
        let row = numbers(stats).map(|(_, number)| number);
        table.push(cells(scope_hex(*scope), row));
        for (sum, number) in all.iter_mut().zip(row) {
            *sum += number;
        }
    }
    table.push(cells("all".to_owned(), all));
    table
}

fn stats_json(scopes: &BTreeMap<ScopeTag, ScopeStats>) -> Value {
    let scopes = scopes.iter().map(|(scope, stats)| {
        let numbers = numbers(stats).map(|(name, number)| (name, Value::from(number)));
        let scope = ("scope", Value::from(scope_hex(*scope)));
        [scope].into_iter().chain(numbers).collect::<Value>()
    });
    json!({ "scopes": scopes.collect::<Vec<_>>() })
}

fn list_table(lines: &[RecordListing]) -> Table {
    let mut table = Table::with_headings([
        (Align::Left, "scope"),
        (Align::Right, "used"),
        (Align::Right, "made"),
        (Align::Right, "before"),
        (Align::Right, "after"),
        (Align::Left, "adopted"),
        (Align::Left, "model"),
    ]);
    for line in lines {
        let idle = line.idle.map_or_else(|| "?".into(), |idle| format_age(idle.as_secs()));
        let scope = scope_hex(line.scope);
        let adopted = if line.adopted { "yes" } else { "no" };
        table.push(match &line.record {
            None => {
                let size = format!("unreadable, {} bytes", line.bytes);
                let empty = String::new;
                [scope, idle, empty(), empty(), empty(), empty(), size]
            }
            Some(record) => [
                scope,
                idle,
                match record.last_compacted_at {
                    // Digests and clips have no creation time.
                    0 => "-".into(),
                    at => format_age(wall_clock::unix_seconds().saturating_sub(at)),
                },
                with_thousands(record.tokens_before.get()),
                with_thousands(record.tokens_after.get()),
                adopted.to_owned(),
                shortened(&record.model, MODEL_CHARS),
            ],
        });
    }
    table
}

fn list_json(lines: &[RecordListing]) -> Value {
    let records = lines.iter().map(|line| {
        let mut shown = json!({
            "scope": scope_hex(line.scope),
            "readable": line.record.is_some(),
            "adopted": line.adopted,
            "bytes": line.bytes,
            "idle_seconds": line.idle.map(|idle| idle.as_secs()),
        });
        if let (Some(record), Some(shown)) = (&line.record, shown.as_object_mut()) {
            let made = Some(record.last_compacted_at).filter(|at| *at > 0);
            shown.insert("model".into(), record.model.clone().into());
            shown.insert("messages".into(), record.compacted_message_count.into());
            shown.insert("tokens_before".into(), record.tokens_before.get().into());
            shown.insert("tokens_after".into(), record.tokens_after.get().into());
            shown.insert("compactions".into(), record.compaction_count.into());
            shown.insert("made_at".into(), made.into());
        }
        shown
    });
    json!({ "records": records.collect::<Vec<_>>() })
}

fn format_age(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..172_800 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scope_parses_as_it_is_displayed() {
        let tag = ScopeTag([0, 1, 2, 0xab, 4, 5, 6, 0xff]);
        assert_eq!(scope_hex(tag), "000102ab040506ff");
        assert_eq!(parse_scope("000102ab040506ff"), Ok(tag));
        for wrong in ["", "+00102ab040506ff", "000102ab040506f", "000102ab040506fg"] {
            assert!(parse_scope(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn ages_use_the_largest_fitting_unit() {
        for (seconds, expect) in
            [(0, "0s"), (59, "59s"), (60, "1m"), (3_600, "1h"), (172_800, "2d")]
        {
            assert_eq!(format_age(seconds), expect);
        }
    }

    #[test]
    fn printable_model_is_bounded_and_without_control_characters() {
        assert_eq!(shortened("gpt\u{1b}[2J\n5", MODEL_CHARS), "gpt[2J5");
        assert_eq!(shortened("gpt\u{202e}5\u{2069}", MODEL_CHARS), "gpt5");
        assert_eq!(shortened(&"m".repeat(1_000), MODEL_CHARS).len(), MODEL_CHARS);
    }
}
