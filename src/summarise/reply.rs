//! What a summariser answered: a stream or a whole body, to its text and its end.

use bytes::Bytes;
use http::Response;
use http_body::Body;
use http_body_util::BodyExt;
use serde::Deserialize;
use serde_json::Value;

use super::Failure;
use crate::rewrite::sse::{Event, Finish, Splitter};
use crate::rewrite::usage::{Reported, Usage};

/// The most that is read of one answer: a summary has a few kilobytes, and the rest of a stream
/// is envelopes.
const ANSWER_BYTES: usize = 8 * 1024 * 1024;

/// A summariser's answer.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct Answer {
    /// What it wrote.
    pub(super) text: String,
    /// How it ended.
    pub(super) finish: Finish,
    /// What it was counted as, where that is said.
    pub(super) usage: Option<Usage>,
}

/// Reads a reply to its end.
///
/// # Errors
/// It is a refusal, breaks off or has no end.
pub(super) async fn read<B>(reply: Response<B>) -> Result<Answer, Failure>
where
    B: Body<Data = Bytes> + Unpin,
{
    if !reply.status().is_success() {
        return Err(Failure::Refused(reply.status()));
    }
    let mut body = reply.into_body();
    let mut splitter = Splitter::default();
    let mut heard = Heard::default();
    let mut whole = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Failure::Unreachable)?;
        let Some(chunk) = frame.data_ref() else {
            continue;
        };
        if whole.len() + chunk.len() > ANSWER_BYTES {
            return Err(Failure::Unreachable);
        }
        whole.extend_from_slice(chunk);
        splitter.push(chunk, |event: Event<'_>| heard.event(&event));
    }
    splitter.finish(|event: Event<'_>| heard.event(&event));
    if let Ok(value) = serde_json::from_slice::<Value>(&whole) {
        heard.take(&value);
    }
    Ok(heard.end())
}

/// What has been heard so far.
#[derive(Debug, Default)]
struct Heard {
    text: String,
    finish: Option<Finish>,
    usage: Option<Usage>,
    called: bool,
    failed: bool,
}

impl Heard {
    fn event(&mut self, event: &Event<'_>) {
        if event.data == b"[DONE]" {
            // Some servers name no reason and say only that they are done.
            self.finish = self.finish.or(Some(Finish::Stop));
        } else if let Ok(value) = serde_json::from_slice::<Value>(event.data) {
            self.take(&value);
        }
    }

    /// A chunk of a stream, or a whole completion.
    fn take(&mut self, value: &Value) {
        self.failed |= value.get("error").is_some_and(|error| !error.is_null());
        let usage = value.get("usage");
        let usage = usage.and_then(|usage| Usage::of_reported(Reported::deserialize(usage).ok()?));
        self.usage = usage.or(self.usage);
        let Some(choice) = value.pointer("/choices/0") else {
            return;
        };
        for said in [choice.get("delta"), choice.get("message")]
            .into_iter()
            .flatten()
        {
            if let Some(text) = said.get("content").and_then(Value::as_str) {
                self.text.push_str(text);
            }
            let calls = said.get("tool_calls").and_then(Value::as_array);
            self.called |= calls.is_some_and(|calls| !calls.is_empty());
        }
        if let Some(reason) = choice.get("finish_reason").and_then(Value::as_str) {
            self.finish = Some(Finish::of(reason));
        }
    }

    fn end(self) -> Answer {
        let finish = match self.finish {
            _ if self.failed => Finish::Other,
            _ if self.called => Finish::ToolCalls,
            Some(finish) => finish,
            None => Finish::Other,
        };
        Answer {
            text: self.text,
            finish,
            usage: self.usage,
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::Full;

    use super::*;

    async fn check(status: u16, body: &str, expect: Result<(&str, Finish), Failure>) {
        let reply = Response::builder()
            .status(status)
            .body(Full::new(Bytes::from(body.to_owned())));
        let answer = read(reply.unwrap()).await;
        let expect = expect.map(|(text, finish)| Answer {
            text: text.to_owned(),
            finish,
            usage: None,
        });
        assert_eq!(answer, expect);
    }

    const HELLO: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"hel\"}}]}\n\n\
                         data: {\"choices\":[{\"delta\":{\"content\":\"lo\"}}]}\n\n";

    #[tokio::test]
    async fn a_stream_and_a_whole_body_are_read_alike() {
        let end =
            "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
        check(200, &format!("{HELLO}{end}"), Ok(("hello", Finish::Stop))).await;
        let whole = r#"{"choices":[{"message":{"content":"hello"},"finish_reason":"stop"}]}"#;
        check(200, whole, Ok(("hello", Finish::Stop))).await;
    }

    #[tokio::test]
    async fn what_was_counted_is_read_wherever_it_stands() {
        let usage = "{\"prompt_tokens\":7,\"cost\":0.5}";
        let streamed =
            format!("{HELLO}data: {{\"choices\":[],\"usage\":{usage}}}\n\ndata: [DONE]\n\n");
        let whole = format!("{{\"choices\":[],\"usage\":{usage}}}");
        for body in [streamed, whole] {
            let reply = Response::new(Full::new(Bytes::from(body)));
            let usage = read(reply).await.unwrap().usage.unwrap();
            assert_eq!(usage.input, 7);
            assert!(usage.cost.is_some());
        }
    }

    #[tokio::test]
    async fn an_answer_that_does_not_end_is_no_answer() {
        check(200, HELLO, Ok(("hello", Finish::Other))).await;
        let cut = format!("{HELLO}data: {{\"choices\":[{{\"finish_reason\":\"length\"}}]}}\n\n");
        check(200, &cut, Ok(("hello", Finish::Length))).await;
        let failed =
            format!("{HELLO}data: {{\"error\":{{\"message\":\"x\"}}}}\n\ndata: [DONE]\n\n");
        check(200, &failed, Ok(("hello", Finish::Other))).await;
    }

    #[tokio::test]
    async fn thoughts_in_a_field_of_their_own_are_no_text() {
        let thought = "data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"## Goal\",\
                       \"reasoning\":\"## Goal\",\"content\":null}}]}\n\n";
        let end = "data: {\"choices\":[{\"finish_reason\":\"stop\"}]}\n\n";
        let reply = format!("{thought}{HELLO}{end}");
        check(200, &reply, Ok(("hello", Finish::Stop))).await;
        // All of the budget went into them.
        let spent =
            format!("{thought}data: {{\"choices\":[{{\"finish_reason\":\"length\"}}]}}\n\n");
        check(200, &spent, Ok(("", Finish::Length))).await;
    }

    #[tokio::test]
    async fn a_call_is_a_call_whatever_it_says_of_its_end() {
        let call = "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0}]},\
                    \"finish_reason\":\"stop\"}]}\n\n";
        check(200, call, Ok(("", Finish::ToolCalls))).await;
    }

    #[tokio::test]
    async fn a_refusal_is_known_by_its_status() {
        check(
            429,
            "{}",
            Err(Failure::Refused(http::StatusCode::TOO_MANY_REQUESTS)),
        )
        .await;
    }
}
