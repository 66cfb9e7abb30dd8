//! A session of a hundred windows, chained from the recorded ones, with planted facts.

use crate::sessions::{Failure, Session};
use longhaul_mock_model::{PlantPosition, PlantedFact, SessionRecording, TokenDensity};
use serde_json::{Value, json};

/// Number of parts; in each part, one fact is planted per kind of place.
pub(super) const PARTS: usize = 10;

/// The session, its facts, and its length at each message.
pub(super) struct Story {
    pub(super) replay: SessionRecording,
    pub(super) facts: Vec<PlantedFact>,
    /// Cumulative tokens up to each message, as the model counts them.
    pub(super) tokens: Vec<u64>,
    /// Number of messages up to the end of each part.
    pub(super) ends: Vec<usize>,
}

impl Story {
    /// Chains all `sessions`, dealt into parts, after one shared head.
    pub(super) fn of(sessions: &[Session], density: TokenDensity) -> Result<Self, Failure> {
        let head = usual_head(sessions, density)?;
        let mut messages = head.messages;
        let (mut facts, mut ends) = (Vec::new(), Vec::new());
        for (part, dealt) in dealt(sessions, density).iter().enumerate() {
            let mut own = Vec::new();
            for (place, session) in dealt.iter().enumerate() {
                own.extend(link_of(session, part, place)?);
            }
            let replay = SessionRecording::parse(body(&head.tools, &own).as_bytes())?;
            let (planted, placed) = replay.planted(&facts_of(part))?;
            let last = planted.requests().next_back();
            facts.extend(placed);
            messages.extend(messages_of(&last.ok_or("a part asks nothing")?.body())?);
            ends.push(messages.len());
        }
        let mut whole = 0;
        let tokens = std::iter::once(0)
            .chain(messages.iter().map(|message| {
                whole += weight(message, density);
                whole
            }))
            .collect();
        Ok(Self {
            replay: SessionRecording::parse(body(&head.tools, &messages).as_bytes())?,
            facts,
            tokens,
            ends,
        })
    }
}

/// Instructions and tools before the history.
struct Head {
    messages: Vec<Value>,
    tools: Value,
}

/// Returns the head of median size among the sessions with tools.
fn usual_head(sessions: &[Session], density: TokenDensity) -> Result<Head, Failure> {
    let mut heads = Vec::new();
    for session in sessions {
        let mut whole: Value = serde_json::from_slice(&session.body)?;
        let Some(tools) = whole.get_mut("tools").map(Value::take) else {
            continue;
        };
        let mut messages = messages_of(&session.body)?;
        messages.retain(is_head);
        let size = density.request_tokens(body(&tools, &messages).as_bytes());
        heads.push((size.unwrap_or_default(), Head { messages, tools }));
    }
    heads.sort_by_key(|(size, _)| *size);
    let middle = heads.len() / 2;
    let head = heads.into_iter().nth(middle);
    Ok(head.ok_or("no session has tools")?.1)
}

/// A session with its cost factors: the number of requests and of tokens.
#[derive(Clone, Copy)]
struct Dealt<'s> {
    session: &'s Session,
    tokens: u64,
    requests: u64,
}

/// Deals the sessions into parts and exchanges them until the ratio of requests to tokens is alike
/// in all. Differences between two parts are then due to the length of the history.
fn dealt(sessions: &[Session], density: TokenDensity) -> Vec<Vec<&Session>> {
    let mut all: Vec<Dealt<'_>> = sessions
        .iter()
        .map(|session| Dealt {
            session,
            tokens: density.request_tokens(&session.body).unwrap_or_default(),
            requests: session.replay.requests().count() as u64,
        })
        .collect();
    all.sort_by_key(|dealt| dealt.requests * 1_000 / dealt.tokens.max(1));
    let mut parts = vec![Vec::new(); PARTS];
    for (at, dealt) in all.iter().enumerate() {
        let (round, place) = (at / PARTS, at % PARTS);
        let place = if round % 2 == 0 { place } else { PARTS - 1 - place };
        if let Some(part) = parts.get_mut(place) {
            part.push(*dealt);
        }
    }
    while let Some(better) = exchanged(&parts) {
        parts = better;
    }
    let mut dealt = Vec::new();
    for part in &parts {
        dealt.push(part.iter().map(|dealt| dealt.session).collect());
    }
    dealt
}

