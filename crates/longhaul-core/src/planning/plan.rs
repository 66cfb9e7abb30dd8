//! Planning: which parts of a request to replace, and which summary is still needed.

use crate::conversation::Conversation;
use crate::planning::history_fold::{FoldOutcome, HardThresholdMode, fold};
use crate::planning::view::ForwardedView;
use crate::policy::Policy;
use crate::policy::cut_point;
use crate::policy::cut_point::{PinnedHead, RetainedSteps};
use crate::policy::placement::Placement;
use crate::policy::record::{PriorRecords, RecordMatch};
use crate::policy::segments::SegmentedText;
use crate::policy::thinking_removal::{PriorThinking, StaleThinking, ThinkingRemoval};
use crate::pruning::rule::{Clearing, PruneState};
use crate::summary::digest::summary_budgets;
use crate::summary::segments;
use crate::summary::segments::SegmentPlace;
use crate::units::tokens::Tokens;
use std::borrow::Cow;
use std::sync::Arc;

/// A single replacement in a request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Replacement {
    /// Clips overlong contents in the arguments of a call.
    Arguments {
        /// Index of the message with the call's result.
        result: usize,
    },
    /// Replaces the messages from `from` up to `to` by one user message with `text`.
    History {
        /// First message replaced.
        from: usize,
        /// First message retained.
        to: usize,
        /// Text that replaces them.
        text: SegmentedText,
        /// Placement of the text.
        placement: Placement,
    },
    /// Replaces an image or a document by a marker.
    Image {
        /// Index of the message.
        at: usize,
        /// Index of the image among the message's parts.
        part: usize,
    },
    /// Lowers the requested output limit.
    Output {
        /// New limit.
        tokens: Tokens,
    },
    /// Replaces the content of the result at `at` by `text`, in the original content's shape.
    Result {
        /// Index of the message.
        at: usize,
        /// Text that replaces its content.
        text: Cow<'static, str>,
        /// Whether the result carries the cache mark that longhaul may add.
        marked: bool,
    },
    /// Replaces the messages from `from` up to `to` by an item of the provider, which exempts the item from
    /// its rules for thinking.
    Provider {
        /// First message replaced.
        from: usize,
        /// First message retained.
        to: usize,
        /// Item or message, as JSON.
        item: Arc<str>,
    },
    /// Removes the bound thinking of a message, whole.
    Thinking {
        /// Index of the message.
        at: usize,
    },
    /// Adds a message of the user behind another.
    Words {
        /// Index of the message before it.
        at: usize,
        /// Text of the added message.
        text: Arc<str>,
    },
}

impl Replacement {
    /// Sort key: the index of the message and of its part at which the replacement begins. A call sorts with
    /// its result, so that later breaks only append to the order.
    pub(crate) fn position(&self) -> (usize, usize) {
        match self {
            Self::History { from, .. } | Self::Provider { from, .. } => (*from, 0),
            Self::Image { at, part } => (*at, *part),
            Self::Output { .. } => (usize::MAX, 0),
            Self::Arguments { result: at } | Self::Result { at, .. } | Self::Thinking { at } => {
                (*at, 0)
            }
            Self::Words { at, .. } => (*at, usize::MAX),
        }
    }
}

/// Source of the replacement text.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SummarySource {
    /// A digest, built by rules without a model.
    Digest,
    /// A model, with a digest as the fallback.
    Model,
}

/// Summary that still has to be made; the index is the first message that it does not cover.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SummaryNeed {
    /// No summary is needed.
    Nothing,
    /// Before the request is forwarded: it does not fit without one.
    Now(usize),
    /// In the background, for a later request.
    InBackground(usize),
}

/// Plan for forwarding a request, with any summary still needed.
#[derive(Clone, Debug)]
pub struct RequestPlan {
    /// Conversation as it would be forwarded now.
    pub view: ForwardedView,
    /// Summary that has to be made.
    pub need: SummaryNeed,
    /// Record that the view starts from.
    pub base: Option<RecordMatch>,
    /// Whether the view holds a digest that is not stored in a record yet.
    pub fresh_digest: bool,
    /// Removal of bound thinking that is not stored yet.
    pub removal: Option<ThinkingRemoval>,
    /// Whether only a lack of user messages keeps the rule from clearing results.
    pub blocked_by_turns: bool,
    /// Decisions of the clearing rule, for an explanation of the plan. `None` if the rule was not
    /// applied.
    pub decisions: Option<Arc<RuleDecisions>>,
}

