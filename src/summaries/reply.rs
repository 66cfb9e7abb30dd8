//! Parses a summariser's reply, streamed or whole, into its text and finish reason.

pub(crate) mod error_status;

use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body::Body;
use http_body_util::{BodyExt, Limited};
use tokio::time::timeout;

use crate::summaries::SummaryError;
use longhaul_core::dialect::Dialect;
use longhaul_core::dialect::reply::{CompletionPart, EventKind, FinishReason, TextExtent};
use longhaul_core::dialect::usage::Usage;
use longhaul_core::sse::{Event, for_each_event};

/// Maximum number of bytes read of one reply. A summary has a few kilobytes; the rest of a stream
/// is JSON around the deltas.
const MAX_REPLY_BYTES: usize = 8 * 1024 * 1024;

#[derive(Debug, Eq, PartialEq)]
pub(crate) struct SummariserReply {
    pub(crate) text: String,
    /// The provider's own compactions, as JSON.
    pub(crate) compactions: Vec<String>,
    pub(crate) finish: FinishReason,
    /// The usage that the upstream reported, if any.
    pub(crate) usage: Option<Usage>,
}

/// Time limit for the body of a refusal.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of bytes read of a refusal, as of a held reply to a chat.
const MAX_REFUSAL_BYTES: usize = 64 * 1024;

/// Reads a reply to its end. If the reply is a refusal, `refusal` receives the beginning of its
/// body. Fails if the reply is a refusal by its status or its body, breaks off, or exceeds
/// [`MAX_REPLY_BYTES`].
pub(crate) async fn read<B>(
    reply: Response<B>,
    dialect: Dialect,
    refusal: &mut Vec<u8>,
) -> Result<SummariserReply, SummaryError>
where
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Unpin,
{
    let status = reply.status();
    let body = reply.into_body();
    if !status.is_success() {
        // The status decides; a body that stalls delays nobody.
        _ = timeout(REFUSAL_TIMEOUT, read_refusal(body, refusal)).await;
        return Err(SummaryError::Refused(status));
    }
    let whole = Limited::new(body, MAX_REPLY_BYTES).collect().await;
    let mut whole = whole.map_err(|_| SummaryError::Unreachable)?.to_bytes();
    let read = read_whole(&whole, dialect, status);
    if matches!(read, Err(SummaryError::Refused(_))) {
        whole.truncate(MAX_REFUSAL_BYTES);
        *refusal = whole.into();
    }
    read
}

/// Reads the whole body of a reply under `status`. Fails if the body holds a refusal.
pub(crate) fn read_whole(
    body: &[u8],
    dialect: Dialect,
    status: StatusCode,
) -> Result<SummariserReply, SummaryError> {
    let mut collector = ReplyCollector::default();
    for_each_event(body, |event| collector.push_event(dialect, event));
    if let Some(completion) = dialect.read_completion(body) {
        let info = dialect.classify_event(Event::unnamed(body));
        collector.has_generated |= info.kind == EventKind::Content;
        collector.push_completion(&completion);
    }
    collector.into_reply(status)
}

/// Reads the body of a refusal up to [`MAX_REFUSAL_BYTES`], or to the point where it breaks off.
async fn read_refusal<B>(mut body: B, refusal: &mut Vec<u8>)
where
    B: Body<Data = Bytes> + Unpin,
{
    while let Some(Ok(frame)) = body.frame().await {
        let chunk = frame.data_ref().map_or(&[][..], |chunk| chunk);
        let left = MAX_REFUSAL_BYTES - refusal.len();
        refusal.extend_from_slice(chunk.get(..left).unwrap_or(chunk));
        if refusal.len() == MAX_REFUSAL_BYTES {
            return;
        }
    }
}

/// State of a reply being read.
#[derive(Debug, Default)]
struct ReplyCollector {
    text: String,
    /// Texts of whole items, for a stream that does not state them in pieces.
    item_text: String,
    /// The text of the whole reply, for a stream that states it only at its end.
    reply_text: String,
    compactions: Vec<String>,
    finish: Option<FinishReason>,
    usage: Option<Usage>,
    has_tool_calls: bool,
    /// Whether the model generated anything. Reasoning counts too, since it is paid for.
    has_generated: bool,
    has_failed: bool,
    /// The status stated in an error, if any.
    error_status: Option<StatusCode>,
}

