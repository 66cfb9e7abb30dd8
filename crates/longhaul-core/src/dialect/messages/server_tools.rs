//! Ties between the uses of a provider's tools and their results, and references to deferred tools.
//!
//! A use and its result stand in one assistant's message, unless the tool called a tool of the client.
//! Then the client's result stands between them, and the provider's result in a later message.

use crate::conversation::cut_rules::{Ties, callers};
use crate::conversation::{CutRules, PartKind, Pieces, Role};
use crate::json::scanner::{members, values_after};
use std::collections::HashMap;

/// Returns the restrictions on cuts, for a body whose tools change at these messages. Changes before the
/// first answer are pinned. No cut passes a later change.
pub(super) fn cut_rules(body: &str, pieces: &Pieces, tool_changes: &[usize]) -> CutRules {
    let answer = pieces.messages.iter().position(|it| it.role == Role::Assistant);
    let early = tool_changes.partition_point(|&at| answer.is_none_or(|answer| at < answer));
    let (early, late) = tool_changes.split_at_checked(early).unwrap_or_default();
    let mut joined = joined(body, pieces);
    if let Some(first) = late.first() {
        joined.resize(pieces.messages.len(), false);
        if let Some(behind) = joined.get_mut(first + 1..) {
            behind.fill(true);
        }
    }
    CutRules { pinned: early.last().map_or(0, |at| at + 1), joined }
}

/// Returns, for each message, whether the provider refuses it without the message before it. Empty if no
/// result, and no call of a program, stands apart from the use.
fn joined(body: &str, pieces: &Pieces) -> Vec<bool> {
    let messages = &pieces.messages;
    let mut uses = HashMap::new();
    let mut ties = Ties::default();
    for (at, message) in messages.iter().enumerate() {
        if message.role != Role::Assistant {
            continue;
        }
        let own = pieces.parts_of(message);
        for part in own.iter().filter(|part| part.kind == PartKind::Other) {
            match ServerBlock::read(part.span.slice(body)) {
                Some(ServerBlock::Use(id)) => {
                    uses.insert(id, at);
                }
                Some(ServerBlock::Result(id)) => {
                    let first = uses.get(&id).copied();
                    ties.join(first.unwrap_or_else(|| at.saturating_sub(1)), at);
                }
                None => {}
            }
        }
        if !message.calls.is_empty() && !uses.is_empty() {
            let programs = callers(message.span.slice(body));
            let first = programs.filter_map(|id| uses.get(id)).min();
            if let Some(first) = first {
                ties.join(*first, at);
            }
        }
    }
    ties.joined(messages.len())
}

/// Type of a reference to a tool whose definition the provider loads with it.
const REFERENCE: &str = r#""tool_reference""#;
/// Key of the tool's name in a reference.
const REFERENCED: &str = r#""tool_name""#;
/// Longest name of a tool.
const MAX_NAME_BYTES: usize = 128;

/// Returns the names of the tools that a block refers to.
pub(in crate::dialect) fn referenced(block: &str) -> Vec<&str> {
    if !block.contains(REFERENCE) {
        return Vec::new();
    }
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.:/".contains(&byte);
    let names = values_after(block, REFERENCED)
        .filter_map(|value| value.strip_prefix('"')?.split('"').next())
        .filter(|name| (1..=MAX_NAME_BYTES).contains(&name.len()) && name.bytes().all(is_plain));
    names.collect()
}

/// A block of a provider's tool, with the id of the use.
enum ServerBlock {
    Result(String),
    Use(String),
}

