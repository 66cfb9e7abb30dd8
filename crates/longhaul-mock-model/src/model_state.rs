//! The strict model's decision on a request: invalid, too large, or answered.

mod compaction;
mod faults;

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::answer::{AnswerContent, ModelAnswer, first_tool};
use crate::binding::ReasoningBook;
use crate::bound_request::BoundRequest;
use crate::cache::{CountedMessages, PrefixCache};
use crate::judged_request::{JudgedRequest, ModelReply};
#[cfg(feature = "validity")]
use crate::messages::{self, broken_messages_rules};
use crate::options::{
    ChatBehaviour, CompactionFault, FOLLOWED_MARK, ModelOptions, SummaryBehaviour,
};
use crate::reading::{FileReading, ReadStep};
use crate::record::{RequestJournal, RequestKind, SeenRequest, Verdict};
use crate::refusal::{ErrorFamily, OverflowNumbers, RefusalReply};
use crate::request::{Api, Caller, ChatBody};
use crate::responses::{self, StoredResponses};
#[cfg(feature = "validity")]
use crate::server_rules;
use crate::summary;
use crate::thinking::preserved;
use parking_lot::Mutex;

/// The maximum length of a summary in tokens, whatever the requested limit.
const SUMMARY_TOKENS: u64 = 1_000;
/// The maximum length of a summary in tokens if the request has no limit.
const UNLIMITED_OUTPUT: u64 = 4_096;

/// Rules that a request for a count cannot obey: it states no output.
#[cfg(feature = "validity")]
const RULES_ABOUT_OUTPUT: [&str; 2] = ["m-max-tokens-min", "m-thinking-budget"];

/// The maximum bytes of a Messages request.
const MESSAGES_BYTES: usize = 32 << 20;
const TOO_MANY_BYTES: &str = r#"{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}"#;
const NOT_JSON: &str = r#"{"error":{"message":"We could not parse the JSON body of your request.","type":"invalid_request_error","param":null,"code":null}}"#;
const THROTTLED: &str = r#"{"error":{"message":"Rate limit reached for requests","type":"requests","param":null,"code":"rate_limit_exceeded"}}"#;
const FAILED: &str = r#"{"error":{"message":"The server had an error while processing your request","type":"server_error","param":null,"code":null}}"#;
const DECLINED: &str = "I'm sorry, but I can't help with summarising this conversation.";

/// The state shared by all connections.
#[derive(Debug)]
pub(crate) struct ModelState {
    options: Mutex<ModelOptions>,
    history: Mutex<RequestHistory>,
    log: Arc<RequestJournal>,
    /// Whether replies to summary requests are held.
    held: watch::Sender<bool>,
}

/// The history of requests, and the prefixes of the accepted ones.
#[derive(Debug, Default)]
struct RequestHistory {
    cache: PrefixCache,
    last_chat: Option<(Bytes, CountedMessages)>,
    requests: usize,
    /// Number of files that the model has requested.
    asked: usize,
    /// Whether the model has ended its turn in the middle of the files.
    paused: bool,
    /// Responses that the server keeps.
    stored: StoredResponses,
    /// Reasoning that the model issued or met.
    reasoning: ReasoningBook,
}

impl ModelState {
    pub(crate) fn new(options: ModelOptions) -> Self {
        Self {
            options: Mutex::new(options),
            history: Mutex::default(),
            log: Arc::default(),
            held: watch::Sender::default(),
        }
    }

    /// Holds the replies to summary requests, or releases them.
    pub(crate) fn hold_summaries(&self, is_held: bool) {
        self.held.send_replace(is_held);
    }

    /// Waits until replies to summary requests are released.
    pub(crate) async fn released(&self) {
        // This state owns the sender.
        _ = self.held.subscribe().wait_for(|is_held| !*is_held).await;
    }

