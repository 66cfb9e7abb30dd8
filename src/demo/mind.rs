//! The judgement of the strict model: valid, too large, or what to answer.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::json;

use super::answer::{Answer, Say, first_tool};
use super::cache::{Cache, Weighed};
use super::options::{Conduct, ModelOptions, SummaryConduct};
use super::reading::{Reading, Step};
use super::record::{Kind, Log, Seen, Verdict};
use super::refusal::{Family, Overflow, Refusal};
use super::request::Chat;
use super::summary;
use super::turn::{Reply, Turn};
use crate::lock::Mutex;

/// The longest a summary gets, in tokens, however many were allowed.
const SUMMARY_TOKENS: u64 = 1_000;
/// What a summary is cut to where no limit was sent.
const UNLIMITED_OUTPUT: u64 = 4_096;

const NO_JSON: &str = r#"{"error":{"message":"We could not parse the JSON body of your request.","type":"invalid_request_error","param":null,"code":null}}"#;
const THROTTLED: &str = r#"{"error":{"message":"Rate limit reached for requests","type":"requests","param":null,"code":"rate_limit_exceeded"}}"#;
const FAILED: &str = r#"{"error":{"message":"The server had an error while processing your request","type":"server_error","param":null,"code":null}}"#;
const DECLINED: &str = "I'm sorry, but I can't help with summarising this conversation.";

/// What the connections share.
#[derive(Debug)]
pub(crate) struct Mind {
    options: Mutex<ModelOptions>,
    memory: Mutex<Memory>,
    log: Arc<Log>,
}

/// What it remembers of accepted requests.
#[derive(Debug, Default)]
struct Memory {
    cache: Cache,
    last_chat: Option<(Bytes, Weighed)>,
    requests: usize,
    /// How many files it has asked to read.
    asked: usize,
}

impl Mind {
    pub(crate) fn new(options: ModelOptions) -> Self {
        Self {
            options: Mutex::new(options),
            memory: Mutex::default(),
            log: Arc::default(),
        }
    }

    pub(crate) fn log(&self) -> &Arc<Log> {
        &self.log
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut ModelOptions)) {
        change(&mut self.options.lock());
    }

    /// Judges a chat request and finds its reply; what is accepted is remembered.
    pub(crate) fn read(&self, body: &Bytes) -> Turn {
        let options = self.options.lock().clone();
        let Ok(chat) = Chat::read(body) else {
            let refusal = Refusal::new(400, "application/json", NO_JSON);
            return Turn::new(Kind::Chat, Verdict::Unread, Reply::Refusal(refusal));
        };
        let asked = summary::is_asked(&chat, options.summary_instruction.as_deref());
        let kind = if asked { Kind::Summary } else { Kind::Chat };
        let weighed = Weighed::of(&chat, options.density);
        let mut memory = self.memory.lock();
        memory.requests += 1;
        let mut turn = Turn::new(kind, Verdict::Accepted, Reply::Silence);
        turn.seen.prompt_tokens = weighed.tokens();
        turn.seen.max_output = chat.max_output();
        turn.seen.messages = chat.messages().len();
        if let Some((previous, was)) = &memory.last_chat {
            turn.seen.shared_bytes = shared(previous, body);
            turn.seen.shared_messages = weighed.shared_with(was);
            turn.seen.previous_messages = was.len();
        }
        if let Some((verdict, refusal)) = refuse(&chat, &options, &turn.seen) {
            turn.seen.verdict = verdict;
            return turn.answered(Reply::Refusal(refusal));
        }
        turn.seen.cached_tokens = memory.cache.cached_tokens(&weighed);
        memory.cache.keep(&weighed);
        let reply = match kind {
            Kind::Summary => summarise(&chat, &options, &turn.seen, memory.requests),
            Kind::Chat | Kind::Other => converse(&chat, &options, &turn.seen, &mut memory),
        };
        if kind == Kind::Chat {
            memory.last_chat = Some((body.clone(), weighed));
        }
        turn.answered(reply)
    }
}

fn refuse(chat: &Chat, options: &ModelOptions, seen: &Seen) -> Option<(Verdict, Refusal)> {
    if let Some((rule, refusal)) = options.dialect.judge(chat) {
        return Some((Verdict::Broken(rule.id), refusal));
    }
    let overflow = Overflow {
        limit: options.window,
        prompt: seen.prompt_tokens,
        output: seen.max_output.unwrap_or(0),
    };
    if !overflow.is_one() {
        return None;
    }
    let alone = overflow.prompt > overflow.limit;
    let refusal = if alone {
        &options.refusal
    } else {
        &options.sum_refusal
    };
    let filled = if refusal.is_stream() && !chat.wants_stream() {
        Family::OpenAi.refusal().filled(overflow)
    } else {
        refusal.filled(overflow)
    };
    Some((Verdict::Overflowed, filled))
}