impl ReplyCollector {
    fn push_event(&mut self, dialect: Dialect, event: Event<'_>) {
        match dialect.classify_event(event).kind {
            EventKind::Content => self.has_generated = true,
            EventKind::Done => {
                // Some servers send no finish reason, only `[DONE]`.
                self.finish = self.finish.or(Some(FinishReason::Stop));
                return;
            }
            EventKind::Empty | EventKind::Error | EventKind::Usage => {}
        }
        if event.name == b"error" {
            self.push_error(str::from_utf8(event.data.trim_ascii()).unwrap_or_default());
        }
        if let Some(chunk) = dialect.read_completion(event.data) {
            self.push_completion(&chunk);
        }
    }

    fn push_error(&mut self, error: &str) {
        self.has_failed = true;
        self.error_status = error_status::from_error_json(error).or(self.error_status);
    }

    /// Adds a chunk of a stream, or a whole completion.
    fn push_completion(&mut self, part: &CompletionPart<'_>) {
        if let Some(error) = part.error {
            self.push_error(error);
        }
        let text = match part.extent {
            TextExtent::Piece => &mut self.text,
            TextExtent::Item => &mut self.item_text,
            TextExtent::Reply => &mut self.reply_text,
        };
        text.push_str(&part.text);
        for item in &part.compactions {
            // The end of a stream repeats its items.
            if self.compactions.iter().all(|known| known != item) {
                self.compactions.push((*item).to_owned());
            }
        }
        self.has_tool_calls |= part.has_tool_calls;
        self.finish = part.finish.or(self.finish);
        let usage = part.usage.map(|usage| usage.completed_by(self.usage));
        self.usage = usage.or(self.usage);
    }