    pub(crate) fn log(&self) -> &Arc<RequestJournal> {
        &self.log
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut ModelOptions)) {
        change(&mut self.options.lock());
    }

    /// Counts the tokens of a Messages request. The API checks the messages and their thinking as it does
    /// before an answer.
    pub(crate) fn count(&self, body: &Bytes, caller: Caller) -> JudgedRequest {
        let options = self.options.lock().clone();
        let counted = |verdict, reply| {
            JudgedRequest::new(RequestKind::Other, verdict, ModelReply::Refusal(reply))
        };
        let Ok(chat) = ChatBody::parse_as(Api::Messages, body) else {
            return counted(Verdict::Unread, RefusalReply::new(400, "application/json", NOT_JSON));
        };
        let chat = chat.with_caller(caller);
        #[cfg(feature = "validity")]
        if let Some(rule) = broken_messages_rules(chat.original())
            .into_iter()
            .find(|rule| !RULES_ABOUT_OUTPUT.contains(&rule.id))
        {
            return counted(Verdict::Broken(rule.id), rule.refusal());
        }
        if let Some((rule, refusal)) = options.thinking.judge(&chat) {
            return counted(Verdict::Broken(rule), refusal);
        }
        // nc-a-count: a count runs the binding check and applies blocks. An order to compact is ignored.
        let bound = BoundRequest::read(&self.history.lock().reasoning, &chat, options.thinking);
        if let Some((rule, refusal)) = bound.as_ref().and_then(|bound| bound.refusal.clone()) {
            return counted(Verdict::Broken(rule), refusal);
        }
        let rendered = bound.as_ref().and_then(|bound| bound.rendered(&chat));
        let tokens = |chat| CountedMessages::count(chat, options.density).tokens();
        let mut count = json!({"input_tokens": tokens(rendered.as_ref().unwrap_or(&chat))});
        let is_edited = preserved::compaction::counts_iterations(&chat);
        if let Some(members) = count.as_object_mut().filter(|_| bound.is_some() && is_edited) {
            let original = json!({"original_input_tokens": tokens(&chat)});
            members.insert("context_management".to_owned(), original);
        }
        let count = count.to_string();
        counted(Verdict::Unread, RefusalReply::new(200, "application/json", count))
    }

    /// Judges a chat request and creates its reply. Stores accepted requests.
    pub(crate) fn judge(&self, api: Api, body: &Bytes, caller: Caller) -> JudgedRequest {
        let options = self.options.lock().clone();
        if api == Api::Messages && body.len() > MESSAGES_BYTES {
            let refusal = RefusalReply::new(413, "application/json", TOO_MANY_BYTES);
            return JudgedRequest::new(
                RequestKind::Chat,
                Verdict::Broken("m-bytes"),
                ModelReply::Refusal(refusal),
            );
        }
        let Ok(chat) = ChatBody::parse_as(api, body) else {
            let refusal = RefusalReply::new(400, "application/json", NOT_JSON);
            return JudgedRequest::new(
                RequestKind::Chat,
                Verdict::Unread,
                ModelReply::Refusal(refusal),
            );
        };
        let mut memory = self.history.lock();
        let chat = chat.with_caller(caller).with_stored(&memory.stored);
        let bound = BoundRequest::read(&memory.reasoning, &chat, options.thinking);
        let rendered = bound.as_ref().and_then(|bound| bound.rendered(&chat));
        let rendered = rendered.as_ref().unwrap_or(&chat);
        let asked = summary::is_summary_request(&chat, options.summary_instruction.as_deref())
            || compaction::is_ordered(&chat, bound.as_ref());
        let kind = if asked { RequestKind::Summary } else { RequestKind::Chat };
        let counted = CountedMessages::count(rendered, options.density);
        memory.requests += 1;
        let mut turn = JudgedRequest::new(kind, Verdict::Accepted, ModelReply::Silence);
        turn.seen.prompt_tokens = counted.tokens();
        turn.seen.max_output = chat.max_output();
        turn.seen.messages = chat.messages().len();
        if let Some((previous, was)) = &memory.last_chat {
            turn.seen.shared_bytes = shared_prefix_bytes(previous, body);
            turn.seen.shared_messages = counted.shared_with(was);
            turn.seen.previous_messages = was.len();
        }
        let is_ordered = compaction::is_ordered(&chat, bound.as_ref());
        let judged = faults::refuse(&chat, is_ordered, options.compaction)
            .or_else(|| refuse_bound(&chat, &options, &memory.reasoning, bound.as_ref()));
        if let Some((verdict, refusal)) =
            judged.or_else(|| refuse(&chat, rendered, &options, &turn.seen))
        {
            turn.seen.verdict = verdict;
            return turn.with_reply(ModelReply::Refusal(refusal));
        }
        if let Some(bound) = &bound {
            turn.seen.dropped.clone_from(&bound.dropped);
            turn.seen.flags.clone_from(&bound.flags);
        }
        let cached = memory.cache.take(&counted);
        turn.seen.cached_tokens = cached.read;
        turn.seen.cache_written_tokens = cached.written;
        let reply = match kind {
            _ if is_ordered => {
                if let CompactionFault::Empty(reason) = options.compaction {
                    let tokens = turn.seen.prompt_tokens;
                    return turn.with_reply(faults::empty(&chat, tokens, reason));
                }
                let reply = compaction::reply(&chat, &options, &turn.seen, bound, &mut memory);
                return turn.with_reply(reply);
            }
            RequestKind::Summary => {
                let transformations = bound.map_or(Value::Null, |bound| bound.transformations);
                summarise(&chat, &options, &turn.seen, memory.requests, transformations)
            }
            RequestKind::Chat | RequestKind::Other => {
                answer_chat(&chat, &options, &turn.seen, &mut memory, bound)
            }
        };
        if kind == RequestKind::Chat {
            memory.last_chat = Some((body.clone(), counted));
        }
        turn.with_reply(reply)
    }
}

