//! Request bodies of summary calls.

use super::reader::read;
use super::writer::user_message;
use crate::conversation::Conversation;
use crate::conversation::cache_marks::CACHE_MARK;
use crate::dialect::Dialect;
use crate::dialect::request_template::RequestTemplate;
use crate::dialect::summary_members::{client_members, has_text_format, object, repeat_members};
use crate::json::quote::quote;
use crate::json::scanner::members as members_of;
use crate::units::tokens::Tokens;

/// Maximum cache marks of a request.
const MAX_CACHE_MARKS: usize = 4;
/// Cache mark as a key. Quotation marks within a text are escaped, so a match is a key.
const CACHE_MARK_KEY: &str = r#""cache_control""#;

/// Beginning of the member that limits the output. The API requires the member.
const MAX_TOKENS_MEMBER: &str = r#""max_tokens":"#;

pub(in crate::dialect) fn body(
    template: &RequestTemplate<'_>,
    system: &str,
    user: &str,
    output: Tokens,
) -> String {
    let mut body = client_members(template, output);
    let has_limit = template.conversation.params().output_limit.is_some();
    if !(has_limit && template.is_own_dialect()) {
        body.extend([MAX_TOKENS_MEMBER, &output.to_string(), ","]);
    }
    body.extend(["\"system\":", &quote(system), ","]);
    if !template.has_model_in_path() {
        body.push_str("\"stream\":true,");
    }
    body.extend(["\"messages\":[", &user_message(&quote(user)), "]}"]);
    body
}

/// See [`Dialect::append_summary_prompt`](crate::dialect::Dialect::append_summary_prompt).
///
/// If the client sets cache marks, the prompt gets one too. Without a mark after the repeated
/// messages, the provider would not look for them in its cache.
pub(in crate::dialect) fn append_prompt(
    forwarded: &str,
    upto: usize,
    prompt: &str,
    output: Tokens,
) -> Option<String> {
    let (mut is_text, mut names_model, mut has_automatic_mark) = (true, false, false);
    let repeated = include_str!("repeated_keys.txt");
    let set = [("max_tokens", &*output.to_string()), ("stream", "true")];
    let mut members = repeat_members(forwarded, repeated, &set, |name, value| {
        if name == "output_config" {
            is_text = has_text_format(value.slice(forwarded));
        }
        has_automatic_mark |= name == "cache_control";
        names_model |= name == "model";
        Some(match name {
            "messages" => forwarded.get(value.start()..upto)?.to_owned(),
            "model" => value.slice(forwarded).to_owned(),
            _ => return None,
        })
    })?;
    // An answer in the client's own format is not a summary, and another format misses the cache.
    if !is_text {
        return None;
    }
    let marks: usize = members.iter().map(|it| it.matches(CACHE_MARK_KEY).count()).sum();
    let may_mark = !has_automatic_mark && (1..MAX_CACHE_MARKS).contains(&marks);
    let block = Dialect::Messages.text_part(prompt, may_mark.then_some(CACHE_MARK));
    let is_messages = |member: &&mut String| member.starts_with("\"messages\":");
    let messages = members.iter_mut().find(is_messages)?;
    match open_object_end(forwarded, upto)? {
        "" => messages.extend([",", &user_message(&["[", &block, "]"].concat()), "]"]),
        // The repeated messages end within an object: the prompt is its last block.
        close => messages.extend([",", &block, close, "]"]),
    }
    if !names_model {
        // The path names the model, and whether the reply is streamed.
        members.retain(|member| !member.starts_with("\"stream\":"));
    }
    Some(object(&members))
}

/// Lowest output limit of an order to compact: the limit caps thinking and summary together.
const MIN_COMPACTION_OUTPUT: Tokens = Tokens::new(8_192);
/// Largest output limit of such an order, without a thinking budget. Agents ask for up to 128,000 tokens.
const MAX_COMPACTION_OUTPUT: Tokens = Tokens::new(16_384);

/// See [`Dialect::compaction_order`]. If the client sets cache marks, the repeated messages end with one, as the
/// client's own request did.
pub(in crate::dialect) fn compaction_order(forwarded: &str, upto: usize) -> Option<String> {
    let sent = read(forwarded.as_bytes()).ok()?;
    let output = sent.output_tokens().unwrap_or_default();
    let output = output.min(MAX_COMPACTION_OUTPUT);
    let output = output.max(MIN_COMPACTION_OUTPUT + sent.params().reasoning_budget);
    let mut has_automatic_mark = false;
    let repeated = include_str!("repeated_keys.txt");
    let mut members = repeat_members(forwarded, repeated, &[], |name, value| {
        has_automatic_mark |= name == "cache_control";
        Some(match name {
            "messages" => [forwarded.get(value.start()..upto)?, "]"].concat(),
            "model" => value.slice(forwarded).to_owned(),
            "max_tokens" => output.to_string(),
            "output_config" => without_format(value.slice(forwarded)),
            // The API refuses the member beside the order.
            "context_management" => "null".to_owned(),
            _ => return None,
        })
    })?;
    let marks: usize = members.iter().map(|it| it.matches(CACHE_MARK_KEY).count()).sum();
    let may_mark = !has_automatic_mark && (1..MAX_CACHE_MARKS).contains(&marks);
    let messages = members.iter_mut().find(|member| member.starts_with("\"messages\":"))?;
    if let Some(behind) = bytes_behind_last_block(&sent, upto).filter(|_| may_mark) {
        // The bracket that ends the list follows the messages.
        let at = messages.len().checked_sub(behind + 2)?;
        messages.insert_str(at, &format!(",{CACHE_MARK_KEY}:{CACHE_MARK}"));
    }
    members.retain(|member| member != "\"context_management\":null");
    members.push("\"compaction\":{\"type\":\"summarize\"}".to_owned());
    members.push("\"stream\":true".to_owned());
    Some(object(&members))
}

/// Returns the number of bytes between the last block before byte `upto` and that byte. `None` if that block cannot
/// carry a cache mark, or carries one.
fn bytes_behind_last_block(sent: &Conversation<'_>, upto: usize) -> Option<usize> {
    let behind = sent.messages().partition_point(|message| message.span.end() <= upto);
    let last = behind.checked_sub(1)?;
    let message = sent.message(last)?;
    let block = sent.container(last).map(|_| message.span);
    let block = block.or_else(|| sent.parts(message).last().map(|part| part.span))?;
    let rest = sent.body().get(block.end()..upto)?;
    let is_outer = rest.trim_start().starts_with(']') && rest.matches(']').count() == 1;
    let text = block.slice(sent.body());
    let is_free = text.ends_with('}') && !text.contains(CACHE_MARK_KEY);
    (is_outer && is_free).then_some(rest.len())
}

/// Returns the options of an output, an object, without its format.
fn without_format(options: &str) -> String {
    let kept = members_of(options).filter(|(key, _)| key != "format");
    let kept: Vec<String> = kept.map(|(key, value)| format!("{}:{value}", quote(&key))).collect();
    object(&kept)
}

/// Returns the bytes that close the object which byte `upto` of a body falls into. They are empty if
/// an object ends there. Returns `None` if the body has no message before it.
fn open_object_end(body: &str, upto: usize) -> Option<&str> {
    let conversation = read(body.as_bytes()).ok()?;
    let messages = conversation.messages();
    let behind = messages.partition_point(|message| message.span.end() <= upto);
    let last = behind.checked_sub(1)?;
    let (end, close) = conversation.object_end(last)?;
    Some(if end == upto { close } else { "" })
}

#[cfg(test)]
mod tests;