/// Decisions of the clearing rule on the results of a conversation.
#[derive(Debug)]
pub struct RuleDecisions {
    /// Tool results with their decisions.
    pub prune_state: PruneState,
    /// Size of the conversation as the fold measures it.
    pub size: Tokens,
}

impl RequestPlan {
    /// Creates a plan that forwards `view`, needs no summary and has nothing to adopt.
    pub fn from_view(view: ForwardedView) -> Self {
        Self {
            view,
            need: SummaryNeed::Nothing,
            base: None,
            fresh_digest: false,
            removal: None,
            blocked_by_turns: false,
            decisions: None,
        }
    }
}

/// Plans how to forward a request, from its history and its prior records.
pub fn plan(
    conversation: &Conversation<'_>,
    policy: &Policy,
    prior: &PriorRecords,
    summaries: SummarySource,
) -> RequestPlan {
    if conversation.is_stateful() {
        return plan_unmodified(conversation, policy);
    }
    let candidate = |base, mode| Candidate::new(conversation, policy, base, mode, &prior.thinking);
    let adopted = prior.adopted.as_ref();
    let ready = prior.ready.as_ref();
    // The provider's rules tie the item to the first request after its reply.
    let item = ready.filter(|it| policy.settings.proactive && it.record.provider_item().is_some());
    if let Some(swapped) = item.map(|it| candidate(Some(it), HardThresholdMode::Report))
        && swapped.fits()
    {
        return swapped.plan;
    }
    // The prefix breaks where it would without a model: at the threshold, on every replica alike.
    let current = candidate(adopted, HardThresholdMode::Cut);
    if !policy.settings.proactive || summaries == SummarySource::Digest {
        return current.plan;
    }
    if !current.outcome.cut_here {
        // No request has used a summary of a conversation that is new, so none is begun.
        return if prior.seen { plan_between_breaks(current, prior) } else { current.plan };
    }
    let uncut = candidate(adopted, HardThresholdMode::Report);
    if let Some(ready) = ready.map(|it| candidate(Some(it), HardThresholdMode::Extend))
        && ready.serves_instead_of(&current, uncut.fits())
    {
        return ready.plan;
    }
    match uncut.need() {
        _ if !prior.seen => current.plan,
        // The window forces the break.
        need @ SummaryNeed::Now(_) if ready.is_none() => RequestPlan { need, ..uncut.plan },
        // The call is already paid for. A larger request would depend on an exact estimate.
        SummaryNeed::InBackground(_) if prior.pending && uncut.leaves_margin() => uncut.plan,
        need @ SummaryNeed::InBackground(_)
            if policy.settings.by_provider && ready.is_none() && uncut.leaves_margin() =>
        {
            RequestPlan { need, ..uncut.plan }
        }
        // A digest would cost the thinking behind it.
        SummaryNeed::InBackground(cut)
            if prior.pending && policy.settings.by_provider && ready.is_none() =>
        {
            RequestPlan { need: SummaryNeed::Now(cut), ..uncut.plan }
        }
        SummaryNeed::Now(_) | SummaryNeed::InBackground(_) | SummaryNeed::Nothing => current.plan,
    }
}

