//! An answer in the format of Anthropic's Messages API.

use bytes::Bytes;
use serde_json::{Value, json};

use super::{AnswerContent, ModelAnswer, set, split};
use crate::request::{list, member};

impl ModelAnswer<'_> {
    /// Returns the whole message.
    pub(super) fn message(&self) -> Value {
        let compaction = self.compaction.as_ref();
        if let Some(whole) = compaction.filter(|it| it.is_whole) {
            let content = json!([whole.block]);
            return self.message_object(
                &content,
                &json!(self.stop_reason()),
                self.completion_tokens,
            );
        }
        let block = match &self.content {
            AnswerContent::Call(name, arguments) => self.call_block(name, arguments),
            AnswerContent::Text(text) | AnswerContent::TextCut(text) => {
                json!({"type": "text", "text": text})
            }
        };
        let is_empty = block.get("text").and_then(Value::as_str) == Some("");
        let block = (!is_empty).then_some(block);
        let first = compaction.map(|it| it.block.clone());
        let content: Value = first.into_iter().chain(self.thinking_block()).chain(block).collect();
        self.message_object(&content, &json!(self.stop_reason()), self.completion_tokens)
    }

    /// Returns the signed thinking before the content, if the model thinks.
    fn thinking_block(&self) -> Option<Value> {
        let signed = list(self.thinking.as_ref()?).first()?;
        if let Some(data) = signed.get("data") {
            return Some(json!({"type": "redacted_thinking", "data": data}));
        }
        Some(json!({"type": "thinking", "thinking": member(signed, "text"),
            "signature": member(signed, "signature")}))
    }

    /// nc-a-stream: returns the events of a compaction. A signed block stands whole in its start; the summary of
    /// any other is one delta.
    fn compaction_events(block: &Value) -> Vec<Bytes> {
        if block.get("signature").is_some() {
            return block_events(0, block, []);
        }
        let begun = json!({"type": "compaction", "content": null});
        let delta = json!({"type": "compaction_delta", "content": member(block, "content")});
        block_events(0, &begun, [delta])
    }

    /// Returns the events of the thinking, as the block at `index` of a stream.
    fn thinking_events(&self, index: usize) -> Vec<Bytes> {
        let Some(block) = self.thinking_block() else {
            return Vec::new();
        };
        if member(&block, "type") == "redacted_thinking" {
            return block_events(index, &block, []);
        }
        let begun = json!({"type": "thinking", "thinking": "", "signature": ""});
        let deltas = [
            json!({"type": "thinking_delta", "thinking": member(&block, "thinking")}),
            json!({"type": "signature_delta", "signature": member(&block, "signature")}),
        ];
        block_events(index, &begun, deltas)
    }

    /// Returns the events of a stream, with a ping as the API sends one.
    pub(super) fn messages_events(&self) -> Vec<Bytes> {
        let mut events = vec![
            event(
                "message_start",
                json!({"message": self.message_object(&json!([]), &Value::Null, 1)}),
            ),
            event("ping", json!({})),
        ];
        let (first, deltas): (Value, Vec<Value>) = match &self.content {
            AnswerContent::Call(name, arguments) => {
                let partial =
                    json!({"type": "input_json_delta", "partial_json": arguments.to_string()});
                (self.call_block(name, &json!({})), vec![partial])
            }
            AnswerContent::Text(text) | AnswerContent::TextCut(text) => {
                let pieces = split(text).map(|piece| json!({"type": "text_delta", "text": piece}));
                (json!({"type": "text", "text": ""}), pieces.collect())
            }
        };
        let compaction = self.compaction.as_ref();
        events.extend(compaction.into_iter().flat_map(|it| Self::compaction_events(&it.block)));
        if !compaction.is_some_and(|it| it.is_whole) {
            let index = usize::from(compaction.is_some());
            let thinking = self.thinking_events(index);
            let index = index + usize::from(!thinking.is_empty());
            events.extend(thinking);
            events.extend(block_events(index, &first, deltas));
        }
        let delta = json!({"stop_reason": self.stop_reason(), "stop_sequence": null});
        let mut usage = json!({"output_tokens": self.completion_tokens});
        if self.counts_iterations {
            usage = self.message_usage(self.completion_tokens);
        }
        events.push(event("message_delta", json!({"delta": delta, "usage": usage})));
        events.push(event("message_stop", json!({})));
        events
    }

    /// Returns a message. The one that starts a stream counts the prompt, and one token of output.
    fn message_object(&self, content: &Value, stop_reason: &Value, output: u64) -> Value {
        let usage = self.message_usage(output);
        let mut message = json!({"id": format!("msg_{}", self.ordinal), "type": "message", "role": "assistant",
            "model": self.chat.model(), "content": content, "stop_reason": stop_reason,
            "stop_sequence": null, "usage": usage});
        if !self.transformations.is_null() {
            set(&mut message, "input_transformations", self.transformations.clone());
        }
        message
    }

    /// Returns the usage. nc-a-usage: a compaction counts in its own iteration alone.
    fn message_usage(&self, output: u64) -> Value {
        let cached = self.cached_tokens + self.cache_written_tokens;
        let fresh = self.prompt_tokens.saturating_sub(cached);
        let counted = |output: u64| {
            json!({"input_tokens": fresh,
                "cache_creation_input_tokens": self.cache_written_tokens,
                "cache_read_input_tokens": self.cached_tokens, "output_tokens": output})
        };
        let typed = |kind: &str, mut usage: Value| {
            set(&mut usage, "type", json!(kind));
            usage
        };
        let compaction = self.compaction.as_ref();
        let iteration = compaction.map(|it| typed("compaction", counted(it.output_tokens)));
        let is_whole = compaction.is_some_and(|it| it.is_whole);
        let mut usage = counted(output);
        if is_whole {
            usage = json!({"input_tokens": 0, "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": 0, "output_tokens": 0});
        }
        if self.counts_iterations {
            let message = (!is_whole).then(|| typed("message", counted(output)));
            let iterations: Value = iteration.into_iter().chain(message).collect();
            set(&mut usage, "iterations", iterations);
        }
        usage
    }

    fn call_block(&self, name: &str, input: &Value) -> Value {
        json!({"type": "tool_use", "id": format!("toolu_{}", self.ordinal), "name": name,
            "input": input})
    }

    fn stop_reason(&self) -> &'static str {
        if self.compaction.as_ref().is_some_and(|it| it.is_whole) {
            return "compaction";
        }
        match self.content {
            AnswerContent::Call(..) => "tool_use",
            AnswerContent::Text(_) => "end_turn",
            AnswerContent::TextCut(_) => "max_tokens",
        }
    }
}

/// Returns the events of one block.
fn block_events(
    index: usize,
    first: &Value,
    deltas: impl IntoIterator<Item = Value>,
) -> Vec<Bytes> {
    let start = json!({"index": index, "content_block": first});
    let deltas = deltas.into_iter().map(|delta| {
        let delta = json!({"index": index, "delta": delta});
        event("content_block_delta", delta)
    });
    let stop = event("content_block_stop", json!({"index": index}));
    std::iter::once(event("content_block_start", start)).chain(deltas).chain([stop]).collect()
}

fn event(name: &str, mut data: Value) -> Bytes {
    set(&mut data, "type", json!(name));
    Bytes::from(format!("event: {name}\ndata: {data}\n\n"))
}
