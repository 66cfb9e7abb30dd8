//! Learned facts about each model's window: refused requests, the largest accepted request, and the
//! ends of replies.
//!
//! All facts belong to one caller. A refusal is trusted only as far as it cannot harm the caller's
//! other conversations:
//!
//! - If an accepted request contradicts the refusal, the model's window stays. The proxy then only
//!   holds replies to requests of that size or larger.
//! - A conversation that was refused twice in one turn learns a window for itself alone.
//!
//! Everything learned from a refusal expires after a day.

pub(crate) mod accepted_sizes;
pub(crate) mod conversation_windows;
use crate::learned::MODELS_PER_CALLER;
use crate::learned::model_facts::ModelFacts;
use crate::wall_clock;
use accepted_sizes::{AcceptedSizes, RequestSize};
use conversation_windows::ConversationWindows;
use longhaul_core::collections::two_generation_cache::LockedCache;
use longhaul_core::overflow::{Overflow, ReplyEnd};
use longhaul_core::prefix::keys::PrefixKeys;
use longhaul_core::units::body_limits::BodyLimits;
use longhaul_core::units::tokens::Tokens;
use longhaul_core::window::empty_reply::{EmptyReplyCause, EmptyReplyTracker};
use longhaul_core::window::learned_window::{LearnedWindow, Timestamped};
use longhaul_core::window::reply_signals::{SentSize, WindowDetector};
use longhaul_core::window::token_ratio::{CountSample, TokenRatio};
use longhaul_core::window::{to_two_digits, window_from_refusal, window_from_repeated_refusal};

/// A request of at most this percentage of a window is well below it, whatever the error of the
/// estimate.
const WELL_BELOW_PERCENT: u32 = 75;

/// Lifetime of a refusal, in milliseconds: a day. An operator may restart a server with a larger
/// window. If not, a retry recovers from the next refusal.
pub(crate) const REFUSAL_TTL_MS: u64 = 24 * 60 * 60 * 1_000;

/// Lifetime of a limit on one request or on its body, in milliseconds: an hour. Accounts rise to other tiers, and a
/// limit that still applies is stated again.
const REQUEST_LIMIT_TTL_MS: u64 = 60 * 60 * 1_000;

/// Learned facts about one model's window. Sizes are in estimated tokens.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct LearnedSizes {
    /// The window learned from a refusal or from the end of a reply; the inner `None` once disproved.
    /// A provider that truncates prompts to the window accepts requests of any size, so only
    /// a larger count disproves the window.
    pub(crate) learned: Option<Timestamped<Option<LearnedWindow>>>,
    /// The largest request accepted since `learned` was set.
    pub(crate) largest_accepted: Tokens,
    /// The largest accepted request as published to other processes; longhaul publishes it again
    /// once it has grown by a sixteenth.
    pub(crate) published_accepted: Option<Timestamped<Tokens>>,
    /// The size from which replies are held whatever was accepted, because a refusal contradicted
    /// an accepted request. For text as dense as the refused text, the refusal may be right.
    suspect_from: Option<Timestamped<Tokens>>,
    detector: WindowDetector,
    pub(crate) average_ratio: Option<TokenRatio>,
    /// The average ratio as published to other processes. The average moves with every reply;
    /// longhaul publishes it again once it has moved by a sixteenth.
    pub(crate) published_ratio: Option<Timestamped<TokenRatio>>,
    empty_replies: EmptyReplyTracker,
    /// The accepted requests that prove that a smaller request fits.
    accepted_sizes: AcceptedSizes,
    /// The largest request that the account may send. This is not a window.
    pub(crate) request_limit: Option<Timestamped<Tokens>>,
    /// The limits on the body, which stay in this process.
    body_limits: Option<Timestamped<BodyLimits>>,
}

