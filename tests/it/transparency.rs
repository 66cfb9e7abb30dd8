//! The contract: through longhaul, both sides receive the same bytes as without it.
//!
//! Every case runs twice between a raw client socket and a raw upstream socket: once directly, and
//! once through the compiled program. The bytes that both sides received are then compared. A
//! single table, [`EXCEPTIONS`], lists every permitted difference; `docs/reference/wire.md` shows it.

#[allow(dead_code, reason = "the example uses the rest")]
#[path = "transparency/contract.rs"]
mod contract;

use std::collections::BTreeSet;
use std::sync::Arc;

use contract::OK;
use contract::between::{Ahead, Between, Standing};
use contract::case::Case;
use contract::compare::{is_enough, judge};
use contract::exceptions::{EXCEPTIONS, markdown};
use contract::exchange::{Transcript, Upstream};
use contract::message::{Kind, split};
use contract::multiplexed;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::program::Program;

/// Number of cases that run concurrently.
const AT_ONCE: usize = 8;

/// Starts the compiled program in front of a case's upstream.
fn program(ahead: &Ahead<'_>) -> Standing {
    let ca_file = ahead.ca_file.map(|file| ("LONGHAUL_UPSTREAM_CA_FILE", file));
    // Open to any host name, as for a proxy after another.
    let environment: Vec<_> = ca_file.into_iter().chain([("LONGHAUL_PUBLIC", "true")]).collect();
    let program = Program::start(ahead.upstream, &environment);
    Standing { address: program.address(), ends_with: Box::new(program) }
}

#[tokio::test(flavor = "multi_thread")]
async fn both_sides_receive_the_same_bytes_except_for_listed_exceptions() {
    let wanted = std::env::var("LONGHAUL_CONTRACT").unwrap_or_default();
    let mut running = JoinSet::new();
    let places = Arc::new(Semaphore::new(AT_ONCE));
    for case in contract::cases().filter(|case| case.name.contains(&wanted)) {
        let places = Arc::clone(&places);
        running.spawn(async move {
            let _place = places.acquire().await.expect("the semaphore stays open");
            check(case).await
        });
    }
    let mut used = BTreeSet::new();
    let mut failures = Vec::new();
    let mut held = 0_usize;
    while let Some(ended) = running.join_next().await {
        match ended.expect("a case reports its own panics") {
            Ok(needed) => {
                held += 1;
                used.extend(needed);
            }
            Err(failure) => failures.push(failure),
        }
    }
    println!("{held} exchanges are the same with and without longhaul, but for:\n");
    println!("{}", markdown());
    assert!(failures.is_empty(), "{} lines broken:\n\n{}", failures.len(), failures.join("\n\n"));
    if wanted.is_empty() {
        let names = EXCEPTIONS.iter().map(|exception| exception.name);
        let unused: Vec<_> = names.filter(|name| !used.contains(name)).collect();
        assert!(unused.is_empty(), "no case needs these exceptions: {unused:?}");
    }
}

/// Paths of the chats of each API.
const CHATS: [&str; 3] = ["/v1/chat/completions", "/v1/responses", "/v1/messages"];

#[tokio::test(flavor = "multi_thread")]
async fn clients_on_http2_exchange_the_same_messages_in_each_api() {
    let upstream = Upstream::listen(0);
    let base = format!("http://{}/v1", upstream.local_addr().unwrap());
    let standing = program(&Ahead { upstream: &base, ca_file: None });
    let mut played = [0_usize; CHATS.len()];
    let mut failures = Vec::new();
    for case in contract::cases() {
        let Some(api) = CHATS.iter().position(|path| case.name.ends_with(&format!("({path})")))
        else {
            continue;
        };
        match multiplexed::play(&case, standing.address, &upstream).await {
            None => continue,
            Some(Ok(())) => {}
            Some(Err(how)) => failures.push(format!("{}: {how}", case.name)),
        }
        played[api] += 1;
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(played.iter().all(|count| *count >= 20), "{played:?}");
}

/// Plays a case; returns the exceptions that it needed, or a description of its failure.
async fn check(case: Case) -> Result<Vec<&'static str>, String> {
    let (name, allows) = (case.name.clone(), case.allows);
    let played = contract::play(case, Between::Each(program)).await;
    let (direct, proxied) = played.map_err(|error| format!("{name}: {error}"))?;
    judge(&direct, &proxied, allows).map_err(|error| format!("{name}: {error}"))?;
    let needed = allows.iter().copied().filter(|exception| {
        let others: Vec<_> = allows.iter().copied().filter(|other| other != exception).collect();
        !is_enough(&direct, &proxied, &others)
    });
    Ok(needed.collect())
}

#[test]
fn documented_table_matches_the_tested_table() {
    let page =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/reference/wire.md"));
    let page = page.expect("the page is there");
    let shown = page
        .split_once("<!-- exceptions:begin -->\n")
        .and_then(|(_, rest)| rest.split_once("<!-- exceptions:end -->"))
        .map(|(table, _)| table.trim());
    assert_eq!(shown, Some(markdown().trim()), "between the exceptions markers");
}

/// Builds the transcript of an exchange, for the tests of the comparison itself.
fn heard(request: &str, reply: &str) -> Transcript {
    Transcript {
        requests: split(request.as_bytes(), &[Kind::Request]),
        replies: split(reply.as_bytes(), &[Kind::Reply]),
        end: None,
    }
}

#[test]
fn comparison_detects_every_kind_of_change() {
    let request =
        "POST /v1/a HTTP/1.1\r\nHost: a\r\nX-One: 1\r\nx-two: 2\r\nContent-Length: 2\r\n\r\nhi";
    let truth = heard(request, OK);
    for (from, to) in [
        ("POST", "PUT"),
        ("/v1/a", "/v1/%61"),
        ("X-One", "x-one"),
        ("X-One: 1\r\nx-two: 2", "x-two: 2\r\nX-One: 1"),
        ("x-two: 2\r\n", "x-two: 2\r\nvia: b\r\n"),
        ("x-two: 2\r\n", ""),
        ("x-two: 2", "x-two:  2"),
        ("Content-Length: 2\r\n\r\nhi", "Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"),
        ("hi", "ho"),
        ("hi", "h"),
        ("hi", "hi!"),
    ] {
        assert!(request.contains(from), "{from} is in the request");
        let changed = heard(&request.replace(from, to), OK);
        assert!(judge(&truth, &changed, &[]).is_err(), "{from} became {to} unseen");
    }
    for reply in ["HTTP/1.1 200 Ok\r\nContent-Length: 2\r\n\r\nok", "", &format!("{OK}{OK}")] {
        let changed = heard(request, reply);
        assert!(judge(&truth, &changed, &[]).is_err(), "the reply became {reply} unseen");
    }
    assert_eq!(judge(&truth, &truth, &[]), Ok(()));
    assert!(judge(&truth, &truth, &["host"]).is_err(), "an exception without need");
}
