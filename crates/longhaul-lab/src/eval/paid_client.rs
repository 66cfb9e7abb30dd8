//! Makes the paid calls: looks each up in the results file, keeps the budget, and records the answer.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bytes::Bytes;
use http::StatusCode;
use parking_lot::Mutex;

use super::results_file::{Entry, EntryKind, ResultsFile};
use super::spending::{CallCost, CallSize, Spending};
use super::upstream_client::{KEY_VARIABLE, UpstreamClient};
use crate::error::LabError;
use crate::evaluation::step_request::scored_prompt::ScoredPrompt;
use crate::evaluation::step_request::{
    OutputKey, asks_for_newer_output_key, read_step, step_request,
};
use crate::proxy::{PricedModel, SummaryReader};
use longhaul_console::loopback_client::LoopbackReply;
use longhaul_core::conversation::Conversation;
use longhaul_core::cost::pricing::TokenPrices;
use longhaul_core::dialect::Dialect;
use longhaul_core::dialect::usage::Usage;
use longhaul_core::overflow::{
    ClassifierRules, ReplyClassifier, RequestFacts, RequestText, Verdict,
};
use longhaul_core::units::tokens::Tokens;
use longhaul_core::units::usd::Usd;
use longhaul_core::window::script_ratio;

/// Maximum output of a summary whose call states no limit.
const SUMMARY_OUTPUT: Tokens = Tokens::new(8_192);

const NO_SCORES: &str = "the upstream returns no log-probabilities of the prompt; --likelihood needs a server that \
     knows prompt_logprobs, such as vLLM";

/// The parts of a run that its calls share.
pub(super) struct PaidClient {
    /// Whether calls are made. Before, they are only added up.
    pub(super) is_spending: AtomicBool,
    pub(super) model: PricedModel,
    /// The model that writes summaries.
    pub(super) summary_model: PricedModel,
    pub(super) upstream: UpstreamClient,
    /// The upstream of summaries, if the settings name one.
    pub(super) summary_upstream: Option<UpstreamClient>,
    pub(super) results: Mutex<ResultsFile>,
    pub(super) spending: Mutex<Spending>,
    pub(super) rules: ClassifierRules,
    pub(super) read_summary: SummaryReader,
    /// Maximum output of a step.
    pub(super) output: Tokens,
    /// The window of the model, if a setting or the table has it.
    pub(super) window: Option<Tokens>,
    /// Calls for summaries that failed. longhaul goes on with a digest then, as it does for any agent.
    pub(super) failed_summaries: AtomicUsize,
    /// Steps that have an outcome.
    pub(super) answers: AtomicUsize,
    /// Whether the upstream demanded the newer key of the output limit.
    pub(super) needs_newer_key: AtomicBool,
    /// Whether recorded steps are scored. Otherwise, the model takes steps of its own.
    pub(super) is_scoring: bool,
}

/// A request for the next step.
pub(super) struct StepCall {
    pub(super) dialect: Dialect,
    /// The request as it came, or as longhaul forwarded it.
    pub(super) body: Bytes,
    /// Number of earlier calls with the same bytes.
    pub(super) repetition: u8,
    /// Session, request and history, for people.
    pub(super) place: String,
}

/// A reply to a call that is paid for.
enum PaidReply {
    /// An answer, or a refusal for the size: its text for the results file, and the counts.
    Answer(EntryKind, String, Option<Usage>),
    /// Neither, at this cost.
    Failed(CallCost),
}

/// The outcome of a call.
pub(super) enum CallOutcome {
    /// The answer, or the refusal for its size.
    Recorded(Entry),
    /// The upstream failed; the text says how.
    Failed(String),
    /// The call was not made: it was planned, or the budget is used up.
    NotSent,
}

