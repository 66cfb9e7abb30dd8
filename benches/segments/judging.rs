//! Facts that judge the index: no rule and no number of the index may be chosen on them.
//!
//! The author of these shapes had seen neither the index nor the other shapes. Of these facts, only the
//! total is read. A later change of the index needs new shapes here.

use crate::facts::Numbers;
use crate::places::Stated;

const SHAPES: usize = 20;

const DIGITS: &str = "0123456789";
const HEX: &str = "0123456789abcdef";
const MIXED: &str = "bcdfghjklmnpqrstvwxz2456789";

/// Returns the pieces of a fact and one line that states it.
pub(crate) fn state(numbers: &mut Numbers, shape: usize) -> Stated {
    match shape % SHAPES {
        at @ 0..5 => setting(numbers, at),
        at @ 5..10 => said(numbers, at - 5),
        at @ 10..15 => printed(numbers, at - 10),
        at => recorded(numbers, at - 15),
    }
}

/// Facts of files of configuration.
fn setting(numbers: &mut Numbers, at: usize) -> Stated {
    let name = name(numbers).to_lowercase();
    match at {
        0 => {
            let key = one_of(numbers, "lease_renewal_ms|max_inflight_rows|idle_evict_ms");
            let ways = [
                "  {}: {}  # raised after the failover drill in spring",
                "deploy/values-prod.yaml:~~:    {}: {}",
                "Please put {}: {} into the production chart, and leave staging as it is.",
            ];
            let pieces = vec![key.to_owned(), number(numbers, 6)];
            tell(numbers, pieces, &ways)
        }
        1 => {
            let key = one_of(numbers, "WAREHOUSE_ROLE|LEDGER_TENANT|SEARCH_ALIAS");
            let ways = [
                "export {}",
                "Environment={} in the unit file, otherwise the worker does not start",
                "It only works when I run it with {} in front, so add that to the .env file.",
            ];
            let piece = format!("{key}={name}_{}", numbers.text(4, MIXED));
            tell(numbers, vec![piece], &ways)
        }
        2 => {
            let limit = one_of(numbers, "client_max_body_size ~~~m|proxy_read_timeout ~~~s");
            let limit = with_digits(numbers, limit);
            let ways = [
                "    location {} { {}; proxy_pass http://upstream_api; }",
                "nginx on the edge has, for {}, {} and nothing else that differs from the default.",
            ];
            let path = format!("/{name}/v{}/", 2 + numbers.next(8));
            tell(numbers, vec![path, limit], &ways)
        }
        3 => {
            let (major, minor) = (1 + numbers.next(9), 10 + numbers.next(80));
            let version = format!("{major}.{minor}.{}", number(numbers, 3));
            let end = one_of(numbers, "codec|client|forms|pool");
            let ways = [
                "npm ERR! peer dep missing: {}, required by the dashboard workspace",
                "We stay on {} because the next release drops the synchronous writer.",
                "+ {}  added ~~ packages, changed ~ in ~s",
            ];
            tell(numbers, vec![format!("{name}-{end}@{version}")], &ways)
        }
        _ => {
            let salt = numbers.text(6, MIXED);
            let ways = [
                r#"{"flag": "{}", "salt": "{}", "enabled": true, "owner": "growth"}"#,
                "The experiment {} uses the salt {}; changing it would reshuffle all the users.",
            ];
            tell(numbers, vec![format!("checkout_{name}"), salt], &ways)
        }
    }
}

