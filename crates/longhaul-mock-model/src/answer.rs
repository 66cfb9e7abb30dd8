//! A model's answer, as one JSON body or as a stream of events.

mod messages;

use bytes::Bytes;
use serde_json::{Value, json};

use crate::request::{Api, ChatBody, member};
use crate::responses;
use crate::thinking::preserved::compaction::CompactionAnswer;

/// A fixed time of creation, so that equal requests get equal answers.
pub(crate) const CREATED: u64 = 1_790_000_000;
/// The approximate number of pieces of a streamed text.
const PIECES: usize = 4;

/// The content of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AnswerContent {
    /// A call of the named tool with these arguments.
    Call(String, Value),
    /// A complete text.
    Text(String),
    /// A truncated text.
    TextCut(String),
}

/// An answer and its usage, in tokens.
#[derive(Debug)]
pub(crate) struct ModelAnswer<'a> {
    pub(crate) chat: &'a ChatBody,
    pub(crate) content: AnswerContent,
    /// The signed thinking before the content, if the model thinks.
    pub(crate) thinking: Option<Value>,
    /// The compaction that the answer consists of or starts with, if any.
    pub(crate) compaction: Option<CompactionAnswer>,
    /// Whether the usage lists the iterations of the model.
    pub(crate) counts_iterations: bool,
    /// The value of `input_transformations`; null for an answer without.
    pub(crate) transformations: Value,
    pub(crate) prompt_tokens: u64,
    pub(crate) cached_tokens: u64,
    pub(crate) cache_written_tokens: u64,
    pub(crate) completion_tokens: u64,
    /// The price of a prompt token in billionths of a dollar, if the answer reports its cost.
    pub(crate) price: Option<u32>,
    /// The ordinal of the request, used for unique ids.
    pub(crate) ordinal: usize,
}

impl ModelAnswer<'_> {
    /// Returns the pieces of the body: a single JSON text, or the events of a stream.
    pub(crate) fn pieces(&self) -> Vec<Bytes> {
        match (self.chat.api(), self.chat.wants_stream()) {
            (Api::ChatCompletions, true) => self.events(),
            (Api::ChatCompletions, false) => vec![self.whole().into()],
            (Api::Messages, true) => self.messages_events(),
            (Api::Messages, false) => vec![self.message().to_string().into()],
            (Api::Responses, _) => responses::pieces(self),
        }
    }

    fn whole(&self) -> String {
        let mut message = json!({"role": "assistant", "content": null, "refusal": null});
        match &self.content {
            AnswerContent::Call(name, arguments) => {
                set(&mut message, "tool_calls", json!([self.call(name, arguments)]));
            }
            AnswerContent::Text(text) | AnswerContent::TextCut(text) => {
                set(&mut message, "content", json!(text));
            }
        }
        if let Some(thinking) = &self.thinking {
            set(&mut message, "reasoning_details", thinking.clone());
        }
        let choice = json!({"index": 0, "message": message, "logprobs": null,
            "finish_reason": self.finish()});
        self.object("chat.completion", json!([choice]), self.usage()).to_string()
    }

    fn events(&self) -> Vec<Bytes> {
        let mut deltas = vec![json!({"role": "assistant", "content": ""})];
        if let Some(thinking) = &self.thinking {
            deltas.push(json!({"reasoning_details": thinking}));
        }
        match &self.content {
            AnswerContent::Call(name, arguments) => {
                let mut call = self.call(name, arguments);
                set(&mut call, "index", json!(0));
                deltas.push(json!({"tool_calls": [call]}));
            }
            AnswerContent::Text(text) | AnswerContent::TextCut(text) => {
                deltas.extend(split(text).map(|piece| json!({"content": piece})));
            }
        }
        let mut events: Vec<Bytes> =
            deltas.into_iter().map(|delta| self.event(&delta, &Value::Null)).collect();
        events.push(self.event(&json!({}), &json!(self.finish())));
        if self.chat.wants_usage() {
            events.push(event(&self.object("chat.completion.chunk", json!([]), self.usage())));
        }
        events.push(Bytes::from_static(b"data: [DONE]\n\n"));
        events
    }

    fn event(&self, delta: &Value, finish: &Value) -> Bytes {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
        event(&self.object("chat.completion.chunk", json!([choice]), Value::Null))
    }

    fn object(&self, kind: &str, choices: Value, usage: Value) -> Value {
        let mut object = json!({"id": format!("chatcmpl-{}", self.ordinal), "object": kind,
            "created": CREATED, "model": self.chat.model()});
        set(&mut object, "choices", choices);
        set(&mut object, "usage", usage);
        object
    }

    fn call(&self, name: &str, arguments: &Value) -> Value {
        json!({"id": format!("call_{}", self.ordinal), "type": "function",
            "function": {"name": name, "arguments": arguments.to_string()}})
    }

    fn finish(&self) -> &'static str {
        match self.content {
            AnswerContent::Call(..) => "tool_calls",
            AnswerContent::Text(_) => "stop",
            AnswerContent::TextCut(_) => "length",
        }
    }

    fn usage(&self) -> Value {
        let mut usage = json!({"prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": self.prompt_tokens + self.completion_tokens,
            "prompt_tokens_details": {"cached_tokens": self.cached_tokens}});
        if let (Some(price), Ok(tokens)) = (self.price, u32::try_from(self.prompt_tokens)) {
            let cost = f64::from(tokens) * f64::from(price) / 1e9;
            set(&mut usage, "cost", json!(cost));
        }
        usage
    }
}

