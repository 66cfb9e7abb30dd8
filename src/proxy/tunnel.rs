//! What follows a 101: bytes both ways, until both ends are done or one breaks.

use std::sync::{Mutex, PoisonError};

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;

/// Where a connection keeps the tunnel it is about to become. A plain mutex: there is one request
/// at a time on a connection that upgrades.
#[derive(Default)]
pub(crate) struct Slot(Mutex<Option<(OnUpgrade, OnUpgrade)>>);

impl Slot {
    pub(super) fn fill(&self, client: OnUpgrade, upstream: OnUpgrade) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((client, upstream));
    }

    /// Runs the tunnel, if one was agreed on, once HTTP on the connection is over.
    pub(crate) async fn run(&self) {
        let agreed = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
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
