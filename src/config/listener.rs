//! Listener settings, and the check that an address open to other machines is intended.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use super::raw_value::Origin;
use super::resolved::ResolvedSettings;
use super::setting::Setting;
use super::settings::{
    ADMIN_LISTEN, CLIENT_TOKENS_FILE, LISTEN, PUBLIC, TLS_CERTIFICATE_FILE, TLS_KEY_FILE,
};
use crate::error::Problem;

/// Admin listener: health, metrics, settings and dashboard.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AdminListener {
    /// Binds this address and fails if it is taken: the operator set it.
    Required(SocketAddr),
    /// Binds this default address if it is free.
    IfFree(SocketAddr),
    /// No admin listener.
    Off,
}

impl AdminListener {
    /// Returns the address to bind, if there is an admin listener.
    pub(crate) fn address(self) -> Option<SocketAddr> {
        match self {
            Self::Required(address) | Self::IfFree(address) => Some(address),
            Self::Off => None,
        }
    }
}

/// Files of the listener's certificate and private key, both PEM.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct TlsFiles {
    /// The chain, with the listener's own certificate first.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

/// Whether only this machine can connect to `listen`.
pub(super) fn is_loopback(listen: SocketAddr) -> bool {
    listen.ip().to_canonical().is_loopback()
}

/// Returns the origin of a listener, as reachable from this machine.
pub(crate) fn own_origin(listen: SocketAddr, has_tls: bool) -> String {
    let scheme = if has_tls { "https" } else { "http" };
    format!("{scheme}://{}", reachable_address(listen))
}

/// Returns the address by which this machine reaches a listener on `address`. Replaces an
/// unspecified IP address with loopback.
pub(crate) fn reachable_address(address: SocketAddr) -> SocketAddr {
    match address.ip() {
        ip if !ip.is_unspecified() => address,
        IpAddr::V4(_) => (Ipv4Addr::LOCALHOST, address.port()).into(),
        IpAddr::V6(_) => (Ipv6Addr::LOCALHOST, address.port()).into(),
    }
}

/// Returns the address that clients connect to. Fails if other machines can connect to the address,
/// and no setting allows that.
pub(super) fn listen_address(found: &ResolvedSettings) -> Result<SocketAddr, Problem> {
    let listen = found.value(&LISTEN)?;
    let is_said = found.value(&PUBLIC)?
        || found.value(&CLIENT_TOKENS_FILE)?.is_some()
        || found.value(&TLS_CERTIFICATE_FILE)?.is_some();
    if is_said || is_loopback(listen) {
        return Ok(listen);
    }
    let reason = format!(
        "other machines can connect to {listen} without a token or TLS: listen on 127.0.0.1:{port}, \
         or require tokens ({tokens}) or TLS ({tls}), or set {public} = true (LONGHAUL_PUBLIC) if \
         only clients you trust can reach it, as in a container",
        port = listen.port(),
        tokens = CLIENT_TOKENS_FILE.key,
        tls = TLS_CERTIFICATE_FILE.key,
        public = PUBLIC.key,
    );
    Err(found.value_problem(&LISTEN, reason))
}

/// Returns the admin listener, and whether the operator set its address. Fails if the operator set
/// the address of the client listener.
pub(super) fn admin_listener(found: &ResolvedSettings) -> Result<AdminListener, Problem> {
    let address = found.value(&ADMIN_LISTEN)?;
    let address = match (address, found.origin(&ADMIN_LISTEN)) {
        (None, _) => return Ok(AdminListener::Off),
        (Some(address), Origin::Default) => return Ok(AdminListener::IfFree(address)),
        (Some(address), Origin::Environment(_) | Origin::File(..) | Origin::Flag(_)) => address,
    };
    let listen = found.value(&LISTEN)?;
    if addresses_conflict(address, listen) {
        let reason = format!(
            "found {address}, which {} already uses (from {}); expected another port, or off",
            LISTEN.key,
            found.origin(&LISTEN),
        );
        return Err(found.value_problem(&ADMIN_LISTEN, reason));
    }
    Ok(AdminListener::Required(address))
}

