//! Rules by which providers read a prompt from their cache, and the prices of each.
//!
//! From the documentation of the providers, November 2026. Entries never expire here: a session has no
//! clock.

use serde_json::Value;
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// Bytes of a token.
const TOKEN_BYTES: usize = 4;
/// Steps of a cached prefix, in tokens, at OpenAI and xAI.
const STEP: usize = 128;
/// Smallest cached prefix, in tokens, at OpenAI, and at Anthropic for most models.
const LEAST: usize = 1_024;
/// Positions that a provider searches backwards from a mark, at Anthropic.
const LOOKBACK: usize = 20;

/// Rule of a cache.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Rule {
    /// Prefixes of the tokens, in steps: OpenAI, xAI; much the same at `DeepSeek`, Gemini and `vLLM`.
    Steps,
    /// Prefixes up to a mark of the client: Anthropic.
    Marks,
    /// The prefix that a local server has processed last. Reading costs nothing; processing costs time.
    Local,
    /// Whole messages: the mock model of `bench bill`.
    Messages,
}

impl Rule {
    pub(crate) const ALL: [Self; 4] = [Self::Steps, Self::Marks, Self::Local, Self::Messages];

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Steps => "token prefixes, 1 / 0.1",
            Self::Marks => "marks, 1.25 / 0.1",
            Self::Local => "local, 1 / 0",
            Self::Messages => "whole messages, 1 / 0.1",
        }
    }

    /// Prices of a token that is not read from the cache, and of one that is, in hundredths.
    fn prices(self) -> (u64, u64) {
        match self {
            Self::Steps | Self::Messages => (100, 10),
            Self::Marks => (125, 10),
            Self::Local => (100, 0),
        }
    }
}

/// Tokens of a request, by price.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Charge {
    pub(crate) new: u64,
    pub(crate) cached: u64,
}

impl Charge {
    /// Cost in hundredths of an uncached token.
    pub(crate) fn cost(self, rule: Rule) -> u64 {
        let (write, read) = rule.prices();
        self.new * write + self.cached * read
    }
}

/// A prompt as a provider sees it: its blocks, in order.
pub(crate) struct Prompt {
    blocks: Vec<Block>,
}

struct Block {
    text: String,
    is_marked: bool,
    ends_message: bool,
}

impl Block {
    fn plain(text: String) -> Self {
        Self { text, is_marked: false, ends_message: false }
    }
}

impl Prompt {
    /// Reads the blocks of a chat completion's body.
    pub(crate) fn read(body: &[u8]) -> Result<Self, serde_json::Error> {
        let body: Value = serde_json::from_slice(body)?;
        let mut blocks: Vec<Block> = Vec::new();
        if let Some(tools) = body.get("tools") {
            blocks.push(Block::plain(tools.to_string()));
        }
        let messages = body.get("messages").and_then(Value::as_array);
        for message in messages.into_iter().flatten() {
            let role = message.get("role").and_then(Value::as_str);
            let role = role.unwrap_or_default();
            match message.get("content") {
                Some(Value::Array(parts)) => {
                    for (at, part) in parts.iter().enumerate() {
                        let text = part.get("text").and_then(Value::as_str);
                        let text = text.map_or_else(|| part.to_string(), str::to_owned);
                        // Parts of a message follow each other without a break.
                        let start = if at == 0 { role } else { "" };
                        blocks.push(Block {
                            is_marked: part.get("cache_control").is_some(),
                            ..Block::plain(format!("{start}{text}"))
                        });
                    }
                }
                Some(Value::String(text)) => blocks.push(Block::plain(format!("{role}{text}"))),
                _ => blocks.push(Block::plain(role.to_owned())),
            }
            let calls = message.get("tool_calls").and_then(Value::as_array);
            for call in calls.into_iter().flatten() {
                blocks.push(Block::plain(call.to_string()));
            }
            if let Some(last) = blocks.last_mut() {
                last.ends_message = true;
            }
        }
        Ok(Self { blocks })
    }
}

