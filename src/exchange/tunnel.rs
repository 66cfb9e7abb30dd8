//! Tunnel after a 101 response: copies bytes both ways, until both ends are done or one breaks.

use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::request::Parts;
use http::{Response, StatusCode};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::body::client_body::ClientBody;
use crate::body::request_body::RequestBody;
use crate::body::stream_with_hooks::StreamWithHooks;
use crate::error::Fault;
use crate::exchange::request_log::RequestLog;
use crate::exchange::send::{Route, client_reply, upstream_request};
use crate::proxy_state::ProxyState;
use crate::request::headers::BodyFraming;
use crate::request::receive::RequestSlot;
use crate::upstream::UpstreamBody;
use parking_lot::Mutex;

/// Time without a byte after which a tunnel ends while the server stops. A tunnel has no end that
/// the server could wait for.
const DRAIN_IDLE: Duration = Duration::from_secs(5);

/// Holds the tunnel that a connection is about to become. A plain mutex suffices: a connection that
/// upgrades has one request at a time.
#[derive(Default)]
pub(crate) struct TunnelSlot(Mutex<Option<AgreedTunnel>>);

/// Both ends of a tunnel, and its place among the requests under way.
type AgreedTunnel = (OnUpgrade, OnUpgrade, Option<RequestSlot>);

impl TunnelSlot {
    /// Runs the agreed tunnel, if any, once HTTP on the connection is over. Once `stopped` changes,
    /// the tunnel ends if it is idle.
    pub(crate) async fn run(&self, stopped: watch::Receiver<()>) {
        let agreed = self.0.lock().take();
        let Some((client, upstream, _place)) = agreed else {
            return;
        };
        let Ok((client, upstream)) = tokio::try_join!(client, upstream) else {
            return;
        };
        let reads = AtomicU64::new(0);
        let [mut client, mut upstream] = [client, upstream].map(|end| StreamWithHooks {
            io: TokioIo::new(end),
            read: |end: Pin<&mut TokioIo<Upgraded>>,
                   cx: &mut Context<'_>,
                   buffer: &mut ReadBuf<'_>| {
                let read = ready!(end.poll_read(cx, buffer));
                reads.fetch_add(1, Ordering::Relaxed);
                Poll::Ready(read)
            },
            written: |_| (),
        });
        // Both ends are dropped here, so an end that breaks closes the other.
        tokio::select! {
            ended = tokio::io::copy_bidirectional(&mut client, &mut upstream) => {
                tracing::debug!(clean = ended.is_ok(), "tunnel ended");
            }
            () = idle_after_stop(stopped, &reads) => {
                tracing::debug!("closed an idle tunnel, because the server is stopping");
            }
        }
    }
}

/// Waits until the server stops, and then until no byte has arrived for [`DRAIN_IDLE`].
async fn idle_after_stop(mut stopped: watch::Receiver<()>, reads: &AtomicU64) {
    _ = stopped.changed().await;
    loop {
        let before = reads.load(Ordering::Relaxed);
        sleep(DRAIN_IDLE).await;
        if reads.load(Ordering::Relaxed) == before {
            return;
        }
    }
}

/// Sends a request to switch protocols. If the upstream agrees, `slot` receives both ends.
pub(crate) async fn upgrade(
    state: &ProxyState,
    route: &Route,
    head: Parts,
    body: ClientBody,
    (client, slot): (OnUpgrade, &TunnelSlot),
    log: &mut RequestLog,
) -> Result<Response<UpstreamBody>, Fault> {
    let body = RequestBody::from_client(body, &log.meter);
    let request = upstream_request(state, &head, route, body, BodyFraming::Upgrade)?;
    log.trace.record_send(None, &request);
    let sent = state.upstream.send_upgrade(request);
    let reply = log.meter.measure_wait(pin!(sent)).await;
    log.trace.record_reply(&reply);
    let mut reply = reply?;
    let switches = reply.status() == StatusCode::SWITCHING_PROTOCOLS;
    let upstream = switches.then(|| hyper::upgrade::on(&mut reply));
    let reply = client_reply(state, reply, route)?;
    if let Some(upstream) = upstream {
        *slot.0.lock() = Some((client, upstream, log.slot.take()));
    }
    Ok(reply)
}