impl LearnedSizes {
    /// Whether a request of this size is known to fit, which is so in any of three cases:
    ///
    /// - The request has no text.
    /// - The request is well below `limit`, the input that the window in force leaves.
    /// - The model has accepted a request with the same tools that was at least a tenth larger. Above a
    ///   window that the operator set (`is_set`), this proves nothing.
    ///
    /// Requests of a suspect size are never known to fit.
    pub(crate) fn is_known_to_fit(
        &self,
        request: RequestSize,
        limit: Option<Tokens>,
        is_set: bool,
    ) -> bool {
        let tokens = request.tokens;
        let is_doubted = self.suspect_from.is_some_and(|doubted| tokens >= doubted.value);
        let is_above = is_set && limit.is_some_and(|limit| tokens > limit);
        let is_well_below = limit.is_some_and(|limit| tokens <= limit.percent(WELL_BELOW_PERCENT));
        let is_proven = !is_above && self.accepted_sizes.prove(request);
        // A request without text is not too long for any model.
        let is_empty = tokens == Tokens::ZERO;
        (is_empty || is_well_below || is_proven) && !is_doubted
    }

    /// Returns the largest request that the account may send, in estimated tokens, if known.
    pub(crate) fn request_limit(&self) -> Option<Tokens> {
        self.request_limit.map(|limit| limit.value)
    }

    /// Returns the limits on the body as far as they are known.
    pub(crate) fn body_limits(&self) -> BodyLimits {
        self.body_limits.map_or(BodyLimits::UNKNOWN, |limits| limits.value)
    }

    /// Returns the learned window in estimated tokens, if any.
    pub(crate) fn window(&self) -> Option<Tokens> {
        self.learned_window().map(|learned| learned.window)
    }

    /// Returns the learned window with its stated or truncated size, if any.
    pub(crate) fn learned_window(&self) -> Option<LearnedWindow> {
        self.learned?.value
    }

    /// Drops expired refusals, and values stamped by a clock that runs ahead: such values would
    /// override newer ones. A window to which prompts are truncated stays, since learning it again would
    /// cost a conversation part of its prompt.
    fn expire(&mut self) {
        self.learned = self.learned.filter(|lesson| {
            let truncates = |learned: LearnedWindow| learned.truncates_to.is_some();
            let lifetime =
                if lesson.value.is_none_or(truncates) { u64::MAX } else { REFUSAL_TTL_MS };
            is_within(lesson, lifetime)
        });
        let is_new = |doubted: &Timestamped<Tokens>| is_within(doubted, REFUSAL_TTL_MS);
        self.suspect_from = self.suspect_from.filter(is_new);
        self.published_accepted = self.published_accepted.filter(is_new);
        let is_new = |limit: &Timestamped<Tokens>| is_within(limit, REQUEST_LIMIT_TTL_MS);
        self.request_limit = self.request_limit.filter(is_new);
        let limits = self.body_limits;
        self.body_limits = limits.filter(|limits| is_within(limits, REQUEST_LIMIT_TTL_MS));
    }

    fn record_accepted_size(&mut self, request: RequestSize) {
        self.record_accepted(request.tokens);
        // A provider that truncates prompts accepts requests of any size.
        let tokens = request.tokens.min(self.largest_accepted);
        self.accepted_sizes.record(RequestSize { tokens, ..request });
    }

    fn record_accepted(&mut self, request: Tokens) {
        self.empty_replies.record_answer(request);
        let accepted = self.largest_accepted.max(request);
        match self.learned_window() {
            Some(LearnedWindow { window, truncates_to: Some(_), .. }) => {
                self.largest_accepted = accepted.min(window);
            }
            Some(learned) if learned.is_disproved_by(request) => {
                self.set_learned(None);
                self.largest_accepted = accepted;
            }
            Some(_) | None => self.largest_accepted = accepted,
        }
        self.publish_accepted();
    }

    /// Publishes the largest accepted request, unless it grew by less than a sixteenth.
    fn publish_accepted(&mut self) {
        let accepted = self.largest_accepted;
        let published = self.published_accepted.map(|published| published.value);
        if published.is_none_or(|before| accepted > before + before.divided_by(16)) {
            self.published_accepted = Some(stamped(self.published_accepted, accepted));
        }
    }

    /// Records a refusal. Its reason may be other than the size that the error states: the text may
    /// quote a user's words. An accepted request therefore outweighs the refusal, which then only
    /// affects which replies are held.
    fn record_refusal(&mut self, request: Tokens, learned: LearnedWindow) {
        let learned = if request > self.largest_accepted {
            learned.with_accepted_floor(self.largest_accepted)
        } else {
            learned
        };
        if learned.is_disproved_by(self.largest_accepted) {
            self.suspect_sizes_from(request.min(learned.window));
        } else {
            self.set_learned(Some(learned));
        }
    }

