//! The real proxy on loopback, inside a command.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::config::Config;
use crate::error::Problem;
use crate::server;

/// The real proxy on a free port, stopped on drop.
pub(super) struct LoopbackProxy {
    pub(super) address: SocketAddr,
    task: JoinHandle<Result<(), Problem>>,
}

impl LoopbackProxy {
    /// Starts the proxy. Fails if loopback cannot be used, or the proxy refuses its settings.
    pub(super) async fn start(config: Config) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let (ready, readied) = oneshot::channel();
        let mut served =
            tokio::spawn(server::run(config, listener, std::future::pending(), || {
                _ = ready.send(());
            }));
        tokio::select! {
            biased;
            Ok(()) = readied => Ok(Self { address, task: served }),
            ended = &mut served => Err(match ended {
                Ok(Ok(())) => io::Error::other("the proxy ended before it was ready"),
                Ok(Err(problem)) => io::Error::other(problem.to_string()),
                Err(error) => io::Error::other(error),
            }),
        }
    }
}

impl Drop for LoopbackProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}
