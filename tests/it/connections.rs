//! Connections and unended heads, which are held before a caller is known. Each address has a share.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use tokio::net::TcpSocket;

use crate::harness::{Proxy, Upstream, Wire};

/// Places for connections in these tests.
const PLACES: usize = 16;
const OURS: &str = "GET /__longhaul__/ HTTP/1.1\r\nHost: x\r\n\r\n";
/// The preface of HTTP/2, and an empty SETTINGS frame.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// Bytes of a head that never ends, less than longhaul accepts of a whole one.
const UNENDED: usize = 120_000;

/// Connects from an address of this machine other than 127.0.0.1.
async fn connect_from(last: u8, to: SocketAddr) -> Wire {
    let socket = TcpSocket::new_v4().unwrap();
    let from = IpAddr::V4(Ipv4Addr::new(127, 0, 0, last));
    socket.bind((from, 0).into()).unwrap();
    Wire::new(socket.connect(to).await.unwrap())
}

async fn assert_served(mut client: Wire) {
    client.send(OURS).await;
    let reply = client.until("\r\n\r\n").await;
    assert!(reply.starts_with("HTTP/1.1 404 "), "{reply}");
}

async fn proxy(changes: &[(&str, &str)]) -> Proxy {
    let places = PLACES.to_string();
    let mut all = vec![("limits.connections", places.as_str())];
    all.extend(changes);
    Proxy::start("http://127.0.0.1:9/v1", &all).await
}

#[tokio::test]
async fn idle_connections_of_one_address_keep_no_other_address_out() {
    let heads: [&[u8]; 4] = [b"", b"POST /v1/x HTTP/1.1\r\nHost: x\r\n", OURS.as_bytes(), PREFACE];
    for sent in heads {
        let proxy = proxy(&[]).await;
        let mut idle = Vec::new();
        for _ in 0..2 * PLACES {
            let mut client = proxy.connect().await;
            client.send_bytes(sent).await;
            if sent == OURS.as_bytes() {
                client.until("\r\n\r\n").await;
            }
            idle.push(client);
        }
        assert_served(connect_from(2, proxy.address).await).await;
        assert_served(proxy.connect().await).await;
    }
}

#[tokio::test]
async fn idle_connections_of_many_addresses_make_room() {
    let proxy = proxy(&[]).await;
    let mut idle = Vec::new();
    for last in 2..2 + 2 * u8::try_from(PLACES).unwrap() {
        idle.push(connect_from(last, proxy.address).await);
    }
    assert_served(proxy.connect().await).await;
}

#[tokio::test]
async fn a_connection_with_a_request_under_way_makes_no_room() {
    let upstream = Upstream::bind().await;
    let places = PLACES.to_string();
    let limits = [("limits.connections", places.as_str())];
    let proxy = Proxy::start(&upstream.base(""), &limits).await;
    let mut client = proxy.connect().await;
    client.send("GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n").await;
    let mut server = upstream.accept().await;
    server.until("\r\n\r\n").await;
    server.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nok").await;
    client.until("ok").await;
    let mut idle = Vec::new();
    for _ in 0..2 * PLACES {
        idle.push(proxy.connect().await);
    }
    assert_served(proxy.connect().await).await;
    server.send("ok").await;
    client.until("ok").await;
}

/// Returns the bytes of an unended head in HTTP/1.1, and in HTTP/2 in a first frame and continuations.
fn unended_heads() -> [Vec<u8>; 2] {
    let field = vec![b'x'; UNENDED];
    let http1 = [b"POST /v1/x HTTP/1.1\r\nHost: x\r\nX-Pad: ".as_slice(), &field].concat();
    let mut http2 = PREFACE.to_vec();
    for (at, part) in field.chunks(16_384).enumerate() {
        let [_, a, b, c] = u32::try_from(part.len()).unwrap().to_be_bytes();
        let kind = if at == 0 { 1 } else { 9 };
        http2.extend([a, b, c, kind, 0, 0, 0, 0, 1]);
        // The first bytes of the block: a field without indexing whose value is long.
        let field = [b"\0\x01x\x7f\xc1\xa8\x07".as_slice(), part].concat();
        http2.extend(if at == 0 { &field[..part.len()] } else { part });
    }
    [http1, http2]
}

#[tokio::test]
async fn unended_heads_count_towards_the_budget_of_their_address() {
    for head in unended_heads() {
        let limits = [
            ("limits.body", "512KiB"),
            ("limits.buffered", "2MiB"),
            ("limits.connections", "1024"),
        ];
        let proxy = Proxy::start("http://127.0.0.1:9/v1", &limits).await;
        let mut held = Vec::new();
        for _ in 0..64 {
            let mut client = proxy.connect().await;
            _ = client.tries_to_send(&head).await;
            held.push(client);
        }
        let most = (2 << 20) / (128 << 10);
        loop {
            let open = held.iter_mut().filter_map(|client| (!client.is_ended()).then_some(()));
            if open.count() <= most {
                break;
            }
            tokio::task::yield_now().await;
        }
        assert_served(proxy.connect().await).await;
        assert_served(connect_from(2, proxy.address).await).await;
    }
}