    /// Holds replies to requests of this size or larger until they are known to be answered.
    fn suspect_sizes_from(&mut self, from: Tokens) {
        let before = self.suspect_from;
        let from = before.map_or(from, |before| from.min(before.value));
        self.suspect_from = Some(stamped(before, from));
    }

    /// Sets the learned window, or `None` if it proved wrong. An unchanged value is not published
    /// to other processes.
    fn set_learned(&mut self, learned: Option<LearnedWindow>) {
        if self.learned_window() != learned {
            self.learned = Some(stamped(self.learned, learned));
        }
        self.cap_accepted();
    }

    /// Caps the accepted size at the learned window: a larger accepted request proves nothing.
    fn cap_accepted(&mut self) {
        if let Some(window) = self.window() {
            self.largest_accepted = self.largest_accepted.min(window);
            self.accepted_sizes.cap(window);
        }
    }

    /// Records the provider's count of one more request.
    fn record_count(&mut self, sample: CountSample) {
        self.average_ratio = TokenRatio::moving_average(self.average_ratio, sample);
        let Some(ratio) = self.average_ratio else {
            return;
        };
        if self.published_ratio.is_none_or(|shared| ratio.is_far_from(shared.value)) {
            self.published_ratio = Some(stamped(self.published_ratio, ratio));
        }
    }

    fn record_reply_end(&mut self, sent: SentSize, reply_end: &ReplyEnd) -> Option<Tokens> {
        let usage = reply_end.usage;
        // The count of a picture or a file reveals nothing about the token ratio of text.
        if sent.is_text_only
            && let Some(sample) =
                usage.and_then(|usage| CountSample::new(sent.estimate, usage.input))
        {
            self.record_count(sample);
        }
        let note = self.detector.observe_reply(sent, reply_end);
        let truncates_to = self.learned_window().and_then(|learned| learned.truncates_to);
        if truncates_to.is_some_and(|truncates_to| self.detector.largest_prompt() > truncates_to) {
            self.set_learned(None);
        }
        let was = self.window();
        let learned = note?;
        // No larger request was accepted: the accepted one may be this very request, whose reply
        // began well.
        if self.largest_accepted <= sent.estimate {
            self.set_learned(Some(learned));
        } else {
            self.record_refusal(sent.estimate, learned);
        }
        self.window().filter(|&window| was != Some(window))
    }
}

/// Whether a fact was learned within the last `lifetime_ms` milliseconds, and no fast clock stamped it.
pub(crate) fn is_within<T>(fact: &Timestamped<T>, lifetime_ms: u64) -> bool {
    let now = wall_clock::unix_millis();
    fact.is_at_or_after(now.saturating_sub(lifetime_ms)) && !fact.is_ahead_of(now)
}

/// Stamps `value` with the current time, or with a later one that supersedes `before`.
fn stamped<T>(before: Option<Timestamped<T>>, value: T) -> Timestamped<T> {
    Timestamped::superseding(before, wall_clock::unix_millis(), value)
}

#[derive(Default)]
pub(crate) struct LearnedWindows {
    by_model: LockedCache<String, LearnedSizes, MODELS_PER_CALLER>,
    pub(crate) by_conversation: ConversationWindows,
}

impl LearnedWindows {
    pub(crate) fn sizes(&self, model: &str) -> LearnedSizes {
        let mut sizes = self.by_model.lock().get(model).unwrap_or_default();
        sizes.expire();
        sizes
    }

    /// Merges the facts that another process has learned, if any. The later window prevails. If this
    /// process has accepted a larger request, the window is recorded as wrong, for all processes.
    pub(crate) fn merge_remote(&self, model: &str, facts: &ModelFacts) {
        self.update(model, |sizes| {
            let since = wall_clock::unix_millis().saturating_sub(REFUSAL_TTL_MS);
            let remote = facts.accepted.filter(|remote| remote.is_at_or_after(since));
            let remote = remote.map_or(Tokens::ZERO, |accepted| accepted.value);
            let accepted = sizes.largest_accepted.max(remote);
            sizes.published_accepted = sizes.published_accepted.max(facts.accepted);
            sizes.request_limit = sizes.request_limit.max(facts.request_limit);
            if facts.window > sizes.learned {
                sizes.learned = facts.window;
                sizes.cap_accepted();
            }
            if accepted > sizes.largest_accepted {
                sizes.record_accepted(accepted);
            }
            if sizes.average_ratio.is_none() {
                sizes.average_ratio = facts.token_ratio.map(|ratio| ratio.value);
                sizes.published_ratio = facts.token_ratio;
            }
        });
    }

