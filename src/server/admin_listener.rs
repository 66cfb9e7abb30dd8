//! The admin listener: one request per connection, and small limits.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1 as client_http1;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
#[cfg(unix)]
use tokio::net::UnixListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep, timeout};

use crate::admin::commands::COMMANDS_PATH;
use crate::admin::events::MAX_VIEWERS;
use crate::admin::{Admin, EVENTS_PATH};
use crate::dashboard::shared;
use crate::server::acceptor::accept;
use parking_lot::Mutex;

/// Maximum size of a request head on the admin listener, in bytes. hyper accepts no smaller buffer.
const ADMIN_BUFFER: usize = 8 * 1024;
/// Time for a connection to the admin listener to send its request. A probe sends it at once.
const ADMIN_HEAD_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum duration of a connection to the admin listener.
const ADMIN_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of connections to the admin listener. A further connection replaces an older one,
/// so other connections never block a probe. Usual clients are a probe, a scraper and a person.
pub(crate) const ADMIN_CONNECTIONS: usize = 16;

/// Maximum duration of an event stream. The browser connects again at once, so a viewer that has left
/// without a word holds its connection no longer.
const VIEWER_TIMEOUT: Duration = Duration::from_mins(10);

struct Open {
    state: Arc<ConnectionState>,
    task: AbortHandle,
}

#[derive(Default)]
struct ConnectionState {
    /// Whether the connection has sent a request.
    has_asked: AtomicBool,
    /// Whether the connection has become an event stream, which takes a viewer's place.
    is_viewer: AtomicBool,
}

/// Pause between two attempts to bind the address of a page that another process serves.
const BIND_INTERVAL: Duration = Duration::from_secs(2);

/// Serves at a listener, or at an address once its present page has ended. Serves until dropped, which ends all
/// its connections.
pub(super) async fn serve(at: Result<TcpListener, SocketAddr>, admin: Arc<Admin>) {
    let listener = match at {
        Ok(listener) => listener,
        Err(address) => loop {
            sleep(BIND_INTERVAL).await;
            let folder = admin.overview.folder().unwrap_or_else(|| Path::new(""));
            if shared::page(folder).await.is_none()
                && let Ok(listener) = TcpListener::bind(address).await
            {
                break listener;
            }
        },
    };
    if let Ok(address) = listener.local_addr() {
        _ = admin.address.set(address);
    }
    // One more permit than places: the connection that takes another's place.
    let places = Arc::new(Semaphore::new(ADMIN_CONNECTIONS + 1));
    let mut failure_logged_at = None;
    let mut tasks = JoinSet::new();
    let mut open = VecDeque::with_capacity(ADMIN_CONNECTIONS);
    loop {
        let accepted = tokio::select! {
            // Reaps finished tasks, so that the set does not grow with uptime.
            Some(_) = tasks.join_next() => continue,
            accepted = accept(&listener, &places, &mut failure_logged_at) => accepted,
        };
        let Some((socket, place)) = accepted else {
            continue;
        };
        make_place(&mut open);
        let state = Arc::<ConnectionState>::default();
        let connection = AdminConnection {
            admin: Arc::clone(&admin),
            state: Arc::clone(&state),
            place: Mutex::new(Some(place)),
        };
        let task = tasks.spawn(async move {
            // No legitimate request takes longer.
            let limit = async {
                sleep(ADMIN_TIMEOUT).await;
                if connection.state.is_viewer.load(Ordering::Relaxed) {
                    sleep(VIEWER_TIMEOUT.saturating_sub(ADMIN_TIMEOUT)).await;
                }
            };
            let Ok(peer) = socket.peer_addr() else { return };
            tokio::select! {
                () = connection.serve(socket, peer.ip()) => {}
                () = limit => {}
            }
        });
        open.push_back(Open { state, task });
    }
}

/// Closes a connection if every place is taken: the oldest that has sent no request, or else the
/// oldest.
fn make_place(open: &mut VecDeque<Open>) {
    open.retain(|open| !open.task.is_finished() && !open.state.is_viewer.load(Ordering::Relaxed));
    if open.len() < ADMIN_CONNECTIONS {
        return;
    }
    let silent = open.iter().position(|open| !open.state.has_asked.load(Ordering::Relaxed));
    if let Some(closed) = open.remove(silent.unwrap_or_default()) {
        closed.task.abort();
    }
}

/// A connection being served.
struct AdminConnection {
    admin: Arc<Admin>,
    state: Arc<ConnectionState>,
    /// Place among the connections; given up by an event stream.
    place: Mutex<Option<OwnedSemaphorePermit>>,
}

