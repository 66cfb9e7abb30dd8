//! TLS in front of a scripted upstream that itself uses plain TCP.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use tempfile::NamedTempFile;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

/// A listener that accepts TLS connections and forwards each to a plain one.
pub(super) struct Terminator {
    address: SocketAddr,
    ca_file: NamedTempFile,
    accepting: JoinHandle<()>,
}

impl Terminator {
    /// Starts a terminator for `plain`, with a certificate for `localhost` from its own authority.
    pub(super) async fn in_front_of(plain: SocketAddr) -> Self {
        let (authority, certificate, key) = issue();
        let mut ca_file = NamedTempFile::new().expect("a temporary file");
        ca_file.write_all(authority.as_bytes()).expect("a writable file");
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the provider has them")
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .expect("the key is the certificate's");
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("a bound socket");
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let mut near = acceptor.accept(stream).await.expect("longhaul trusts us");
                    let mut far = TcpStream::connect(plain).await.expect("upstream listens");
                    // The two sides judge the end of the connection.
                    let _ = copy_bidirectional(&mut near, &mut far).await;
                });
            }
        });
        Self { address, ca_file, accepting }
    }

    /// Returns the authority for a client's URL.
    pub(super) fn authority(&self) -> String {
        format!("localhost:{}", self.address.port())
    }

    /// Returns the path of the file with the authority's certificate.
    pub(super) fn ca_file(&self) -> &str {
        self.ca_file.path().to_str().expect("a path of ours")
    }
}

impl Drop for Terminator {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Issues a certificate for `localhost`. Returns the authority's certificate as PEM, the issued
/// certificate and its key.
fn issue() -> (String, CertificateDer<'static>, PrivateKeyDer<'static>) {
    let mut params = CertificateParams::new(Vec::new()).expect("no names are valid names");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key"))
        .expect("a certificate of its own");
    let key = KeyPair::generate().expect("a key");
    let certificate = CertificateParams::new(vec!["localhost".to_owned()])
        .and_then(|params| params.signed_by(&key, &authority))
        .expect("a signed certificate");
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    (authority.pem(), certificate.der().clone(), key)
}
