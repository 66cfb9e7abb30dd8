//! Messages before the final reply: `Expect`, `1xx`, and upgrades to another protocol.

use super::case::Case;
use super::exchange::Exchange;
use super::{OK, on_both_paths, post, request};

pub(super) fn cases() -> Vec<Case> {
    let mut cases = on_both_paths(|path| {
        Case::scripted("a client that expects 100 gets it", &["expect"], move |x| {
            Box::pin(async move { expects(x, path).await })
        })
    });
    cases.extend(on_both_paths(|path| {
        let reply = format!("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n{OK}");
        Case::scripted("early hints stay here", &["interim replies"], move |x| {
            let reply = reply.clone();
            Box::pin(async move {
                x.client.says(post(path, "{}")).await;
                x.upstream.sees_request().await;
                x.upstream.says(reply).await;
                x.client.sees("\r\n\r\nok").await;
            })
        })
    }));
    cases.push(Case::scripted("an upgrade passes bytes both ways", &[], |x| {
        Box::pin(async move {
            upgrades(x).await;
            x.client.leaves();
            x.upstream.peer().sees_end().await;
        })
    }));
    cases.push(Case::scripted("upstream's end of an upgraded connection passes", &[], |x| {
        Box::pin(async move {
            upgrades(x).await;
            x.upstream.closes();
            x.client.sees_end().await;
        })
    }));
    cases.push(Case::scripted("bytes right behind both heads of an upgrade pass", &[], |x| {
        Box::pin(async move {
            x.client.says(upgrade() + "early").await;
            x.upstream.sees("\r\n\r\n").await;
            x.upstream.says(format!("{SWITCH}soon")).await;
            x.upstream.sees("early").await;
            x.client.sees("soon").await;
            x.upstream.closes();
            x.client.sees_end().await;
        })
    }));
    cases.push(Case::plain(
        "an upgrade that upstream declines is an ordinary reply",
        &["hop-by-hop"],
        request(
            "GET",
            "/v1/realtime",
            "Connection: Upgrade, X-Hop\r\nUpgrade: websocket\r\nX-Hop: 1\r\n",
            "",
        ),
        "HTTP/1.1 426 Upgrade Required\r\nContent-Length: 2\r\n\r\nno",
    ));
    cases
}

/// Runs both sides concurrently, because the two paths differ in whether the upstream gets the
/// request before or after the body.
async fn expects(x: &mut Exchange, path: &str) {
    let Exchange { client, upstream, .. } = x;
    let client_side = async {
        let fields = "Expect: 100-continue\r\nContent-Length: 2\r\n";
        client.says(request("POST", path, fields, "")).await;
        client.sees("HTTP/1.1 100 Continue\r\n\r\n").await;
        client.says("{}").await;
        client.sees("\r\n\r\nok").await;
    };
    let upstream_side = async {
        upstream.sees("\r\n\r\n").await;
        upstream.says("HTTP/1.1 100 Continue\r\n\r\n").await;
        upstream.sees("{}").await;
        upstream.says(OK).await;
    };
    tokio::join!(client_side, upstream_side);
}

const SWITCH: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

fn upgrade() -> String {
    let fields = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    request("GET", "/v1/realtime?model=m", fields, "")
}

/// Upgrades a connection, and sends bytes over it in both directions.
async fn upgrades(x: &mut Exchange) {
    x.client.says(upgrade()).await;
    x.upstream.sees("\r\n\r\n").await;
    x.upstream.says(SWITCH).await;
    x.client.sees("\r\n\r\n").await;
    x.client.says(b"\x81\x05hello").await;
    x.upstream.sees("hello").await;
    x.upstream.says(b"\x81\x03you\0\xff").await;
    x.client.sees(b"you\0\xff").await;
    x.upstream.says("again").await;
    x.client.sees("again").await;
}
