//! A recorded session as the sequence of requests that its agent sent.

mod items;
mod moving_mark;

use std::borrow::Cow;
use std::collections::HashSet;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::request::ChatBody;

/// An upper bound for the head or tail of a result shown to a summariser, in characters. A fact
/// planted further inside appears in neither.
const MIN_PLANT_DEPTH: usize = 1_200;

/// The error for bytes that are not a chat request with messages.
#[derive(Debug, thiserror::Error)]
#[error("reading a recorded session: {0}")]
pub struct NotASession(String);

impl NotASession {
    pub(super) fn unreadable(error: &std::io::Error) -> Self {
        Self(error.to_string())
    }
}

/// A recorded session: the last request body that an agent sent, from which the earlier ones
/// follow.
///
/// Every request consists of the recorded bytes up to a message and those after the last message.
/// Nothing is serialised again.
#[derive(Clone, Debug)]
pub struct SessionRecording {
    /// The body up to the end of its last message.
    text: Vec<u8>,
    /// The rest of the body, starting with `]`.
    tail: Vec<u8>,
    messages: Vec<RecordedMessage>,
    /// The number of messages of each request.
    points: Vec<usize>,
    /// The path of its API.
    path: &'static str,
}

/// A message, as byte positions in `text`.
#[derive(Clone, Debug)]
struct RecordedMessage {
    start: usize,
    end: usize,
    role: Role,
    /// The range of its first text, inside the quotes.
    words: Option<(usize, usize)>,
    calls: Vec<String>,
    answers: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Assistant,
    Other,
    Tool,
    User,
}

/// The position of a planted fact in a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlantPosition {
    /// The first assistant message that has a text.
    AssistantText,
    /// The first user message.
    FirstUser,
    /// The second user message.
    SecondUser,
    /// A tool result, past its first 1,200 characters and not at its end.
    ToolResult,
}

/// A token that the recording lacks, so any later occurrence must come from the planted place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlantedFact {
    /// The position.
    pub place: PlantPosition,
    /// The token. The prefix `FACT-` makes the model's summaries carry it over.
    pub token: String,
}

impl PlantedFact {
    /// Returns one plant for each place, each with its own token.
    pub fn one_each() -> Vec<Self> {
        [
            (PlantPosition::FirstUser, "FACT-u1k7"),
            (PlantPosition::SecondUser, "FACT-u2m4"),
            (PlantPosition::AssistantText, "FACT-a3q9"),
            (PlantPosition::ToolResult, "FACT-t4z2"),
        ]
        .map(|(place, token)| Self { place, token: token.to_owned() })
        .into()
    }

    /// Returns the sentence that carries the token, escaped for a JSON string.
    fn words(&self) -> String {
        let words = match self.place {
            PlantPosition::AssistantText => format!("I noted {}. ", self.token),
            PlantPosition::FirstUser | PlantPosition::SecondUser => {
                format!("Remember {}. ", self.token)
            }
            PlantPosition::ToolResult => format!(" build_id={}", self.token),
        };
        let quoted = serde_json::Value::from(words).to_string();
        quoted.trim_matches('"').to_owned()
    }
}

/// A request of a session.
#[derive(Clone, Copy, Debug)]
pub struct ReplayRequest<'a> {
    replay: &'a SessionRecording,
    messages: usize,
}

impl<'a> ReplayRequest<'a> {
    /// Returns the number of messages.
    pub fn messages(&self) -> usize {
        self.messages
    }

    /// Returns the request body.
    pub fn body(&self) -> Vec<u8> {
        self.replay.body(self.messages)
    }

    /// Returns the recorded assistant message that answered the request. Returns `None` if the
    /// recording ends there or the user continued without waiting.
    pub fn reply(&self) -> Option<&'a [u8]> {
        let next = self.replay.messages.get(self.messages)?;
        (next.role == Role::Assistant).then(|| self.replay.text.get(next.start..next.end))?
    }
}

