//! The listener of `longhaul mcp --http`: connections that ask nothing make room for others.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::exchange::client_connection::ClientConnection;
use crate::server::acceptor::ClientAcceptor;
use crate::server::connections::Connections;

/// Maximum number of connections. A further one replaces the one that has asked nothing for longest.
const MAX_CONNECTIONS: u32 = 64;
/// Time for a head to arrive, from the start of the connection or the end of the last answer.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum bytes of a body: a call of a tool has a few arguments.
const MAX_BODY_BYTES: usize = 1 << 20;
/// Answers requests with `respond` until dropped, which ends all connections.
pub(super) async fn serve<R, F, B>(listener: TcpListener, respond: R)
where
    R: Fn(Request<Full<Bytes>>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response<B>> + Send,
    B: Body<Data = Bytes, Error = Infallible> + Send + 'static,
{
    let connections = Connections::new(MAX_CONNECTIONS, "MAX_CONNECTIONS");
    let mut acceptor = ClientAcceptor::new(listener, connections);
    let mut tasks = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            // Reaps finished tasks, so that the set does not grow with uptime.
            Some(_) = tasks.join_next() => continue,
            accepted = acceptor.accept() => accepted,
        };
        let Some((socket, open)) = accepted else {
            continue;
        };
        let respond = respond.clone();
        tasks.spawn(async move {
            let connection = &open.connection;
            tokio::select! {
                () = serve_connection(socket, connection, respond) => {}
                () = connection.closed() => {}
            }
        });
    }
}

/// Answers the requests of a connection, each once it is whole. A connection that breaks ends its own client
/// alone.
async fn serve_connection<R, F, B>(
    socket: TcpStream,
    connection: &Arc<ClientConnection>,
    respond: R,
) where
    R: Fn(Request<Full<Bytes>>) -> F,
    F: Future<Output = Response<B>>,
    B: Body<Data = Bytes, Error = Infallible> + 'static,
{
    let answer = async |request: Request<Incoming>| {
        let (head, body) = request.into_parts();
        let body = Limited::new(body, MAX_BODY_BYTES).collect();
        let body = timeout(BODY_TIMEOUT, body).await?;
        let body = body.map_err(io::Error::other)?.to_bytes();
        let _in_use = connection.begin_use();
        Ok::<_, io::Error>(respond(Request::from_parts(head, Full::new(body))).await)
    };
    _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .serve_connection(TokioIo::new(socket), service_fn(answer))
        .await;
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::time::{Instant, pause};

    use super::*;

    const CALL: &str = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi";

    /// Starts a listener that answers with the request's body until the set is dropped.
    async fn served() -> (SocketAddr, JoinSet<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut serving = JoinSet::new();
        serving.spawn(serve(listener, async |request: Request<Full<Bytes>>| {
            Response::new(request.into_body())
        }));
        (address, serving)
    }

    async fn sent(address: SocketAddr, text: &str) -> TcpStream {
        let mut socket = TcpStream::connect(address).await.unwrap();
        socket.write_all(text.as_bytes()).await.unwrap();
        socket
    }

    /// Reads an answer to [`CALL`].
    async fn answered(socket: &mut TcpStream) -> String {
        let (mut answer, mut piece) = (Vec::new(), [0; 1024]);
        while !answer.ends_with(b"\r\n\r\nhi") {
            match socket.read(&mut piece).await {
                Ok(0) | Err(_) => break,
                Ok(read) => answer.extend_from_slice(piece.get(..read).unwrap()),
            }
        }
        String::from_utf8(answer).unwrap()
    }

    #[tokio::test]
    async fn a_call_is_answered_beside_any_number_of_connections_that_ask_nothing() {
        let head = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n";
        for begun in ["", "POST / HTTP/1.1\r\nHost: x\r\n", head, CALL] {
            let (address, _serving) = served().await;
            let mut others = Vec::new();
            for _ in 0..2 * MAX_CONNECTIONS {
                let mut other = sent(address, begun).await;
                if begun == CALL {
                    assert!(answered(&mut other).await.starts_with("HTTP/1.1 200 "));
                }
                others.push(other);
            }
            let mut call = sent(address, CALL).await;
            // From here on, the clock jumps to the next deadline.
            let began = Instant::now();
            pause();
            let answer = answered(&mut call).await;
            assert!(answer.starts_with("HTTP/1.1 200 "), "{begun:?}: {answer}");
            assert!(began.elapsed() < HEAD_TIMEOUT, "{begun:?}");
            drop(others);
            tokio::time::resume();
        }
    }

    #[tokio::test]
    async fn a_request_that_does_not_end_has_a_time() {
        for begun in
            ["", "POST / HTTP/1.1\r\n", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"]
        {
            let (address, _serving) = served().await;
            let mut silent = sent(address, begun).await;
            pause();
            let mut answer = Vec::new();
            _ = silent.read_to_end(&mut answer).await;
            tokio::time::resume();
        }
    }

    #[tokio::test]
    async fn a_body_beyond_its_bound_ends_the_connection() {
        let (address, _serving) = served().await;
        let length = MAX_BODY_BYTES + 1;
        let head = format!("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n");
        let mut large = sent(address, &head).await;
        _ = large.write_all(&vec![b'x'; length]).await;
        assert_eq!(answered(&mut large).await, "");
    }
}
