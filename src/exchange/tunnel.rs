//! Tunnel after a 101 response: copies bytes both ways, until both ends are done or one breaks.

use http::request::Parts;
use http::{Response, StatusCode};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;

use crate::body::client_body::ClientBody;
use crate::body::request_body::RequestBody;
use crate::error::Fault;
use crate::exchange::request_log::RequestLog;
use crate::exchange::send::Route;
use crate::proxy::Proxy;
use crate::request::headers::BodyFraming;
use crate::traces::CallPurpose;
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

impl Proxy {
    /// Sends a request to switch protocols. If the upstream agrees, `slot` receives both ends.
    pub(crate) async fn upgrade(
        &self,
        route: &Route,
        head: Parts,
        body: ClientBody,
        (client, slot): (OnUpgrade, &TunnelSlot),
        account: &mut RequestLog,
    ) -> Result<Response<UpstreamBody>, Fault> {
        let body = RequestBody::from_client(body, account.meter());
        let request = self.upstream_request(head, route, body, BodyFraming::Upgrade)?;
        account.record_send(CallPurpose::First, &request);
        let sent = self.0.upstream.send_upgrade(request);
        let reply = account.meter().measure_wait(sent).await;
        account.record_reply(&reply);
        let mut reply = reply?;
        if reply.status() == StatusCode::SWITCHING_PROTOCOLS {
            slot.fill(client, hyper::upgrade::on(&mut reply));
        }
        Ok(self.client_reply(reply, route))
    }
}