/// Facts that people and models state.
fn said(numbers: &mut Numbers, at: usize) -> Stated {
    let (first, last) = (name(numbers), name(numbers));
    match at {
        0 => {
            let currency = one_of(numbers, "EUR|USD|GBP|CHF");
            let amount = format!("{},{}", 1 + numbers.next(40), number(numbers, 3));
            let ways = [
                "Decision from the call: {} signs every refund above {}, the rest stays automatic.",
                "One more rule: only {} may approve credits over {}. Everyone else has to escalate.",
                "I asked finance, and {} confirmed a ceiling of {} for goodwill payments.",
            ];
            let pieces = vec![format!("{first} {last}"), format!("{amount} {currency}")];
            tell(numbers, pieces, &ways)
        }
        1 => {
            let (month, day) = (1 + numbers.next(12), 1 + numbers.next(28));
            let (hour, minute) = (numbers.next(24), numbers.next(60));
            let ways = [
                "The {} cutover is fixed for {} at {}, no writes after that.",
                "Calendar: freeze for {} begins {}, {}, ops bridge opens ten minutes earlier",
                "Customer {} moved the window to {} {} because of their stocktaking.",
            ];
            let day = format!("2027-{month:02}-{day:02}");
            let time = format!("{hour:02}:{minute:02} UTC");
            tell(numbers, vec![last, day, time], &ways)
        }
        2 => {
            let door = one_of(numbers, "side gate|rear dock|blue door");
            let ways = [
                "The customer wants exactly this on the label: \"{}\".",
                "delivery_note: '{}'",
                "Agent note: driver must read \"{}\" before he leaves, it failed twice already",
            ];
            let piece = format!("ring at {last}, {door} code {}", number(numbers, 5));
            tell(numbers, vec![piece], &ways)
        }
        3 => {
            let (name, end) = (first.to_lowercase(), last.to_lowercase());
            let initial: String = name.chars().take(1).collect();
            let mailbox = format!("{initial}.{end}{}", number(numbers, 2));
            let piece = format!("{mailbox}@{name}-freight.example");
            let ways = [
                "From: {} To: support@shop.example Subject: Re: missing pallets",
                "Send the weekly report to {} from now on, not to the shared mailbox.",
                "She wrote from {}, which is not the address that we have on the account.",
            ];
            tell(numbers, vec![piece], &ways)
        }
        _ => {
            let (a, b, c) = (numbers.next(256), numbers.next(256), 1 + numbers.next(254));
            let piece = format!("10.{a}.{b}.{c}:{}", 10_000 + numbers.next(50_000));
            let ways = [
                "The standby listens on {} now, the old one was switched off this morning.",
                "dial tcp {}: connect: connection refused (attempt ~ of 9)",
                "You reach the lab device under {}, but only over the VPN.",
            ];
            tell(numbers, vec![piece], &ways)
        }
    }
}

/// Facts that tools print.
fn printed(numbers: &mut Numbers, at: usize) -> Stated {
    let name = name(numbers).to_lowercase();
    match at {
        0 => {
            let text = one_of(numbers, "settlement window closed|stale fencing token");
            let ways = [
                "2026-0~-1~T0~:1~:4~Z ERROR gateway: {}: {} (retryable=false)",
                "Error: {} {}",
                "The provider answers with {}, so: {}. Their manual says to open a new session.",
            ];
            let code = format!("PGW-{}", number(numbers, 5));
            tell(numbers, vec![code, format!("{text} for {name}")], &ways)
        }
        1 => {
            let value = format!("{}.{}", number(numbers, 4), number(numbers, 1));
            let ways = [
                "{}   p99={} ms   rps=~~~   errors=0",
                "After the change, {} takes {} ms at the 99th percentile with warm caches.",
                "Baseline to beat: {} at {} ms, measured on the small instance",
            ];
            let route = one_of(numbers, "orders|exports|invoices");
            tell(numbers, vec![format!("/api/{route}/{name}"), value], &ways)
        }
        2 => {
            let ways = [
                "{} is the first bad commit",
                "I bisected it: the regression came in with {}, three weeks before the release.",
                "HEAD is now at {} Merge branch 'hotfix/rounding'",
            ];
            let piece = numbers.text(10, HEX);
            tell(numbers, vec![piece], &ways)
        }
        3 => {
            let (set, pod) = (numbers.text(9, MIXED), numbers.text(5, MIXED));
            let ways = [
                "{}   0/1   CrashLoopBackOff   1~ (2m ago)   ~h",
                "Warning  BackOff  pod/{}  Back-off restarting failed container",
                "Only {} shows the leak; the other replicas stay flat.",
            ];
            tell(numbers, vec![format!("{name}-sync-{set}-{pod}")], &ways)
        }
        _ => {
            let (millions, thousands) = (1 + numbers.next(90), number(numbers, 3));
            let count = format!("{millions},{thousands},{} rows", number(numbers, 3));
            let ways = [
                "INFO loader: {} finished, {} written, 0 rejected",
                "The reconciled total of {} is {}, and the source agrees.",
                "mart.{} | {} | last vacuum ~ days ago",
            ];
            let layer = one_of(numbers, "fct|stg|dim");
            tell(numbers, vec![format!("{layer}_{name}"), count], &ways)
        }
    }
}

