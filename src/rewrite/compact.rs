//! The ladder: what to do with a request that the model refused as too long.
//!
//! Rungs are cumulative, and the first that fits the target is taken: clearing without the rule's
//! guards, a record or summary or digest in place of history, the newest batch's largest results
//! clipped, giving up. No rung asks a model itself; where one is wanted, the ladder says so and is
//! climbed again with the answer.

use super::conversation::Conversation;
use super::cut_point::{self, Kept};
use super::digest::{self, budgets};
use super::pace::Pace;
use super::plan::Summaries;
use super::policy::{Budgets, Policy};
use super::prune::Fold;
use super::record::{Clip, Found, Known};
use super::replay::{AtTheMark, replay};
use super::splice::Splice;
use super::tokens::Tokens;
use super::view::View;
use super::wording;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// How far up the ladder an attempt stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Rung {
    /// Old results cleared.
    Cleared,
    /// Results of the newest batch clipped.
    Clipped,
    /// A digest in place of history.
    Digest,
    /// A summary, or a record that was ready, in place of history.
    Summary,
}

/// What the ladder came to.
#[derive(Debug)]
pub enum Recovery {
    /// A summary of all before this message is wanted first.
    Ask(usize),
    /// Nothing would fit.
    GiveUp,
    /// Send this.
    Retry(View, Rung),
}

/// Climbs the ladder for a request that was refused as it stood in `refused`. With
/// [`Summaries::Digest`] it never asks: a summary that has come is found as a record that is ready.
pub fn recover(
    conversation: &Conversation<'_>,
    policy: &Policy,
    known: &Known,
    refused: &View,
    summaries: Summaries,
) -> Recovery {
    if !policy.recover {
        return Recovery::GiveUp;
    }
    let ladder = Ladder::new(conversation, policy, known, refused);
    ladder.climb(summaries)
}

struct Ladder<'l, 'a> {
    conversation: &'l Conversation<'a>,
    policy: &'l Policy,
    ready: Option<&'l Found>,
    kept: Kept,
    /// Cleared as far as the rule goes.
    by_rule: View,
    cleared: View,
    target: Tokens,
    fit: Tokens,
    /// At least a tenth has to go: what gains less would be back at the next turn.
    progress: Tokens,
}

impl<'l, 'a> Ladder<'l, 'a> {
    fn new(
        conversation: &'l Conversation<'a>,
        policy: &'l Policy,
        known: &'l Known,
        refused: &View,
    ) -> Self {
        let output = conversation.output();
        let base = known.adopted.as_ref();
        let kept = Kept::of(conversation, policy, base);
        let standing = replay(conversation, policy, kept, base, AtTheMark::Note);
        let (mut fold, clips) = (standing.fold, standing.clips);
        let mut clear = |protect| {
            if let Some(protect) = protect {
                clear_all(&mut fold, protect);
            }
            let mut cleared = View::new(kept, &fold).placing(policy.placement);
            if let Some(base) = base {
                cleared = cleared.after(&base.record);
            }
            cleared.clip(clips.clone());
            cleared
        };
        let [by_rule, cleared] = policy
            .clearing
            .map_or([None; 2], |protects| protects.map(Some))
            .map(&mut clear);
        Self {
            conversation,
            policy,
            ready: known.ready.as_ref(),
            kept,
            by_rule,
            cleared,
            target: policy.marks.target(output),
            fit: policy.marks.fit(output),
            progress: refused.tokens(conversation).percent(90),
        }
    }

    fn climb(&self, summaries: Summaries) -> Recovery {
        for cleared in [&self.by_rule, &self.cleared] {
            if self.suffices(cleared) {
                return Recovery::Retry(cleared.clone(), Rung::Cleared);
            }
        }
        if let Some(ready) = self.ready {
            let view = self.cleared.clone().after(&ready.record);
            if self.suffices(&view) {
                return Recovery::Retry(view, Rung::Summary);
            }
        }
        let messages = self.conversation.messages().len();
        let cut = cut_point::find(self.conversation, self.policy, self.kept, messages);
        let deepest = cut_point::deepest(self.conversation, self.kept, messages);
        let cuts = [cut, deepest.filter(|_| cut != deepest)];
        let mut last = (self.cleared.clone(), Rung::Cleared);
        for cut in cuts
            .into_iter()
            .flatten()
            .filter(|&cut| cut > self.cleared.covers())
        {
            if summaries == Summaries::Model && self.could_suffice(cut) {
                return Recovery::Ask(cut);
            }
            let view = self.covered(cut, self.digest(cut));
            // What stands for a short history can be longer than it.
            if !self.is_sound(&view) {
                continue;
            }
            last = (view, Rung::Digest);
            if self.suffices(&last.0) {
                return Recovery::Retry(last.0, last.1);
            }
        }
        let (view, rung) = last;
        // Results that can be clipped give way to what was asked.
        let cut = view.covers();
        let budgets = self.budgets(cut);
        if rung == Rung::Digest && budgets.requests > Tokens::ZERO {
            let whole = self.clip(self.covered(cut, self.text(cut, &budgets)));
            if let Recovery::Retry(view, _) = &whole
                && self.is_enough(view.tokens(self.conversation))
            {
                return whole;
            }
        }
        self.clip(view)
    }

