//! The real proxy on loopback, inside a command.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::config::{ChoiceSetting as _, ClientTokens, Config, StoreLocation};
use crate::error::Problem;
use crate::server::Server;

/// The real proxy on a free port, stopped on drop.
pub(super) struct LoopbackProxy {
    pub(super) address: SocketAddr,
    task: JoinHandle<()>,
}

impl LoopbackProxy {
    /// Starts the proxy, with a dashboard at `page` if that is given. Clients need neither TLS nor a token, and
    /// nothing is stored. Fails if loopback cannot be used, or the proxy refuses its settings.
    pub(super) async fn start(mut config: Config, page: Option<TcpListener>) -> io::Result<Self> {
        config.tls = None;
        config.client_tokens = ClientTokens::default();
        config.store.location = StoreLocation::Memory;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let mode = format!(r#"[{{"key":"mode","value":"{}"}}]"#, config.mode.name());
        let refused = |problem: Problem| io::Error::other(problem.to_string());
        let mut server = Server::new(config, listener).await.map_err(refused)?;
        if let Some(page) = page {
            server.set_admin(Ok(page), mode).await.map_err(refused)?;
        }
        Ok(Self { address, task: tokio::spawn(server.serve(std::future::pending())) })
    }
}

impl Drop for LoopbackProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}