/// Returns the name of the first tool in a request.
pub(crate) fn first_tool(chat: &ChatBody) -> Option<String> {
    let tool = chat.tools().first()?;
    let name = match chat.api() {
        Api::ChatCompletions => member(member(tool, "function"), "name"),
        Api::Messages | Api::Responses => member(tool, "name"),
    };
    name.as_str().map(str::to_owned)
}

fn set(object: &mut Value, name: &str, value: Value) {
    if let Some(members) = object.as_object_mut() {
        members.insert(name.to_owned(), value);
    }
}

fn event(object: &Value) -> Bytes {
    Bytes::from(format!("data: {object}\n\n"))
}

/// Splits a text into about [`PIECES`] pieces at character boundaries.
pub(crate) fn split(text: &str) -> impl Iterator<Item = &str> {
    let size = text.len().div_ceil(PIECES).max(1);
    let mut rest = text;
    std::iter::from_fn(move || {
        let (piece, behind) = rest.split_at(rest.ceil_char_boundary(size));
        rest = behind;
        (!piece.is_empty()).then_some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(body: &str, say: &AnswerContent, expect: impl Fn(&[String])) {
        let chat = ChatBody::parse(body.as_bytes()).unwrap();
        let answer = ModelAnswer {
            chat: &chat,
            content: say.clone(),
            thinking: None,
            compaction: None,
            counts_iterations: false,
            transformations: Value::Null,
            prompt_tokens: 7,
            cached_tokens: 5,
            cache_written_tokens: 0,
            completion_tokens: 3,
            price: None,
            ordinal: 1,
        };
        let pieces = answer.pieces();
        expect(&pieces.iter().map(|p| String::from_utf8(p.to_vec()).unwrap()).collect::<Vec<_>>());
    }

    fn data(event: &str) -> Value {
        event.strip_prefix("data: ").unwrap().strip_suffix("\n\n").unwrap().parse().unwrap()
    }

    #[test]
    fn answers_in_one_body_with_usage() {
        check("{}", &AnswerContent::Text("hé".into()), |pieces| {
            let [body] = pieces else { panic!("{pieces:?}") };
            let body: Value = body.parse().unwrap();
            assert_eq!(body["choices"][0]["message"]["content"], "hé");
            assert_eq!(body["choices"][0]["finish_reason"], "stop");
            assert_eq!(body["usage"]["prompt_tokens"], 7);
            assert_eq!(body["usage"]["prompt_tokens_details"]["cached_tokens"], 5);
        });
    }

    #[test]
    fn streams_role_text_finish_reason_and_done() {
        check(r#"{"stream": true}"#, &AnswerContent::TextCut("ééé, ééé".into()), |pieces| {
            assert_eq!(data(&pieces[0])["choices"][0]["delta"]["role"], "assistant");
            let last = pieces.len() - 1;
            assert_eq!(pieces[last], "data: [DONE]\n\n");
            assert_eq!(data(&pieces[last - 1])["choices"][0]["finish_reason"], "length");
            let texts = pieces[1..last - 1].iter().map(|event| data(event));
            let text: String = texts
                .map(|event| event["choices"][0]["delta"]["content"].as_str().unwrap().to_owned())
                .collect();
            assert_eq!(text, "ééé, ééé");
            assert!(last > 4, "{pieces:?}");
        });
    }

    #[test]
    fn streams_usage_only_if_asked() {
        let asked = r#"{"stream": true, "stream_options": {"include_usage": true}}"#;
        check(asked, &AnswerContent::Text("a".into()), |pieces| {
            let usage = data(&pieces[pieces.len() - 2]);
            assert_eq!(usage["choices"], json!([]));
            assert_eq!(usage["usage"]["total_tokens"], 10);
        });
        check(r#"{"stream": true}"#, &AnswerContent::Text("a".into()), |pieces| {
            assert!(!pieces.concat().contains("total_tokens"));
        });
    }

    #[test]
    fn calls_a_tool_in_both_forms() {
        let call = AnswerContent::Call("read".into(), json!({"path": "a"}));
        check("{}", &call, |pieces| {
            let body: Value = pieces[0].parse().unwrap();
            assert_eq!(body["choices"][0]["message"]["tool_calls"][0]["function"]["name"], "read");
            assert_eq!(body["choices"][0]["finish_reason"], "tool_calls");
        });
        check(r#"{"stream": true}"#, &call, |pieces| {
            assert_eq!(data(&pieces[1])["choices"][0]["delta"]["tool_calls"][0]["index"], 0);
        });
    }
}
