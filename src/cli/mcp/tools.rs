//! The tools of the MCP server.

use http::Method;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData,
    Implementation, JsonObject, ListToolsResult, PaginatedRequestParams, ServerCapabilities,
    ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::Value;

use crate::cli::recall::client::RecallClient;
use crate::error::Problem;

const INSTRUCTIONS: &str = include_str!("instructions.txt");

/// Handler of the tools.
#[derive(Clone)]
pub(super) struct RecallTools {
    client: RecallClient,
}

impl RecallTools {
    pub(super) fn new(client: RecallClient) -> Self {
        Self { client }
    }

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
        Ok(result_of(self.client.ask(method, id, &part).await))
    }
}

/// Returns the result of a call. The model can correct a wrong ID or pattern, so such an error is a result.
fn result_of(said: Result<String, Problem>) -> CallToolResult {
    match said {
        Ok(text) => CallToolResult::success(vec![ContentBlock::text(text)]),
        Err(problem) => CallToolResult::error(vec![ContentBlock::text(problem.to_string())]),
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
    let tools = serde_json::from_str(include_str!("tools.json"));
    debug_assert!(tools.is_ok(), "{:?}", tools.as_ref().err());
    tools.unwrap_or_default()
}