/// Whether two listeners cannot bind both addresses. Port 0 means any free port.
fn addresses_conflict(one: SocketAddr, other: SocketAddr) -> bool {
    let (ones, others) = (one.ip().to_canonical(), other.ip().to_canonical());
    one.port() == other.port()
        && one.port() != 0
        && (ones == others || is_wildcard_for(ones, others) || is_wildcard_for(others, ones))
}

/// Whether `all` is the wildcard address that covers `one`. The IPv6 wildcard covers IPv4 too.
fn is_wildcard_for(all: IpAddr, one: IpAddr) -> bool {
    all.is_unspecified() && (all.is_ipv6() || one.is_ipv4())
}

/// Returns the files for client TLS; `None` if clients use plain HTTP. Fails if only one of the two
/// files is set.
pub(super) fn tls_files(found: &ResolvedSettings) -> Result<Option<TlsFiles>, Problem> {
    let certificate = found.value(&TLS_CERTIFICATE_FILE)?;
    let key = found.value(&TLS_KEY_FILE)?;
    let alone = |setting: &Setting<Option<PathBuf>>, other: &Setting<Option<PathBuf>>| {
        Err(found.value_problem(setting, format!("it also needs {}", other.key)))
    };
    match (certificate, key) {
        (None, None) => Ok(None),
        (Some(certificate), Some(key)) => Ok(Some(TlsFiles { certificate, key })),
        (Some(_), None) => alone(&TLS_CERTIFICATE_FILE, &TLS_KEY_FILE),
        (None, Some(_)) => alone(&TLS_KEY_FILE, &TLS_CERTIFICATE_FILE),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::addresses_conflict;

    #[test]
    fn addresses_conflict_if_they_overlap_on_one_port() {
        for (one, other, expect) in [
            ("127.0.0.1:1", "127.0.0.1:1", true),
            ("127.0.0.1:1", "127.0.0.1:2", false),
            ("127.0.0.1:1", "127.0.0.2:1", false),
            ("127.0.0.1:0", "127.0.0.1:0", false),
            ("0.0.0.0:1", "127.0.0.1:1", true),
            ("0.0.0.0:1", "[::1]:1", false),
            ("[::]:1", "127.0.0.1:1", true),
            ("[::ffff:127.0.0.1]:1", "127.0.0.1:1", true),
        ] {
            let [one, other] = [one, other].map(|address| address.parse().unwrap());
            assert_eq!(addresses_conflict(one, other), expect, "{one} {other}");
            assert_eq!(addresses_conflict(other, one), expect, "{other} {one}");
        }
    }

    fn check(listen: &str, more: &[(&str, &str)]) -> Result<(), String> {
        let listen = [("listen", listen)];
        let settings = listen.iter().chain(more).copied();
        let config = Config::default_with(settings);
        config.map(drop).map_err(|problems| problems[0].to_string())
    }

    #[test]
    fn non_loopback_listener_requires_tls_or_public_true() {
        for listen in ["0.0.0.0:8484", "[::]:8484", "192.0.2.1:80", "[2001:db8::1]:1"] {
            let problem = check(listen, &[]).unwrap_err();
            for way in ["127.0.0.1:", "client_tokens_file", "tls.", "public = true"] {
                assert!(problem.contains(way), "{problem}");
            }
            assert!(check(listen, &[("public", "false")]).is_err());
            assert_eq!(check(listen, &[("public", "true")]), Ok(()));
            let tls = [("tls.certificate_file", "c"), ("tls.key_file", "k")];
            assert_eq!(check(listen, &tls), Ok(()));
        }
    }

    #[test]
    fn loopback_listener_needs_no_opt_in() {
        for listen in
            ["127.0.0.1:1", "localhost:1", "127.8.8.8:1", "[::1]:1", "[::ffff:127.0.0.1]:1"]
        {
            assert_eq!(check(listen, &[]), Ok(()), "{listen}");
        }
    }

    #[test]
    fn certificate_and_key_require_each_other() {
        for one in ["tls.certificate_file", "tls.key_file"] {
            let problem = check("127.0.0.1:1", &[(one, "x.pem")]).unwrap_err();
            assert!(problem.contains(one) && problem.contains("also needs"), "{problem}");
        }
    }
}
