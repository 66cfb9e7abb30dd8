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
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep, timeout};

/// Maximum number of connections. A further one replaces the one that has asked nothing for longest.
const MAX_CONNECTIONS: usize = 64;
/// Time for a head to arrive, from the start of the connection or the end of the last answer.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// Time for a body to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum bytes of a body: a call of a tool has a few arguments.
const MAX_BODY_BYTES: usize = 1 << 20;
/// Pause after a failed `accept`: the process may be out of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// An open connection.
struct Open {
    /// Time since which no whole request is under way; `None` while one is.
    idle_since: Arc<Mutex<Option<Instant>>>,
    task: AbortHandle,
}

/// Answers requests with `respond` until dropped, which ends all connections.
pub(super) async fn serve<R, F, B>(listener: TcpListener, respond: R)
where
    R: Fn(Request<Full<Bytes>>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response<B>> + Send,
    B: Body<Data = Bytes, Error = Infallible> + Send + 'static,
{
    let mut tasks = JoinSet::new();
    let mut open: Vec<Open> = Vec::with_capacity(MAX_CONNECTIONS);
    let answered = Arc::new(Notify::new());
    loop {
        let accepted = tokio::select! {
            // Reaps finished tasks, so that the set does not grow with uptime.
            Some(_) = tasks.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        let Ok((socket, _)) = accepted else {
            sleep(ACCEPT_PAUSE).await;
            continue;
        };
        while !has_room(&mut open) {
            // Every connection has a request under way, which must not be cut off.
            tokio::select! {
                _ = tasks.join_next() => {}
                () = answered.notified() => {}
            }
        }
        let idle_since = Arc::new(Mutex::new(Some(Instant::now())));
        let connection = Connection {
            respond: respond.clone(),
            idle_since: Arc::clone(&idle_since),
            answered: Arc::clone(&answered),
        };
        let task = tasks.spawn(async move { connection.serve(socket).await });
        open.push(Open { idle_since, task });
    }
}

/// Makes room for a connection, if need be by closing the one that has asked nothing for longest. Returns
/// whether there is room.
fn has_room(open: &mut Vec<Open>) -> bool {
    open.retain(|open| !open.task.is_finished());
    if open.len() < MAX_CONNECTIONS {
        return true;
    }
    let idle = open.iter().enumerate();
    let idle = idle.filter_map(|(at, open)| Some(((*open.idle_since.lock())?, at)));
    let Some((_, at)) = idle.min() else {
        return false;
    };
    open.remove(at).task.abort();
    true
}

/// A connection being served.
struct Connection<R> {
    respond: R,
    idle_since: Arc<Mutex<Option<Instant>>>,
    answered: Arc<Notify>,
}

impl<R, F, B> Connection<R>
where
    R: Fn(Request<Full<Bytes>>) -> F,
    F: Future<Output = Response<B>>,
    B: Body<Data = Bytes, Error = Infallible> + 'static,
{
    async fn serve(&self, socket: TcpStream) {
        // A connection that breaks ends its own client alone.
        _ = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIMEOUT)
            .serve_connection(TokioIo::new(socket), service_fn(|it| self.answer(it)))
            .await;
    }

    /// Answers a request once it is whole. An error ends the connection.
    async fn answer(&self, request: Request<Incoming>) -> Result<Response<B>, io::Error> {
        let (head, body) = request.into_parts();
        let body = Limited::new(body, MAX_BODY_BYTES).collect();
        let body = timeout(BODY_TIMEOUT, body).await?;
        let body = body.map_err(io::Error::other)?.to_bytes();
        *self.idle_since.lock() = None;
        let answer = (self.respond)(Request::from_parts(head, Full::new(body))).await;
        *self.idle_since.lock() = Some(Instant::now());
        self.answered.notify_one();
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::time::pause;

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
        for begun in [
            "",
            "POST / HTTP/1.1\r\n",
            "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n",
        ] {
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

    #[tokio::test]
    async fn a_request_under_way_is_never_cut_off() {
        let mut tasks = JoinSet::new();
        let mut open = Vec::new();
        for at in 0..MAX_CONNECTIONS {
            let idle_since = (at > 1).then(|| Instant::now() + Duration::from_secs(at as u64 % 7));
            let idle_since = Arc::new(Mutex::new(idle_since));
            let task = tasks.spawn(std::future::pending::<()>());
            open.push(Open { idle_since, task });
        }
        let longest = open[7].task.id();
        assert!(has_room(&mut open) && open.len() == MAX_CONNECTIONS - 1);
        assert!(open.iter().all(|open| open.task.id() != longest));
        assert!(
            open[..2]
                .iter()
                .all(|open| open.idle_since.lock().is_none())
        );
        for open in &open {
            *open.idle_since.lock() = None;
        }
        let task = tasks.spawn(std::future::pending::<()>());
        let idle_since = Arc::default();
        open.push(Open { idle_since, task });
        assert!(!has_room(&mut open));
    }
}
