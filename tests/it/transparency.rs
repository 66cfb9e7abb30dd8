//! The contract: through longhaul, both sides hear the bytes that they would hear without it.
//!
//! Every case is played twice between a raw client socket and a raw upstream socket, once
//! directly and once through the compiled program, and what both sides heard is compared byte by
//! byte. Whatever may differ is an entry of one table, [`exceptions`], which the README shows.

mod bodies;
mod breaks;
mod case;
mod compare;
mod connections;
mod departures;
mod exceptions;
mod exchange;
mod fields;
mod interim;
mod message;
mod peer;
mod replies;
mod streams;
mod targets;
mod tls;
mod volume;

use case::Case;
use exceptions::EXCEPTIONS;
use exchange::Transcript;
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio::task::{JoinError, JoinSet};

/// Cases that run at once.
const AT_ONCE: usize = 8;

/// A path that is no chat completion, and so passes unread.
const ORDINARY: &str = "/v1/embeddings";
/// A path whose bodies longhaul reads.
const CHAT: &str = "/v1/chat/completions";

/// The smallest whole reply.
const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

#[tokio::test(flavor = "multi_thread")]
async fn every_line_of_the_contract_holds() {
    let wanted = std::env::var("LONGHAUL_CONTRACT").unwrap_or_default();
    let mut running = JoinSet::new();
    let places = Arc::new(Semaphore::new(AT_ONCE));
    for case in cases().filter(|case| case.name.contains(&wanted)) {
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
    println!("{}", exceptions::markdown());
    assert!(
        failures.is_empty(),
        "{} lines broken:\n\n{}",
        failures.len(),
        failures.join("\n\n")
    );
    if wanted.is_empty() {
        let names = EXCEPTIONS.iter().map(|exception| exception.name);
        let unused: Vec<_> = names.filter(|name| !used.contains(name)).collect();
        assert!(
            unused.is_empty(),
            "no case needs these exceptions: {unused:?}"
        );
    }
}

fn cases() -> impl Iterator<Item = Case> {
    [
        targets::cases(),
        fields::cases(),
        bodies::cases(),
        replies::cases(),
        streams::cases(),
        interim::cases(),
        connections::cases(),
        departures::cases(),
        breaks::cases(),
        volume::cases(),
    ]
    .into_iter()
    .flatten()
}

/// Plays a case; the exceptions that it needed, or how it failed.
async fn check(case: Case) -> Result<Vec<&'static str>, String> {
    let Case { name, allows, .. } = &case;
    let (name, allows) = (name.clone(), *allows);
    let played = tokio::spawn(async move { case.play().await }).await;
    let (direct, proxied) = played.map_err(|error| format!("{name}: {}", said(error)))?;
    compare::judge(&direct, &proxied, allows).map_err(|error| format!("{name}: {error}"))?;
    let needed = allows.iter().copied().filter(|exception| {
        let others: Vec<_> = allows
            .iter()
            .copied()
            .filter(|other| other != exception)
            .collect();
        !compare::is_enough(&direct, &proxied, &others)
    });
    Ok(needed.collect())
}

/// What a panicking script said.
fn said(error: JoinError) -> String {
    let Ok(panic) = error.try_into_panic() else {
        return "was cancelled".to_owned();
    };
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
        .unwrap_or_else(|| "panicked".to_owned())
}

/// A request of `method` for `target` with the usual first field, `fields` (each ended by CRLF)
/// and `body` as it stands.
fn request(method: &str, target: &str, fields: &str, body: &str) -> String {
    format!("{method} {target} HTTP/1.1\r\nHost: {{host}}\r\n{fields}\r\n{body}")
}

/// A POST of `body` to `target`, by length.
fn post(target: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let fields = format!(
        "Content-Type: application/json\r\nContent-Length: {}\r\n",
        body.len()
    );
    let mut request = request("POST", target, &fields, "").into_bytes();
    request.extend_from_slice(body);
    request
}

/// The same case for a path that passes unread and for one whose bodies are read.
fn on_both_paths(make: impl Fn(&'static str) -> Case) -> Vec<Case> {
    [ORDINARY, CHAT]
        .into_iter()
        .map(|path| make(path).on(path))
        .collect()
}

#[test]
fn the_table_in_the_readme_is_the_one_that_is_tested() {
    let readme = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md"));
    let readme = readme.expect("there is a README");
    let shown = readme
        .split_once("<!-- exceptions:begin -->\n")
        .and_then(|(_, rest)| rest.split_once("<!-- exceptions:end -->"))
        .map(|(table, _)| table.trim());
    assert_eq!(
        shown,
        Some(exceptions::markdown().trim()),
        "between the exceptions markers"
    );
}

/// What a client and an upstream heard in one exchange, for the tests of the comparison itself.
fn heard(request: &str, reply: &str) -> Transcript {
    Transcript {
        requests: message::split(request.as_bytes(), &[message::Kind::Request]),
        replies: message::split(reply.as_bytes(), &[message::Kind::Reply]),
        end: None,
    }
}

#[test]
fn the_comparison_notices_every_kind_of_change() {
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
        (
            "Content-Length: 2\r\n\r\nhi",
            "Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
        ),
        ("hi", "ho"),
        ("hi", "h"),
        ("hi", "hi!"),
    ] {
        assert!(request.contains(from), "{from} is in the request");
        let changed = heard(&request.replace(from, to), OK);
        assert!(
            compare::judge(&truth, &changed, &[]).is_err(),
            "{from} became {to} unseen"
        );
    }
    for reply in [
        "HTTP/1.1 200 Ok\r\nContent-Length: 2\r\n\r\nok",
        "",
        &format!("{OK}{OK}"),
    ] {
        let changed = heard(request, reply);
        assert!(
            compare::judge(&truth, &changed, &[]).is_err(),
            "the reply became {reply} unseen"
        );
    }
    assert_eq!(compare::judge(&truth, &truth, &[]), Ok(()));
    assert!(
        compare::judge(&truth, &truth, &["host"]).is_err(),
        "an exception without need"
    );
}
