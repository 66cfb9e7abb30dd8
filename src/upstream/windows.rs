//! What each model has shown of its window: what it refused, the most it has accepted, and what
//! the ends of its replies told.
//!
//! An error is believed as far as it can do no harm to others. One that what was accepted speaks
//! against teaches the model nothing, and only has replies held from that size on; a conversation
//! that was refused twice in a turn is shown by that what it holds itself. All of that is forgotten
//! after a day.

mod own;

use crate::lock::Mutex;
use crate::rewrite::chain::PrefixKeys;
use crate::rewrite::generations::TwoGenerationCache;
use crate::rewrite::overflow::{Overflow, ReplyEnd};
use crate::rewrite::tokens::Tokens;
use crate::rewrite::window::count::{CountSample, TokenRatio};
use crate::rewrite::window::lesson::{LearnedWindow, Timestamped};
use crate::rewrite::window::note::{SentSize, WindowDetector};
use crate::rewrite::window::silence::{EmptyReplyCause, EmptyReplyTracker};
use crate::rewrite::window::{to_two_digits, window_from_repeated_refusal};
use crate::wall_clock;
use own::ConversationWindows;

/// Models remembered at the least, and twice as many at the most; a proxy serves few, and a client may
/// name any.
const MODELS_PER_GENERATION: usize = 512;

/// A request of so many hundredths of a window is well below it, by whatever the estimate is off.
const WELL_BELOW_PERCENT: u32 = 75;

/// How long a refusal is believed, in milliseconds: a day. A server may be started anew with more room,
/// and one more refusal, which is mended, says that it was not.
const REFUSAL_TTL_MS: u64 = 24 * 60 * 60 * 1_000;

/// What a model has shown, in the plain estimate's own units.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct ModelObservations {
    /// The window, learned from a refusal or from the end of a reply, or that it was learned wrongly.
    /// Where the provider cuts prompts to it, it accepts any, and only a larger count tells that this
    /// is not its window.
    pub(crate) learned: Option<Timestamped<Option<LearnedWindow>>>,
    /// The largest request that it accepted since.
    pub(crate) largest_accepted: Tokens,
    /// The size from which a reply is looked at whatever was accepted: a refusal spoke against that. For
    /// text as dense as what was refused it may be right.
    suspect_from: Option<Timestamped<Tokens>>,
    detector: WindowDetector,
    /// What it counts for the plain estimate, on average.
    pub(crate) average_ratio: Option<TokenRatio>,
    /// That average for others: it moves with every reply, and is told again where it has moved by a
    /// sixteenth.
    pub(crate) published_ratio: Option<Timestamped<TokenRatio>>,
    empty_replies: EmptyReplyTracker,
}

impl ModelObservations {
    /// Whether a request of that size is known to fit: one at least as large was accepted, or it
    /// is well below what was learned, or where nothing was, below the operator's word: `set`. None is
    /// of a size that is doubted.
    pub(crate) fn is_known_to_fit(&self, request: Tokens, set: Option<Tokens>) -> bool {
        let window = self.window().or(set);
        let doubted = self
            .suspect_from
            .is_some_and(|doubted| request >= doubted.what);
        let fits = request <= self.largest_accepted
            || window.is_some_and(|window| request <= window.percent(WELL_BELOW_PERCENT));
        fits && !doubted
    }

    /// The window that was learned, if any.
    pub(crate) fn window(&self) -> Option<Tokens> {
        self.learned_window().map(|holds| holds.window)
    }

    /// The same with what it says to other conversations than the one that was refused.
    pub(crate) fn learned_window(&self) -> Option<LearnedWindow> {
        self.learned?.what
    }

    /// A refusal that is too old says nothing any more. A window that prompts are cut to stays: to learn
    /// it again would cost somebody's words. Nothing stays of a clock that ran ahead, by which it would
    /// be new until that date.
    fn expire(&mut self) {
        let now = wall_clock::unix_millis();
        let since = now.saturating_sub(REFUSAL_TTL_MS);
        self.learned = self.learned.filter(|lesson| {
            let refused = lesson.what.is_some_and(|holds| holds.cut_to.is_none());
            let is_old = refused && !lesson.is_at_or_after(since);
            !is_old && !lesson.is_ahead_of(now)
        });
        self.suspect_from = self
            .suspect_from
            .filter(|doubted| doubted.is_at_or_after(since) && !doubted.is_ahead_of(now));
    }