impl SessionRecording {
    /// Parses the last request body of a session.
    pub fn parse(body: &[u8]) -> Result<Self, NotASession> {
        let body = str::from_utf8(body).map_err(|error| NotASession(error.to_string()))?;
        let as_chat = read(body).map(|messages| {
            let points = points(&messages);
            let is_messages = ChatBody::parse_any(body.as_bytes()).is_ok_and(|it| it.is_messages());
            let path = if is_messages { "/messages" } else { "/chat/completions" };
            (messages, points, path)
        });
        let as_input = || {
            let read = items::read(body);
            read.map(|(items, points)| (items, points, "/responses"))
        };
        let (messages, points, path) = as_chat
            .or_else(|error| as_input().map_err(|_| error))
            .map_err(|error| NotASession(error.to_string()))?;
        let Some(end) = messages.last().map(|message| message.end) else {
            return Err(NotASession("found no messages".to_owned()));
        };
        let (text, tail) = body.split_at(end);
        Ok(Self { text: text.into(), tail: tail.into(), messages, points, path })
    }

    /// Returns the path of the session's API, after the base URL.
    pub fn path(&self) -> &'static str {
        self.path
    }

    /// Returns the requests in order, one at each request point: after each user message and after
    /// each tool result that completes its batch.
    pub fn requests(
        &self,
    ) -> impl DoubleEndedIterator<Item = ReplayRequest<'_>> + ExactSizeIterator {
        self.points.iter().map(|&messages| ReplayRequest { replay: self, messages })
    }

    /// Adds a member at the end of every body, for example `stream`, `true`. `json` is its
    /// serialised value.
    #[must_use]
    pub fn with_field(mut self, name: &str, json: &str) -> Self {
        let close = self.tail.iter().rposition(|&byte| byte == b'}').unwrap_or(self.tail.len());
        let member = format!(", {}: {json}", serde_json::Value::from(name));
        self.tail.splice(close..close, member.into_bytes());
        self
    }

    /// Returns the session of an agent without a person: the first user message and, after it, only
    /// the steps with tools.
    pub fn headless(&self) -> Result<Self, NotASession> {
        let first = self.messages.iter().position(|message| message.role == Role::User);
        let first = first.ok_or_else(|| NotASession("found no user message".to_owned()))?;
        let mut kept = Vec::new();
        let mut from = 0;
        for (at, message) in self.messages.iter().enumerate() {
            let step = match message.role {
                Role::Assistant => !message.calls.is_empty(),
                Role::Other | Role::Tool => true,
                Role::User => false,
            };
            if at <= first || step {
                // The bytes before a message, a bracket or a comma, belong to it.
                kept.extend_from_slice(self.text.get(from..message.end).unwrap_or_default());
            }
            from = message.end;
        }
        kept.extend_from_slice(&self.tail);
        Self::parse(&kept)
    }

    /// Returns the session with facts planted, and the plants for which a place was found.
    pub fn planted(&self, plants: &[PlantedFact]) -> Result<(Self, Vec<PlantedFact>), NotASession> {
        let mut placed: Vec<(usize, &PlantedFact)> =
            plants.iter().filter_map(|plant| Some((self.position(plant.place)?, plant))).collect();
        placed.sort_by_key(|(position, _)| *position);
        let mut body = self.body(self.messages.len());
        for (position, plant) in placed.iter().rev() {
            body.splice(*position..*position, plant.words().into_bytes());
        }
        let facts = placed.into_iter().map(|(_, plant)| plant.clone()).collect();
        Ok((Self::parse(&body)?, facts))
    }

    fn body(&self, messages: usize) -> Vec<u8> {
        let end = messages.checked_sub(1).and_then(|last| self.messages.get(last));
        let text = self.text.get(..end.map_or(0, |last| last.end)).unwrap_or_default();
        [text, &self.tail].concat()
    }

    fn position(&self, place: PlantPosition) -> Option<usize> {
        let with_words = |role| self.messages.iter().filter(move |message| message.role == role);
        let beginning = |message: &RecordedMessage| message.words.map(|(start, _)| start);
        match place {
            PlantPosition::AssistantText => with_words(Role::Assistant).find_map(beginning),
            PlantPosition::FirstUser => with_words(Role::User).next().and_then(beginning),
            PlantPosition::SecondUser => with_words(Role::User).nth(1).and_then(beginning),
            PlantPosition::ToolResult => {
                with_words(Role::Tool).find_map(|message| self.deep(message))
            }
        }
    }

    /// Returns the position of a space in the middle of a long text. A bare space is never part of
    /// an escape.
    fn deep(&self, message: &RecordedMessage) -> Option<usize> {
        let (start, end) = message.words?;
        let words = str::from_utf8(self.text.get(start..end)?).ok()?;
        let head = past_characters(words, MIN_PLANT_DEPTH)?;
        let space = head + words.get(head..)?.find(' ')?;
        // At least as many characters must follow, or the fact would be in the tail shown.
        past_characters(words.get(space..)?, MIN_PLANT_DEPTH)?;
        Some(start + space)
    }
}

