//! Tunnel after a 101 response: copies bytes both ways, until both ends are done or one breaks.

use http::request::Parts;
use http::{Response, StatusCode};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;

use crate::body::client_body::ClientBody;
use crate::body::request_body::RequestBody;
use crate::error::Fault;
use crate::exchange::request_log::RequestLog;
use crate::exchange::send::{Route, client_reply, upstream_request};
use crate::request::headers::BodyFraming;
use crate::services::Services;
use crate::upstream::UpstreamBody;
use parking_lot::Mutex;

/// Holds the tunnel that a connection is about to become. A plain mutex suffices: a connection that
/// upgrades has one request at a time.
#[derive(Default)]
pub(crate) struct TunnelSlot(Mutex<Option<(OnUpgrade, OnUpgrade)>>);

impl TunnelSlot {
    fn fill(&self, client: OnUpgrade, upstream: OnUpgrade) {
        *self.0.lock() = Some((client, upstream));
    }

    /// Runs the agreed tunnel, if any, once HTTP on the connection is over.
    pub(crate) async fn run(&self) {
        let agreed = self.0.lock().take();
        let Some((client, upstream)) = agreed else {
            return;
        };
        let Ok((client, upstream)) = tokio::try_join!(client, upstream) else {
            return;
        };
        let (mut client, mut upstream) = (TokioIo::new(client), TokioIo::new(upstream));
        // Both ends are dropped here, so an end that breaks closes the other.
        let ended = tokio::io::copy_bidirectional(&mut client, &mut upstream).await;
        tracing::debug!(clean = ended.is_ok(), "tunnel ended");
    }
}

/// Sends a request to switch protocols. If the upstream agrees, `slot` receives both ends.
pub(crate) async fn upgrade(
    services: &Services,
    route: &Route,
    head: Parts,
    body: ClientBody,
    (client, slot): (OnUpgrade, &TunnelSlot),
    log: &mut RequestLog,
) -> Result<Response<UpstreamBody>, Fault> {
    let body = RequestBody::from_client(body, log.meter());
    let request = upstream_request(services, head, route, body, BodyFraming::Upgrade)?;
    log.record_send(None, &request);
    let sent = services.upstream.send_upgrade(request);
    let reply = log.meter().measure_wait(sent).await;
    log.record_reply(&reply);
    let mut reply = reply?;
    if reply.status() == StatusCode::SWITCHING_PROTOCOLS {
        slot.fill(client, hyper::upgrade::on(&mut reply));
    }
    Ok(client_reply(services, reply, route))
}