/// Returns the rule of bound items that a request breaks, and the refusal for it.
#[cfg_attr(not(feature = "validity"), expect(unused_variables, reason = "rules of validity"))]
fn refuse_bound(
    chat: &ChatBody,
    options: &ModelOptions,
    book: &ReasoningBook,
    bound: Option<&BoundRequest>,
) -> Option<(Verdict, RefusalReply)> {
    #[cfg(feature = "validity")]
    if chat.api() == Api::Responses
        && let Some((rule, refusal)) = responses::bound::refused::judge(chat, book, options.server)
    {
        return Some((Verdict::Broken(rule), refusal));
    }
    let (rule, refusal) = bound?.refusal.clone()?;
    Some((Verdict::Broken(rule), refusal))
}

/// Returns the refusal of an invalid or too large request. `rendered` is the request without what the model
/// dropped.
#[cfg_attr(not(feature = "validity"), expect(unused_variables, reason = "rules of validity"))]
fn refuse(
    chat: &ChatBody,
    rendered: &ChatBody,
    options: &ModelOptions,
    seen: &SeenRequest,
) -> Option<(Verdict, RefusalReply)> {
    #[cfg(feature = "validity")]
    match chat.api() {
        Api::ChatCompletions => {
            if let Some((rule, refusal)) = options.validity.judge(chat) {
                return Some((Verdict::Broken(rule.id), refusal));
            }
        }
        Api::Messages => {
            if let Some(rule) = broken_messages_rules(chat.original()).first() {
                return Some((Verdict::Broken(rule.id), rule.refusal()));
            }
            if let Some((rule, refusal)) = messages::judge_login(chat) {
                return Some((Verdict::Broken(rule), refusal));
            }
        }
        Api::Responses => {
            let waived = responses::bound::refused::waived(chat.model());
            let judged = responses::validity::judge(chat.original(), rendered.original(), waived);
            let caller = || {
                let judged = responses::validity::judge_caller(chat);
                judged.filter(|(rule, _)| !waived.contains(rule))
            };
            if let Some((rule, refusal)) = judged.or_else(caller) {
                return Some((Verdict::Broken(rule), refusal));
            }
        }
    }
    #[cfg(feature = "validity")]
    if let Some((rule, refusal)) = server_rules::judge(options.server, chat.api(), chat.original())
    {
        return Some((Verdict::Broken(rule), refusal));
    }
    if let Some((rule, refusal)) = options.thinking.judge(chat) {
        return Some((Verdict::Broken(rule), refusal));
    }
    let overflow = OverflowNumbers {
        limit: options.window,
        prompt: seen.prompt_tokens,
        output: seen.max_output.unwrap_or(0),
    };
    if !overflow.exceeds_limit() {
        return None;
    }
    let alone = overflow.prompt > overflow.limit;
    let refusal = if alone { &options.refusal } else { &options.sum_refusal };
    // The standard refusal is that of the API.
    let own = [ErrorFamily::OpenAi, ErrorFamily::Anthropic]
        .map(|family| if alone { family.refusal() } else { family.sum_refusal() });
    let [openai, anthropic] = own;
    let is_default = *refusal == openai;
    let is_unstreamed = refusal.is_stream() && !chat.wants_stream();
    if chat.api() == Api::Responses && (is_default || is_unstreamed) {
        return Some((Verdict::Overflowed, responses::overflow()));
    }
    let refusal = if chat.api() == Api::Messages && is_default { &anthropic } else { refusal };
    let filled = if refusal.is_stream() && !chat.wants_stream() {
        ErrorFamily::OpenAi.refusal().with_numbers(overflow)
    } else {
        refusal.with_numbers(overflow)
    };
    Some((Verdict::Overflowed, filled))
}