/// Returns the byte position after the first `count` characters of a text inside JSON quotes.
fn past_characters(words: &str, count: usize) -> Option<usize> {
    let mut rest = words.char_indices();
    for _ in 0..count {
        let (_, letter) = rest.next()?;
        if letter == '\\' && rest.next()?.1 == 'u' {
            rest.nth(3)?;
        }
    }
    Some(rest.offset())
}

fn points(messages: &[RecordedMessage]) -> Vec<usize> {
    let mut open: HashSet<&str> = HashSet::new();
    let mut points = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        let ends = match message.role {
            Role::Assistant => {
                open = message.calls.iter().map(String::as_str).collect();
                false
            }
            Role::Other => false,
            Role::Tool => {
                let answered = message.answers.as_deref().is_some_and(|id| open.remove(id));
                answered && open.is_empty()
            }
            Role::User => true,
        };
        if ends {
            points.push(at + 1);
        }
    }
    points
}

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    messages: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct Message<'a> {
    role: Cow<'a, str>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    tool_call_id: Option<String>,
    tool_calls: Option<Vec<Call>>,
}

#[derive(Deserialize)]
struct Call {
    id: String,
}

#[derive(Deserialize)]
struct Part<'a> {
    #[serde(borrow, default)]
    text: Option<&'a RawValue>,
}

fn read(body: &str) -> serde_json::Result<Vec<RecordedMessage>> {
    // Raw values borrow from the body, so their addresses give their positions.
    let position = |raw: &RawValue| raw.get().as_ptr().addr() - body.as_ptr().addr();
    let inside = |raw: &RawValue| {
        let start = position(raw);
        let filled = raw.get().starts_with('"') && raw.get().len() > 2;
        filled.then(|| (start + 1, start + raw.get().len() - 1))
    };
    let Body { messages } = serde_json::from_str(body)?;
    let mut recorded = Vec::with_capacity(messages.len());
    for raw in messages {
        let message: Message<'_> = serde_json::from_str(raw.get())?;
        let parts = message.content.and_then(|content| {
            let parts: Vec<Part<'_>> = serde_json::from_str(content.get()).ok()?;
            parts.into_iter().find_map(|part| part.text.and_then(inside))
        });
        recorded.push(RecordedMessage {
            start: position(raw),
            end: position(raw) + raw.get().len(),
            role: match &*message.role {
                "assistant" => Role::Assistant,
                "tool" => Role::Tool,
                "user" => Role::User,
                _ => Role::Other,
            },
            words: message.content.and_then(inside).or(parts),
            calls: message.tool_calls.unwrap_or_default().into_iter().map(|c| c.id).collect(),
            answers: message.tool_call_id,
        });
    }
    Ok(recorded)
}

#[cfg(test)]
mod tests;
