//! Checks whether a request names an IP address or localhost. The owner of any other name can make
//! it point here, and a page of theirs could then read the response (DNS rebinding).

use std::net::{Ipv4Addr, Ipv6Addr};

use http::header::HOST;
use http::uri::Authority;
use http::{HeaderValue, Request};

/// Whether the requested host is an IP address or localhost. Programs may omit the host; browsers
/// never do.
pub(crate) fn targets_ip_or_localhost<B>(request: &Request<B>) -> bool {
    if let Some(authority) = request.uri().authority() {
        return is_ip_or_localhost(authority);
    }
    let mut hosts = request.headers().get_all(HOST).iter();
    hosts.all(|host| parse_authority(host).is_some_and(|authority| is_ip_or_localhost(&authority)))
}

fn parse_authority(host: &HeaderValue) -> Option<Authority> {
    host.to_str().ok()?.parse().ok()
}

fn is_ip_or_localhost(authority: &Authority) -> bool {
    let host = authority.host();
    // Text may follow the closing bracket of an address.
    let port = authority.as_str().strip_prefix(host);
    if !port.is_some_and(|port| port.is_empty() || port.starts_with(':')) {
        return false;
    }
    let in_brackets = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    match in_brackets {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => host.eq_ignore_ascii_case("localhost") || host.parse::<Ipv4Addr>().is_ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(host: &str, expect: bool) {
        let request = Request::get("/metrics").header(HOST, host);
        let request = request.body(()).unwrap();
        assert_eq!(targets_ip_or_localhost(&request), expect, "{host:?}");
    }

    #[test]
    fn addresses_and_localhost_are_no_domain() {
        for host in [
            "127.0.0.1:8485",
            "127.0.0.1",
            "[::1]:8485",
            "LocalHost:8485",
            "192.0.2.7:80",
        ] {
            check(host, true);
        }
    }

    #[test]
    fn other_names_may_be_anybodys() {
        for host in [
            "example.com",
            "localhost.example.com:8485",
            "127.0.0.1.example.com",
            "0x7f.1",
            "[::1].example.com",
            "user@127.0.0.1",
            "",
        ] {
            check(host, false);
        }
    }

    #[test]
    fn who_names_no_host_is_no_browser() {
        assert!(targets_ip_or_localhost(
            &Request::get("/").body(()).unwrap()
        ));
    }

    #[test]
    fn one_name_among_addresses_is_enough_to_refuse() {
        let request = Request::get("/").header(HOST, "127.0.0.1");
        let request = request.header(HOST, "example.com").body(()).unwrap();
        assert!(!targets_ip_or_localhost(&request));
    }

    #[test]
    fn the_target_counts_where_it_names_a_host() {
        let request = Request::get("http://example.com/config").header(HOST, "127.0.0.1");
        assert!(!targets_ip_or_localhost(&request.body(()).unwrap()));
    }
}
