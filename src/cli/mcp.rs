//! `longhaul mcp`: a server of the Model Context Protocol through which an agent reads originals.

mod http;
mod tools;

use std::net::SocketAddr;
use std::sync::Arc;

use clap::ArgMatches;
use rmcp::ServiceExt as _;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService, stdio};
use tokio::net::TcpListener;

use super::recall::client_of;
use crate::cli::{Done, Env};
use crate::config::ResolvedSettings;
use crate::error::Problem;
use tools::RecallTools;

/// Parses an address of this machine: a client of the server can reach the proxy.
pub(super) fn parse_loopback(text: &str) -> Result<SocketAddr, String> {
    let on_loopback = text.strip_prefix(':').map(|port| format!("127.0.0.1:{port}"));
    match on_loopback.as_deref().unwrap_or(text).parse::<SocketAddr>() {
        Ok(address) if address.ip().to_canonical().is_loopback() => Ok(address),
        _ => Err("expected an address of this machine and a port, like 127.0.0.1:8486".into()),
    }
}

/// Serves until the client leaves, or until a signal. Fails if the settings name no proxy, or the
/// address cannot be used.
pub(super) fn mcp(found: &ResolvedSettings, matches: &ArgMatches, env: &Env) -> Done {
    let tools = RecallTools::new(client_of(found, env)?);
    let address = matches.get_one::<SocketAddr>("http").copied();
    let served = crate::cli::runtime()?.block_on(async {
        match address {
            Some(address) => serve_http(tools, address).await,
            None => serve_stdio(tools).await,
        }
    });
    Ok(served?)
}

async fn serve_stdio(tools: RecallTools) -> Result<(), Problem> {
    let failed =
        |error: String| Problem::System(format!("the MCP client does not answer: {error}"));
    let service = tools.serve(stdio()).await;
    let service = service.map_err(|error| failed(error.to_string()))?;
    let ended = service.waiting().await;
    ended.map(drop).map_err(|error| failed(error.to_string()))
}

async fn serve_http(tools: RecallTools, address: SocketAddr) -> Result<(), Problem> {
    let failed = |error| Problem::Listen(format!("--http {address}: {error}"));
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    crate::cli::print_error(&format!("longhaul: MCP server at http://{bound}\n"));
    // Pages of other sites are refused: their name may point here.
    let mut config = StreamableHttpServerConfig::default().enforce_origin_validation();
    // Each call stands for itself, so no session is kept, and no answer needs a stream.
    (config.legacy_session_mode, config.json_response) = (false, true);
    let manager = Arc::<NeverSessionManager>::default();
    let service = StreamableHttpService::new(move || Ok(tools.clone()), manager, config);
    http::serve(listener, move |request| {
        let service = service.clone();
        async move { service.handle(request).await }
    })
    .await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serves_this_machine_only() {
        assert_eq!(parse_loopback(":8486"), Ok(([127, 0, 0, 1], 8486).into()));
        assert!(parse_loopback("127.0.0.1:0").is_ok() && parse_loopback("[::1]:1").is_ok());
        for wrong in ["0.0.0.0:8486", "192.0.2.1:8486", "example.org:1", "8486", ""] {
            assert!(parse_loopback(wrong).is_err(), "{wrong}");
        }
    }
}