/// Plans a request that stays below the threshold, or that no digest makes small enough.
fn plan_between_breaks(current: Candidate<'_, '_>, prior: &PriorRecords) -> RequestPlan {
    let Candidate { conversation, policy, .. } = current;
    // An edit removes the thinking after it. The thinking of a finished turn matters least.
    let costs_little_thinking = prior.thinking.stale == StaleThinking::Removed
        && conversation.has_bound_thinking()
        && conversation.messages().last().is_some_and(|it| it.role.is_user());
    let ready = prior.ready.as_ref();
    let ready = ready.filter(|_| current.outcome.size >= policy.thresholds.soft);
    // A record prepared long in advance covers little. It is used if it makes enough room, or if
    // there is nothing else.
    let candidate = |base| {
        let mode = HardThresholdMode::Report;
        Candidate::new(conversation, policy, Some(base), mode, &prior.thinking)
    };
    let (chosen, is_enough) = match ready.map(candidate) {
        Some(ready)
            if !current.fits()
                || (current.outcome.summary_due || costs_little_thinking)
                    && ready.has_headroom() =>
        {
            // A record made for a larger window may leave too much.
            let is_enough = ready.has_headroom() || ready.fits();
            (ready, is_enough)
        }
        Some(ready) => (current, ready.has_headroom()),
        None => (current, false),
    };
    let covered = ready.map_or(0, |it| it.record.compacted_message_count);
    let need = chosen.need();
    let is_made = matches!(need, SummaryNeed::InBackground(cut) if cut <= covered);
    // The text of a failed compaction serves until the next break.
    let has_failed = ready.is_some_and(|it| it.record.provider.is_some());
    let need = if is_enough || is_made || has_failed { SummaryNeed::Nothing } else { need };
    RequestPlan { need, ..chosen.plan }
}

/// Plans to forward the conversation unchanged, for an upstream that accepted it only in that form.
pub fn plan_unmodified(conversation: &Conversation<'_>, policy: &Policy) -> RequestPlan {
    let pinned_head = PinnedHead::new(conversation, policy, None);
    RequestPlan::from_view(ForwardedView::new(pinned_head, &PruneState::default()))
}

/// Like [`plan`], with a digest in place of a needed summary that was not made.
pub fn plan_with_digest(
    conversation: &Conversation<'_>,
    policy: &Policy,
    prior: &PriorRecords,
) -> RequestPlan {
    if conversation.is_stateful() {
        return plan_unmodified(conversation, policy);
    }
    let (base, mode) = (prior.adopted.as_ref(), HardThresholdMode::Cut);
    Candidate::new(conversation, policy, base, mode, &prior.thinking).plan
}

/// Plans an explicit compaction at `cut`, whatever the thresholds: with the record that is ready,
/// or a digest. Returns `None` if that would save nothing.
pub fn plan_explicit_compaction(
    conversation: &Conversation<'_>,
    policy: &Policy,
    prior: &PriorRecords,
    cut: usize,
) -> Option<RequestPlan> {
    if conversation.is_stateful() {
        return None;
    }
    let (base, mode) = (prior.newest(), HardThresholdMode::Report);
    let candidate = Candidate::new(conversation, policy, base, mode, &prior.thinking);
    let (outcome, mut out) = (candidate.outcome, candidate.plan);
    if prior.ready.is_none() && cut > outcome.summarised_until {
        let history = candidate.pinned_head.end..cut;
        let budgets = summary_budgets(conversation, policy, history.clone());
        let place = SegmentPlace {
            earlier: out.view.summary().map(|text| (text, outcome.summarised_until)),
            covered: history,
            retained: cut..cut,
            said_until: cut,
            words: &policy.settings.words,
        };
        let text = segments::with_segment(conversation, &place, None, &budgets);
        out.view.set_replacement(cut, text);
        out.fresh_digest = true;
        out = out.without_stale_thinking(conversation, &prior.thinking);
    }
    let saves = out.view.tokens(conversation) < conversation.tokens();
    (out.view.is_condensed() && saves).then_some(out)
}

/// Candidate plan that starts from a given record, or from none.
struct Candidate<'c, 'a> {
    conversation: &'c Conversation<'a>,
    policy: &'c Policy,
    pinned_head: PinnedHead,
    outcome: FoldOutcome,
    /// Plan without any summary to be made.
    plan: RequestPlan,
    /// Size of the thinking that the plan's edits make stale, beyond that of earlier removals.
    newly_stale: Tokens,
}

