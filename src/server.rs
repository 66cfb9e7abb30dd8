//! Accepts connections and serves each in its own task, until shutdown.

pub(crate) mod acceptor;
pub(crate) mod admin_listener;
mod certificates;
pub(crate) mod connections;
mod idle_memory;
pub(crate) mod protocol;
pub(crate) mod reloadable_proxy;
pub(crate) mod self_loop;
mod unended_head;

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
#[cfg(unix)]
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use hyper::body::{Body as _, Incoming};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::admin::{Admin, Overview};
use crate::config::{Config, own_origin};
use crate::cores::{self, Cores};
use crate::costs::spending::Spending;
use crate::dashboard::{RecentConversations as Recent, shared};
use crate::error::{Fault, Problem};
use crate::exchange::client_connection::ClientConnection;
use crate::exchange::tunnel::TunnelSlot;
use crate::limits::{
    CLIENT_HEAD_BYTES, HTTP2_CONNECTION_WINDOW, HTTP2_PING_TIMEOUT, HTTP2_STREAM_WINDOW,
    HTTP2_STREAMS, MAX_HEADERS, tune_socket,
};
use crate::metrics::Metrics;
use crate::proxy;
use crate::proxy_state::ProxyState;
use crate::store::Store;
use crate::store::totals_file::{CONVERSATIONS, DAYS, PRICES, SPENT, TITLES, TotalsFile};
use acceptor::ClientAcceptor;
pub(crate) use certificates::Certificates;
use certificates::HandshakeResult;
use connections::Connections;
use protocol::{Protocol, client_stream};
pub(crate) use reloadable_proxy::ReloadableProxy;
pub(crate) use self_loop::refuse_self_loop;
use unended_head::UnendedHead;

/// Time for a connection to complete the TLS handshake and the protocol preface, and for each
/// request to send its head. Clients cope with it: nginx closes idle connections after 75 s.
const HEAD_TIMEOUT: Duration = Duration::from_secs(75);
/// Memory of a TLS handshake: the largest message that rustls receives.
const HANDSHAKE_BYTES: u64 = 64 * 1024;
/// Longest and shortest time between two writes of the totals. Something learned shortens the time.
const WRITE_INTERVAL: Duration = Duration::from_mins(1);
const WRITE_PAUSE: Duration = Duration::from_millis(500);

/// Serves `listener` until `stop` is ready, then lets active requests end within `config.drain`.
/// Calls `ready` once the checks have passed and requests are accepted.
///
/// # Errors
/// Returns a problem that only shows at start: the upstream is this listener, or the certificates
/// cannot be read. Nothing was served then.
pub async fn run(
    config: Config,
    listener: TcpListener,
    stop: impl Future<Output = ()>,
    ready: impl FnOnce(),
) -> Result<(), Problem> {
    let server = Server::new(config, listener).await?;
    ready();
    server.serve(stop).await;
    Ok(())
}

/// A listener and its proxy, not yet serving.
pub(crate) struct Server {
    listener: TcpListener,
    reloadable: ReloadableProxy,
    /// The admin listener, or the address that becomes its own once that is free.
    admin: Option<Result<TcpListener, SocketAddr>>,
    /// Files of totals, if they outlive the process.
    totals: Vec<Arc<TotalsFile>>,
}

async fn write(totals: &[Arc<TotalsFile>]) {
    for file in totals {
        file.write().await;
    }
}

/// Writes the totals now and then, and lessons soon, until dropped.
async fn write_regularly(totals: Vec<Arc<TotalsFile>>, store: Arc<Store>) {
    loop {
        _ = timeout(WRITE_INTERVAL, store.news.notified()).await;
        write(&totals).await;
        sleep(WRITE_PAUSE).await;
    }
}

impl Server {
    /// Checks the upstreams and builds the proxy.
    pub(crate) async fn new(config: Config, listener: TcpListener) -> Result<Self, Problem> {
        refuse_self_loop(config.upstream_bases(), local_address(&listener)?).await?;
        let certificates = config.tls.clone().map(Certificates::open).transpose()?;
        let state = ProxyState::new(config)?;
        state.store.wait_until_ready().await;
        // The spending of an earlier process.
        let (at, from) = ((&*state.store, &state.config.store), &state.spending);
        let spent = || TotalsFile::open(at, SPENT, from, Spending::restore, Spending::rows);
        let spent = keeps_totals(&state).then(spent).flatten();
        let totals = state.store.lessons_file.clone().into_iter().chain(spent).collect();
        Ok(Self {
            listener,
            reloadable: ReloadableProxy::new(state, certificates),
            admin: None,
            totals,
        })
    }