/// Returns the parts after the exchange of two sessions that makes them most alike; `None` if no
/// exchange helps.
fn exchanged<'s>(parts: &[Vec<Dealt<'s>>]) -> Option<Vec<Vec<Dealt<'s>>>> {
    let mut best: Option<(u64, Vec<Vec<Dealt<'s>>>)> = None;
    let now = unlike(parts);
    let places =
        || parts.iter().enumerate().flat_map(|(at, part)| (0..part.len()).map(move |it| (at, it)));
    for (one, first) in places() {
        for (other, second) in places().filter(|(other, _)| *other > one) {
            let mut tried = parts.to_vec();
            let taken = *tried.get(one)?.get(first)?;
            let given = std::mem::replace(tried.get_mut(other)?.get_mut(second)?, taken);
            *tried.get_mut(one)?.get_mut(first)? = given;
            let then = unlike(&tried);
            if then < now && best.as_ref().is_none_or(|(least, _)| then < *least) {
                best = Some((then, tried));
            }
        }
    }
    best.map(|(_, parts)| parts)
}

/// Squared distance of the parts from the mean, over requests per million tokens and tokens in
/// thousands.
fn unlike(parts: &[Vec<Dealt<'_>>]) -> u64 {
    let sum = |part: &[Dealt<'_>]| {
        let tokens: u64 = part.iter().map(|dealt| dealt.tokens).sum();
        let requests: u64 = part.iter().map(|dealt| dealt.requests).sum();
        (requests * 1_000_000 / tokens.max(1), tokens / 1_000)
    };
    let (rate, size) = sum(&parts.concat());
    let size = size / PARTS as u64;
    let off = |part: &Vec<Dealt<'_>>| {
        let (own, tokens) = sum(part);
        own.abs_diff(rate).pow(2) + tokens.abs_diff(size).pow(2)
    };
    parts.iter().map(off).sum()
}

/// Returns the messages of a session without its head. Call ids get a suffix for the session's
/// place in the story.
fn link_of(session: &Session, part: usize, place: usize) -> Result<Vec<Value>, Failure> {
    let last = session.replay.requests().next_back();
    let mut messages = messages_of(&last.ok_or("a session asks nothing")?.body())?;
    messages.retain(|message| !is_head(message));
    let own = |id: &mut Value| {
        let text = id.as_str().map(|id| format!("{id}_{part}_{place}"));
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
    matches!(message.get("role").and_then(Value::as_str), Some("system" | "developer"))
}

fn messages_of(body: &[u8]) -> Result<Vec<Value>, Failure> {
    let mut body: Value = serde_json::from_slice(body)?;
    let messages = body.get_mut("messages").and_then(Value::as_array_mut);
    Ok(messages.map(std::mem::take).unwrap_or_default())
}

/// Builds a request body. The messages come last, so that the body ends with them.
fn body(tools: &Value, messages: &[Value]) -> String {
    json!({ "model": "hundred", "tools": tools, "messages": messages }).to_string()
}

/// Tokens of a single message.
fn weight(message: &Value, density: TokenDensity) -> u64 {
    let alone = json!({ "messages": [message] }).to_string();
    density.request_tokens(alone.as_bytes()).unwrap_or_default()
}

/// A fact for each place, in common forms: an id, a setting, a path.
fn facts_of(part: usize) -> Vec<PlantedFact> {
    const WORDS: [&str; 4] = ["heron", "quartz", "tundra", "willow"];
    let places = [
        PlantPosition::FirstUser,
        PlantPosition::SecondUser,
        PlantPosition::AssistantText,
        PlantPosition::ToolResult,
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
            PlantedFact { place, token }
        })
        .collect()
}
