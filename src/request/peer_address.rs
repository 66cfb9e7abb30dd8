//! The address that a request comes from.

use std::net::IpAddr;

/// Address of the client's end of the connection, an extension of each request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeerAddress(pub(crate) IpAddr);