/// Facts of command lines, tables and papers.
fn recorded(numbers: &mut Numbers, at: usize) -> Stated {
    let name = name(numbers).to_lowercase();
    match at {
        0 => {
            let (minute, hour, day) = (numbers.next(60), numbers.next(24), numbers.next(7));
            let ways = [
                "{} {} >> /var/log/jobs.log 2>&1",
                "crontab of the batch host: {} root {}",
                "The nightly load is the line `{} {}` and must not overlap with the backup.",
            ];
            let script = format!("/opt/jobs/reindex_{name}.sh");
            let pieces = vec![format!("{minute} {hour} * * {day}"), script];
            tell(numbers, pieces, &ways)
        }
        1 => {
            let (folder, part) = (numbers.text(6, MIXED), number(numbers, 3));
            let ways = [
                "download: {} to ./part.parquet",
                "The corrupt file is {}; skip it until the vendor delivers again.",
                "source: {}  (~~ MB, snappy)",
            ];
            let piece = format!("s3://{name}-raw/{folder}/part-00{part}.parquet");
            tell(numbers, vec![piece], &ways)
        }
        2 => {
            let ways = [
                "$ ./bin/replay --topic payments {} --dry-run",
                "If the import dies again, start it with {} and it skips what is already there.",
                "hint: rerun with {} to continue",
            ];
            let piece = format!("--resume-from=0x{}", numbers.text(8, HEX));
            tell(numbers, vec![piece], &ways)
        }
        3 => {
            let (thousands, cents) = (1 + numbers.next(60), number(numbers, 2));
            let amount = format!("{thousands},{}.{cents}", number(numbers, 3));
            let ways = [
                "Invoice {} over {} is still open, the customer disputes two positions.",
                "{};{};EUR;overdue;~~ days",
                "They paid {} twice, so {} goes back to the card on file.",
            ];
            let invoice = format!("INV-{}", number(numbers, 6));
            tell(numbers, vec![invoice, amount], &ways)
        }
        _ => {
            let zone = one_of(numbers, "Europe/Lisbon|America/Bogota|Asia/Tashkent");
            let ways = [
                "COMMENT: column {} holds local time of {}, not UTC",
                "Careful: {} is written in {} time by the scanners, convert before you join.",
                "SELECT {} AT TIME ZONE '{}' FROM shipments LIMIT ~;",
            ];
            let column = format!("{name}_{}_at", numbers.text(3, MIXED));
            tell(numbers, vec![column, zone.to_owned()], &ways)
        }
    }
}

/// States `pieces` in one of `ways`: a `{}` stands for the next piece, a `~` for any digit.
fn tell(numbers: &mut Numbers, pieces: Vec<String>, ways: &[&str]) -> Stated {
    let way = ways.get(numbers.next(ways.len())).copied();
    let way = with_digits(numbers, way.unwrap_or_default());
    let fill = |text: String, piece: &String| text.replacen("{}", piece, 1);
    let text = pieces.iter().fold(way, fill);
    (pieces, text)
}

fn with_digits(numbers: &mut Numbers, text: &str) -> String {
    let digit = |it| match it {
        '~' => number(numbers, 1),
        it => String::from(it),
    };
    text.chars().map(digit).collect()
}

/// One of `choices`, which `|` separates.
fn one_of<'a>(numbers: &mut Numbers, choices: &'a str) -> &'a str {
    let at = numbers.next(choices.split('|').count());
    choices.split('|').nth(at).unwrap_or_default()
}

/// A number of `length` digits that does not begin with zero.
fn number(numbers: &mut Numbers, length: usize) -> String {
    let first = 1 + numbers.next(9);
    let others = numbers.text(length.saturating_sub(1), DIGITS);
    format!("{first}{others}")
}

/// A name that could be one of a person, a product or a place.
fn name(numbers: &mut Numbers) -> String {
    const HEADS: &str = "Bra|Dor|Fen|Gil|Hal|Jor|Kas|Lin|Mar|Nes|Oly|Pel|Ras|Sol|Tam|Ulf|Ver|Wil";
    const MIDDLES: &str = "a|e|i|o|u|an|el|im|or|us|ad|ev";
    const TAILS: &str = "bek|dano|fors|gard|kow|lund|mitz|nova|quist|ridge|sen|tova|vik|wick|zalo";
    let parts = [HEADS, MIDDLES, TAILS];
    parts.map(|it| one_of(numbers, it)).concat()
}
