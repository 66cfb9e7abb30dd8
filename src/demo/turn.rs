//! One request as it was judged, and the reply that it gets.

use bytes::Bytes;
use http::{HeaderValue, StatusCode};

use super::answer::Answer;
use super::options::Conduct;
use super::record::{Ended, Kind, Seen, Verdict};
use super::refusal::Refusal;
use super::script::Step;

const MODELS: &str = r#"{"object":"list","data":[{"id":"strict","object":"model","created":1790000000,"owned_by":"longhaul"}]}"#;
const NOT_FOUND: &str =
    r#"{"error":{"message":"Not found","type":"invalid_request_error","param":null,"code":null}}"#;

/// One request, judged.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) seen: Seen,
    pub(crate) reply: Reply,
}

/// What a request gets.
#[derive(Debug)]
pub(crate) enum Reply {
    /// An answer, by its content type.
    Answer(&'static str, Vec<Step>),
    /// An error, or any other fixed reply.
    Refusal(Refusal),
    /// Nothing, not even a head.
    Silence,
}

/// A reply as it goes on the wire.
#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) status: StatusCode,
    pub(crate) content_type: Option<HeaderValue>,
    pub(crate) steps: Vec<Step>,
}

impl Reply {
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

    /// The reply for the wire; none for silence.
    pub(crate) fn sent(self) -> Option<Sent> {
        let status = self.status()?;
        let (kind, steps) = match self {
            Self::Answer(kind, steps) => (HeaderValue::from_static(kind).into(), steps),
            Self::Refusal(Refusal {
                content_type, body, ..
            }) => {
                let kind = HeaderValue::from_str(&content_type).ok();
                let body = Bytes::from(body.into_owned());
                let steps = if body.is_empty() {
                    Vec::new()
                } else {
                    vec![Step::Send(body)]
                };
                (kind.filter(|kind| !kind.is_empty()), steps)
            }
            Self::Silence => return None,
        };
        Some(Sent {
            status,
            content_type: kind,
            steps,
        })
    }
}

impl Turn {
    pub(crate) fn new(kind: Kind, verdict: Verdict, reply: Reply) -> Self {
        let seen = Seen {
            target: String::new(),
            headers: http::HeaderMap::new(),
            body: Bytes::new(),
            kind,
            verdict,
            status: reply.status().map_or(0, |status| status.as_u16()),
            prompt_tokens: 0,
            cached_tokens: 0,
            max_output: None,
            messages: 0,
            shared_bytes: 0,
            shared_messages: 0,
            previous_messages: 0,
            ended: Ended::Pending,
        };
        Self { seen, reply }
    }

    /// The same request with its reply.
    pub(crate) fn answered(mut self, reply: Reply) -> Self {
        self.seen.status = reply.status().map_or(0, |status| status.as_u16());
        Self { reply, ..self }
    }

    /// A request for anything but a chat. The window is in no reply but a refusal, so the list of
    /// models is a bare one.
    pub(crate) fn elsewhere(path: &str) -> Self {
        let reply = if path.ends_with("/models") {
            Refusal::new(200, "application/json", MODELS)
        } else {
            Refusal::new(404, "application/json", NOT_FOUND)
        };
        Self::new(Kind::Other, Verdict::Unread, Reply::Refusal(reply))
    }
}

impl Answer<'_> {
    /// The answer as steps, whole or gone wrong as the conduct wants it.
    pub(crate) fn reply(&self, conduct: &Conduct) -> Reply {
        let mut pieces = self.pieces();
        if let [whole] = pieces.as_slice()
            && *conduct != Conduct::Steady
        {
            let halves = (
                whole.slice(..whole.len() / 2),
                whole.slice(whole.len() / 2..),
            );
            pieces = vec![halves.0, halves.1];
        }
        let half = pieces.len() / 2;
        let mut steps: Vec<Step> = Vec::new();
        let ending = match conduct {
            Conduct::HangsMidway => Some(Step::Hang),
            Conduct::ResetsMidway => Some(Step::Reset),
            Conduct::CallsTool
            | Conduct::HangsAtHead
            | Conduct::Reads(_)
            | Conduct::Replies(_)
            | Conduct::Slow(_)
            | Conduct::Steady => None,
        };
        if ending.is_some() {
            pieces.truncate(half);
        }
        for piece in pieces {
            if let Conduct::Slow(pause) = conduct {
                steps.push(Step::Wait(*pause));
            }
            steps.push(Step::Send(piece));
        }
        steps.extend(ending);
        let kind = if self.chat.wants_stream() {
            "text/event-stream"
        } else {
            "application/json"
        };
        Reply::Answer(kind, steps)
    }
}
