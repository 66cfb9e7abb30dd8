//! One session of a hundred windows, chained from the recorded ones, with facts planted in it.

use crate::sessions::{Failure, Session};
use longhaul::demo::{Density, Place, Plant, Replay};
use serde_json::{Value, json};

/// How many parts it has; in each, one fact is planted in each place.
pub(super) const PARTS: usize = 10;

/// The session, its facts, and how long it is at each message.
pub(super) struct Story {
    pub(super) replay: Replay,
    pub(super) facts: Vec<Plant>,
    /// The tokens of the first so many messages, as the model counts them.
    pub(super) tokens: Vec<u64>,
}

impl Story {
    /// Chains `sessions` in their order, again from the first where they do not suffice, until each
    /// part has `length` tokens. The first session's system message stands for all.
    pub(super) fn of(sessions: &[Session], density: Density, length: u64) -> Result<Self, Failure> {
        let tools = tools_of(sessions)?;
        let body = |messages: &[Value]| body(&tools, messages);
        let mut chain = sessions.iter().cycle().enumerate();
        let mut messages = Vec::new();
        let mut facts = Vec::new();
        for part in 0..PARTS {
            let mut own = Vec::new();
            let mut tokens = 0;
            while tokens < length {
                let Some((link, session)) = chain.next() else {
                    break;
                };
                let first = messages.is_empty() && own.is_empty();
                for message in link_of(session, link, first)? {
                    tokens += weight(&message, density);
                    own.push(message);
                }
            }
            let plants = facts_of(part);
            let replay = Replay::of(body(&own).as_bytes())?;
            let (planted, placed) = replay.planted(&plants)?;
            let last = planted
                .requests()
                .next_back()
                .ok_or("a part asks nothing")?;
            facts.extend(placed);
            messages.extend(messages_of(&last.body())?);
        }
        let mut whole = 0;
        let tokens = std::iter::once(0)
            .chain(messages.iter().map(|message| {
                whole += weight(message, density);
                whole
            }))
            .collect();
        Ok(Self {
            replay: Replay::of(body(&messages).as_bytes())?,
            facts,
            tokens,
        })
    }
}

/// The messages of one session, the ids of their calls made its own; a system message only if it is
/// the `first`.
fn link_of(session: &Session, link: usize, first: bool) -> Result<Vec<Value>, Failure> {
    let last = session.replay.requests().next_back();
    let mut messages = messages_of(&last.ok_or("a session asks nothing")?.body())?;
    messages.retain(|message| first || !is_head(message));
    let own = |id: &mut Value| {
        let text = id.as_str().map(|id| format!("{id}_{link}"));
        if let Some(text) = text {
            *id = text.into();
        }
    };
    for message in &mut messages {
        if let Some(id) = message.get_mut("tool_call_id") {
            own(id);
        }
        let calls = message.get_mut("tool_calls").and_then(Value::as_array_mut);
        for call in calls.into_iter().flatten() {
            if let Some(id) = call.get_mut("id") {
                own(id);
            }
        }
    }
    Ok(messages)
}

fn is_head(message: &Value) -> bool {
    matches!(
        message.get("role").and_then(Value::as_str),
        Some("system" | "developer")
    )
}

/// The tools of the first session that has some: a model wants to know of them where calls are.
fn tools_of(sessions: &[Session]) -> Result<Value, Failure> {
    for session in sessions {
        let mut body: Value = serde_json::from_slice(&session.body)?;
        if let Some(tools) = body.get_mut("tools") {
            return Ok(tools.take());
        }
    }
    Err("no session has tools".into())
}

fn messages_of(body: &[u8]) -> Result<Vec<Value>, Failure> {
    let mut body: Value = serde_json::from_slice(body)?;
    let messages = body.get_mut("messages").and_then(Value::as_array_mut);
    Ok(messages.map(std::mem::take).unwrap_or_default())
}

/// The messages stand last, so that a body ends with theirs.
fn body(tools: &Value, messages: &[Value]) -> String {
    json!({ "model": "hundred", "tools": tools, "messages": messages }).to_string()
}

/// The tokens of one message by itself.
fn weight(message: &Value, density: Density) -> u64 {
    let alone = json!({ "messages": [message] }).to_string();
    density.request(alone.as_bytes()).unwrap_or_default()
}

/// A fact for each place, in the forms that people use: an id, a setting, a path.
fn facts_of(part: usize) -> Vec<Plant> {
    const WORDS: [&str; 4] = ["heron", "quartz", "tundra", "willow"];
    let places = [
        Place::FirstUser,
        Place::SecondUser,
        Place::AssistantText,
        Place::ToolResult,
    ];
    let facts = places.iter().zip(WORDS).enumerate();
    facts
        .map(|(at, (&place, word))| {
            let number = 10_007 + (part * 4 + at) * 7_919 % 89_989;
            let token = match (part + at) % 3 {
                0 => format!("{}-{number}", word.to_uppercase()),
                1 => format!("{}_LIMIT={number}", word.to_uppercase()),
                _ => format!("/srv/{word}/{number}.conf"),
            };
            Plant { place, token }
        })
        .collect()
}
