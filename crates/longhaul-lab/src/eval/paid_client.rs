//! Makes the paid calls: looks each up in the results file, keeps the budget, and records the answer.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bytes::Bytes;
use http::StatusCode;
use parking_lot::Mutex;

use super::results_file::{Entry, EntryKind, ResultsFile};
use super::spending::{CallCost, CallSize, Reserved, Spending};
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

/// The reply to a call, whose cost is still reserved.
struct PaidReply {
    reply: LoopbackReply,
    size: CallSize,
    reserved: Reserved,
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
        let size = || size(call.dialect, &call.body, self.output, self.model.prices);
        let sent = self.pay(EntryKind::Step, &key, size, self.send_step(call));
        let PaidReply { reply, size, reserved } = match sent.await {
            ControlFlow::Continue(paid) => paid,
            ControlFlow::Break(outcome) => return Ok(outcome),
        };
        Self::check_key(self.upstream.base_for(call.dialect), &reply)?;
        let overflows = self.is_overflow(call, &reply, size);
        let part = read_step(call.dialect, &reply.body);
        let usage = part.as_ref().and_then(|part| part.usage);
        let is_answer = reply.status.is_success() && part.is_some() && !overflows;
        let cost = match &usage {
            _ if overflows || !reply.status.is_success() => CallCost::Free,
            Some(usage) => CallCost::Counted(usage),
            None => CallCost::Uncounted,
        };
        let cost = self.spending.lock().settle(reserved, size, cost);
        let kind = if overflows {
            EntryKind::Overflow
        } else if is_answer {
            EntryKind::Step
        } else if self.is_scoring && reply.status == StatusCode::BAD_REQUEST {
            // Every other prompt would be refused for the same reason.
            return Err(LabError::Unanswered(format!("{}: {}", call.place, error_text(&reply))));
        } else {
            return Ok(CallOutcome::Failed(error_text(&reply)));
        };
        let mut entry = Entry::new(kind, &key, call.place.clone(), &self.model.name);
        entry.reply = if is_answer && self.is_scoring {
            let scored = ScoredPrompt::read(&reply.body);
            let scored = scored.ok_or_else(|| LabError::Unanswered(NO_SCORES.to_owned()))?;
            serde_json::to_string(&scored).unwrap_or_default()
        } else {
            String::from_utf8_lossy(&reply.body).into_owned()
        };
        self.record(entry, usage, cost).map(CallOutcome::Recorded)
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
        let reading = ReplyClassifier::for_request(call.dialect, status, &self.rules, facts);
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
        let sent = self.pay(EntryKind::Summary, &key, size, upstream.send(dialect, body));
        let PaidReply { reply, size, reserved } = match sent.await {
            ControlFlow::Continue(paid) => paid,
            ControlFlow::Break(outcome) => return Ok(outcome),
        };
        Self::check_key(upstream.base_for(dialect), &reply)?;
        if !reply.status.is_success() {
            _ = self.spending.lock().settle(reserved, size, CallCost::Free);
            return Ok(CallOutcome::Failed(error_text(&reply)));
        }
        let Some(usage) = (self.read_summary)(dialect, &reply.body) else {
            // A refusal under a status of success.
            _ = self.spending.lock().settle(reserved, size, CallCost::Free);
            return Ok(CallOutcome::Failed(error_text(&reply)));
        };
        let cost = usage.as_ref().map_or(CallCost::Uncounted, CallCost::Counted);
        let cost = self.spending.lock().settle(reserved, size, cost);
        let place = "summary".to_owned();
        let mut entry = Entry::new(EntryKind::Summary, &key, place, &self.summary_model.name);
        entry.reply = String::from_utf8_lossy(&reply.body).into_owned();
        entry.is_stream = !reply.body.trim_ascii_start().starts_with(b"{");
        self.record(entry, usage, cost).map(CallOutcome::Recorded)
    }

    /// Awaits the reply of `send`, and reserves its cost. Breaks off with the outcome if the results file has the
    /// answer under `key`, or if the call is not made or fails.
    async fn pay(
        &self,
        kind: EntryKind,
        key: &str,
        size: impl FnOnce() -> CallSize,
        send: impl Future<Output = Result<LoopbackReply, String>>,
    ) -> ControlFlow<CallOutcome, PaidReply> {
        if let Some(known) = self.results.lock().get(key) {
            return ControlFlow::Break(CallOutcome::Recorded(known.clone()));
        }
        let size = size();
        if !self.is_spending() {
            let is_summary = kind == EntryKind::Summary;
            self.spending.lock().plan(size, is_summary);
            return ControlFlow::Break(CallOutcome::NotSent);
        }
        let Some(reserved) = self.spending.lock().reserve(size) else {
            return ControlFlow::Break(CallOutcome::NotSent);
        };
        match send.await {
            Ok(reply) => ControlFlow::Continue(PaidReply { reply, size, reserved }),
            Err(why) => {
                let mut spending = self.spending.lock();
                _ = spending.settle(reserved, size, CallCost::Uncounted);
                ControlFlow::Break(CallOutcome::Failed(why))
            }
        }
    }

    fn record(
        &self,
        mut entry: Entry,
        usage: Option<Usage>,
        cost: Option<Usd>,
    ) -> Result<Entry, LabError> {
        entry.input_tokens = usage.map(|usage| usage.input);
        entry.output_tokens = usage.and_then(|usage| usage.output);
        entry.cost = cost.map(Usd::as_nanos);
        self.results.lock().add(entry.clone())?;
        Ok(entry)
    }

    /// Fails if the upstream refuses the key: no other call would succeed.
    fn check_key(base: &str, reply: &LoopbackReply) -> Result<(), LabError> {
        if reply.status != StatusCode::UNAUTHORIZED {
            return Ok(());
        }
        Err(LabError::CommandLine(format!(
            "{base} refuses the key ({}); check {}, or the key file of the settings",
            reply.status, KEY_VARIABLE
        )))
    }
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
