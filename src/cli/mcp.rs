//! `longhaul mcp`: a server of the Model Context Protocol through which an agent reads originals.

mod http;

use std::net::SocketAddr;
use std::sync::Arc;

use ::http::Method;
use clap::ArgMatches;
use rmcp::ServiceExt as _;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData,
    Implementation, JsonObject, ListToolsResult, PaginatedRequestParams, ServerCapabilities,
    ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService, stdio};
use serde_json::Value;
use tokio::net::TcpListener;

use super::recall::{RecallClient, client_of};
use crate::cli::{Done, Env};
use crate::config::ResolvedSettings;
use crate::error::Problem;

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
    let tools = RecallTools { client: client_of(found, env)? };
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

const INSTRUCTIONS: &str = include_str!("mcp/instructions.txt");

/// Handler of the tools.
#[derive(Clone)]
struct RecallTools {
    client: RecallClient,
}

impl RecallTools {
    async fn call(&self, name: &str, arguments: &JsonObject) -> Result<CallToolResult, ErrorData> {
        let text = |key: &str| arguments.get(key).and_then(Value::as_str);
        let wrong = |what: &str| ErrorData::invalid_params(format!("{what} is missing"), None);
        let id = text("id").ok_or_else(|| wrong("id"))?;
        let some = |key: &str| text(key).filter(|it| !it.is_empty());
        let pattern = || text("pattern").ok_or_else(|| wrong("pattern"));
        let (method, part) = match name {
            "keep" => (Method::PUT, vec![("quote", some("quote"))]),
            "unkeep" => (Method::DELETE, vec![("quote", some("quote"))]),
            "recall" => (Method::GET, vec![("grep", some("grep")), ("lines", some("lines"))]),
            "search_history" => (Method::GET, vec![("search", Some(pattern()?))]),
            "conversation_outline" => {
                (Method::GET, vec![("lines", some("lines")), ("outline", Some(""))])
            }
            _ => return Err(ErrorData::invalid_params("there is no such tool", None)),
        };
        // The model can correct a wrong ID or pattern, so such an error is a result.
        Ok(match self.client.ask(method, id, &part).await {
            Ok(text) => CallToolResult::success(vec![ContentBlock::text(text)]),
            Err(problem) => CallToolResult::error(vec![ContentBlock::text(problem.to_string())]),
        })
    }
}

impl ServerHandler for RecallTools {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("longhaul", env!("CARGO_PKG_VERSION")))
            .with_instructions(INSTRUCTIONS.trim_end())
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = request.arguments.unwrap_or_default();
        let result = self.call(&request.name, &arguments).await?;
        Ok(result.into())
    }
}

/// Returns the tools, each with the schema of its arguments.
fn tools() -> Vec<Tool> {
    let tools = serde_json::from_str(include_str!("mcp/tools.json"));
    debug_assert!(tools.is_ok(), "{:?}", tools.as_ref().err());
    tools.unwrap_or_default()
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