    fn record_accepted(&mut self, request: Tokens) {
        self.empty_replies.record_answer(request);
        let accepted = self.largest_accepted.max(request);
        match self.learned_window() {
            Some(LearnedWindow {
                window,
                cut_to: Some(_),
                ..
            }) => self.largest_accepted = accepted.min(window),
            Some(holds) if holds.is_disproved_by(request) => {
                self.set_learned(None);
                self.largest_accepted = accepted;
            }
            Some(_) | None => self.largest_accepted = accepted,
        }
    }

    /// It refused a request, which may be for any reason but its size, whatever the error says: it
    /// may quote somebody's words. What was accepted counts for more, and only what is held follows
    /// the error all the same.
    fn record_refusal(&mut self, request: Tokens, holds: LearnedWindow) {
        let holds = if request > self.largest_accepted {
            holds.with_accepted_floor(self.largest_accepted)
        } else {
            holds
        };
        if holds.is_disproved_by(self.largest_accepted) {
            self.suspect_sizes_from(request.min(holds.window));
        } else {
            self.set_learned(Some(holds));
        }
    }

    /// Requests from that size on are held until they are seen to be answered.
    fn suspect_sizes_from(&mut self, from: Tokens) {
        let before = self.suspect_from;
        let from = before.map_or(from, |before| from.min(before.what));
        self.suspect_from = Some(Timestamped::superseding(
            before,
            wall_clock::unix_millis(),
            from,
        ));
    }

    /// It holds that much, or what was learned is wrong. The same again is no news to others.
    fn set_learned(&mut self, holds: Option<LearnedWindow>) {
        if self.learned_window() != holds {
            self.learned = Some(Timestamped::superseding(
                self.learned,
                wall_clock::unix_millis(),
                holds,
            ));
        }
        self.cap_accepted();
    }

    /// What was accepted beyond what is taken to be the window proves nothing.
    fn cap_accepted(&mut self) {
        if let Some(window) = self.window() {
            self.largest_accepted = self.largest_accepted.min(window);
        }
    }

    /// Another request was counted.
    fn record_count(&mut self, pair: CountSample) {
        self.average_ratio = TokenRatio::moving_average(self.average_ratio, pair);
        let Some(density) = self.average_ratio else {
            return;
        };
        if self
            .published_ratio
            .is_none_or(|told| density.is_far_from(told.what))
        {
            self.published_ratio = Some(Timestamped::superseding(
                self.published_ratio,
                wall_clock::unix_millis(),
                density,
            ));
        }
    }

    fn record_reply_end(&mut self, sent: SentSize, parting: &ReplyEnd) -> Option<Tokens> {
        let usage = parting.usage;
        // What a picture or a file is counted at says nothing of anybody's text.
        if sent.is_text_only
            && let Some(pair) = usage.and_then(|usage| CountSample::new(sent.estimate, usage.input))
        {
            self.record_count(pair);
        }
        let note = self.detector.observe_reply(sent, parting);
        let cut_to = self.learned_window().and_then(|holds| holds.cut_to);
        if cut_to.is_some_and(|cut_to| self.detector.largest_prompt() > cut_to) {
            self.set_learned(None);
        }
        let was = self.window();
        let holds = note?;
        // Nothing larger was accepted: what was may be this very request, whose reply began well.
        if self.largest_accepted <= sent.estimate {
            self.set_learned(Some(holds));
        } else {
            self.record_refusal(sent.estimate, holds);
        }
        self.window().filter(|&window| was != Some(window))
    }
}

/// What the models of one upstream have shown.
pub(crate) struct LearnedWindows {
    by_model: Mutex<TwoGenerationCache<String, ModelObservations>>,
    /// What conversations were shown for themselves.
    by_conversation: ConversationWindows,
}