    /// Records that the model accepted a request of this size. Discards a learned window that the
    /// request disproves: it was learned wrongly, or from denser text.
    pub(crate) fn record_accepted(&self, model: &str, request: RequestSize) {
        self.update(model, |it| it.record_accepted_size(request));
    }

    /// Learns the largest request that the account may send, now that a smaller request was accepted.
    pub(crate) fn learn_request_limit(&self, model: &str, request: Tokens, overflow: &Overflow) {
        let limit = to_two_digits(window_from_refusal(request, overflow));
        self.update(model, |it| it.request_limit = Some(stamped(None, limit)));
    }

    /// Learns limits on the body, beside those that are known.
    pub(crate) fn learn_body_limits(&self, model: &str, limits: BodyLimits) {
        self.update(model, |it| {
            // What this upstream aims at is below its limit by now.
            let limits = BodyLimits {
                goal: BodyLimits::of_bytes(limits.bytes).goal,
                ..limits.and(it.body_limits())
            };
            it.body_limits = Some(stamped(None, limits));
        });
    }

    /// Records that the model refused a request of this size, and learns its window unless a larger
    /// request was accepted.
    pub(crate) fn learn_from_refusal(&self, model: &str, request: Tokens, overflow: &Overflow) {
        let learned = LearnedWindow::from_refusal(request, overflow);
        self.update(model, |it| it.record_refusal(request, learned));
    }

    /// Learns a window for this conversation alone from a refusal whose limit is not credible.
    pub(crate) fn learn_for_conversation(
        &self,
        prefix_keys: &PrefixKeys,
        request: Tokens,
        overflow: &Overflow,
    ) {
        let window = to_two_digits(window_from_refusal(request, overflow));
        self.by_conversation.learn(prefix_keys, window);
    }

    /// Records that the retry of a refused request was refused, too. The window that this refusal
    /// reveals applies to this conversation alone, whatever the model accepted from others.
    pub(crate) fn learn_from_second_refusal(
        &self,
        prefix_keys: &PrefixKeys,
        request: Tokens,
        overflow: &Overflow,
    ) {
        let window = to_two_digits(window_from_repeated_refusal(
            request,
            overflow,
            self.by_conversation.get(prefix_keys),
        ));
        self.by_conversation.learn(prefix_keys, window);
    }

    /// Records the end of a reply. Returns the window in use from now on, if it is new.
    pub(crate) fn learn_from_reply_end(
        &self,
        model: &str,
        sent: SentSize,
        reply_end: &ReplyEnd,
    ) -> Option<Tokens> {
        self.update(model, |it| it.record_reply_end(sent, reply_end))
    }

    /// Records an empty reply to a request of this size and returns its likely cause.
    pub(crate) fn record_empty_reply(&self, model: &str, request: Tokens) -> EmptyReplyCause {
        self.update(model, |it| it.empty_replies.record_empty(request))
    }

    pub(crate) fn record_empty_retry(&self, model: &str) {
        self.update(model, |it| it.empty_replies.record_empty_retry());
    }

    pub(crate) fn models(&self) -> Vec<String> {
        self.by_model.lock().keys().cloned().collect()
    }

    /// Drops every limit learned for `model`, in this process and, once published, in all.
    pub(crate) fn forget(&self, model: &str) {
        self.update(model, |it| {
            it.set_learned(None);
            (it.suspect_from, it.request_limit, it.body_limits) = (None, None, None);
            it.empty_replies = EmptyReplyTracker::default();
        });
        self.by_conversation.clear();
    }

    /// Updates the facts about `model` under the lock: many replies end at once, and no update may be
    /// lost.
    fn update<T>(&self, model: &str, change: impl FnOnce(&mut LearnedSizes) -> T) -> T {
        let mut all = self.by_model.lock();
        let before = all.get(model).unwrap_or_default();
        let mut sizes = before;
        sizes.expire();
        let result = change(&mut sizes);
        // A model without learned facts evicts no other.
        if before != sizes {
            all.insert(model.to_owned(), sizes);
        }
        result
    }
}

#[cfg(test)]
mod tests;
