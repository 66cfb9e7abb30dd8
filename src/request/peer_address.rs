//! The address that a request comes from.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use http::HeaderMap;
use ipnet::IpNet;

/// Prefix of an IPv6 address that one network has. Its hosts choose the rest, and may change it.
const NETWORK_MASK: u128 = !(u64::MAX as u128);

/// The part of the client's address that distinguishes clients; an extension of each request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeerAddress {
    /// The IPv4 address, or the network of the IPv6 address.
    pub(crate) peer: IpAddr,
    whole: IpAddr,
}

impl PeerAddress {
    /// Creates the part of `address` that distinguishes clients.
    pub(crate) fn new(address: IpAddr) -> Self {
        let whole = address.to_canonical();
        let peer = match whole {
            IpAddr::V6(address) => {
                IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & NETWORK_MASK))
            }
            IpAddr::V4(_) => whole,
        };
        Self { peer, whole }
    }

    pub(crate) fn is_loopback(self) -> bool {
        self.whole.is_loopback()
    }
}

/// Header field in which each proxy appends the address of its client.
const FORWARDED_FOR: &str = "x-forwarded-for";

/// Returns the address of the client: that of the connection, or the last one in `X-Forwarded-For` that
/// belongs to none of the `trusted` proxies. Whatever stands before such an address may be invented.
pub(crate) fn client_address(
    connected: PeerAddress,
    trusted: &[IpNet],
    headers: &HeaderMap,
) -> PeerAddress {
    let is_trusted = |peer: &IpAddr| trusted.iter().any(|network| network.contains(peer));
    let mut client = connected;
    let lists = headers.get_all(FORWARDED_FOR).iter().rev();
    let mut addresses = lists.flat_map(|list| list.as_bytes().rsplit(|byte| *byte == b','));
    while is_trusted(&client.whole) {
        match addresses.next().and_then(parse_address) {
            Some(address) => client = PeerAddress::new(address),
            None => break,
        }
    }
    client
}

fn parse_address(text: &[u8]) -> Option<IpAddr> {
    let text = str::from_utf8(text).ok()?.trim();
    let address = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    let with_port = || text.parse().ok().map(|address: SocketAddr| address.ip());
    address.unwrap_or(text).parse().ok().or_else(with_port)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn only_trusted_proxies_name_their_client() {
        let trusted: [IpNet; 2] = ["10.0.0.0/8", "2001:db8:1:2::/64"].map(|it| it.parse().unwrap());
        let client = |connected: &str, lists: &[&'static str]| {
            let connected = PeerAddress::new(connected.parse().unwrap());
            let lists = lists.iter().map(|list| HeaderValue::from_static(list));
            let named = lists.map(|list| (FORWARDED_FOR.parse().unwrap(), list));
            client_address(connected, &trusted, &named.collect()).peer.to_string()
        };
        assert_eq!(client("192.0.2.1", &["192.0.2.9"]), "192.0.2.1");
        assert_eq!(client("10.0.0.1", &[]), "10.0.0.1");
        assert_eq!(client("10.0.0.1", &["198.51.100.1, 192.0.2.9"]), "192.0.2.9");
        assert_eq!(client("10.0.0.1", &["192.0.2.9:80, 10.0.0.2"]), "192.0.2.9");
        assert_eq!(client("10.0.0.1", &["192.0.2.9", "10.0.0.2"]), "192.0.2.9");
        assert_eq!(client("10.0.0.1", &["192.0.2.9, nobody"]), "10.0.0.1");
        assert_eq!(client("10.0.0.1", &["[2001:db8:1:2::9]:80"]), "2001:db8:1:2::");
        assert_eq!(client("2001:db8:1:2::9", &["2001:db8:9::1"]), "2001:db8:9::");
    }

    #[test]
    fn hosts_of_one_ipv6_network_are_one_peer() {
        let peer = |text: &str| PeerAddress::new(text.parse().unwrap()).peer;
        assert_eq!(peer("2001:db8:1:2::1"), peer("2001:db8:1:2:ffff::9"));
        assert_ne!(peer("2001:db8:1:2::1"), peer("2001:db8:1:3::1"));
        assert_eq!(peer("::ffff:192.0.2.1"), peer("192.0.2.1"));
        assert_ne!(peer("192.0.2.1"), peer("192.0.2.2"));
    }
}