impl<'c, 'a> Candidate<'c, 'a> {
    fn new(
        conversation: &'c Conversation<'a>,
        policy: &'c Policy,
        base: Option<&RecordMatch>,
        mode: HardThresholdMode,
        thinking: &PriorThinking,
    ) -> Self {
        let pinned_head = PinnedHead::new(conversation, policy, base);
        let removed = thinking.removed();
        let mut outcome = fold(conversation, policy, pinned_head, base, mode, removed);
        let (results, clips) = (&outcome.prune_state, &outcome.clips);
        let mut view = ForwardedView::of_request(policy, pinned_head, results, base, clips);
        view.set_thrash(outcome.thrash);
        if let Some(text) = &outcome.text {
            view.set_replacement(outcome.summarised_until, text.clone());
        }
        let decisions = RuleDecisions {
            prune_state: std::mem::take(&mut outcome.prune_state),
            size: outcome.size,
        };
        let plan = RequestPlan {
            base: base.cloned(),
            fresh_digest: outcome.cut_here,
            blocked_by_turns: outcome.blocked_by_turns,
            decisions: Some(Arc::new(decisions)),
            ..RequestPlan::from_view(view)
        }
        .without_stale_thinking(conversation, thinking);
        let newly_stale = plan.newly_stale(conversation, thinking);
        Self { conversation, policy, pinned_head, outcome, plan, newly_stale }
    }

    /// Whether the request fits together with its requested output.
    fn fits(&self) -> bool {
        let Policy { thresholds, settings, .. } = self.policy;
        let output = self.conversation.output_tokens();
        // An output as large as the window is lowered to what is left, and a digest would cost thinking.
        let output = output.filter(|it| !settings.by_provider || *it < thresholds.window);
        let fit = thresholds.max_input(output);
        self.plan.view.tokens(self.conversation) <= fit
    }

    /// Returns the size of what the last request did not have.
    fn newest_step(&self) -> Tokens {
        let messages = self.conversation.messages().len();
        let points = self.conversation.request_points();
        let last = points.take_while(|point| *point < messages).last();
        self.conversation.tokens_of(last.unwrap_or_default()..messages)
    }

    /// Whether the size leaves half of the room above the default hard threshold.
    fn leaves_margin(&self) -> bool {
        self.outcome.size <= self.policy.thresholds.capacity.percent(95)
    }

    /// Whether the size is low enough to last a while. User requests in the replacement text are not
    /// counted: like a pinned first message, they never go away.
    fn has_headroom(&self) -> bool {
        let size = self.outcome.size - self.newly_stale;
        size - self.outcome.request_tokens <= self.policy.thresholds.prune_target
    }

    /// Whether this plan, with a summary, is used instead of `digest`. Where the request `fits_uncut`, a digest
    /// is preferred if only the digest lasts a while.
    fn serves_instead_of(&self, digest: &Self, fits_uncut: bool) -> bool {
        let lasts = self.has_headroom() || !digest.has_headroom();
        if fits_uncut {
            self.fits() && lasts || self.has_headroom()
        } else {
            self.fits() || !digest.fits()
        }
    }

    /// Returns the summary needed to continue.
    fn need(&self) -> SummaryNeed {
        let Self { conversation, policy, outcome, .. } = self;
        let messages = conversation.messages().len();
        let decisions = self.plan.decisions.as_ref();
        let no_results = PruneState::default();
        let prune_state = decisions.map_or(&no_results, |it| &it.prune_state);
        let thrash = outcome.thrash.after_compaction(conversation, messages);
        let steps = RetainedSteps {
            results: prune_state,
            clearing: Clearing::UpToLimit,
            room: outcome.steps_room,
        };
        let pinned = self.pinned_head;
        let cut = cut_point::find_adaptive(conversation, policy, steps, thrash, pinned, messages);
        // The record in use has the key of a summary up to there.
        let in_use = self.plan.base.as_ref().map(|it| it.prefix_end);
        let is_free = |cut: &usize| *cut > outcome.summarised_until && Some(*cut) != in_use;
        let Some(cut) = cut.filter(is_free) else {
            return SummaryNeed::Nothing;
        };
        let useful = outcome.can_compact && !outcome.pruning_suffices;
        // The provider's item has to come before the request that no longer fits.
        let next = if policy.settings.by_provider { self.newest_step() } else { Tokens::ZERO };
        if outcome.summary_due && !self.fits() {
            SummaryNeed::Now(cut)
        } else if outcome.size + next >= policy.thresholds.soft && useful {
            SummaryNeed::InBackground(cut)
        } else {
            SummaryNeed::Nothing
        }
    }
}

#[cfg(test)]
mod tests;
