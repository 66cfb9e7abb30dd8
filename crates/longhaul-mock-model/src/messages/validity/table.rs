//! The table of all rules.

use crate::messages::body::MessagesBody;
use crate::messages::validity::{MessagesRule, cache, content, pairs, thinking, turns};

/// The rules of `fixtures/messages/validity.json` that a body alone does not show. The model checks them
/// with the key of its signatures, with the credential, or by the bytes.
pub static MESSAGES_RULES_BEYOND_BODIES: &[&str] = &[
    "m-bound-chain",
    "m-bound-count",
    "m-bound-prefix",
    "m-bytes",
    "m-system-oauth",
    "m-thinking-invalid",
    "m-thinking-latest",
];

/// The rules that no request can break, with the reasons.
pub static UNCHECKED_MESSAGES_RULES: &[(&str, &str)] =
    &[("m-bound-account", "the provider drops the thinking of another account without a refusal")];

/// The rules that a body can break, in the order of evaluation.
pub static MESSAGES_RULES: &[MessagesRule] = &[
    rule(
        "m-pair-fwd",
        pairs::unanswered,
        "messages.14: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_x. Each `tool_use` block must have a corresponding `tool_result` block in the next message.",
    ),
    rule(
        "m-pair-back",
        pairs::orphaned,
        "messages.0.content.0: unexpected `tool_use_id` found in `tool_result` blocks: toolu_x. Each `tool_result` block must have a corresponding `tool_use` block in the previous message.",
    ),
    rule(
        "m-result-first",
        pairs::results_not_first,
        "tool_use ids were found without tool_result blocks immediately after",
    ),
    rule(
        "m-result-role",
        pairs::wrong_role,
        "messages.11: `tool_result` blocks can only be in `user` messages",
    ),
    rule(
        "m-use-unique",
        pairs::repeated_call,
        "messages.1.content.1: `tool_use` ids must be unique",
    ),
    rule(
        "m-result-once",
        pairs::repeated_result,
        "each tool_use must have a single result. Found multiple `tool_result` blocks with id: toolu_x",
    ),
    rule(
        "m-id-pattern",
        pairs::odd_id,
        "messages.1.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'",
    ),
    rule(
        "m-use-input-object",
        pairs::input_no_object,
        "messages.1.content.0.tool_use.input: Input should be a valid dictionary",
    ),
    rule("m-tools-kept", pairs::no_tools, "Tool reference 'X' not found in available tools"),
    rule(
        "m-result-content",
        content::odd_result,
        "messages: `tool_result` content must be a string or a list of known blocks",
    ),
    rule(
        "m-result-toolset",
        content::toolset_lost,
        "messages: `toolset_name` of a `tool_result` must equal that of its `tool_use`",
    ),
    rule(
        "m-result-reference",
        pairs::unknown_reference,
        "Tool reference 'X' not found in available tools",
    ),
    rule(
        "m-result-error",
        content::media_in_error,
        "messages.9.content.0.tool_result: all content must be type `text` if `is_error` is true",
    ),
    rule("m-roles", turns::unknown_role, "role 'system' is not supported on this model"),
    rule(
        "m-system-place",
        turns::misplaced_system,
        "messages: a `system` message must follow a user turn and precede an assistant turn",
    ),
    rule("m-system-blocks", turns::odd_system, "messages: a `system` message may hold text only"),
    rule(
        "m-first-user",
        turns::first_not_user,
        "messages: first message must use the \"user\" role",
    ),
    rule("m-count", turns::too_many_messages, "messages: at most 100000 messages"),
    rule(
        "m-nonempty-message",
        content::empty_message,
        "messages.1: all messages must have non-empty content except for the optional final assistant message",
    ),
    rule("m-text-nonempty", content::empty_text, "messages: text content blocks must be non-empty"),
    rule(
        "m-text-whitespace",
        content::blank_message,
        "messages: text content blocks must contain non-whitespace text",
    ),
    rule(
        "m-trailing-space",
        content::trailing_space,
        "messages: final assistant content cannot end with trailing whitespace",
    ),
    rule(
        "m-prefill",
        turns::prefilled,
        "This model does not support assistant message prefill. The conversation must end with a user message.",
    ),
    rule(
        "m-open-server-tool",
        pairs::words_beside_open_server_tool,
        "messages: only `tool_result` blocks may follow an open server tool",
    ),
    rule(
        "m-thinking-loop",
        thinking::loop_without_thinking,
        "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`. When `thinking` is enabled, a final `assistant` message must start with a thinking block",
    ),
    rule(
        "m-thinking-signature",
        thinking::unsigned,
        "messages.1.content.0.thinking.signature: Field required",
    ),
    rule(
        "m-thinking-last",
        thinking::last,
        "messages.1: The final block in an assistant message cannot be `thinking`.",
    ),
    rule(
        "m-thinking-off",
        thinking::final_but_off,
        "messages.1.content.0: When thinking is disabled, an `assistant` message in the final position cannot contain `thinking`",
    ),
    rule(
        "m-thinking-budget",
        thinking::budget,
        "`max_tokens` must be greater than `thinking.budget_tokens`.",
    ),
    rule(
        "m-thinking-choice",
        thinking::forced_tool,
        "Thinking may not be enabled when tool_choice forces tool use.",
    ),
    rule(
        "m-server-pair",
        pairs::unanswered_server_tool,
        "`web_search` tool use with id `srvtoolu_x` was found without a corresponding `web_search_tool_result` block",
    ),
    rule(
        "m-server-pair-back",
        pairs::orphaned_server_result,
        "messages.33.content.0: unexpected `tool_use_id` found in `advisor_tool_result` blocks: srvtoolu_x",
    ),
    rule(
        "m-mcp",
        turns::misplaced_mcp_result,
        "messages: `mcp_tool_result` blocks can only be in `assistant` messages",
    ),
    rule(
        "m-fallback",
        turns::assistants_block_elsewhere,
        "messages: this block can only be in `assistant` messages",
    ),
    rule(
        "m-context-edits",
        content::late_clear_thinking,
        "context_management: Extra inputs are not permitted",
    ),
    rule("m-ondemand-block", turns::misplaced_compaction, "compaction_block_misplaced"),
    rule(
        "m-cache-4",
        cache::too_many,
        "A maximum of 4 blocks with cache_control may be provided. Found 5.",
    ),
    rule(
        "m-cache-ttl",
        cache::order,
        "messages.1040.content.3.cache_control.ttl: a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block.",
    ),
    rule(
        "m-cache-empty",
        cache::on_empty,
        "messages.87.content.1.text: cache_control cannot be set for empty text blocks",
    ),
    rule(
        "m-cache-where",
        cache::misplaced,
        "messages.3.content.0.thinking.cache_control: Extra inputs are not permitted",
    ),
    rule("m-cache-auto", cache::automatic, "cache_control: the last block has another ttl"),
    rule(
        "m-system-param",
        content::system_no_text,
        "system: Input should be a valid string or a list of text blocks",
    ),
    rule(
        "m-images",
        content::too_many_images,
        "messages.17.content.1.image.source.base64.data: At least one of the image dimensions exceed max allowed size for many-image requests: 2000 pixels",
    ),
    rule("m-document", content::odd_document, "messages: document.source: Field required"),
    rule("m-container", content::odd_upload, "messages: container_upload: file_id: Field required"),
    rule("m-compaction", content::odd_compaction, "messages: compaction: content: Field required"),
    rule(
        "m-pair-next-only",
        pairs::separated,
        "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_x.",
    ),
    rule(
        "m-citations",
        content::dangling_citation,
        "messages: citations.document_index: no such document",
    ),
    rule(
        "m-pdf",
        content::too_many_pdfs,
        "messages.38.content.0.pdf.source.base64.data: A maximum of 600 PDF pages may be provided.",
    ),
    rule(
        "m-max-tokens-min",
        content::no_output,
        "max_tokens: Input should be greater than or equal to 1",
    ),
];

const fn rule(
    id: &'static str,
    is_broken: fn(&MessagesBody<'_>) -> bool,
    error: &'static str,
) -> MessagesRule {
    MessagesRule { id, error, is_broken }
}
