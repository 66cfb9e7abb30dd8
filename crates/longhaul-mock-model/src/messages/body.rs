//! A Messages request as the strict model reads it.

use std::borrow::Cow;

use serde_json::{Value, json};

use crate::request::{list, member, role};

/// A request with its messages as the API sees them: consecutive messages of one role are one turn.
#[derive(Debug)]
pub(crate) struct MessagesBody<'b> {
    pub(crate) body: &'b Value,
    pub(crate) turns: Vec<Turn<'b>>,
}

/// Consecutive messages of one role.
#[derive(Debug)]
pub(crate) struct Turn<'b> {
    pub(crate) role: &'b str,
    pub(crate) blocks: Vec<Cow<'b, Value>>,
}

impl<'b> MessagesBody<'b> {
    pub(crate) fn new(body: &'b Value) -> Self {
        let mut turns: Vec<Turn<'b>> = Vec::new();
        for message in list(member(body, "messages")) {
            let blocks = blocks(member(message, "content"));
            match turns.last_mut() {
                Some(last) if last.role == role(message) => last.blocks.extend(blocks),
                _ => turns.push(Turn { role: role(message), blocks }),
            }
        }
        Self { body, turns }
    }

    pub(crate) fn field(&self, name: &str) -> &'b Value {
        member(self.body, name)
    }

    pub(crate) fn messages(&self) -> &'b [Value] {
        list(self.field("messages"))
    }

    /// Returns all blocks of all turns, each with the role of its turn.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = (&'b str, &Value)> {
        let turns = self.turns.iter();
        turns.flat_map(|turn| turn.blocks.iter().map(|block| (turn.role, &**block)))
    }

    /// Returns the turn at `at` if it has this role.
    pub(crate) fn turn(&self, at: Option<usize>, role: &str) -> Option<&Turn<'b>> {
        self.turns.get(at?).filter(|turn| turn.role == role)
    }
}

impl Turn<'_> {
    /// Returns the blocks of this type.
    pub(crate) fn of_type<'t>(&'t self, name: &'t str) -> impl Iterator<Item = &'t Value> {
        let blocks = self.blocks.iter().map(|block| &**block);
        blocks.filter(move |block| kind(block) == name)
    }
}

/// Returns the blocks of a content; a string is one text block.
fn blocks(content: &Value) -> Vec<Cow<'_, Value>> {
    match content.as_str() {
        Some(text) => vec![Cow::Owned(json!({"type": "text", "text": text}))],
        None => list(content).iter().map(Cow::Borrowed).collect(),
    }
}

/// Returns the type of a block.
pub(crate) fn kind(block: &Value) -> &str {
    member(block, "type").as_str().unwrap_or_default()
}

/// Returns a member that is a string; empty if there is none.
pub(crate) fn string<'a>(block: &'a Value, name: &str) -> &'a str {
    member(block, name).as_str().unwrap_or_default()
}
