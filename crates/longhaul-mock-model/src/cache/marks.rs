//! The prompt cache of the Messages API. Each mark stores the prompt up to its block, and finds
//! prefixes that end at most 20 positions before that block.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::{CachedTokens, add_without_marks};
use crate::count::TokenDensity;
use crate::request::{ChatBody, list, member, role};

/// Positions that the provider searches for each mark, the marked one included.
const LOOKBACK: usize = 20;
/// The minimum tokens of a cached prefix, by a part of the model's name.
const MINIMUM: [(&str, u64); 9] = [
    ("opus-4-5", 4_096),
    ("opus-4-6", 4_096),
    ("haiku-4-5", 4_096),
    ("opus-4-7", 2_048),
    ("opus-4", 1_024),
    ("sonnet-5-5", 512),
    ("opus-5", 512),
    ("haiku-5-5", 512),
    ("fable", 512),
];
/// The minimum of other models.
const OTHER_MINIMUM: u64 = 1_024;
/// Blocks of which a run counts as one position.
const RUNS: [&str; 2] = ["tool_result", "tool_use"];
/// The member that marks a block.
const MARK: &str = "cache_control";

/// The ends of all blocks of a prompt: tools, system, messages.
#[derive(Clone, Debug)]
pub(super) struct MarkedPrompt {
    ends: Vec<BlockEnd>,
    minimum: u64,
}

/// The end of a block.
#[derive(Clone, Copy, Debug)]
struct BlockEnd {
    /// A digest of everything up to here.
    prefix: [u8; 32],
    /// The tokens of everything up to here.
    tokens: u64,
    position: usize,
    is_marked: bool,
}

/// Reads a prompt block by block.
struct Reader {
    chain: blake3::Hasher,
    ends: Vec<BlockEnd>,
    /// Whether the last block belongs to a run.
    run: Option<String>,
}

impl Reader {
    fn push(&mut self, block: &Value, tokens: u64) {
        add_without_marks(&mut self.chain, block);
        let kind = member(block, "type").as_str().unwrap_or_default();
        let run = RUNS.contains(&kind).then(|| kind.to_owned());
        let before = self.ends.last().map(|end| end.position);
        let position = match before {
            Some(before) if run.is_some() && run == self.run => before,
            Some(before) => before + 1,
            None => 0,
        };
        self.run = run;
        let inner = list(member(block, "content")).last();
        self.ends.push(BlockEnd {
            prefix: *self.chain.finalize().as_bytes(),
            tokens,
            position,
            is_marked: is_marked(block) || inner.is_some_and(is_marked),
        });
    }
}

fn is_marked(block: &Value) -> bool {
    member(block, MARK).is_object()
}

impl MarkedPrompt {
    pub(super) fn read(chat: &ChatBody, density: TokenDensity) -> Self {
        let mut reader = Reader { chain: blake3::Hasher::new(), ends: Vec::new(), run: None };
        reader.chain.update(chat.model().as_bytes());
        let mut text = String::new();
        for tool in chat.tools() {
            text.push_str(&tool.to_string());
            reader.push(tool, density.text_tokens(&text));
        }
        let tools = density.tools_tokens(chat.field("tools"));
        for (tokens, block) in density.blocks(chat.system()) {
            reader.push(&block, tools + tokens);
        }
        let mut before = tools + density.instruction_tokens(chat.system());
        for message in chat.messages() {
            reader.chain.update(role(message).as_bytes());
            for (tokens, block) in density.blocks(member(message, "content")) {
                reader.push(&block, before + density.message_tokens(&json!({})) + tokens);
            }
            before += density.message_tokens(message);
        }
        // The automatic mark stands on the last block that can carry one.
        if is_marked(chat.original())
            && let Some(last) = reader.ends.last_mut()
        {
            last.is_marked = true;
        }
        let named = MINIMUM.iter().find(|(part, _)| chat.model().contains(part));
        Self { ends: reader.ends, minimum: named.map_or(OTHER_MINIMUM, |(_, minimum)| *minimum) }
    }

    fn marks(&self) -> impl Iterator<Item = &BlockEnd> {
        let marks = self.ends.iter().filter(|end| end.is_marked);
        marks.filter(|end| end.tokens >= self.minimum)
    }

    /// Returns the tokens of this prompt that the cache holds, and those that the request stores.
    pub(super) fn cached(&self, stored: &HashSet<[u8; 32]>) -> CachedTokens {
        let is_near = |mark: &BlockEnd, end: &BlockEnd| {
            end.position <= mark.position && end.position + LOOKBACK > mark.position
        };
        let found = self.ends.iter().filter(|end| stored.contains(&end.prefix));
        let found = found.filter(|end| self.marks().any(|mark| is_near(mark, end)));
        let read = found.map(|end| end.tokens).max().unwrap_or(0);
        let last = self.marks().map(|mark| mark.tokens).max().unwrap_or(0);
        CachedTokens { read, written: last.saturating_sub(read) }
    }

    /// Returns the prefixes that the request stores.
    pub(super) fn entries(&self) -> impl Iterator<Item = [u8; 32]> {
        self.marks().map(|mark| mark.prefix)
    }
}

#[cfg(test)]
mod tests;