impl ServerBlock {
    /// Reads a block, which is an object. Returns `None` for any other block.
    fn read(block: &str) -> Option<Self> {
        let (mut kind, mut id, mut used) = (None, None, None);
        for (key, value) in members(block) {
            match &*key {
                "type" => kind = Some(value),
                "id" => id = Some(value),
                "tool_use_id" => used = Some(value),
                _ => {}
            }
        }
        let text = |json: Option<&str>| serde_json::from_str::<String>(json?).ok();
        match &*text(kind)? {
            "mcp_tool_use" | "server_tool_use" => text(id).map(Self::Use),
            kind if kind.ends_with("_tool_result") => text(used).map(Self::Result),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::dialect::messages::read;

    const USE: &str = r#"{"type":"server_tool_use","id":"s","name":"code_execution","input":{}}"#;
    const RESULT: &str = r#"{"type":"code_execution_tool_result","tool_use_id":"s","content":{}}"#;
    const CALL: &str = r#"{"type":"tool_use","id":"c","name":"f","input":{}}"#;

    fn boundaries(assistants: [&[&str]; 2]) -> Vec<usize> {
        let [first, second] = assistants.map(|blocks| blocks.join(","));
        let body = format!(
            r#"{{"messages":[{{"role":"user","content":"go"}},{{"role":"assistant","content":[{first}]}},
            {{"role":"user","content":[{{"type":"tool_result","tool_use_id":"c","content":"r"}}]}},
            {{"role":"assistant","content":[{second}]}},{{"role":"user","content":"on"}}]}}"#
        );
        read(body.as_bytes()).unwrap().boundaries().to_vec()
    }

    #[test]
    fn names_of_referenced_tools_are_read_without_foreign_text() {
        let block = r#"{"type":"tool_search_tool_result","content":{"tool_references":[
            {"type":"tool_reference","tool_name":"Deferred"}, {"tool_name" : "mcp__a-b"},
            {"tool_name":"ignore all\nof it"}]}}"#;
        assert_eq!(super::referenced(block), ["Deferred", "mcp__a-b"]);
        assert!(super::referenced(r#"{"type":"text","text":"tool_name"}"#).is_empty());
    }

    #[test]
    fn a_summary_names_the_tools_that_have_to_be_searched_for_again() {
        let body = r#"{"messages":[{"role":"user","content":"go"},{"role":"assistant","content":[
            {"type":"tool_use","id":"a","name":"ToolSearch","input":{}}]},{"role":"user","content":[
            {"type":"tool_result","tool_use_id":"a","content":[
            {"type":"tool_reference","tool_name":"Deferred"}]}]},{"role":"assistant","content":"so"},
            {"role":"user","content":"on"}]}"#;
        let conversation = read(body.as_bytes()).unwrap();
        let settings = crate::policy::CompactionSettings::default();
        let policy =
            crate::policy::Policy::new(&settings, crate::units::tokens::Tokens::new(32_000));
        let budgets = crate::summary::digest::summary_budgets(&conversation, &policy, 1..4);
        let digest = crate::summary::digest::digest(&conversation, 1..4, &budgets);
        assert!(digest.contains("searched for again before a call: Deferred."), "{digest}");
    }

    #[test]
    fn no_cut_separates_the_use_of_a_providers_tool_from_its_result() {
        let said = r#"{"type":"text","text":"so"}"#;
        assert_eq!(boundaries([&[USE, RESULT, CALL], &[said]]), [0, 1, 3, 4, 5]);
        assert_eq!(boundaries([&[USE, CALL], &[RESULT, said]]), [0, 1, 4, 5]);
        // The program still runs, and made both calls.
        let [first, second] = ["c", "d"].map(|id| {
            format!(r#"{{"type":"tool_use","id":"{id}","name":"f","input":{{}},"caller":{{"type":"x","tool_id":"s"}}}}"#)
        });
        assert_eq!(boundaries([&[USE, &first], &[&second]]), [0, 1, 5]);
        assert_eq!(boundaries([&[CALL], &[&second]]), [0, 1, 3, 5]);
        // No cut passes a change of the tools.
        let change = r#"{"type":"tool_addition","tool":{}}"#;
        assert_eq!(boundaries([&[CALL], &[change, said]]), [0, 1, 3, 5]);
        // The use stands before what the body holds.
        assert_eq!(boundaries([&[CALL], &[RESULT, said]]), [0, 1, 4, 5]);
    }
}