fn summarise(
    chat: &ChatBody,
    options: &ModelOptions,
    seen: &SeenRequest,
    ordinal: usize,
    transformations: Value,
) -> ModelReply {
    let refused =
        |status, body| ModelReply::Refusal(RefusalReply::new(status, "application/json", body));
    let limit = seen.max_output.unwrap_or(UNLIMITED_OUTPUT);
    let bytes = options.density.bytes(limit.min(SUMMARY_TOKENS));
    let written = || summary::write(chat, options.summary, bytes);
    let say = match options.summary {
        SummaryBehaviour::Empty => AnswerContent::Text(String::new()),
        SummaryBehaviour::Fails => return refused(500, FAILED),
        SummaryBehaviour::Faithful | SummaryBehaviour::Forgetful | SummaryBehaviour::None => {
            let text = written();
            let most = options.density.bytes(limit);
            if text.len() > most { cut(&text, most) } else { AnswerContent::Text(text) }
        }
        SummaryBehaviour::Hangs => return ModelReply::Silence,
        SummaryBehaviour::Refuses => AnswerContent::Text(DECLINED.to_owned()),
        SummaryBehaviour::Throttled => return refused(429, THROTTLED),
        SummaryBehaviour::ToolCall => AnswerContent::Call("read_file".to_owned(), json!({})),
        SummaryBehaviour::Truncated => {
            let text = written();
            cut(&text, text.len() / 2)
        }
    };
    let answer = answer(chat, options, seen, ordinal, say);
    ModelAnswer { transformations, ..answer }.reply(&ChatBehaviour::Steady)
}

fn cut(text: &str, bytes: usize) -> AnswerContent {
    AnswerContent::TextCut(
        text.get(..text.floor_char_boundary(bytes)).unwrap_or_default().to_owned(),
    )
}