fn summarise(chat: &Chat, options: &ModelOptions, seen: &Seen, ordinal: usize) -> Reply {
    let refused = |status, body| Reply::Refusal(Refusal::new(status, "application/json", body));
    let limit = seen.max_output.unwrap_or(UNLIMITED_OUTPUT);
    let bytes = options.density.bytes(limit.min(SUMMARY_TOKENS));
    let written = || summary::write(chat, options.summary, bytes);
    let say = match options.summary {
        SummaryConduct::Empty => Say::Text(String::new()),
        SummaryConduct::Fails => return refused(500, FAILED),
        SummaryConduct::Faithful | SummaryConduct::Forgetful | SummaryConduct::None => {
            let text = written();
            let most = options.density.bytes(limit);
            if text.len() > most {
                cut(&text, most)
            } else {
                Say::Text(text)
            }
        }
        SummaryConduct::Hangs => return Reply::Silence,
        SummaryConduct::Refuses => Say::Text(DECLINED.to_owned()),
        SummaryConduct::Throttled => return refused(429, THROTTLED),
        SummaryConduct::ToolCall => Say::Call("read_file".to_owned(), json!({})),
        SummaryConduct::Truncated => {
            let text = written();
            cut(&text, text.len() / 2)
        }
    };
    answer(chat, options, seen, ordinal, say).reply(&Conduct::Steady)
}

fn cut(text: &str, bytes: usize) -> Say {
    Say::TextCut(
        text.get(..text.floor_char_boundary(bytes))
            .unwrap_or_default()
            .to_owned(),
    )
}

fn converse(chat: &Chat, options: &ModelOptions, seen: &Seen, memory: &mut Memory) -> Reply {
    let text = || {
        Say::Text(format!(
            "I have read {} messages. On with the next step.",
            seen.messages
        ))
    };
    let say = match &options.chat {
        Conduct::CallsTool => first_tool(chat).map_or_else(text, |name| Say::Call(name, json!({}))),
        Conduct::HangsAtHead => return Reply::Silence,
        Conduct::Reads(reading) => read_on(reading, chat, &mut memory.asked).unwrap_or_else(text),
        Conduct::Replies(refusal) => return Reply::Refusal(refusal.clone()),
        Conduct::HangsMidway | Conduct::ResetsMidway | Conduct::Slow(_) | Conduct::Steady => text(),
    };
    answer(chat, options, seen, memory.requests, say).reply(&options.chat)
}

/// The next step of a reading: none where nothing is offered to read with.
fn read_on(reading: &Reading, chat: &Chat, asked: &mut usize) -> Option<Say> {
    match reading.step(chat, *asked)? {
        Step::Read(name, arguments) => {
            *asked += 1;
            Some(Say::Call(name, arguments))
        }
        Step::End => Some(Say::Text(Reading::END.to_owned())),
    }
}

fn answer<'a>(
    chat: &'a Chat,
    options: &ModelOptions,
    seen: &Seen,
    ordinal: usize,
    say: Say,
) -> Answer<'a> {
    let completion_tokens = match &say {
        Say::Call(name, arguments) => {
            options.density.text(name) + options.density.text(&arguments.to_string())
        }
        Say::Text(text) | Say::TextCut(text) => options.density.text(text),
    };
    Answer {
        chat,
        say,
        prompt_tokens: seen.prompt_tokens,
        cached_tokens: seen.cached_tokens,
        completion_tokens,
        price: options.price,
        ordinal,
    }
}

/// How many bytes two bodies have in common at their front.
fn shared(one: &[u8], other: &[u8]) -> usize {
    const BLOCK: usize = 4_096;
    // Whole blocks compare at memory speed; only the block that differs is looked into.
    let blocks = one.chunks(BLOCK).zip(other.chunks(BLOCK));
    let same = blocks
        .take_while(|(a, b)| a == b)
        .map(|(a, _)| a.len())
        .sum::<usize>();
    let pairs = one.iter().skip(same).zip(other.iter().skip(same));
    same + pairs.take_while(|(a, b)| a == b).count()
}
