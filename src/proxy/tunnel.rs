//! What follows a 101: bytes both ways, until both ends are done or one breaks.

use http::request::Parts;
use http::{Response, StatusCode};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;

use super::Proxy;
use super::account::Account;
use super::exchange::Route;
use super::headers::Hop;
use crate::error::Fault;
use crate::lock::Mutex;
use crate::traces::Errand;
use crate::upstream::{Download, Outgoing, Upload};

/// Where a connection keeps the tunnel it is about to become. A plain mutex: there is one request
/// at a time on a connection that upgrades.
#[derive(Default)]
pub(crate) struct Slot(Mutex<Option<(OnUpgrade, OnUpgrade)>>);

impl Slot {
    fn fill(&self, client: OnUpgrade, upstream: OnUpgrade) {
        *self.0.lock() = Some((client, upstream));
    }

    /// Runs the tunnel, if one was agreed on, once HTTP on the connection is over.
    pub(crate) async fn run(&self) {
        let agreed = self.0.lock().take();
        let Some((client, upstream)) = agreed else {
            return;
        };
        let Ok((client, upstream)) = tokio::try_join!(client, upstream) else {
            return;
        };
        let (mut client, mut upstream) = (TokioIo::new(client), TokioIo::new(upstream));
        // An end that breaks takes the other with it: both are dropped here.
        let ended = tokio::io::copy_bidirectional(&mut client, &mut upstream).await;
        tracing::debug!(clean = ended.is_ok(), "tunnel ended");
    }
}

impl Proxy {
    /// Sends a request that asks to leave HTTP. Where the upstream agrees, `slot` gets both ends.
    pub(super) async fn upgrade(
        &self,
        route: &Route,
        head: Parts,
        body: Upload,
        (client, slot): (OnUpgrade, &Slot),
        account: &mut Account,
    ) -> Result<Response<Download>, Fault> {
        let body = Outgoing::stream(body, account.meter());
        let request = self.request(head, route, body, Hop::Upgrade)?;
        account.sends(Errand::First, &request);
        let sent = self.0.upstream.send_upgrade(request);
        let reply = account.meter().waiting(sent).await;
        account.hears(&reply);
        let mut reply = reply?;
        if reply.status() == StatusCode::SWITCHING_PROTOCOLS {
            slot.fill(client, hyper::upgrade::on(&mut reply));
        }
        Ok(self.reply(reply, route))
    }
}
