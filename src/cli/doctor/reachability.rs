//! Ports and store, without any request.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpListener;

use super::Finding;
use crate::cli::health;
use crate::cli::serve::listen_problem;
use crate::config::reachable_address;
use crate::config::{AdminListener, Config, StoreLocation};
use crate::store::Store;

/// Tests whether both ports are free or longhaul's own, and whether the store answers.
pub(super) async fn findings(config: &Config) -> Vec<Finding> {
    let admin = match config.admin {
        AdminListener::Required(address) | AdminListener::IfFree(address) => Some(address),
        AdminListener::Off => None,
    };
    let is_running = match admin {
        Some(address) => is_longhaul(address).await,
        None => false,
    };
    let mut findings = vec![port_finding("listen", "--listen", config.listen, is_running).await];
    if let Some(address) = admin {
        findings.push(port_finding("admin", "--admin", address, is_running).await);
    }
    findings.push(store_finding(config).await);
    findings
}

/// Whether a running longhaul answers at the admin listener `address`.
async fn is_longhaul(address: SocketAddr) -> bool {
    address.port() != 0 && health::is_alive(reachable_address(address)).await
}

async fn port_finding(
    subject: &'static str,
    flag: &str,
    address: SocketAddr,
    is_running: bool,
) -> Finding {
    match TcpListener::bind(address).await {
        Ok(_) => Finding::passed(subject, format!("{address} is free")),
        Err(_) if is_running => {
            Finding::passed(subject, format!("a longhaul listens on {address}"))
        }
        Err(error) => Finding::failed(subject, listen_problem(flag, address, &error).to_string()),
    }
}

async fn store_finding(config: &Config) -> Finding {
    match &config.store.location {
        StoreLocation::Memory => Finding::passed("store", "in memory: a restart loses summaries"),
        StoreLocation::File(path) => {
            // A running proxy holds the file open, so only its form is tested.
            match Store::check(&config.store) {
                Ok(()) => Finding::passed("store", format!("in {}", path.display())),
                Err(problem) => Finding::failed("store", problem.to_string()),
            }
        }
        StoreLocation::Redis(url) => {
            let store = Store::open(&config.store, &Arc::default(), &Arc::default());
            let store = match store {
                Ok(store) => store,
                Err(problem) => return Finding::failed("store", problem.to_string()),
            };
            if store.wait_until_ready().await {
                Finding::passed("store", format!("at {url}, which answers"))
            } else {
                let advice = "check that the server runs, and its password";
                Finding::failed("store", format!("{url} does not answer; {advice}"))
            }
        }
    }
}