    /// Returns the address at which another longhaul of the user serves the page.
    pub(crate) async fn page_of_another(&self) -> Option<SocketAddr> {
        let folder = self.reloadable.state().config.state_folder.clone()?;
        shared::page(&folder).await
    }

    /// Serves the admin pages while the server runs: at a listener, or at an address once no other longhaul
    /// of the user serves there. The pages show `settings` unchanged. Fails, and drops the listener, if
    /// it is an upstream.
    pub(crate) async fn set_admin(
        &mut self,
        at: Result<TcpListener, SocketAddr>,
        settings: String,
    ) -> Result<(), Problem> {
        let address = at.as_ref().map_or_else(|address| Ok(*address), local_address)?;
        let state = &self.reloadable.state();
        refuse_self_loop(state.config.upstream_bases(), address).await?;
        let overview = Overview::from_state(state, self.agent_url()?);
        self.reloadable.admin = Some(Arc::new(Admin::new(overview, settings, address)));
        let (place, recent) = ((&*state.store, &state.config.store), &state.recent);
        self.totals.extend(TotalsFile::share(place, DAYS, recent, Recent::exchange_days));
        if keeps_totals(state) {
            let set_prices = |recent: &Recent, prices: Vec<_>| {
                for price in prices.into_iter().rev() {
                    recent.prices.set(price);
                }
            };
            let files = [
                TotalsFile::open(place, CONVERSATIONS, recent, Recent::restore_rows, Recent::rows),
                TotalsFile::open(place, TITLES, recent, Recent::restore_titles, Recent::titles),
                TotalsFile::open(place, PRICES, recent, set_prices, |recent| recent.prices.all()),
            ];
            self.totals.extend(files.into_iter().flatten());
        }
        self.admin = Some(at);
        Ok(())
    }

    /// Returns the base URL that agents on this machine use.
    fn agent_url(&self) -> Result<String, Problem> {
        let has_tls = self.reloadable.certificates.is_some();
        let origin = own_origin(local_address(&self.listener)?, has_tls);
        Ok(format!("{origin}/v1"))
    }

    pub(crate) fn metrics(&self) -> Arc<Metrics> {
        Arc::clone(&self.reloadable.state().metrics)
    }

    /// Returns a handle to the server's current state, valid while it serves. Later changes to the
    /// server itself are not included.
    pub(crate) fn reloadable(&self) -> ReloadableProxy {
        self.reloadable.clone()
    }

    /// Serves until `stop` is ready, then lets active requests end.
    pub(crate) async fn serve(self, stop: impl Future<Output = ()>) {
        let current = self.reloadable;
        // A reload changes none of the settings that are read here.
        let config = current.state().config.clone();
        // Dropped last, so that the admin pages are available until the end.
        let _companions = spawn_companions(&current, self.admin, self.totals.clone());
        // Readiness fails first, so that load balancers stop sending before connections are
        // refused.
        let stop = async {
            stop.await;
            if let Some(admin) = &current.admin {
                admin.set_stopping();
            }
            sleep(config.drain_delay).await;
        };
        let connections = Connections::new(config.limits.connections, "limits.connections");
        let mut acceptor = ClientAcceptor::new(self.listener, connections);
        let (stopping, stopped) = watch::channel(());
        let cores = Cores::start(tokio::runtime::Handle::current());
        let mut tasks = JoinSet::new();
        tokio::pin!(stop);
        loop {
            let accepted = tokio::select! {
                () = &mut stop => break,
                // Reaps finished tasks, so that the set does not grow with uptime.
                Some(ended) = tasks.join_next() => {
                    if ended.is_err_and(|error| error.is_panic()) {
                        tracing::error!("a connection task panicked; others are not affected");
                    }
                    continue;
                }
                accepted = acceptor.accept() => accepted,
            };
            let Some((socket, open)) = accepted else {
                continue;
            };
            let (current, stopped) = (current.clone(), stopped.clone());
            let seat = cores.seat();
            let runtime = seat.runtime.clone();
            let serving = async move {
                let _seat = seat;
                let Ok(socket) = socket.into_std().and_then(TcpStream::from_std) else {
                    return;
                };
                tokio::select! {
                    () = serve_socket(socket, &open.connection, current, stopped) => {}
                    () = open.connection.closed() => {
                        tracing::debug!("closed an idle connection, to make room for another");
                    }
                }
            };
            tasks.spawn_on(serving, &runtime);
        }

        drop(acceptor);
        drop(stopping);
        let until = Instant::now() + config.drain_timeout;
        let ended = timeout_at(until, async { while tasks.join_next().await.is_some() {} }).await;
        if ended.is_err() {
            tracing::warn!(
                connections = tasks.len(),
                "closed the connections still open after the drain time"
            );
            tasks.shutdown().await;
        }
        write(&self.totals).await;
        current.state().close(until).await;
    }
}