impl AdminConnection {
    /// Answers the one request of the connection.
    async fn serve(&self, io: impl AsyncRead + AsyncWrite + Unpin, peer: IpAddr) {
        let service = service_fn(async |request: Request<Incoming>| {
            self.state.has_asked.store(true, Ordering::Relaxed);
            Ok::<_, Infallible>(self.answer(request, peer).await)
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .keep_alive(false)
            .header_read_timeout(ADMIN_HEAD_TIMEOUT)
            .max_buf_size(ADMIN_BUFFER)
            .serve_connection(TokioIo::new(io), service);
        if let Err(error) = connection.await {
            tracing::debug!(%error, "admin connection ended");
        }
    }

    async fn answer(&self, request: Request<Incoming>, peer: IpAddr) -> Response<PageBody> {
        if let Some(events) = self.admin.events(&request, peer) {
            self.become_viewer();
            return events.map(|body| body.map_err(|never| match never {}).boxed_unsync());
        }
        let is_stream = request.uri().path().ends_with(EVENTS_PATH);
        let is_other = request.uri().path().starts_with(OTHERS);
        if is_other && self.admin.refusal(&request, peer).is_none() {
            let Some(reply) = forward(&self.admin, request).await else {
                let mut gone = Response::new(PageBody::default());
                *gone.status_mut() = StatusCode::BAD_GATEWAY;
                return gone;
            };
            if is_stream && reply.status().is_success() {
                self.become_viewer();
            }
            return reply.map(BodyExt::boxed_unsync);
        }
        let page = if *request.method() == Method::POST && request.uri().path() == COMMANDS_PATH {
            self.admin.command(request, peer).await
        } else {
            self.admin.respond(&request, peer)
        };
        page.map(|body| Full::new(body).map_err(|never| match never {}).boxed_unsync())
    }

    fn become_viewer(&self) {
        self.state.is_viewer.store(true, Ordering::Relaxed);
        drop(self.place.lock().take());
    }
}

#[cfg(unix)]
struct RemovedOnDrop(PathBuf);

#[cfg(unix)]
impl Drop for RemovedOnDrop {
    fn drop(&mut self) {
        _ = std::fs::remove_file(&self.0);
    }
}

/// Path of the pages of another longhaul of the user, before its process and the page.
const OTHERS: &str = "/at/";

type PageBody = UnsyncBoxBody<Bytes, hyper::Error>;

/// Forwards a request to the longhaul that its path names. Returns `None` if that one does not answer.
async fn forward(admin: &Admin, mut request: Request<Incoming>) -> Option<Response<Incoming>> {
    let rest = request.uri().path_and_query()?.as_str().strip_prefix(OTHERS)?;
    let (process, page) = rest.split_once('/')?;
    let socket = shared::connect(admin.overview.folder()?, process.parse().ok()?).await.ok()?;
    let page = format!("/{page}").parse().ok()?;
    *request.uri_mut() = page;
    let (mut sender, connection) = client_http1::handshake(TokioIo::new(socket)).await.ok()?;
    tokio::spawn(connection);
    sender.send_request(request).await.ok()
}

/// Serves the pages to the other longhauls of the user at a socket in `folder`, until dropped.
#[cfg(unix)]
pub(super) async fn serve_own_user(folder: PathBuf, admin: Arc<Admin>) {
    let path = shared::socket(&folder, std::process::id());
    _ = std::fs::remove_file(&path);
    let listener = match UnixListener::bind(&path) {
        Ok(listener) => listener,
        Err(error) => return tracing::warn!(%error, "no other longhaul shows this one on its page"),
    };
    let _removed = RemovedOnDrop(path);
    let mut tasks = JoinSet::new();
    for other in shared::processes(&folder) {
        let folder = folder.clone();
        tasks.spawn(async move {
            shared::ask(&folder, other, Request::get("/join")).await;
        });
    }
    loop {
        let accepted = tokio::select! {
            Some(_) = tasks.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        let Ok((socket, _)) = accepted else {
            sleep(BIND_INTERVAL).await;
            continue;
        };
        if !shared::is_own(&socket) || tasks.len() > ADMIN_CONNECTIONS + MAX_VIEWERS {
            continue;
        }
        let (admin, state, place) = (Arc::clone(&admin), Arc::default(), Mutex::new(None));
        let connection = AdminConnection { admin, state, place };
        tasks.spawn(async move {
            let served = connection.serve(socket, Ipv4Addr::LOCALHOST.into());
            _ = timeout(VIEWER_TIMEOUT, served).await;
        });
    }
}
#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;
    use tokio::time::{Instant, pause};

    use super::*;
    use crate::admin::Overview;
    use crate::config::Config;
    use crate::proxy_state::ProxyState;

    /// Starts an admin listener that serves until the set is dropped.
    async fn served() -> (SocketAddr, JoinSet<()>) {
        let config = Config::default_with([("upstream.base", "http://127.0.0.1:9/v1")]).unwrap();
        let state = ProxyState::new(config).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let admin = Admin::new(Overview::from_state(&state, String::new()), String::new(), address);
        let mut serving = JoinSet::new();
        serving.spawn(serve(Ok(listener), Arc::new(admin)));
        (address, serving)
    }

    /// Sends a probe's request with these header fields.
    async fn probe(address: SocketAddr, fields: &str) -> TcpStream {
        let mut probe = TcpStream::connect(address).await.unwrap();
        let ask = format!("GET /livez HTTP/1.1\r\nHost: {address}\r\n{fields}\r\n");
        probe.write_all(ask.as_bytes()).await.unwrap();
        probe
    }

    async fn answered(mut probe: TcpStream) -> String {
        let mut answer = Vec::new();
        _ = probe.read_to_end(&mut answer).await;
        String::from_utf8(answer).unwrap()
    }

    /// Asserts that a probe is answered before any of these connections has to end.
    async fn check_probe(address: SocketAddr, others: Vec<TcpStream>) {
        let began = Instant::now();
        let probe = probe(address, "").await;
        // From here on, the clock jumps to the next deadline.
        pause();
        let answer = answered(probe).await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        let waited = began.elapsed();
        assert!(waited < ADMIN_TIMEOUT, "{waited:?}");
        drop(others);
    }

    #[tokio::test]
    async fn a_probe_is_answered_beside_any_number_of_silent_connections() {
        let (address, _serving) = served().await;
        let mut silent = Vec::new();
        for _ in 0..4 * ADMIN_CONNECTIONS {
            silent.push(TcpStream::connect(address).await.unwrap());
        }
        check_probe(address, silent).await;
    }

    #[tokio::test]
    async fn a_probe_is_answered_beside_any_number_of_viewers() {
        let (address, _serving) = served().await;
        let mut viewers = Vec::new();
        for _ in 0..4 * ADMIN_CONNECTIONS {
            let mut viewer = TcpStream::connect(address).await.unwrap();
            let ask = format!("GET / HTTP/1.1\r\nHost: {address}\r\n\r\n");
            viewer.write_all(ask.as_bytes()).await.unwrap();
            viewers.push(viewer);
        }
        check_probe(address, viewers).await;
    }

    /// Opens an event stream and reads the beginning of the answer.
    async fn view(address: SocketAddr) -> (TcpStream, String) {
        let mut viewer = TcpStream::connect(address).await.unwrap();
        let ask = format!("GET /events HTTP/1.1\r\nHost: {address}\r\n\r\n");
        viewer.write_all(ask.as_bytes()).await.unwrap();
        let mut answer = vec![0; 4_096];
        let read = viewer.read(&mut answer).await.unwrap();
        answer.truncate(read);
        (viewer, String::from_utf8(answer).unwrap())
    }

    #[tokio::test]
    async fn viewers_are_bounded_and_take_no_place_of_a_page() {
        let (address, _serving) = served().await;
        let mut viewers = Vec::new();
        for _ in 0..MAX_VIEWERS {
            let (viewer, answer) = view(address).await;
            assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
            assert!(answer.contains("text/event-stream"), "{answer}");
            viewers.push(viewer);
        }
        let (_, answer) = view(address).await;
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
        for _ in 0..2 * ADMIN_CONNECTIONS {
            let answer = answered(probe(address, "").await).await;
            assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        }
        // A viewer that leaves makes room for another.
        viewers.pop();
        loop {
            let (_viewer, answer) = view(address).await;
            if answer.starts_with("HTTP/1.1 200 ") {
                break;
            }
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn closes_the_oldest_silent_connection_to_make_a_place() {
        let mut tasks = JoinSet::new();
        let mut open = VecDeque::new();
        for at in 0..ADMIN_CONNECTIONS {
            let state = Arc::<ConnectionState>::default();
            state.has_asked.store(at == 0, Ordering::Relaxed);
            let task = tasks.spawn(std::future::pending::<()>());
            open.push_back(Open { state, task });
        }
        let second = open[1].task.id();
        make_place(&mut open);
        assert_eq!(open.len(), ADMIN_CONNECTIONS - 1);
        assert!(open.iter().all(|open| open.task.id() != second));
        assert!(open[0].state.has_asked.load(Ordering::Relaxed), "a viewer stays");
    }

    #[tokio::test]
    async fn closes_a_connection_without_a_request_before_the_admin_timeout() {
        let (address, _serving) = served().await;
        let silent = TcpStream::connect(address).await.unwrap();
        let began = Instant::now();
        pause();
        assert_eq!(answered(silent).await, "");
        assert!(began.elapsed() < ADMIN_TIMEOUT, "{:?}", began.elapsed());
    }

    #[tokio::test]
    async fn rejects_a_head_larger_than_the_admin_buffer() {
        let (address, _serving) = served().await;
        for (length, status) in [(ADMIN_BUFFER / 2, 200), (2 * ADMIN_BUFFER, 431)] {
            let fields = format!("x-long: {}\r\n", "x".repeat(length));
            let answer = answered(probe(address, &fields).await).await;
            let line = format!("HTTP/1.1 {status} ");
            assert!(answer.starts_with(&line), "{length} bytes: {answer}");
        }
    }
}
