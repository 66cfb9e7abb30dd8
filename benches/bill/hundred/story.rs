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
    /// Chains `sessions`, each part its own, again from the first where they do not suffice, until
    /// each part has `length` tokens. One head stands for all.
    pub(super) fn of(sessions: &[Session], density: Density, length: u64) -> Result<Self, Failure> {
        let head = usual_head(sessions, density)?;
        let mut messages = head.messages;
        let mut facts = Vec::new();
        for (part, dealt) in dealt(sessions, density)?.iter().enumerate() {
            let mut own = Vec::new();
            let mut tokens = 0;
            for (round, session) in dealt.iter().cycle().enumerate() {
                if tokens >= length {
                    break;
                }
                for message in link_of(session, part, round)? {
                    tokens += weight(&message, density);
                    own.push(message);
                }
            }
            let replay = Replay::of(body(&head.tools, &own).as_bytes())?;
            let (planted, placed) = replay.planted(&facts_of(part))?;
            let last = planted.requests().next_back();
            facts.extend(placed);
            messages.extend(messages_of(&last.ok_or("a part asks nothing")?.body())?);
        }
        let mut whole = 0;
        let tokens = std::iter::once(0)
            .chain(messages.iter().map(|message| {
                whole += weight(message, density);
                whole
            }))
            .collect();
        Ok(Self {
            replay: Replay::of(body(&head.tools, &messages).as_bytes())?,
            facts,
            tokens,
        })
    }
}

/// What stands before the history.
struct Head {
    messages: Vec<Value>,
    tools: Value,
}

/// Of the heads of all sessions that have tools, the middle one by size.
fn usual_head(sessions: &[Session], density: Density) -> Result<Head, Failure> {
    let mut heads = Vec::new();
    for session in sessions {
        let mut whole: Value = serde_json::from_slice(&session.body)?;
        let Some(tools) = whole.get_mut("tools").map(Value::take) else {
            continue;
        };
        let mut messages = messages_of(&session.body)?;
        messages.retain(is_head);
        let size = density.request(body(&tools, &messages).as_bytes());
        heads.push((size.unwrap_or_default(), Head { messages, tools }));
    }
    heads.sort_by_key(|(size, _)| *size);
    let middle = heads.len() / 2;
    let head = heads.into_iter().nth(middle);
    Ok(head.ok_or("no session has tools")?.1)
}

/// The sessions of each part. They are dealt to and fro in the order of how much one request of theirs
/// brings, so that no part is of chatty agents only: what differs between two parts is then what
/// the length of the history makes differ.
fn dealt(sessions: &[Session], density: Density) -> Result<Vec<Vec<&Session>>, Failure> {
    let mut ordered = Vec::new();
    for session in sessions {
        let tokens = density.request(&session.body).unwrap_or_default();
        let requests = session.replay.requests().count().max(1) as u64;
        ordered.push((tokens / requests, session));
    }
    ordered.sort_by_key(|(each, _)| *each);
    let mut parts = vec![Vec::new(); PARTS];
    for (at, (_, session)) in ordered.iter().enumerate() {
        let (round, place) = (at / PARTS, at % PARTS);
        let place = if round % 2 == 0 {
            place
        } else {
            PARTS - 1 - place
        };
        parts.get_mut(place).ok_or("no such part")?.push(*session);
    }
    Ok(parts)
}

/// The messages of one session but for its head, the ids of their calls made those of its place in
/// the story.
fn link_of(session: &Session, part: usize, round: usize) -> Result<Vec<Value>, Failure> {
    let last = session.replay.requests().next_back();
    let mut messages = messages_of(&last.ok_or("a session asks nothing")?.body())?;
    messages.retain(|message| !is_head(message));
    let own = |id: &mut Value| {
        let text = id.as_str().map(|id| format!("{id}_{part}_{round}"));
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
