//! A server that fails each of its connections in one configured way.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::PrivatePkcs8KeyDer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_rustls::{TlsAcceptor, rustls};

use crate::time_limit::bounded;

/// A host name that never resolves (RFC 2606, 2).
pub(super) const NOBODY: &str = "does-not-exist.invalid";

/// Time between two bytes of [`Conduct::Drips`].
const DRIP: Duration = Duration::from_millis(5);

/// The server's treatment of a connection that has sent something.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Conduct {
    /// Sends these bytes, then repeats the last of them slowly for ever.
    Drips(&'static [u8]),
    /// Replies with these bytes.
    Garbage(&'static [u8]),
    /// Sends FIN and keeps reading.
    HalfCloses,
    /// Resets the connection.
    Resets,
    /// Reads and never replies.
    Stalls,
    /// Presents a self-signed certificate.
    Uncertified,
}

/// A running server; stops when dropped.
pub(super) struct Endpoint {
    pub(super) address: SocketAddr,
    met: watch::Receiver<usize>,
    accepting: JoinHandle<()>,
}

impl Endpoint {
    pub(super) async fn start(conduct: Conduct) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (tell, met) = watch::channel(0);
        let accepting = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let tell = tell.clone();
                tokio::spawn(async move {
                    let mut socket = socket;
                    // Waits for the first bytes of a request, except for TLS: the acceptor must
                    // read those itself.
                    if conduct == Conduct::Uncertified || asked(&mut socket).await {
                        tell.send_modify(|met| *met += 1);
                        fail(socket, conduct).await;
                    }
                });
            }
        });
        Self { address, met, accepting }
    }

    /// Waits until at least one connection has been failed.
    pub(super) async fn met(&self) {
        let mut met = self.met.clone();
        bounded(met.wait_for(|met| *met > 0)).await.unwrap();
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn asked(socket: &mut TcpStream) -> bool {
    let mut first = [0; 4_096];
    socket.read(&mut first).await.is_ok_and(|read| read > 0)
}

/// Fails one connection. Socket errors only end the function: the test judges the peer's reaction,
/// and the peer may leave at any time.
async fn fail(mut socket: TcpStream, conduct: Conduct) {
    match conduct {
        Conduct::Drips(answer) => {
            let (last, begin) = answer.split_last().unwrap();
            if socket.write_all(begin).await.is_err() {
                return;
            }
            while socket.write_all(&[*last]).await.is_ok() {
                tokio::time::sleep(DRIP).await;
            }
        }
        Conduct::Garbage(bytes) => {
            let _ = socket.write_all(bytes).await;
            drain(socket).await;
        }
        Conduct::HalfCloses => {
            let _ = socket.shutdown().await;
            drain(socket).await;
        }
        Conduct::Resets => socket.set_zero_linger().unwrap(),
        Conduct::Stalls => drain(socket).await,
        Conduct::Uncertified => {
            let _ = uncertified().accept(socket).await;
        }
    }
}

async fn drain(mut socket: TcpStream) {
    let mut unheard = [0; 4_096];
    while socket.read(&mut unheard).await.is_ok_and(|read| read > 0) {}
}

fn uncertified() -> TlsAcceptor {
    let names = vec!["localhost".into(), "127.0.0.1".into()];
    let issued = rcgen::generate_simple_self_signed(names).unwrap();
    let key = PrivatePkcs8KeyDer::from(issued.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![issued.cert.der().clone()], key.into())
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}
