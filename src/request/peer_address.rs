//! The address that a request comes from.

use std::net::{IpAddr, Ipv6Addr};

/// Prefix of an IPv6 address that one network has. Its hosts choose the rest, and may change it.
const NETWORK_MASK: u128 = !(u64::MAX as u128);

/// The part of the client's address that distinguishes clients; an extension of each request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeerAddress(pub(crate) IpAddr);

impl PeerAddress {
    /// Returns the whole IPv4 address, or the network of an IPv6 address.
    pub(crate) fn new(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V6(address) => {
                IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & NETWORK_MASK))
            }
            address @ IpAddr::V4(_) => address,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_of_one_ipv6_network_are_one_peer() {
        let peer = |text: &str| PeerAddress::new(text.parse().unwrap()).0;
        assert_eq!(peer("2001:db8:1:2::1"), peer("2001:db8:1:2:ffff::9"));
        assert_ne!(peer("2001:db8:1:2::1"), peer("2001:db8:1:3::1"));
        assert_eq!(peer("::ffff:192.0.2.1"), peer("192.0.2.1"));
        assert_ne!(peer("192.0.2.1"), peer("192.0.2.2"));
    }
}
