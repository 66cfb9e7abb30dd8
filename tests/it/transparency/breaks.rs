//! An upstream that breaks off: the client's connection breaks off too, and an incomplete message
//! never gets a clean end.

use super::case::Case;
use super::exchange::{Exchange, Upstream};
use super::message::Kind;
use super::{CHAT, ORDINARY, on_both_paths, post, request};

/// The upstream's way of breaking off.
#[derive(Clone, Copy, Debug)]
enum Break {
    Close,
    Reset,
}

const BREAKS: [Break; 2] = [Break::Close, Break::Reset];

fn breaks_off(upstream: &mut Upstream, how: Break) {
    match how {
        Break::Close => upstream.closes(),
        Break::Reset => upstream.resets(),
    }
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for how in BREAKS {
        cases.extend(in_the_body(how));
        cases.extend(before_the_body(how));
    }
    cases.extend(early_replies());
    cases
}

fn in_the_body(how: Break) -> Vec<Case> {
    let event = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n";
    let size = event.len();
    let chunked =
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
    let places = [
        ("in a body by length", format!("HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n{event}")),
        (
            "in an error by length",
            format!("HTTP/1.1 400 Bad Request\r\nContent-Length: 9999\r\n\r\n{event}"),
        ),
        ("between chunks", format!("{chunked}{size:x}\r\n{event}\r\n")),
        ("inside a chunk", format!("{chunked}fff\r\n{event}")),
    ];
    let mut cases = Vec::new();
    for (place, reply) in places {
        cases.extend(on_both_paths(|path| {
            let reply = reply.clone();
            let name = format!("upstream breaks off {place}: {how:?}");
            Case::scripted(&name, &["chunk sizes", "break"], move |x| {
                let reply = reply.clone();
                Box::pin(async move {
                    x.client.says(post(path, "{}")).await;
                    x.upstream.sees_request().await;
                    let judged = reply.contains(" 400 ") && path == CHAT;
                    x.upstream.says(&reply).await;
                    // On the chat path, an error may be held back until it is whole.
                    if !judged {
                        x.client.sees(event).await;
                    }
                    breaks_off(&mut x.upstream, how);
                    x.client.sees_end().await;
                    x.upstream.sees_nobody_else().await;
                })
            })
        }));
    }
    cases
}

fn before_the_body(how: Break) -> Vec<Case> {
    let places = [("before any byte", ""), ("in its head", "HTTP/1.1 200 OK\r\nContent-")];
    let mut cases = Vec::new();
    for (place, reply) in places {
        cases.extend(on_both_paths(|path| {
            let name = format!("upstream breaks off {place}: {how:?}");
            Case::scripted(&name, &["no reply"], move |x| {
                Box::pin(async move {
                    x.client.says(post(path, "{}")).await;
                    x.upstream.sees_request().await;
                    x.upstream.says(reply).await;
                    breaks_off(&mut x.upstream, how);
                    ends_in_an_error(x).await;
                    x.upstream.sees_nobody_else().await;
                })
            })
        }));
    }
    cases
}

/// Without longhaul the connection breaks; longhaul sends an error reply instead.
async fn ends_in_an_error(x: &mut Exchange) {
    if x.is_proxied() {
        x.client.sees_message(Kind::Reply).await;
    } else {
        x.client.sees_end().await;
    }
}

/// An upstream that replies before it has read the whole request.
fn early_replies() -> Vec<Case> {
    vec![Case::scripted(
        "a reply that comes before the request's end passes",
        &["hop-by-hop"],
        |x| {
            Box::pin(async move {
                x.client.says(request("POST", ORDINARY, "Content-Length: 5000\r\n", "begin")).await;
                x.upstream.sees("begin").await;
                x.upstream.says("HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno").await;
                x.client.sees("\r\n\r\nno").await;
            })
        },
    )]
}