    /// The largest results behind the cut clipped, smaller and smaller, until it fits.
    fn clip(&self, mut view: View) -> Recovery {
        let messages = self.conversation.messages();
        let mut results: Vec<(Tokens, usize)> = (view.covers()..messages.len())
            .filter_map(|at| Some((messages.get(at)?, at)))
            .filter(|&(message, at)| message.role.answers() && !view.clears(at))
            .map(|(message, at)| (message.text_tokens, at))
            .collect();
        results.sort_by(|one, other| other.cmp(one));
        // Many results may have to be clipped for a request to fit, so its size is kept with them.
        let mut tokens = view.tokens(self.conversation);
        let mut clips: BTreeMap<usize, Clip> = view.clips_by_message();
        for end in Clip::SIZES {
            for &(size, message) in &results {
                let Some(clip) = Clip::of(message, size, end) else {
                    break;
                };
                let before = clips.insert(message, clip);
                let before = before.map(|before| before.saves(size));
                tokens = tokens + before.unwrap_or_default() - clip.saves(size);
                if self.is_enough(tokens) {
                    view.clip(clips.values().copied());
                    if self.is_sound(&view) {
                        return Recovery::Retry(view, Rung::Clipped);
                    }
                }
            }
        }
        view.clip(clips.into_values());
        if tokens <= self.fit && tokens <= self.progress && self.is_sound(&view) {
            Recovery::Retry(view, Rung::Clipped)
        } else {
            Recovery::GiveUp
        }
    }

    fn suffices(&self, view: &View) -> bool {
        self.is_enough(view.tokens(self.conversation)) && self.is_sound(view)
    }

    fn is_enough(&self, tokens: Tokens) -> bool {
        tokens <= self.target && tokens <= self.progress
    }

    /// Whether its bytes could be sent: a rung that they cannot be made of is none.
    fn is_sound(&self, view: &View) -> bool {
        view.plan(self.conversation)
            .is_some_and(|plan| Splice::of(self.conversation, &plan).is_some())
    }

    /// Whether a summary could bring it down to the target: nobody is asked to write what cannot
    /// be used.
    fn could_suffice(&self, cut: usize) -> bool {
        self.beside(cut) + self.budgets(cut).nominal() <= self.target
    }

    /// What stands beside the text that stands for the history before `cut`.
    fn beside(&self, cut: usize) -> Tokens {
        let mut view = self.cleared.clone();
        view.cover(cut, Arc::from(""));
        view.tokens(self.conversation)
    }

    fn covered(&self, cut: usize, text: Arc<str>) -> View {
        let mut view = self.cleared.clone();
        view.cover(cut, text);
        view.set_pace(Pace::afresh(self.conversation.messages().len()));
        view
    }

    /// A digest of the history before `cut` that is enough wherever one without the requests is.
    fn digest(&self, cut: usize) -> Arc<str> {
        let mut budgets = self.budgets(cut);
        let without = Budgets {
            requests: Tokens::ZERO,
            ..budgets
        };
        let taken = self.beside(cut) + Tokens::of_text(&wording::wrap("")) + without.nominal();
        let left = self.target.min(self.progress) - taken;
        budgets.requests = budgets.requests.min(left);
        self.text(cut, &budgets)
    }

    fn text(&self, cut: usize, budgets: &Budgets) -> Arc<str> {
        let history = self.kept.end..cut;
        digest::wrapped(self.conversation, history, self.stays(cut), budgets)
    }

    fn budgets(&self, cut: usize) -> Budgets {
        budgets(self.conversation, self.policy, self.kept.end..cut)
    }

    /// What stands behind a cut, and will stand as long as it does: what is neither cleared nor may be
    /// clipped on a higher rung.
    fn stays(&self, cut: usize) -> Range<usize> {
        let newest = self
            .conversation
            .newest_unit(self.conversation.messages().len());
        if self.policy.clears_by_itself() {
            return newest..newest;
        }
        let cleared = (cut..newest).rev().find(|&at| self.cleared.clears(at));
        cleared.map_or(cut, |at| at + 1)..newest
    }
}

/// Clears all that the rule without its guards would.
fn clear_all(fold: &mut Fold, protect: Tokens) {
    fold.reach(protect);
    fold.advance();
}

#[cfg(test)]
mod tests;
