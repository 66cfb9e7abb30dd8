//! The dialect of `POST …/responses`: the meaning of each key.

mod keys;
mod reader;
pub(super) mod reply;
pub(super) mod steps;
pub(super) mod summary_request;
pub(super) mod writer;

use crate::dialect::chat_completions;
use crate::dialect::facts::DialectFacts;
use crate::units::tokens::Tokens;
pub use reader::read;
pub(super) use reader::read_with;

pub(super) static FACTS: DialectFacts = DialectFacts {
    // Paths of stored responses continue after it, and `…/responses/compact` is another API.
    path: "/responses",
    distinct_path: "/responses",
    // Agents poll, cancel and continue their responses by id.
    key_paths: &["responses", "responses/*"],
    has_websocket: true,
    form: 1 << 16,
    list_key: "input",
    output_limit_keys: &["max_output_tokens"],
    may_keep_calls: true,
    cache_mark_key: "prompt_cache_breakpoint",
    allows_added_cache_marks: false,
    text_part_start: r#"{"type":"input_text","text":"#,
    call_signature: None,
    answer_key: "output",
    // Every item has a type.
    content_keys: "type",
    // The events before the first content repeat instructions and tools twice; those of Codex with a few tool
    // servers take 100 KB.
    held_bytes: 512 * 1024,
    // A closing event states its type, its status and the reason for being incomplete in the first 300, before
    // it repeats instructions and tools.
    event_start_bytes: 512,
    ..chat_completions::FACTS
};

/// Bytes of an encrypted text that carry no tokens. Codex subtracts the number in its own estimate.
const ENCRYPTION_OVERHEAD_BYTES: u32 = 650;

/// Types of the items for calls that the provider itself makes and answers.
const HOSTED: &str = "code_interpreter_call file_search_call image_generation_call mcp_call mcp_list_tools \
                      web_search_call";

fn is_hosted(item_type: &str) -> bool {
    HOSTED.split(' ').any(|hosted| hosted == item_type)
}

/// Estimates the text in `chars` characters of encrypted base64, by Codex's own formula.
fn encrypted_tokens(chars: u32) -> Tokens {
    let bytes = chars / 4 * 3;
    Tokens::estimate_chars(bytes.saturating_sub(ENCRYPTION_OVERHEAD_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_encrypted_text_is_estimated_at_zero() {
        for (chars, expect) in [(0, 0), (400, 0), (868, 0), (2_000, 212), (u32::MAX, 805_306_204)] {
            assert_eq!(encrypted_tokens(chars), Tokens::new(expect), "{chars}");
        }
    }
}
