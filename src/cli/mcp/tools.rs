//! The tools of the MCP server.

use std::sync::Arc;

use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData,
    Implementation, JsonObject, ListToolsResult, PaginatedRequestParams, ServerCapabilities,
    ServerConfig, Tool, ToolAnnotations,
};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::{Value, json};

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
        Self {
            client: Arc::new(client),
        }
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
            "recall" => RecallPart {
                grep: some("grep"),
                lines: some("lines"),
                ..RecallPart::default()
            },
            "search_history" => RecallPart {
                search: Some(text("pattern").ok_or_else(|| wrong("pattern"))?),
                ..RecallPart::default()
            },
            "conversation_outline" => RecallPart {
                is_outline: true,
                lines: some("lines"),
                ..RecallPart::default()
            },
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

fn tools() -> Vec<Tool> {
    let id = json!({"type": "string", "description": "The id in a line [Full text: … id ID]"});
    let lines =
        json!({"type": "string", "description": "Lines to return, from 1: A-B, A-, -B or A"});
    let pattern = |what: &str| json!({"type": "string", "description": what});
    let quote = pattern("Only this part of the words, to the letter");
    vec![
        tool(
            "recall",
            "Returns the full text behind a line [Full text: …]: a tool result that was cleared or \
             shortened, or the part of the conversation behind a summary.",
            &json!({
                "id": id,
                "grep": pattern("Return only lines that match this regular expression or text"),
                "lines": lines,
            }),
            &["id"],
        ),
        tool(
            "search_history",
            "Searches everything that is kept of this conversation's earlier history.",
            &json!({
                "id": id,
                "pattern": pattern("Regular expression or text to search for"),
            }),
            &["id", "pattern"],
        ),
        tool(
            "conversation_outline",
            "Lists the steps of this conversation's earlier history, each with an id for recall.",
            &json!({"id": id, "lines": lines}),
            &["id"],
        ),
        changing(
            "keep",
            "Keeps words of the user or of yourself in this conversation, whatever a later summary \
             replaces. Results of tools cannot be kept. conversation_outline lists the ids.",
            &json!({"id": id, "quote": quote}),
        ),
        changing(
            "unkeep",
            "Takes back a wish of yours to keep words: the same id, and the same quote.",
            &json!({"id": id, "quote": quote}),
        ),
    ]
}

/// A tool that changes what stays in the conversation.
fn changing(name: &'static str, about: &'static str, properties: &Value) -> Tool {
    let hints = ToolAnnotations::new().read_only(false).idempotent(true);
    let hints = hints.destructive(false).open_world(false);
    tool(name, about, properties, &["id"]).with_annotations(hints)
}

fn tool(name: &'static str, about: &'static str, properties: &Value, required: &[&str]) -> Tool {
    let schema = json!({"type": "object", "properties": properties, "required": required});
    let schema = schema.as_object().cloned().unwrap_or_default();
    let hints = ToolAnnotations::new().read_only(true).idempotent(true);
    Tool::new(name, about, schema).with_annotations(hints.open_world(false))
}