    /// Returns the reply that was read under `status`. An error is a refusal if nothing was
    /// generated or counted. Otherwise it cut the generated text off.
    fn into_reply(self, status: StatusCode) -> Result<SummariserReply, SummaryError> {
        let is_counted = self.usage.is_some_and(|usage| usage.input > 0);
        if self.has_failed && !self.has_generated && !is_counted {
            return Err(SummaryError::Refused(self.error_status.unwrap_or(status)));
        }
        let finish = match self.finish {
            _ if self.has_failed => FinishReason::Other,
            _ if self.has_tool_calls => FinishReason::ToolCalls,
            Some(finish) => finish,
            None => FinishReason::Other,
        };
        let texts = [self.text, self.item_text, self.reply_text];
        let text = texts.into_iter().find(|text| !text.is_empty());
        let (text, compactions) = (text.unwrap_or_default(), self.compactions);
        Ok(SummariserReply { text, compactions, finish, usage: self.usage })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use http_body_util::Full;

    use super::*;
    use crate::body::request_body::RequestBody;

    async fn check(status: u16, body: &str, expect: Result<(&str, FinishReason), SummaryError>) {
        let body = RequestBody::from_bytes(Bytes::from(body.to_owned()), &Arc::default());
        let reply = Response::builder().status(status).body(body);
        let answer = read(reply.unwrap(), Dialect::ChatCompletions, &mut Vec::new()).await;
        let expect = expect.map(|(text, finish)| SummariserReply {
            text: text.to_owned(),
            compactions: Vec::new(),
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
        check(200, &format!("{HELLO}{end}"), Ok(("hello", FinishReason::Stop))).await;
        let whole = r#"{"choices":[{"message":{"content":"hello"},"finish_reason":"stop"}]}"#;
        check(200, whole, Ok(("hello", FinishReason::Stop))).await;
    }

    #[tokio::test]
    async fn reads_text_parts_without_reasoning() {
        let thoughts = r#"{"type":"reasoning","summary":[{"type":"summary_text","text":"a goal"}]},
                          {"type":"thinking","thinking":[{"type":"text","text":"hm"}]}"#;
        let whole = format!(
            r#"{{"choices":[{{"message":{{"content":[{thoughts},{{"type":"text","text":"h\u0065l"}},
                {{"type":"text","text":null}},{{"type":"text","text":"lo"}}]}},"finish_reason":"stop"}}]}}"#
        );
        check(200, &whole, Ok(("hello", FinishReason::Stop))).await;
        let chunk = |part: &str| {
            let part = part.replace('\n', " ");
            format!("data: {{\"choices\":[{{\"delta\":{{\"content\":[{part}]}}}}]}}\n\n")
        };
        let streamed = [
            chunk(thoughts),
            chunk(r#"{"type":"text","text":"hel"}"#),
            chunk(r#"{"type":"text","text":"lo"}"#),
            "data: [DONE]\n\n".to_owned(),
        ];
        check(200, &streamed.concat(), Ok(("hello", FinishReason::Stop))).await;
    }

    #[tokio::test]
    async fn text_of_a_response_is_read_once_wherever_its_stream_states_it() {
        let delta = r#"{"type":"response.output_text.delta","delta":"hi"}"#;
        let message = r#"{"type":"message","content":[{"type":"output_text","text":"hi"}]}"#;
        let done = format!(r#"{{"type":"response.output_item.done","item":{message}}}"#);
        let closed = |output: &str| {
            format!(
                r#"{{"type":"response.completed","response":{{"status":"completed","output":[{output}]}}}}"#
            )
        };
        for events in [
            vec![delta, &done, &closed(message)],
            vec![delta, &closed("")],
            vec![&done, &closed(message)],
            vec![&done, &closed("")],
            vec![&closed(message)],
        ] {
            let events = events.iter().map(|data| format!("data: {data}\n\n"));
            let body: String = events.collect();
            let body = RequestBody::from_bytes(Bytes::from(body), &Arc::default());
            let read = read(Response::new(body), Dialect::Responses, &mut Vec::new()).await;
            let read = read.unwrap();
            assert_eq!((&*read.text, read.finish), ("hi", FinishReason::Stop));
        }
    }

    #[tokio::test]
    async fn reply_that_is_no_completion_yields_no_text() {
        for body in [
            "",
            "[0,0,0,0]",
            "[[[]]]",
            "\"hello\"",
            r#"{"choices":null}"#,
            r#"{"choices":[]}"#,
            r#"{"choices":[0,0]}"#,
            r#"{"choices":[{}]}"#,
            r#"{"choices":[{"delta":null,"message":null,"finish_reason":null}]}"#,
        ] {
            check(200, body, Ok(("", FinishReason::Other))).await;
        }
    }

    #[tokio::test]
    async fn odd_values_do_not_affect_other_values() {
        let end = r#""finish_reason":"stop""#;
        for odd in ["null", "true", "7", "-7", "0.5", "{}", "[]", r#"{"x":[[]]}"#] {
            let message = format!(r#"{{"message":{{"content":{odd},"tool_calls":[]}},{end}}}"#);
            check(
                200,
                &format!(r#"{{"id":{odd},"usage":{odd},"choices":[{message},{odd}]}}"#),
                Ok(("", FinishReason::Stop)),
            )
            .await;
            let text = r#"{"type":"text","text":"on"}"#;
            let parts =
                format!(r#"[{odd},{{"type":{odd}}},{{"type":"text","text":{odd}}},{text}]"#);
            let message = format!(r#"{{"content":{parts},"tool_calls":{{}}}}"#);
            check(
                200,
                &format!(r#"{{"choices":[{{"message":{message},"finish_reason":{odd}}}]}}"#),
                Ok(("on", FinishReason::Other)),
            )
            .await;
        }
    }

    #[tokio::test]
    async fn reads_usage_in_streams_and_whole_replies() {
        let usage = "{\"prompt_tokens\":7,\"cost\":0.5}";
        let streamed =
            format!("{HELLO}data: {{\"choices\":[],\"usage\":{usage}}}\n\ndata: [DONE]\n\n");
        let whole = format!("{{\"choices\":[],\"usage\":{usage}}}");
        for body in [streamed, whole] {
            let reply = Response::new(Full::new(Bytes::from(body)));
            let usage = read(reply, Dialect::ChatCompletions, &mut Vec::new())
                .await
                .unwrap()
                .usage
                .unwrap();
            assert_eq!(usage.input, 7);
            assert!(usage.cost.is_some());
        }
    }

    #[tokio::test]
    async fn incomplete_reply_never_finishes_with_stop() {
        check(200, HELLO, Ok(("hello", FinishReason::Other))).await;
        let cut = format!("{HELLO}data: {{\"choices\":[{{\"finish_reason\":\"length\"}}]}}\n\n");
        check(200, &cut, Ok(("hello", FinishReason::Length))).await;
        let failed =
            format!("{HELLO}data: {{\"error\":{{\"message\":\"x\"}}}}\n\ndata: [DONE]\n\n");
        check(200, &failed, Ok(("hello", FinishReason::Other))).await;
    }

    #[tokio::test]
    async fn error_body_under_a_success_status_is_a_refusal_by_its_content() {
        let refused =
            |status: u16| Err(SummaryError::Refused(StatusCode::from_u16(status).unwrap()));
        let busy = r#"{"error":{"code":429,"message":"Rate limited upstream"}}"#;
        check(200, busy, refused(429)).await;
        check(200, &format!("data: {busy}\n\ndata: [DONE]\n\n"), refused(429)).await;
        let overloaded = r#"{"type":"error","error":{"type":"overloaded_error"}}"#;
        check(200, &format!("event: error\ndata: {overloaded}\n\n"), refused(503)).await;
        let named = "event:error\ndata:{\"code\":\"Throttling\",\"message\":\"m\"}\n\n";
        check(200, named, refused(429)).await;
        // The error does not state a status.
        check(200, r#"{"error":"no"}"#, refused(200)).await;
        let counted = format!("{{\"usage\":{{\"prompt_tokens\":7}},{}", &busy[1..]);
        let reply = Response::new(Full::new(Bytes::from(counted)));
        assert_eq!(
            read(reply, Dialect::ChatCompletions, &mut Vec::new()).await.unwrap().finish,
            FinishReason::Other
        );
    }

    #[tokio::test]
    async fn reasoning_fields_are_not_text() {
        let thought = "data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"## Goal\",\
                       \"reasoning\":\"## Goal\",\"content\":null}}]}\n\n";
        let end = "data: {\"choices\":[{\"finish_reason\":\"stop\"}]}\n\n";
        let reply = format!("{thought}{HELLO}{end}");
        check(200, &reply, Ok(("hello", FinishReason::Stop))).await;
        // Reasoning used up the whole budget.
        let spent =
            format!("{thought}data: {{\"choices\":[{{\"finish_reason\":\"length\"}}]}}\n\n");
        check(200, &spent, Ok(("", FinishReason::Length))).await;
    }

    #[tokio::test]
    async fn tool_call_overrides_the_stated_finish_reason() {
        let call = "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0}]},\
                    \"finish_reason\":\"stop\"}]}\n\n";
        check(200, call, Ok(("", FinishReason::ToolCalls))).await;
    }

    #[tokio::test]
    async fn reply_beyond_the_size_limit_fails() {
        let end = "data: [DONE]\n\n";
        let bytes = MAX_REPLY_BYTES - HELLO.len() - end.len();
        for (bytes, expect) in [
            (bytes, Ok(("hello", FinishReason::Stop))),
            (bytes + 1, Err(SummaryError::Unreachable)),
            (9 * 1024 * 1024, Err(SummaryError::Unreachable)),
        ] {
            let comment = format!(":{}\n\n", "x".repeat(bytes - 3));
            check(200, &format!("{HELLO}{comment}{end}"), expect).await;
        }
    }

    #[tokio::test]
    async fn error_status_is_a_refusal() {
        check(429, "{}", Err(SummaryError::Refused(StatusCode::TOO_MANY_REQUESTS))).await;
    }
}
