//! Content of blocks, and members next to the messages.

use serde_json::Value;

use crate::messages::body::{MessagesBody, kind, string};
use crate::request::{list, member};

/// Maximum images of a request.
const MAX_IMAGES: usize = 600;
/// Maximum pages of all PDF documents of a request.
const MAX_PDF_PAGES: usize = 600;

fn results<'a>(body: &'a MessagesBody<'_>) -> impl Iterator<Item = &'a Value> {
    let blocks = body.blocks().map(|(_, block)| block);
    blocks.filter(|block| kind(block) == "tool_result")
}

/// The content of a result is neither a string nor an array of the known kinds.
pub(super) fn odd_result(body: &MessagesBody<'_>) -> bool {
    const KINDS: [&str; 6] =
        ["browser_state", "document", "image", "search_result", "text", "tool_reference"];
    results(body).any(|result| match member(result, "content") {
        Value::Null | Value::String(_) => false,
        Value::Array(parts) => parts.iter().any(|part| !KINDS.contains(&kind(part))),
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => true,
    })
}

pub(super) fn media_in_error(body: &MessagesBody<'_>) -> bool {
    let is_error = |result: &&Value| member(result, "is_error").as_bool() == Some(true);
    let mut errors = results(body).filter(is_error);
    errors.any(|result| {
        let mut parts = list(member(result, "content")).iter();
        parts.any(|part| kind(part) != "text")
    })
}

/// The result of a toolset's member lacks the name of the toolset.
pub(super) fn toolset_lost(body: &MessagesBody<'_>) -> bool {
    body.turns.iter().enumerate().any(|(at, turn)| {
        let next = body.turn(Some(at + 1), "user");
        let named =
            turn.of_type("tool_use").filter(|call| !string(call, "toolset_name").is_empty());
        let mut pairs = named.flat_map(|call| {
            let answers = next.into_iter().flat_map(|next| next.of_type("tool_result"));
            let own = answers.filter(|it| string(it, "tool_use_id") == string(call, "id"));
            own.map(move |result| (call, result))
        });
        pairs.any(|(call, result)| string(call, "toolset_name") != string(result, "toolset_name"))
    })
}

/// Texts in blocks and in results.
fn texts<'a>(body: &'a MessagesBody<'_>) -> impl Iterator<Item = &'a Value> {
    body.blocks()
        .flat_map(|(_, block)| std::iter::once(block).chain(list(member(block, "content"))))
        .filter(|block| kind(block) == "text")
}

pub(super) fn empty_text(body: &MessagesBody<'_>) -> bool {
    texts(body).any(|text| string(text, "text").is_empty())
}

/// All text of a message is white space, and nothing else stands in it.
pub(super) fn blank_message(body: &MessagesBody<'_>) -> bool {
    body.messages().iter().any(|message| {
        let content = member(message, "content");
        let is_blank = |text: &str| !text.is_empty() && text.trim().is_empty();
        let mut blocks = list(content).iter();
        content.as_str().is_some_and(is_blank)
            || !list(content).is_empty()
                && blocks.all(|block| kind(block) == "text" && is_blank(string(block, "text")))
    })
}

pub(super) fn empty_message(body: &MessagesBody<'_>) -> bool {
    let messages = body.messages();
    messages.iter().enumerate().any(|(at, message)| {
        let is_last = at + 1 == messages.len() && string(message, "role") == "assistant";
        let is_settings = !member(message, "output_config").is_null();
        let is_empty = match member(message, "content") {
            Value::String(text) => text.is_empty(),
            Value::Array(blocks) => blocks.is_empty(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => true,
        };
        is_empty && !is_last && !is_settings
    })
}

pub(super) fn trailing_space(body: &MessagesBody<'_>) -> bool {
    let last = body.turns.last().filter(|turn| turn.role == "assistant");
    let block = last.and_then(|turn| turn.blocks.last());
    block.is_some_and(|block| string(block, "text").ends_with(char::is_whitespace))
}

pub(super) fn system_no_text(body: &MessagesBody<'_>) -> bool {
    match body.field("system") {
        Value::Null | Value::String(_) => false,
        Value::Array(blocks) => blocks.iter().any(|block| kind(block) != "text"),
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => true,
    }
}

pub(super) fn too_many_images(body: &MessagesBody<'_>) -> bool {
    let blocks = body
        .blocks()
        .flat_map(|(_, block)| std::iter::once(block).chain(list(member(block, "content"))));
    blocks.filter(|block| kind(block) == "image").count() > MAX_IMAGES
}

/// A document has no source.
pub(super) fn odd_document(body: &MessagesBody<'_>) -> bool {
    let mut blocks = body
        .blocks()
        .flat_map(|(_, block)| std::iter::once(block).chain(list(member(block, "content"))));
    blocks.any(|block| kind(block) == "document" && !member(block, "source").is_object())
}

/// A citation names a document or a search result that the request does not hold.
pub(super) fn dangling_citation(body: &MessagesBody<'_>) -> bool {
    let all = || {
        body.blocks()
            .flat_map(|(_, block)| std::iter::once(block).chain(list(member(block, "content"))))
    };
    let count = |name: &str| all().filter(|block| kind(block) == name).count() as u64;
    let most =
        [("document_index", count("document")), ("search_result_index", count("search_result"))];
    all().any(|block| {
        list(member(block, "citations")).iter().any(|citation| {
            most.iter().any(|(key, count)| {
                let index = member(citation, key).as_u64();
                index.is_some_and(|index| index >= *count)
            })
        })
    })
}

/// There are more PDF documents than the provider accepts pages.
pub(super) fn too_many_pdfs(body: &MessagesBody<'_>) -> bool {
    let blocks = body
        .blocks()
        .flat_map(|(_, block)| std::iter::once(block).chain(list(member(block, "content"))));
    let is_pdf = |block: &&Value| {
        let source = member(block, "source");
        kind(block) == "document" && string(source, "media_type") == "application/pdf"
    };
    blocks.filter(is_pdf).count() > MAX_PDF_PAGES
}

/// An uploaded file has no id.
pub(super) fn odd_upload(body: &MessagesBody<'_>) -> bool {
    let mut blocks = body.blocks().map(|(_, block)| block);
    blocks.any(|block| kind(block) == "container_upload" && string(block, "file_id").is_empty())
}

/// A compaction block has no member that holds what it stands for. A null stands for nothing.
pub(super) fn odd_compaction(body: &MessagesBody<'_>) -> bool {
    const CONTENTS: [&str; 3] = ["content", "encrypted_content", "signature"];
    let mut blocks = body.blocks().map(|(_, block)| block);
    blocks.any(|block| {
        let has_content = CONTENTS.iter().any(|name| block.get(name).is_some());
        kind(block) == "compaction" && !has_content
    })
}

pub(super) fn no_output(body: &MessagesBody<'_>) -> bool {
    body.field("max_tokens").as_u64().is_none_or(|limit| limit == 0)
}

/// An edit that clears thinking does not stand first.
pub(super) fn late_clear_thinking(body: &MessagesBody<'_>) -> bool {
    let edits = list(member(body.field("context_management"), "edits"));
    let mut edits = edits.iter().map(kind).skip(1);
    edits.any(|name| name.starts_with("clear_thinking"))
}