/// Whether this process may keep totals in a file.
fn keeps_totals(state: &ProxyState) -> bool {
    state.store.owns_file() || state.config.store.totals.is_some()
}

/// Starts the tasks that run until the set is dropped: admin pages, totals in files, release of idle
/// memory, and watch of the certificates.
fn spawn_companions(
    current: &ReloadableProxy,
    admin: Option<Result<TcpListener, SocketAddr>>,
    totals: Vec<Arc<TotalsFile>>,
) -> JoinSet<()> {
    let mut companions = JoinSet::new();
    if let (Some(at), Some(admin)) = (admin, &current.admin) {
        companions.spawn(admin_listener::serve(at, Arc::clone(admin)));
        #[cfg(unix)]
        if let Some(folder) = admin.overview.folder().map(Path::to_path_buf) {
            companions.spawn(admin_listener::serve_own_user(folder, Arc::clone(admin)));
        }
    }
    companions.spawn(write_regularly(totals, Arc::clone(&current.state().store)));
    companions.spawn(idle_memory::release_when_idle(current.clone()));
    if let Some(certificates) = &current.certificates {
        companions.spawn(Arc::clone(certificates).watch());
    }
    companions
}

/// Serves an accepted connection, in TLS if the listener has certificates.
async fn serve_socket(
    socket: TcpStream,
    client: &Arc<ClientConnection>,
    current: ReloadableProxy,
    stopped: watch::Receiver<()>,
) {
    if let Err(error) = tune_socket(&socket) {
        tracing::debug!(%error, "cannot set socket options");
    }
    let until = Instant::now() + HEAD_TIMEOUT;
    match current.certificates.clone() {
        None => serve(socket, client, until, current, stopped).await,
        // Boxed, so that connections without TLS reserve no space for its state.
        Some(own) => Box::pin(serve_tls(socket, client, &own, until, current, stopped)).await,
    }
}

fn local_address(listener: &TcpListener) -> Result<SocketAddr, Problem> {
    let address = listener.local_addr();
    address.map_err(|error| Problem::Listen(error.to_string()))
}

/// Completes the TLS handshake and serves the session. A plain-HTTP client gets an error that
/// advises HTTPS.
async fn serve_tls(
    socket: TcpStream,
    client: &Arc<ClientConnection>,
    certificates: &Certificates,
    until: Instant,
    current: ReloadableProxy,
    mut stopped: watch::Receiver<()>,
) {
    let budget = Arc::clone(&current.state().budget);
    if client.reserve_unended(&budget, HANDSHAKE_BYTES).is_err() {
        return;
    }
    let handshake = tokio::select! {
        biased;
        handshake = timeout_at(until, certificates.accept(socket)) => handshake,
        // The client has received nothing yet and can retry elsewhere.
        _ = stopped.changed() => return,
    };
    client.release_unended();
    match handshake {
        Ok(HandshakeResult::Tls(session)) => serve(session, client, until, current, stopped).await,
        Ok(HandshakeResult::NotTls(socket)) => {
            _ = timeout_at(until, refuse_plain_http(socket, &current.state())).await;
        }
        Ok(HandshakeResult::NoSession) | Err(_) => {}
    }
}

