//! What stands between the two sides when a case is played for the second time.

use std::any::Any;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpListener;

/// The proxy that is held to the contract.
#[derive(Clone)]
pub(crate) enum Between {
    /// It is started for each case, in front of that case's upstream.
    Each(fn(&Ahead<'_>) -> Standing),
    /// It runs already, and forwards to this listener.
    Running {
        proxy: SocketAddr,
        upstream: Arc<TcpListener>,
    },
}

/// What a proxy is to be started in front of.
pub(crate) struct Ahead<'a> {
    /// The base URL of the upstream.
    pub(crate) upstream: &'a str,
    /// A file with the certificate of the authority that vouches for it, where it speaks TLS.
    pub(crate) ca_file: Option<&'a str>,
}

/// A proxy that was started.
pub(crate) struct Standing {
    pub(crate) address: SocketAddr,
    /// It ends when this is dropped.
    pub(crate) ends_with: Box<dyn Any + Send>,
}

/// What an exchange has of the proxy between its sides.
pub(super) enum Middle {
    /// It is there for this exchange alone.
    Ours(Box<dyn Any + Send>),
    /// It was there before, and keeps its connections.
    Theirs,
}