impl Prompt {
    /// Returns the tokens up to the end of each message, in order.
    pub(crate) fn tokens_by_message(&self) -> Vec<u64> {
        let mut bytes = 0;
        let ends = self.blocks.iter().filter_map(|block| {
            bytes += block.text.len();
            block.ends_message.then_some((bytes / TOKEN_BYTES) as u64)
        });
        ends.collect()
    }
}

/// A provider's cache.
pub(crate) struct Cache {
    rule: Rule,
    /// Hashes of the cached prefixes.
    prefixes: HashSet<u64>,
    /// The whole prompt before, for [`Rule::Local`].
    last: String,
}

impl Cache {
    pub(crate) fn new(rule: Rule) -> Self {
        Self { rule, prefixes: HashSet::new(), last: String::new() }
    }

    pub(crate) fn rule(&self) -> Rule {
        self.rule
    }

    /// Charges a prompt, and caches it.
    pub(crate) fn charge(&mut self, prompt: &Prompt) -> Charge {
        let bytes: usize = prompt.blocks.iter().map(|block| block.text.len()).sum();
        let cached = match self.rule {
            Rule::Steps => self.steps(prompt),
            Rule::Marks => self.blocks(prompt, LOOKBACK, |block| block.is_marked),
            Rule::Messages => self.blocks(prompt, usize::MAX, |block| block.ends_message),
            Rule::Local => {
                let whole: String = prompt.blocks.iter().map(|it| &*it.text).collect();
                let pairs = whole.bytes().zip(self.last.bytes());
                let shared = pairs.take_while(|(one, other)| one == other).count();
                self.last = whole;
                shared / TOKEN_BYTES
            }
        };
        let (all, cached) = ((bytes / TOKEN_BYTES) as u64, cached as u64);
        Charge { new: all.saturating_sub(cached), cached: cached.min(all) }
    }

    /// Returns the cached tokens of the prefix, in steps.
    fn steps(&mut self, prompt: &Prompt) -> usize {
        let mut hasher = DefaultHasher::new();
        let bytes = prompt.blocks.iter().flat_map(|block| block.text.bytes());
        let (mut cached, mut at) = (0, 0);
        for byte in bytes {
            byte.hash(&mut hasher);
            at += 1;
            let tokens = at / TOKEN_BYTES;
            if at % (STEP * TOKEN_BYTES) == 0
                && tokens >= LEAST
                && !self.prefixes.insert(hasher.finish())
            {
                cached = tokens;
            }
        }
        cached
    }

    /// Returns the cached tokens of the longest prefix that ends at most `lookback` blocks before a
    /// block that `is_mark`.
    fn blocks(&mut self, prompt: &Prompt, lookback: usize, is_mark: fn(&Block) -> bool) -> usize {
        let mut hasher = DefaultHasher::new();
        let mut bytes = 0;
        let ends: Vec<(u64, usize)> = prompt
            .blocks
            .iter()
            .map(|block| {
                block.text.hash(&mut hasher);
                bytes += block.text.len();
                (hasher.finish(), bytes / TOKEN_BYTES)
            })
            .collect();
        let marks = || {
            let marked = prompt.blocks.iter().enumerate();
            marked.filter(|(_, block)| is_mark(block)).map(|(at, _)| at)
        };
        let found = marks().filter_map(|mark| {
            let searched = ends.get(mark.saturating_sub(lookback - 1)..=mark)?.iter();
            let known =
                |(hash, tokens): &&(u64, usize)| *tokens >= LEAST && self.prefixes.contains(hash);
            searched.rev().find(known).map(|(_, tokens)| *tokens)
        });
        let cached = found.max().unwrap_or(0);
        let written: Vec<u64> = marks().filter_map(|mark| ends.get(mark)).map(|it| it.0).collect();
        self.prefixes.extend(written);
        cached
    }
}