impl PaidClient {
    /// Makes calls from now on, instead of adding them up.
    pub(super) fn begin_spending(&self) {
        self.is_spending.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_spending(&self) -> bool {
        self.is_spending.load(Ordering::Relaxed)
    }

    /// Whether a request may fit the model's window: no source has the window, or the expected count
    /// exceeds the window by less than a quarter. Counts differ by about as much. Some local servers
    /// truncate a longer history without a word, so such a request is not sent.
    pub(super) fn may_fit(&self, size: Tokens) -> bool {
        self.window.is_none_or(|window| size.percent(80) <= window)
    }

    /// Returns the expected count of a request.
    pub(super) fn size(&self, dialect: Dialect, body: &[u8]) -> Tokens {
        size(dialect, body, self.output, None).expected
    }

    /// Returns the body that requests the step of `call`. `None` if its body is not a JSON object.
    fn step_body(&self, call: &StepCall, key: OutputKey) -> Option<String> {
        let body = str::from_utf8(&call.body).ok()?;
        step_request(call.dialect, body, self.output, key)
    }

    /// Returns the key of a step. The key of the output limit is not part of it.
    pub(super) fn step_key(&self, call: &StepCall) -> String {
        let body = self.step_body(call, OutputKey::Recorded).unwrap_or_default();
        let repetition = [call.repetition];
        hash(&[
            b"step",
            self.upstream.base_for(call.dialect).as_bytes(),
            call.dialect.path().as_bytes(),
            body.as_bytes(),
            &repetition,
        ])
    }

    /// Requests a step, unless the results file has the answer. Fails if the upstream refuses the
    /// key, or the results file cannot be written.
    pub(super) async fn step(&self, call: &StepCall) -> Result<CallOutcome, LabError> {
        let key = self.step_key(call);
        let entry = Entry::new(EntryKind::Step, &key, call.place.clone(), &self.model.name);
        let size = || size(call.dialect, &call.body, self.output, self.model.prices);
        let read = |reply: &LoopbackReply, size| self.read_step_reply(call, reply, size);
        let base = self.upstream.base_for(call.dialect);
        self.pay(base, entry, size, self.send_step(call), read).await
    }

    /// Reads the reply to a request for a step. Fails if every other call would fail for the same reason.
    fn read_step_reply(
        &self,
        call: &StepCall,
        reply: &LoopbackReply,
        size: CallSize,
    ) -> Result<PaidReply, LabError> {
        let part = read_step(call.dialect, &reply.body);
        let usage = part.as_ref().and_then(|part| part.usage);
        let is_refused = self.is_scoring && reply.status == StatusCode::BAD_REQUEST;
        if self.is_overflow(call, reply, size) {
            Ok(PaidReply::Answer(EntryKind::Overflow, text_of(reply), usage))
        } else if is_refused {
            Err(LabError::Unanswered(format!("{}: {}", call.place, error_text(reply))))
        } else if !reply.status.is_success() {
            Ok(PaidReply::Failed(CallCost::Free))
        } else if part.is_none() {
            Ok(PaidReply::Failed(CallCost::Uncounted))
        } else if self.is_scoring {
            let scored = ScoredPrompt::read(&reply.body);
            let scored = scored.ok_or_else(|| LabError::Unanswered(NO_SCORES.to_owned()))?;
            let text = serde_json::to_string(&scored).unwrap_or_default();
            Ok(PaidReply::Answer(EntryKind::Step, text, usage))
        } else {
            Ok(PaidReply::Answer(EntryKind::Step, text_of(reply), usage))
        }
    }

    async fn send_step(&self, call: &StepCall) -> Result<LoopbackReply, String> {
        let body = |key| {
            let body = self.step_body(call, key);
            body.map(Bytes::from).ok_or_else(|| "the request is no JSON object".to_owned())
        };
        if self.needs_newer_key.load(Ordering::Relaxed) {
            return self.upstream.send(call.dialect, &body(OutputKey::Newer)?).await;
        }
        let recorded = body(OutputKey::Recorded)?;
        let reply = self.upstream.send(call.dialect, &recorded).await?;
        let newer = body(OutputKey::Newer)?;
        let is_refused = reply.status == StatusCode::BAD_REQUEST
            && newer != recorded
            && asks_for_newer_output_key(call.dialect, &reply.body);
        if !is_refused {
            return Ok(reply);
        }
        let again = self.upstream.send(call.dialect, &newer).await?;
        if again.status.is_success() {
            self.needs_newer_key.store(true, Ordering::Relaxed);
        }
        Ok(again)
    }

    /// Whether the reply states that the history does not fit the window.
    fn is_overflow(&self, call: &StepCall, reply: &LoopbackReply, size: CallSize) -> bool {
        let facts = RequestFacts {
            tokens: size.estimate.get(),
            text: RequestText::new(&call.body, call.dialect.path()),
            body_tokens: size.estimate.get(),
            window: self.window.map(Tokens::get),
            largest_accepted: 0,
            model: &self.model.name,
            ..RequestFacts::default()
        };
        let status = reply.status.as_u16();
        let reading = ReplyClassifier::new(call.dialect, status, &self.rules, Some(facts));
        let Some(mut reading) = reading else {
            return false;
        };
        _ = reading.push(&reply.body);
        match reading.finish() {
            Verdict::Overflow(_) | Verdict::BodyTooLarge(_) => true,
            // Without an input count, the output alone is too large.
            Verdict::OutputTooLarge { input, .. } => input.is_some(),
            Verdict::Failed
            | Verdict::Fine
            | Verdict::Malformed
            | Verdict::StaleThinking
            | Verdict::TextTooLong { .. }
            | Verdict::TooMuchMedia
            | Verdict::OutputAboveCap(_)
            | Verdict::Unexplained(_) => false,
        }
    }

    /// Makes a call for a summary, unless the results file has the answer. Fails if the upstream
    /// refuses the key, or the results file cannot be written.
    pub(super) async fn summary(
        &self,
        dialect: Dialect,
        body: &Bytes,
    ) -> Result<CallOutcome, LabError> {
        let upstream = self.summary_upstream.as_ref().unwrap_or(&self.upstream);
        let key = hash(&[
            b"summary",
            upstream.base_for(dialect).as_bytes(),
            dialect.path().as_bytes(),
            body,
        ]);
        let size = || {
            let conversation = dialect.read(body).ok();
            let output = conversation.and_then(|it| it.output_tokens());
            let output = output.unwrap_or(SUMMARY_OUTPUT);
            size(dialect, body, output, self.summary_model.prices)
        };
        let read = |reply: &LoopbackReply, _| {
            let is_success = reply.status.is_success();
            // A refusal may have a status of success.
            let usage = is_success.then(|| (self.read_summary)(dialect, &reply.body)).flatten();
            Ok(usage.map_or(PaidReply::Failed(CallCost::Free), |usage| {
                PaidReply::Answer(EntryKind::Summary, text_of(reply), usage)
            }))
        };
        let place = "summary".to_owned();
        let entry = Entry::new(EntryKind::Summary, &key, place, &self.summary_model.name);
        self.pay(upstream.base_for(dialect), entry, size, upstream.send(dialect, body), read).await
    }

    /// Returns the answer that the results file has under the key of `entry`. Without one, sends the call to
    /// `base`, and records what `read` finds in the reply. Fails if the upstream refuses the key, or the results file
    /// cannot be written.
    async fn pay(
        &self,
        base: &str,
        mut entry: Entry,
        size: impl FnOnce() -> CallSize,
        send: impl Future<Output = Result<LoopbackReply, String>>,
        read: impl FnOnce(&LoopbackReply, CallSize) -> Result<PaidReply, LabError>,
    ) -> Result<CallOutcome, LabError> {
        if let Some(known) = self.results.lock().get(&entry.key) {
            return Ok(CallOutcome::Recorded(known.clone()));
        }
        let (size, is_summary) = (size(), entry.kind == EntryKind::Summary);
        if !self.is_spending() {
            self.spending.lock().plan(size, is_summary);
            return Ok(CallOutcome::NotSent);
        }
        let Some(reserved) = self.spending.lock().reserve(size) else {
            return Ok(CallOutcome::NotSent);
        };
        let reply = match send.await {
            Ok(reply) => reply,
            Err(why) => {
                _ = self.spending.lock().settle(reserved, size, CallCost::Uncounted);
                return Ok(CallOutcome::Failed(why));
            }
        };
        if reply.status == StatusCode::UNAUTHORIZED {
            // No other call would succeed.
            return Err(LabError::CommandLine(format!(
                "{base} refuses the key ({}); check {KEY_VARIABLE}, or the key file of the settings",
                reply.status
            )));
        }
        let read = read(&reply, size)?;
        let cost = match read {
            PaidReply::Failed(cost) => cost,
            PaidReply::Answer(EntryKind::Overflow, ..) => CallCost::Free,
            PaidReply::Answer(_, _, usage) => usage.map_or(CallCost::Uncounted, CallCost::Counted),
        };
        let cost = self.spending.lock().settle(reserved, size, cost);
        let PaidReply::Answer(kind, text, usage) = read else {
            return Ok(CallOutcome::Failed(error_text(&reply)));
        };
        entry.kind = kind;
        entry.is_stream = is_summary && !text.trim_ascii_start().starts_with('{');
        entry.reply = text;
        entry.input_tokens = usage.map(|usage| usage.input);
        entry.output_tokens = usage.and_then(|usage| usage.output);
        entry.cost = cost.map(Usd::as_nanos);
        self.results.lock().add(entry.clone())?;
        Ok(CallOutcome::Recorded(entry))
    }
}

/// Returns the body of a reply as text.
fn text_of(reply: &LoopbackReply) -> String {
    String::from_utf8_lossy(&reply.body).into_owned()
}

/// Returns the size of a call. A body that cannot be read counts a token for four bytes.
fn size(dialect: Dialect, body: &[u8], output: Tokens, prices: Option<TokenPrices>) -> CallSize {
    let quarter = Tokens::new(u32::try_from(body.len() / 4).unwrap_or(u32::MAX));
    let conversation = dialect.read(body).ok();
    let counts = conversation.as_ref().map(|it| {
        let estimate = it.tokens();
        (estimate, script_ratio::predict(it).to_counted(estimate))
    });
    let (estimate, expected) = counts.unwrap_or((quarter, quarter));
    CallSize {
        estimate,
        expected,
        output,
        prices,
        has_cache_mark: conversation.as_ref().is_some_and(Conversation::has_cache_marks),
        has_hour_mark: conversation
            .is_some_and(|it| it.has_cache_marks() && it.body().contains(r#""1h""#)),
    }
}

/// Returns the hash of these parts. The length of each part is hashed too, so that no two lists of parts
/// have the same bytes.
fn hash(parts: &[&[u8]]) -> String {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(&part.len().to_le_bytes());
        hasher.update(part);
    }
    hasher.finalize().to_hex().to_string()
}

/// Returns the status and the message of an error. A reply may repeat the request, so the rest is
/// not shown.
fn error_text(reply: &LoopbackReply) -> String {
    match reply.error_message().filter(|message| !message.is_empty()) {
        Some(message) => format!("{}: {message}", reply.status),
        None => reply.status.to_string(),
    }
}
