//! Names chosen so that a hash table keyed by nothing secret would put them all in one place, and
//! histories so long that what is not linear in them shows.
//!
//! What is shown: that names which collide under the multiplicative hashes of other languages'
//! tables cost no more than names that do not, in processor time of the program itself. What
//! collides under our tables' own hash cannot be shown, because its keys are drawn at random in
//! each process; that every table has such a hash is what the last test reads in the source.

use std::fs;

use super::{CHAT, OK, Pair};

/// So many names are `2^BITS`.
const BITS: usize = 14;
/// A quadratic table would need some thousand times as much for so many.
const RATIO: u64 = 8;
/// How often each body is sent, so that there is something to compare.
const ROUNDS: usize = 5;

/// Names that are made of these pairs by the bits of their number.
fn names(pairs: [&str; 2]) -> Vec<String> {
    let name = |at: usize| (0..BITS).map(|bit| pairs[at >> bit & 1]).collect();
    (0..1 << BITS).map(name).collect()
}

/// A chat that has these names wherever a client may choose one: keys, ids, tools, files.
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

/// Processor time that the program has used, in clock ticks.
fn ticks(process: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    // The name before them may have spaces, and ends with a parenthesis.
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    let fields: Vec<&str> = fields.split(' ').collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

/// What the program needs for this body, from callers none of whom it has met.
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
async fn names_that_collide_elsewhere_cost_what_others_do() {
    let pair = Pair::with(&[("LONGHAUL_SUMMARY_MODEL", "none")]).await;
    let ordinary = cost(&pair, &body(&names(["xy", "zw"]))).await;
    // Under h·31 + c, as Java's strings; under h·33 + c, as the tables of PHP and Perl once did.
    for pairs in [["Aa", "BB"], ["Ez", "FY"]] {
        let chosen = cost(&pair, &body(&names(pairs))).await;
        assert!(
            chosen < ordinary * RATIO,
            "{pairs:?}: {chosen} to {ordinary}"
        );
    }
    pair.still_serves().await;
}

/// Four times as long a history costs four times as much, and not sixteen times.
#[tokio::test]
async fn a_history_of_very_many_steps_costs_in_proportion() {
    let pair = Pair::with(&[("LONGHAUL_SUMMARY_MODEL", "none")]).await;
    let names = names(["xy", "zw"]);
    let quarter = cost(&pair, &body(&names[..names.len() / 4])).await;
    let whole = cost(&pair, &body(&names)).await;
    assert!(whole < quarter * RATIO, "{whole} to {quarter}");
    pair.still_serves().await;
}

/// What the program needs for heads with so many fields, and a `Connection` that lists nothing very
/// often.
async fn cost_of_fields(pair: &Pair, fields: usize) -> u64 {
    let list = ",".repeat(350_000);
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

/// Each field is looked up among those that `Connection` names, and the list is not read again.
#[tokio::test]
async fn a_long_list_of_connection_options_is_not_read_for_every_field() {
    let pair = Pair::start().await;
    let one = cost_of_fields(&pair, 1).await;
    let many = cost_of_fields(&pair, 250).await;
    assert!(many < one * RATIO, "{many} to {one}");
    pair.still_serves().await;
}

/// Histories past their window that nowhere can be cut, or no more, so that each request which they
/// once were is asked about: what is not known from before is looked for each time.
#[tokio::test]
async fn a_history_that_cannot_be_cut_costs_in_proportion() {
    let environment = [
        ("LONGHAUL_SUMMARY_MODEL", "none"),
        ("LONGHAUL_WINDOW", "8000"),
    ];
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
fn no_table_has_a_hash_without_a_key() {
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
