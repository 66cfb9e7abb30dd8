//! Hash-flooding names, and histories long enough to expose superlinear cost.
//!
//! The measure is the program's own processor time. Names that collide under the multiplicative
//! hashes of other languages must cost no more than names that do not.
//!
//! Collisions under longhaul's own hash cannot be constructed, because each process draws its keys
//! at random. The last test reads the source to show that every table uses such a hash.

use std::fs;

use super::{CHAT, OK, Pair};

/// The number of names is `2^BITS`.
const BITS: usize = 14;
/// Limit on the ratio of two costs. A quadratic table would take about a thousand times as long for
/// this many names.
const RATIO: u64 = 8;
/// Times each body is sent, so that the cost is measurable.
const ROUNDS: usize = 5;

/// Builds each name from `pairs`, one pair per bit of the name's number.
fn names(pairs: [&str; 2]) -> Vec<String> {
    let name = |at: usize| (0..BITS).map(|bit| pairs[at >> bit & 1]).collect();
    (0..1 << BITS).map(name).collect()
}

/// Builds a chat that uses `names` wherever a client may choose a name: keys, ids, tools, files.
fn body(names: &[String]) -> String {
    let keys: Vec<String> = names.iter().map(|name| format!(r#""{name}":1"#)).collect();
    let messages: Vec<String> = names
        .iter()
        .map(|name| {
            format!(
                r#"{{"role":"assistant","content":null,"tool_calls":[{{"id":"{name}","type":"function","function":{{"name":"{name}","arguments":"{{\"path\":\"{name}\"}}"}}}}]}},{{"role":"tool","tool_call_id":"{name}","content":"{name}"}}"#
            )
        })
        .collect();
    format!(
        r#"{{"model":"m","metadata":{{{}}},"messages":[{{"role":"user","content":"x"}},{}]}}"#,
        keys.join(","),
        messages.join(",")
    )
}

/// Returns the processor time that the process has used, in clock ticks.
fn ticks(process: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    // The preceding field, the process name, may contain spaces and ends with a parenthesis.
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    let fields: Vec<&str> = fields.split(' ').collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

/// Measures the program's processor time for `body`, sent by a new caller each time.
async fn cost(pair: &Pair, body: &str) -> u64 {
    let before = ticks(pair.program.process());
    for round in 0..ROUNDS {
        let mut client = pair.connect().await;
        let length = body.len();
        let head = format!(
            "POST {CHAT} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nx-longhaul-compact: now\r\n\
             Authorization: Bearer {round} of {length}\r\nContent-Length: {length}\r\n\r\n"
        );
        let send = async {
            client.send(&head).await;
            client.send(body).await;
        };
        let take = async {
            let mut server = pair.upstream.accept().await;
            server.until("\r\n\r\n").await;
            server.send(OK).await;
            server.drain().await;
        };
        tokio::join!(send, take);
        assert!(client.rest().await.ends_with("ok"));
    }
    (ticks(pair.program.process()) - before).max(1)
}

#[tokio::test]
async fn colliding_names_cost_no_more_than_others() {
    let pair = Pair::with(&[("LONGHAUL_SUMMARY_MODEL", "none")]).await;
    let ordinary = cost(&pair, &body(&names(["xy", "zw"]))).await;
    // The first pair collides under h·31 + c (strings in Java), the second under h·33 + c (tables
    // of older PHP and Perl).
    for pairs in [["Aa", "BB"], ["Ez", "FY"]] {
        let chosen = cost(&pair, &body(&names(pairs))).await;
        assert!(chosen < ordinary * RATIO, "{pairs:?}: {chosen} to {ordinary}");
    }
    pair.still_serves().await;
}

/// A history four times as long costs four times as much, not sixteen times.
#[tokio::test]
async fn cost_of_a_history_with_many_steps_is_proportional() {
    let pair = Pair::with(&[("LONGHAUL_SUMMARY_MODEL", "none")]).await;
    let names = names(["xy", "zw"]);
    let quarter = cost(&pair, &body(&names[..names.len() / 4])).await;
    let whole = cost(&pair, &body(&names)).await;
    assert!(whole < quarter * RATIO, "{whole} to {quarter}");
    pair.still_serves().await;
}

/// Measures the program's processor time for heads with `fields` fields and a `Connection` list of
/// 100,000 empty elements.
async fn cost_of_fields(pair: &Pair, fields: usize) -> u64 {
    let list = ",".repeat(100_000);
    let fields: Vec<String> = (0..fields).map(|at| format!("x-{at}: {at}\r\n")).collect();
    let fields = fields.concat();
    let ask =
        format!("GET /v1/models HTTP/1.1\r\nHost: x\r\nConnection: close{list}\r\n{fields}\r\n");
    let before = ticks(pair.program.process());
    for _ in 0..ROUNDS {
        let mut client = pair.connect().await;
        client.send(&ask).await;
        let mut server = pair.upstream.accept().await;
        server.until("\r\n\r\n").await;
        server.send(OK).await;
        assert!(client.rest().await.ends_with("ok"));
    }
    (ticks(pair.program.process()) - before).max(1)
}

/// The `Connection` list is parsed once; each field is looked up in the result.
#[tokio::test]
async fn a_long_list_of_connection_options_is_not_read_for_every_field() {
    let pair = Pair::start().await;
    let one = cost_of_fields(&pair, 1).await;
    let many = cost_of_fields(&pair, 250).await;
    assert!(many < one * RATIO, "{many} to {one}");
    pair.still_serves().await;
}

/// Histories that exceed the window and cannot be cut, or not any further. Each earlier request of
/// the history is looked up in the store, and the lookups must stay linear.
#[tokio::test]
async fn cost_of_a_history_that_cannot_be_cut_is_proportional() {
    let environment = [("LONGHAUL_SUMMARY_MODEL", "none"), ("LONGHAUL_WINDOW", "8000")];
    let pair = Pair::with(&environment).await;
    let user = r#"{"role":"user","content":"x"}"#;
    let result = r#"{"role":"tool","tool_call_id":"c","content":"x"}"#;
    let call = r#"{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":""}}]}"#;
    let system = r#"{"role":"system","content":"x"}"#;
    let silent = r#"{"role":"assistant","content":null}"#;
    let long = "word ".repeat(5_300);
    let answered = format!(r#"{user},{{"role":"assistant","content":"{long}"}},{user}"#);
    let shapes = [
        ("unanswered", user, user, user),
        ("one call's results", call, result, result),
        ("after instructions", system, system, user),
        ("servers' words between", user, system, user),
        ("after silence", &answered, silent, user),
    ];
    let mut wrong = Vec::new();
    for (name, first, then, last) in shapes {
        let body = |count: usize| {
            let (then, last) = (vec![then; count].join(","), vec![last; count].join(","));
            format!(r#"{{"model":"m","messages":[{first},{then},{last}]}}"#)
        };
        let quarter = cost(&pair, &body(4_000)).await;
        let whole = cost(&pair, &body(16_000)).await;
        if whole >= quarter * RATIO {
            wrong.push(format!("{name}: {whole} to {quarter}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
    pair.still_serves().await;
}

#[test]
fn no_source_uses_a_hasher_without_a_key() {
    fn walk(folder: &str, wrong: &mut Vec<String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path().to_str().unwrap().to_owned();
            if fs::metadata(&path).unwrap().is_dir() {
                walk(&path, wrong);
                continue;
            }
            let text = fs::read_to_string(&path).unwrap_or_default();
            for word in [
                "BuildHasherDefault",
                "FixedState",
                "FxHash",
                "ahash",
                "fnv",
                "with_hasher",
                "hashbrown",
            ] {
                if text.contains(word) {
                    wrong.push(format!("{path}: {word}"));
                }
            }
        }
    }
    let mut wrong = Vec::new();
    walk(concat!(env!("CARGO_MANIFEST_DIR"), "/src"), &mut wrong);
    assert!(wrong.is_empty(), "{wrong:?}");
}
