//! Calls, their outputs, and the tools that they name.

use std::collections::HashSet;

use serde_json::Value;

use super::{has_stored_history, items, kind, text};
use crate::request::{list, member};

const MAX_CALL_ID_CHARS: usize = 64;

/// Calls that the provider answers within the item.
const HOSTED_CALLS: [&str; 5] = [
    "code_interpreter_call",
    "file_search_call",
    "image_generation_call",
    "mcp_call",
    "web_search_call",
];

fn is_call(item: &Value) -> bool {
    let kind = kind(item);
    (kind.ends_with("_call") && !HOSTED_CALLS.contains(&kind)) || kind == "program"
}

fn is_output(item: &Value) -> bool {
    kind(item).ends_with("_output")
}

fn call_id(item: &Value) -> Option<&str> {
    text(item, "call_id").or_else(|| text(item, "id"))
}

/// Returns every id by which an output may name this call.
fn names_of(call: &Value) -> impl Iterator<Item = &str> {
    // The schema describes the `id` of a local shell's output as the id of the call, and the call has two.
    let is_local = kind(call) == "local_shell_call";
    let own = text(call, "id").filter(|_| is_local);
    call_id(call).into_iter().chain(own)
}

pub(super) fn wrong_call_id(body: &Value) -> Option<String> {
    let ids = items(body).iter().filter_map(|item| text(item, "call_id"));
    let mut wrong = ids.filter(|id| !(1..=MAX_CALL_ID_CHARS).contains(&id.chars().count()));
    wrong.next().map(str::to_owned)
}

pub(super) fn duplicate(body: &Value) -> Option<String> {
    let mut seen = HashSet::new();
    // The `id` of a local shell's output is that of its call.
    let borrowed = ["item_reference", "local_shell_call_output"];
    let own = items(body).iter().filter(|item| !borrowed.contains(&kind(item)));
    let mut ids = own.filter_map(|item| text(item, "id")).filter(|id| !id.is_empty());
    ids.find(|id| !seen.insert(*id)).map(str::to_owned)
}

pub(super) fn unanswered_call(body: &Value) -> Option<String> {
    let outputs: HashSet<&str> =
        items(body).iter().filter(|item| is_output(item)).filter_map(call_id).collect();
    let mut calls = items(body).iter().filter(|item| is_call(item));
    let open = calls.find(|call| !names_of(call).any(|id| outputs.contains(id)))?;
    call_id(open).map(str::to_owned)
}

/// Every output follows its call, unless the provider has the call.
pub(super) fn orphaned_output(body: &Value) -> Option<String> {
    if has_stored_history(body) {
        return None;
    }
    let mut calls = HashSet::new();
    items(body).iter().find_map(|item| {
        if is_call(item) {
            calls.extend(names_of(item));
        }
        let id = call_id(item).filter(|_| is_output(item))?;
        (!calls.contains(id)).then(|| id.to_owned())
    })
}

/// Every call names a tool that the request or an item before the call defines. A request that defines
/// none anywhere is not judged: tools may be hosted.
pub(super) fn undefined_tool(body: &Value) -> Option<String> {
    let mut defined = HashSet::new();
    names(member(body, "tools"), &mut defined);
    if defined.is_empty() {
        return None;
    }
    items(body).iter().find_map(|item| {
        if matches!(kind(item), "additional_tools" | "tool_search_output") {
            names(member(item, "tools"), &mut defined);
        }
        let is_named = matches!(kind(item), "custom_tool_call" | "function_call");
        let name = text(item, "name").filter(|_| is_named)?;
        (!defined.contains(name)).then(|| name.to_owned())
    })
}

/// Adds the names of tools, also of those within namespaces.
fn names<'a>(tools: &'a Value, found: &mut HashSet<&'a str>) {
    for tool in list(tools) {
        found.extend(text(tool, "name"));
        names(member(tool, "tools"), found);
    }
}

/// An approval answers a request that does not stand before it.
pub(super) fn unrequested_approval(body: &Value) -> Option<String> {
    if has_stored_history(body) {
        return None;
    }
    let mut requests = HashSet::new();
    items(body).iter().find_map(|item| {
        if kind(item) == "mcp_approval_request" {
            requests.extend(text(item, "id"));
        }
        let is_answer = kind(item) == "mcp_approval_response";
        let id = text(item, "approval_request_id").filter(|_| is_answer)?;
        (!requests.contains(id)).then(|| id.to_owned())
    })
}

/// A program made a call, and does not stand before it.
pub(super) fn without_program(body: &Value) -> Option<String> {
    if has_stored_history(body) {
        return None;
    }
    let mut programs = HashSet::new();
    items(body).iter().find_map(|item| {
        if kind(item) == "program" {
            programs.extend(["id", "call_id"].into_iter().filter_map(|key| text(item, key)));
        }
        let caller = member(item, "caller");
        let id = text(caller, "caller_id").filter(|_| kind(caller) == "program")?;
        (!programs.contains(id)).then(|| id.to_owned())
    })
}
