//! A judged request and the reply to it.

use bytes::Bytes;
use http::{HeaderValue, StatusCode};

use crate::answer::ModelAnswer;
use crate::options::ChatBehaviour;
use crate::record::{ReplyCompletion, RequestKind, SeenRequest, Verdict};
use crate::refusal::RefusalReply;
use crate::script::ScriptStep;

const MODELS: &str = r#"{"object":"list","data":[{"id":"strict","object":"model","created":1790000000,"owned_by":"longhaul"}]}"#;
const NOT_FOUND: &str =
    r#"{"error":{"message":"Not found","type":"invalid_request_error","param":null,"code":null}}"#;

/// A judged request.
#[derive(Debug)]
pub(crate) struct JudgedRequest {
    pub(crate) seen: SeenRequest,
    pub(crate) reply: ModelReply,
}

/// The reply to a request.
#[derive(Debug)]
pub(crate) enum ModelReply {
    /// An answer, with its content type.
    Answer(&'static str, Vec<ScriptStep>),
    /// An error, or any other fixed reply.
    Refusal(RefusalReply),
    /// No reply, not even a head.
    Silence,
}

/// A reply as sent on the wire.
#[derive(Debug)]
pub(crate) struct WireReply {
    pub(crate) status: StatusCode,
    pub(crate) content_type: Option<HeaderValue>,
    pub(crate) steps: Vec<ScriptStep>,
}

impl ModelReply {
    fn status(&self) -> Option<StatusCode> {
        match self {
            Self::Answer(..) => Some(StatusCode::OK),
            Self::Refusal(refusal) => {
                let status = StatusCode::from_u16(refusal.status);
                Some(status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR))
            }
            Self::Silence => None,
        }
    }

    /// Converts the reply for the wire; `None` for silence.
    pub(crate) fn into_wire(self) -> Option<WireReply> {
        let status = self.status()?;
        let (kind, steps) = match self {
            Self::Answer(kind, steps) => (HeaderValue::from_static(kind).into(), steps),
            Self::Refusal(RefusalReply { content_type, body, .. }) => {
                let kind = HeaderValue::from_str(&content_type).ok();
                let body = Bytes::from(body.into_owned());
                let steps = if body.is_empty() { Vec::new() } else { vec![ScriptStep::Send(body)] };
                (kind.filter(|kind| !kind.is_empty()), steps)
            }
            Self::Silence => return None,
        };
        Some(WireReply { status, content_type: kind, steps })
    }
}

impl JudgedRequest {
    pub(crate) fn new(kind: RequestKind, verdict: Verdict, reply: ModelReply) -> Self {
        let seen = SeenRequest {
            target: String::new(),
            headers: http::HeaderMap::new(),
            body: Bytes::new(),
            kind,
            verdict,
            status: reply.status().map_or(0, |status| status.as_u16()),
            prompt_tokens: 0,
            cached_tokens: 0,
            cache_written_tokens: 0,
            max_output: None,
            messages: 0,
            shared_bytes: 0,
            shared_messages: 0,
            previous_messages: 0,
            dropped: Vec::new(),
            flags: Vec::new(),
            ended: ReplyCompletion::Pending,
        };
        Self { seen, reply }
    }

    /// Replaces the reply.
    pub(crate) fn with_reply(mut self, reply: ModelReply) -> Self {
        self.seen.status = reply.status().map_or(0, |status| status.as_u16());
        Self { reply, ..self }
    }

    /// Judges a request that is not a chat. Only refusals reveal the window, so the list of models
    /// omits it.
    pub(crate) fn not_a_chat(path: &str) -> Self {
        let reply = if path.ends_with("/models") {
            RefusalReply::new(200, "application/json", MODELS)
        } else {
            RefusalReply::new(404, "application/json", NOT_FOUND)
        };
        Self::new(RequestKind::Other, Verdict::Unread, ModelReply::Refusal(reply))
    }
}

impl ModelAnswer<'_> {
    /// Converts the answer into steps, complete or broken as `conduct` requires.
    pub(crate) fn reply(&self, conduct: &ChatBehaviour) -> ModelReply {
        let mut pieces = self.pieces();
        if let [whole] = pieces.as_slice()
            && *conduct != ChatBehaviour::Steady
        {
            let halves = (whole.slice(..whole.len() / 2), whole.slice(whole.len() / 2..));
            pieces = vec![halves.0, halves.1];
        }
        let half = pieces.len() / 2;
        let mut steps: Vec<ScriptStep> = Vec::new();
        let ending = match conduct {
            ChatBehaviour::HangsMidway => Some(ScriptStep::Hang),
            ChatBehaviour::ResetsMidway => Some(ScriptStep::Reset),
            ChatBehaviour::CallsTool
            | ChatBehaviour::Follows
            | ChatBehaviour::HangsAtHead
            | ChatBehaviour::Reads(_)
            | ChatBehaviour::Replies(_)
            | ChatBehaviour::Slow(_)
            | ChatBehaviour::Steady => None,
        };
        if ending.is_some() {
            pieces.truncate(half);
        }
        for piece in pieces {
            if let ChatBehaviour::Slow(pause) = conduct {
                steps.push(ScriptStep::Wait(*pause));
            }
            steps.push(ScriptStep::Send(piece));
        }
        steps.extend(ending);
        let kind = if self.chat.wants_stream() { "text/event-stream" } else { "application/json" };
        ModelReply::Answer(kind, steps)
    }
}