/// Answers one plain-HTTP request with an error.
async fn refuse_plain_http(socket: TcpStream, state: &ProxyState) {
    let service = service_fn(|request: Request<Incoming>| {
        let answer = proxy::refuse(state, request, Fault::PlainHttp);
        async { Ok::<_, Infallible>(answer) }
    });
    let connection =
        http1_builder().keep_alive(false).serve_connection(TokioIo::new(socket), service);
    if let Err(error) = connection.await {
        tracing::debug!(%error, "connection ended");
    }
}

/// Serves a connection. `until` is the deadline for its preface.
async fn serve<I>(
    io: I,
    client: &Arc<ClientConnection>,
    until: Instant,
    current: ReloadableProxy,
    mut stopped: watch::Receiver<()>,
) where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let begun = tokio::select! {
        biased;
        begun = timeout_at(until, protocol::detect(io)) => begun,
        // The client has sent no request yet.
        _ = stopped.changed() => return,
    };
    let Ok(Ok((protocol, io))) = begun else {
        return;
    };
    let stopping = stopped.clone();
    let slot = Arc::new(TunnelSlot::default());
    let budget = current.state().budget.as_ref().clone();
    let service = {
        let (slot, client) = (Arc::clone(&slot), Arc::clone(client));
        service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(client.peer);
            let (state, slot) = (current.state(), Arc::clone(&slot));
            let in_use = client.begin_use();
            let bytes = request.body().size_hint().exact();
            let answer = async move { proxy::handle(&state, request, &slot, in_use).await };
            async move { Ok::<_, Infallible>(cores::serve(bytes, answer).await) }
        })
    };
    let head = UnendedHead::new(budget, protocol);
    let io = TokioIo::new(client_stream(io, head, Arc::clone(client)));
    match protocol {
        Protocol::Http1 => {
            let connection = http1_builder().serve_connection(io, service).with_upgrades();
            drive_until_end(connection, http1::UpgradeableConnection::graceful_shutdown, stopped)
                .await;
        }
        Protocol::Http2 => {
            let connection = http2_builder().serve_connection(io, service);
            drive_until_end(connection, http2::Connection::graceful_shutdown, stopped).await;
        }
    }
    let _in_use = client.begin_use();
    slot.run(stopping).await;
}

/// Drives a connection until it ends. On shutdown, `wind_up` makes it accept no further requests.
/// The connection is polled first, so that a request already received is answered.
async fn drive_until_end<C>(
    connection: C,
    wind_up: impl FnOnce(Pin<&mut C>),
    mut stopped: watch::Receiver<()>,
) where
    C: Future<Output = hyper::Result<()>>,
{
    tokio::pin!(connection);
    let ended = tokio::select! {
        biased;
        ended = connection.as_mut() => ended,
        _ = stopped.changed() => {
            wind_up(connection.as_mut());
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "connection ended");
    }
}

fn http1_builder() -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .preserve_header_case(true)
        .auto_date_header(false)
        .max_headers(MAX_HEADERS)
        .max_buf_size(CLIENT_HEAD_BYTES as usize)
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT);
    builder
}

fn http2_builder() -> http2::Builder<TokioExecutor> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .auto_date_header(false)
        .max_header_list_size(CLIENT_HEAD_BYTES)
        .max_concurrent_streams(HTTP2_STREAMS)
        .initial_stream_window_size(HTTP2_STREAM_WINDOW)
        .initial_connection_window_size(HTTP2_CONNECTION_WINDOW)
        .keep_alive_interval(HEAD_TIMEOUT)
        .keep_alive_timeout(HTTP2_PING_TIMEOUT)
        .timer(TokioTimer::new());
    builder
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{BaseUrl, Mount};

    #[tokio::test]
    async fn rejects_a_mount_that_points_at_its_own_listener() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut config = Config::default_with([]).unwrap();
        config.mounts.push(Mount {
            path: "/self".into(),
            base: BaseUrl::parse(&format!("http://localhost:{port}/v1")).unwrap(),
            authorization: None,
        });
        let refused = Server::new(config, listener).await.map(drop);
        assert!(matches!(refused, Err(Problem::SelfLoop(_))));
    }
}