impl Default for LearnedWindows {
    fn default() -> Self {
        Self {
            by_model: Mutex::new(TwoGenerationCache::new(MODELS_PER_GENERATION)),
            by_conversation: ConversationWindows::default(),
        }
    }
}

impl LearnedWindows {
    /// What `model` has shown.
    pub(crate) fn observations(&self, model: &str) -> ModelObservations {
        let mut shown = self.by_model.lock().get(model).unwrap_or_default();
        shown.expire();
        shown
    }

    /// Another process has learned this of its window, and tells this average: each if anything. The
    /// window counts where that was later; where more was accepted here, it is wrong for all.
    pub(crate) fn merge_remote(
        &self,
        model: &str,
        learned: Option<Timestamped<Option<LearnedWindow>>>,
        told: Option<Timestamped<TokenRatio>>,
    ) {
        self.update(model, |shown| {
            if learned > shown.learned {
                let accepted = shown.largest_accepted;
                shown.learned = learned;
                shown.cap_accepted();
                shown.record_accepted(accepted);
            }
            if shown.average_ratio.is_none() {
                shown.average_ratio = told.map(|told| told.what);
                shown.published_ratio = told;
            }
        });
    }

    /// It accepted a request of that size. A window that was learned and is smaller was learned
    /// wrongly, or from denser text: it is forgotten.
    pub(crate) fn record_accepted(&self, model: &str, request: Tokens) {
        self.update(model, |shown| shown.record_accepted(request));
    }

    /// It refused a request of that size, which shows its window unless more was accepted.
    pub(crate) fn learn_from_refusal(&self, model: &str, request: Tokens, overflow: &Overflow) {
        let holds = LearnedWindow::from_refusal(request, overflow);
        self.update(model, |shown| shown.record_refusal(request, holds));
    }

    /// The policy window that a conversation was shown for itself alone.
    pub(crate) fn conversation_window(&self, chains: &PrefixKeys) -> Option<Tokens> {
        self.by_conversation.get(chains)
    }

    /// What was sent of a conversation in place of a request that was refused was refused, too, at that
    /// size: for this conversation that is its window, whatever else was accepted.
    pub(crate) fn learn_from_second_refusal(
        &self,
        chains: &PrefixKeys,
        request: Tokens,
        overflow: &Overflow,
    ) {
        let window = to_two_digits(window_from_repeated_refusal(
            request,
            overflow,
            self.conversation_window(chains),
        ));
        self.by_conversation.learn(chains, window);
    }

    /// A request of that size was accepted of a conversation.
    pub(crate) fn record_accepted_in_conversation(&self, chains: &PrefixKeys, request: Tokens) {
        self.by_conversation.record_accepted(chains, request);
    }

    /// The reply to a request has ended, and this is how; says what its window is taken to be from
    /// here on, where that is new.
    pub(crate) fn learn_from_reply_end(
        &self,
        model: &str,
        sent: SentSize,
        parting: &ReplyEnd,
    ) -> Option<Tokens> {
        let mut learned = None;
        self.update(model, |shown| {
            learned = shown.record_reply_end(sent, parting)
        });
        learned
    }

    /// It met a request of that size with silence.
    pub(crate) fn record_empty_reply(&self, model: &str, request: Tokens) -> EmptyReplyCause {
        let mut heard = EmptyReplyCause::PossiblySize;
        self.update(model, |shown| {
            heard = shown.empty_replies.record_empty(request)
        });
        heard
    }

    /// It met with silence what was sent in place of a request that it had met so.
    pub(crate) fn record_empty_retry(&self, model: &str) {
        self.update(model, |shown| shown.empty_replies.record_empty_retry());
    }

    /// Changes what is known of `model`. Many replies end at once, and nothing that one of them
    /// tells is lost.
    fn update(&self, model: &str, change: impl FnOnce(&mut ModelObservations)) {
        let mut all = self.by_model.lock();
        let before = all.get(model).unwrap_or_default();
        let mut shown = before;
        shown.expire();
        change(&mut shown);
        // A model of which nothing is known takes nobody's place.
        if before != shown {
            all.insert(model.to_owned(), shown);
        }
    }
}

#[cfg(test)]
mod tests;
