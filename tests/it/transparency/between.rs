//! The proxy between the two sides when a case is played for the second time.

use std::any::Any;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpListener;

/// The proxy under test.
#[derive(Clone)]
pub(crate) enum Between {
    /// A proxy started for each case, in front of that case's upstream.
    Each(fn(&Ahead<'_>) -> Standing),
    /// A proxy that is already running and forwards to this listener.
    Running { proxy: SocketAddr, upstream: Arc<TcpListener> },
}

/// The upstream that a proxy is started in front of.
pub(crate) struct Ahead<'a> {
    /// The base URL of the upstream.
    pub(crate) upstream: &'a str,
    /// File with the certificate of the upstream's authority, if the upstream uses TLS.
    pub(crate) ca_file: Option<&'a str>,
}

/// A proxy that has been started.
pub(crate) struct Standing {
    pub(crate) address: SocketAddr,
    /// Guard that stops the proxy when dropped.
    pub(crate) ends_with: Box<dyn Any + Send>,
}

/// An exchange's view of the proxy between its sides.
pub(super) enum Middle {
    /// A proxy for this exchange alone; stops with it.
    Ours(Box<dyn Any + Send>),
    /// A proxy that was already running, and keeps its connections.
    Theirs,
}