fn answer_chat(
    chat: &ChatBody,
    options: &ModelOptions,
    seen: &SeenRequest,
    memory: &mut RequestHistory,
    bound: Option<BoundRequest>,
) -> ModelReply {
    let text = || {
        AnswerContent::Text(format!(
            "I have read {} messages. On with the next step.",
            seen.messages
        ))
    };
    let say = match &options.chat {
        ChatBehaviour::CallsTool => {
            first_tool(chat).map_or_else(text, |name| AnswerContent::Call(name, json!({})))
        }
        ChatBehaviour::Follows => follow(chat),
        ChatBehaviour::HangsAtHead => return ModelReply::Silence,
        ChatBehaviour::Reads(reading) => read_on(reading, chat, memory).unwrap_or_else(text),
        ChatBehaviour::Replies(refusal) => return ModelReply::Refusal(refusal.clone()),
        ChatBehaviour::HangsMidway
        | ChatBehaviour::ResetsMidway
        | ChatBehaviour::Slow(_)
        | ChatBehaviour::Steady => text(),
    };
    let mut answer = answer(chat, options, seen, memory.requests, say);
    if let Some(mut bound) = bound {
        if chat.is_messages() {
            answer.counts_iterations = preserved::compaction::counts_iterations(chat);
            answer.compaction =
                preserved::compaction::at_threshold(chat, seen.prompt_tokens, &mut bound);
        }
        answer.transformations = bound.transformations;
        let names = if chat.is_messages() {
            preserved::issued_names(&answer)
        } else {
            responses::issued_names(&answer)
        };
        if bound.binds {
            memory.reasoning.commit(&bound.prompt, bound.judged, names);
        }
    }
    if chat.api() == Api::Responses {
        memory.stored.keep(&answer);
    }
    answer.reply(&options.chat)
}

/// Returns the step of a model that follows the last mark that it sees.
fn follow(chat: &ChatBody) -> AnswerContent {
    let body = chat.original().to_string();
    let shown = body.rsplit_once(FOLLOWED_MARK).map(|(_, rest)| {
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && !"./-_".contains(c));
        rest.get(..end.unwrap_or(rest.len())).unwrap_or_default()
    });
    match shown {
        Some(path) => AnswerContent::Call("read_file".to_owned(), json!({ "path": path })),
        None => AnswerContent::Text("Which file should I read next?".to_owned()),
    }
}

/// Returns the next step of a reading, or `None` if no tool can read a file.
fn read_on(
    reading: &FileReading,
    chat: &ChatBody,
    memory: &mut RequestHistory,
) -> Option<AnswerContent> {
    match reading.step(chat, memory.asked)? {
        ReadStep::Read(..) if !memory.paused && reading.pauses_after(memory.asked) => {
            memory.paused = true;
            Some(AnswerContent::Text(FileReading::PAUSE.to_owned()))
        }
        ReadStep::Read(name, arguments) => {
            memory.asked += 1;
            Some(AnswerContent::Call(name, arguments))
        }
        ReadStep::End => Some(AnswerContent::Text(FileReading::END.to_owned())),
    }
}

fn answer<'a>(
    chat: &'a ChatBody,
    options: &ModelOptions,
    seen: &SeenRequest,
    ordinal: usize,
    say: AnswerContent,
) -> ModelAnswer<'a> {
    let completion_tokens = match &say {
        AnswerContent::Call(name, arguments) => {
            options.density.text_tokens(name) + options.density.text_tokens(&arguments.to_string())
        }
        AnswerContent::Text(text) | AnswerContent::TextCut(text) => {
            options.density.text_tokens(text)
        }
    };
    ModelAnswer {
        chat,
        content: say,
        thinking: options.thinking.sign(chat, ordinal),
        compaction: None,
        counts_iterations: false,
        transformations: Value::Null,
        prompt_tokens: seen.prompt_tokens,
        cached_tokens: seen.cached_tokens,
        cache_written_tokens: seen.cache_written_tokens,
        completion_tokens,
        price: options.price,
        ordinal,
    }
}

/// Returns the number of leading bytes that two bodies share.
fn shared_prefix_bytes(one: &[u8], other: &[u8]) -> usize {
    const BLOCK: usize = 4_096;
    // Whole blocks compare at memory speed; only the differing block is compared by byte.
    let blocks = one.chunks(BLOCK).zip(other.chunks(BLOCK));
    let same = blocks.take_while(|(a, b)| a == b).map(|(a, _)| a.len()).sum::<usize>();
    let pairs = one.iter().skip(same).zip(other.iter().skip(same));
    same + pairs.take_while(|(a, b)| a == b).count()
}
