//! The tools of the MCP server.

use std::sync::Arc;

use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData,
    Implementation, JsonObject, ListToolsResult, PaginatedRequestParams, ServerCapabilities,
    ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::Value;

use crate::cli::recall::client::{RecallClient, RecallPart};
use crate::error::Problem;

const INSTRUCTIONS: &str = include_str!("instructions.txt");

/// Handler of the tools. Clones share the client.
#[derive(Clone)]
pub(super) struct RecallTools {
    client: Arc<RecallClient>,
}

impl RecallTools {
    pub(super) fn new(client: RecallClient) -> Self {
        Self { client: Arc::new(client) }
    }

    async fn call(&self, name: &str, arguments: &JsonObject) -> Result<CallToolResult, ErrorData> {
        let text = |key: &str| arguments.get(key).and_then(Value::as_str);
        let wrong = |what: &str| ErrorData::invalid_params(format!("{what} is missing"), None);
        let id = text("id").ok_or_else(|| wrong("id"))?;
        let some = |key: &str| text(key).filter(|it| !it.is_empty());
        let part = match name {
            "keep" | "unkeep" => {
                let said = self.client.keep(id, some("quote"), name == "keep").await;
                return Ok(result_of(said));
            }
            "recall" => {
                RecallPart { grep: some("grep"), lines: some("lines"), ..RecallPart::default() }
            }
            "search_history" => RecallPart {
                search: Some(text("pattern").ok_or_else(|| wrong("pattern"))?),
                ..RecallPart::default()
            },
            "conversation_outline" => {
                RecallPart { is_outline: true, lines: some("lines"), ..RecallPart::default() }
            }
            _ => return Err(ErrorData::invalid_params("there is no such tool", None)),
        };
        Ok(result_of(self.client.read(id, part).await))
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
