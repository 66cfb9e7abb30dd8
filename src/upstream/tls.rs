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
/// `extra` are trusted too. The error describes the defect of that file.
#[cfg(feature = "otlp")]
pub(crate) fn direct_connector(
    extra: Option<&Path>,
) -> Result<HttpsConnector<HttpConnector>, String> {
    let tls = client_config(with_certificates(SYSTEM_ROOTS.clone(), extra)?)?;
    let builder = HttpsConnectorBuilder::new().with_tls_config(tls);
    let tcp = configure_tcp(HttpConnector::new());
    Ok(builder.https_or_http().enable_http1().wrap_connector(tcp))
}

/// Creates a connector that applies the proxy `rules`. TLS if the scheme is https.
pub(super) fn connector(
    config: &UpstreamConfig,
    rules: Option<Arc<ProxyRules>>,
    alpn: Alpn,
) -> Result<HttpsConnector<ProxyConnector>, Problem> {
    let extra = config.ca_file.as_deref();
    let tls = with_certificates(SYSTEM_ROOTS.clone(), extra).and_then(client_config);
    let tls = tls.map_err(|reason| {
        let path = extra.unwrap_or_else(|| Path::new("")).display();
        let expected = "expected a file of PEM certificates";
        Problem::Setting(format!("upstream.ca_file {path}: {reason}; {expected}"))
    })?;
    let tcp = with_connect_timeout(config.connect_timeout, configure_tcp(HttpConnector::new()));
    let builder = || {
        let builder = HttpsConnectorBuilder::new().with_tls_config(tls.clone());
        builder.https_or_http().enable_http1()
    };
    let proxying = rules.map(|rules| (rules, builder().wrap_connector(tcp.clone())));
    let way = ProxyConnector { tcp, proxying };
    Ok(match alpn {
        Alpn::Http1 => builder().wrap_connector(way),
        Alpn::Http2OrHttp1 => builder().enable_http2().wrap_connector(way),
    })
}

/// Creates a TLS configuration that trusts `roots`.
pub(crate) fn client_config(roots: RootCertStore) -> Result<ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider);
    let config = config.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
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

/// Returns `roots` with the PEM certificates of `file`. The error describes the defect of the file.
pub(crate) fn with_certificates(
    mut roots: RootCertStore,
    file: Option<&Path>,
) -> Result<RootCertStore, String> {
    let Some(path) = file else { return Ok(roots) };
    let before = roots.len();
    for certificate in CertificateDer::pem_file_iter(path).map_err(|error| error.to_string())? {
        let added = certificate.map(|certificate| roots.add(certificate));
        added.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
    }
    if roots.len() == before {
        return Err("it contains no certificate".to_owned());
    }
    Ok(roots)
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
        with_certificates(RootCertStore::empty(), Some(&path)).map(drop)
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
        assert!(!SYSTEM_ROOTS.is_empty());
    }
}
