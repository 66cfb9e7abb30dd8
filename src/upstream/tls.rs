//! TLS towards upstreams: the trusted roots, the ALPN protocols and the cryptography provider.

use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use crate::config::UpstreamConfig;
use crate::error::Problem;
use crate::limits::{TCP_KEEPALIVE, TCP_KEEPALIVE_INTERVAL};
use crate::upstream::proxy_connector::{ProxyConnector, ProxyRules};

/// Protocols offered in the TLS handshake.
#[derive(Clone, Copy, Debug)]
pub(super) enum Alpn {
    Http1,
    Http2OrHttp1,
}

/// Creates a connector that never uses a proxy. TLS if the scheme is https; the certificates in
/// `extra` are trusted too.
#[cfg(feature = "otlp")]
pub(crate) fn direct_connector(
    extra: Option<&Path>,
) -> Result<HttpsConnector<HttpConnector>, Problem> {
    let builder = HttpsConnectorBuilder::new().with_tls_config(client_config(extra)?);
    let tcp = configure_tcp(HttpConnector::new());
    Ok(builder.https_or_http().enable_http1().wrap_connector(tcp))
}

/// Creates a connector that applies the proxy `rules`. TLS if the scheme is https.
pub(super) fn connector(
    config: &UpstreamConfig,
    rules: Option<Arc<ProxyRules>>,
    alpn: Alpn,
) -> Result<HttpsConnector<ProxyConnector>, Problem> {
    let tls = client_config(config.ca_file.as_deref())?;
    let tcp = with_connect_timeout(config.connect_timeout, configure_tcp(HttpConnector::new()));
    let builder = || {
        let builder = HttpsConnectorBuilder::new().with_tls_config(tls.clone());
        builder.https_or_http().enable_http1()
    };
    let proxies = rules.map(|rules| (rules, builder().wrap_connector(tcp.clone())));
    let way = ProxyConnector::new(tcp, proxies);
    Ok(match alpn {
        Alpn::Http1 => builder().wrap_connector(way),
        Alpn::Http2OrHttp1 => builder().enable_http2().wrap_connector(way),
    })
}

/// Creates the TLS configuration with its provider and trusted roots.
fn client_config(extra: Option<&Path>) -> Result<ClientConfig, Problem> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    Ok(ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| authorities_problem(Path::new(""), &error))?
        .with_root_certificates(root_store(extra)?)
        .with_no_client_auth())
}

/// Limits TCP connects so that all addresses of a name are tried within the connect timeout. The
/// limit is divided among them, so a silent address leaves time for the next. A quarter is left for
/// TLS.
fn with_connect_timeout<R>(connect: Duration, mut tcp: HttpConnector<R>) -> HttpConnector<R> {
    tcp.set_connect_timeout(Some(connect * 3 / 4));
    tcp
}

fn configure_tcp(mut tcp: HttpConnector) -> HttpConnector {
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_keepalive(Some(TCP_KEEPALIVE));
    tcp.set_keepalive_interval(Some(TCP_KEEPALIVE_INTERVAL));
    tcp
}

/// The system's roots, or Mozilla's if the system has none. Read once: a process has several
/// connectors, and the system several hundred files.
pub(crate) static SYSTEM_ROOTS: LazyLock<RootCertStore> = LazyLock::new(|| {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    roots
});

/// Collects the trusted roots: [`SYSTEM_ROOTS`], and those of the operator's file.
fn root_store(extra: Option<&Path>) -> Result<RootCertStore, Problem> {
    let mut roots = SYSTEM_ROOTS.clone();
    if let Some(path) = extra {
        let before = roots.len();
        let found =
            CertificateDer::pem_file_iter(path).map_err(|e| authorities_problem(path, &e))?;
        for certificate in found {
            let certificate = certificate.map_err(|error| authorities_problem(path, &error))?;
            roots.add(certificate).map_err(|error| authorities_problem(path, &error))?;
        }
        if roots.len() == before {
            return Err(authorities_problem(path, &"it contains no certificate"));
        }
    }
    Ok(roots)
}

fn authorities_problem(path: &Path, reason: &dyn std::fmt::Display) -> Problem {
    Problem::CaFile { path: path.to_owned(), reason: reason.to_string() }
}

#[cfg(test)]
mod tests {
    use std::future::{Ready, ready};
    use std::io;
    use std::net::{Ipv4Addr, SocketAddr};
    use std::task::{Context, Poll};

    use hyper_util::client::legacy::connect::dns::Name;
    use socket2::{Domain, Socket, Type};
    use tokio::net::TcpListener;
    use tower_service::Service;

    use super::*;

    /// Resolves every name to these addresses.
    #[derive(Clone)]
    struct Resolver([SocketAddr; 2]);

    impl Service<Name> for Resolver {
        type Response = std::array::IntoIter<SocketAddr, 2>;
        type Error = io::Error;
        type Future = Ready<io::Result<Self::Response>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, _: Name) -> Self::Future {
            ready(Ok(self.0.into_iter()))
        }
    }

    /// A listening socket with a full backlog that accepts nothing, and the sockets that fill it.
    fn silent() -> (Socket, Vec<Socket>) {
        let stream = || Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        let listening = stream();
        let anywhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        listening.bind(&anywhere.into()).unwrap();
        listening.listen(0).unwrap();
        let address = listening.local_addr().unwrap();
        let filling = (0..4).map(|_| {
            let socket = stream();
            socket.set_nonblocking(true).unwrap();
            // With a full backlog, the connect stays in progress.
            _ = socket.connect(&address);
            socket
        });
        let filling = filling.collect();
        (listening, filling)
    }

    #[tokio::test(start_paused = true)]
    async fn tries_the_second_address_if_the_first_is_silent() {
        let (listening, _filling) = silent();
        let first = listening.local_addr().unwrap().as_socket().unwrap();
        let second = SocketAddr::from((Ipv4Addr::new(127, 0, 0, 2), first.port()));
        let listener = TcpListener::bind(second).await.unwrap();
        let tcp = HttpConnector::new_with_resolver(Resolver([first, second]));
        let deadline = Duration::from_secs(10);
        let mut tcp = with_connect_timeout(deadline, tcp);
        let connecting = tcp.call("http://twice.example".parse().unwrap());
        let connected = tokio::time::timeout(deadline, connecting).await;
        let stream = connected.expect("in time").unwrap().into_inner();
        assert_eq!(stream.peer_addr().unwrap(), second);
        drop(listener);
    }

    fn check(text: &str) -> Result<(), String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ca.pem");
        std::fs::write(&path, text).unwrap();
        root_store(Some(&path)).map(drop).map_err(|problem| problem.to_string())
    }

    #[test]
    fn accepts_a_file_of_additional_certificates() {
        let issued = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
        assert_eq!(check(&issued.cert.pem()), Ok(()));
    }

    #[test]
    fn a_file_without_certificates_is_a_problem() {
        assert!(check("hello").unwrap_err().contains("no certificate"));
    }

    #[test]
    fn default_root_store_is_not_empty() {
        assert!(!root_store(None).unwrap().is_empty());
    }
}
