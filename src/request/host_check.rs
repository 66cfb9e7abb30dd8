//! Hosts that a request names. The owner of a public name can make the name point here, and a page
//! of theirs could then read the response (DNS rebinding).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::header::HOST;
use http::uri::Authority;
use http::{HeaderValue, Request};

/// A host, without its port.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Host {
    Address(IpAddr),
    /// No host, or a name that no public name server resolves, in lower case:
    ///
    /// - localhost, and names without dots, as of a compose service
    /// - names under `.localhost` (RFC 6761)
    /// - names under `.internal` (reserved by ICANN for private use), as of container engines
    Local(String),
    /// Any other name, in lower case.
    Name(String),
}

impl Host {
    /// Parses a host; an IPv6 address is in brackets.
    pub(crate) fn parse(host: &str) -> Self {
        let in_brackets = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let address = match in_brackets {
            Some(address) => address.parse::<Ipv6Addr>().ok().map(IpAddr::from),
            None => host.parse::<Ipv4Addr>().ok().map(IpAddr::from),
        };
        if let Some(address) = address {
            return Self::Address(address.to_canonical());
        }
        let host = host.to_ascii_lowercase();
        if is_local_name(&host) { Self::Local(host) } else { Self::Name(host) }
    }
}

fn is_local_name(name: &str) -> bool {
    let is_label = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    name.bytes().all(is_label) || name.ends_with(".localhost") || name.ends_with(".internal")
}

/// Returns the hosts that a request names: the host of its target, or else of its `Host` fields.
/// Programs may omit the host; browsers never do.
pub(crate) fn requested_hosts<B>(request: &Request<B>) -> impl Iterator<Item = Host> {
    let target = request.uri().authority();
    let fields = request.headers().get_all(HOST).iter();
    let fields = fields.filter(move |_| target.is_none());
    let target = target.into_iter().map(host_of_authority);
    target.chain(fields.map(host_of_field))
}

fn host_of_field(field: &HeaderValue) -> Host {
    if field.is_empty() {
        return Host::Local(String::new());
    }
    let text = field.to_str().unwrap_or_default();
    let authority = text.parse::<Authority>();
    authority
        .map_or_else(|_| Host::Name(text.to_owned()), |authority| host_of_authority(&authority))
}

fn host_of_authority(authority: &Authority) -> Host {
    let host = authority.host();
    // A user may precede the host, and text may follow the closing bracket of an address.
    let port = authority.as_str().strip_prefix(host);
    if port.is_some_and(|port| port.is_empty() || port.starts_with(':')) {
        Host::parse(host)
    } else {
        Host::Name(authority.as_str().to_ascii_lowercase())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(host: &str) -> Vec<Host> {
        let request = Request::get("/metrics").header(HOST, host);
        requested_hosts(&request.body(()).unwrap()).collect()
    }

    #[test]
    fn classifies_addresses_and_local_names() {
        for (host, address) in [
            ("127.0.0.1:8485", "127.0.0.1"),
            ("127.0.0.1", "127.0.0.1"),
            ("[::1]:8485", "::1"),
            ("[::ffff:127.0.0.1]", "127.0.0.1"),
            ("192.0.2.7:80", "192.0.2.7"),
        ] {
            assert_eq!(hosts(host), [Host::Address(address.parse().unwrap())]);
        }
        for host in
            ["LocalHost:8485", "lh.localhost", "host.docker.internal:8485", "longhaul:8485", ""]
        {
            assert!(matches!(hosts(host)[..], [Host::Local(_)]), "{host}");
        }
    }

    #[test]
    fn classifies_any_other_host_as_a_public_name() {
        for host in [
            "example.com",
            "localhost.example.com:8485",
            "127.0.0.1.example.com",
            "0x7f.1",
            "[::1].example.com",
            "user@127.0.0.1",
            "internal.example.com",
            "a b",
        ] {
            assert!(matches!(hosts(host)[..], [Host::Name(_)]), "{host:?}");
        }
    }

    #[test]
    fn absolute_target_overrides_the_host_header() {
        let request = Request::get("http://example.com/config").header(HOST, "127.0.0.1");
        let request = request.body(()).unwrap();
        let hosts: Vec<Host> = requested_hosts(&request).collect();
        assert_eq!(hosts, [Host::Name("example.com".to_owned())]);
    }

    #[test]
    fn requested_hosts_may_be_none_or_several() {
        let request = Request::get("/").body(()).unwrap();
        assert_eq!(requested_hosts(&request).count(), 0);
        let request = Request::get("/").header(HOST, "127.0.0.1");
        let request = request.header(HOST, "example.com").body(()).unwrap();
        assert_eq!(requested_hosts(&request).count(), 2);
    }
}
