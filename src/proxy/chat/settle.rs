//! What stays when a reply is relayed: records that were used, windows that were shown.

use http::{Response, StatusCode};

use super::super::account::Account;
use super::super::watch::Judged;
use super::Chat;
use super::attempt::Attempt;
use super::second::{Second, TooLarge};
use crate::config::Mode;
use crate::metrics::{Act, AgainOutcome, Trigger};
use crate::rewrite::chain::RecordKey;
use crate::rewrite::overflow::{Evidence, Overflow, Verdict};
use crate::rewrite::plan::{Need, Outlook};
use crate::rewrite::record::{Known, Record};
use crate::rewrite::reread;
use crate::rewrite::tokens::Tokens;
use crate::rewrite::view::View;
use crate::rewrite::window::count::Pair;
use crate::store::Counted;
use crate::summarise::is_too_busy;
use crate::upstream::{Download, Held};

/// What became of an attempt.
fn outcome(judged: &Judged<Download>) -> AgainOutcome {
    match judged.verdict {
        Verdict::Fine if judged.broke_off => AgainOutcome::BrokeOff,
        Verdict::Fine if judged.response.status().is_success() => AgainOutcome::Accepted,
        Verdict::Overflow(_) => AgainOutcome::Overflow,
        Verdict::Failed
        | Verdict::FewerBytes
        | Verdict::Fine
        | Verdict::Malformed
        | Verdict::SmallerOutput { .. }
        | Verdict::Unexplained => AgainOutcome::Refused,
    }
}

/// A record was adopted, which other processes must see before the next request.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub(super) struct Adopted;

impl Chat<'_> {
    /// The end of an attempt whose reply is relayed: what it shows is kept and told, and it is looked
    /// at as it passes.
    pub(in crate::proxy) async fn close(
        &self,
        attempt: &Attempt,
        judged: Judged<Download>,
        account: &mut Account,
    ) -> Response<Held<Download>> {
        let adopted = self.settle(attempt, &judged);
        self.spread(adopted).await;
        account.report(attempt.report.clone());
        let status = judged.response.status();
        // Elsewhere a summary takes no chat's place.
        if is_too_busy(status) && self.shared().summariser.is_none() {
            self.shared().guards.chat_was_throttled(self.came.scope);
        }
        let observer = self.observer(attempt, &judged.response);
        let gave_up = attempt.report.acts().contains(&Act::GaveUp);
        // An answer that nobody looks at.
        if observer.is_none() && status == StatusCode::OK && !gave_up {
            self.is_charged(self.billed(attempt));
        }
        account.observe(observer);
        self.came
            .proxy
            .with_report(judged.response, &attempt.report)
    }

    /// The end of one that is sent to nobody: the agent goes on with what was made. A digest is made
    /// whoever asks, with whatever key, and all callers share the room for records: it is kept where an
    /// upstream has answered this caller in this conversation.
    pub(in crate::proxy) async fn close_by_hand(&self, attempt: &Attempt) {
        if attempt.outlook.fresh_digest && !attempt.basis.known.seen {
            tracing::debug!(
                "a digest made by hand is not kept: no upstream has answered this caller in this conversation"
            );
            return;
        }
        let adopted = self.adopt(attempt, Trigger::Manual);
        self.spread(adopted).await;
    }

    /// Counts what became of a second send.
    pub(in crate::proxy) fn count(&self, attempt: &Attempt, outcome: AgainOutcome) {
        if let Some(second) = attempt.second {
            self.shared().metrics.again.add(second.kind(), outcome);
        }
    }

    /// What an attempt shows is kept.
    fn settle(&self, attempt: &Attempt, judged: &Judged<Download>) -> Option<Adopted> {
        let outcome = outcome(judged);
        self.count(attempt, outcome);
        match (attempt.second, outcome == AgainOutcome::Accepted) {
            (None, true) => self.stays(attempt),
            (None, false) => None,
            (Some(second), true) => self.accepted_again(attempt, second),
            (Some(second), false) => {
                self.refused_again(attempt, second, judged.verdict);
                None
            }
        }
    }

    /// What was learned and adopted is told to other processes before the client can ask one of
    /// them. That is waited for only where a record was adopted: once a compaction.
    async fn spread(&self, adopted: Option<Adopted>) {
        let shared = self.shared();
        shared.lessons.tell(&self.model);
        if let Some(Adopted) = adopted {
            shared.store.spread().await;
        }
    }

    /// What was planned was answered: what it does stays done.
    fn stays(&self, attempt: &Attempt) -> Option<Adopted> {
        if self.mode != Mode::On {
            return None;
        }
        self.accepted(attempt);
        self.count_rereads(attempt.view());
        self.ask_title();
        self.tell_headless(&attempt.outlook);
        let trigger = if self.compact_now {
            Trigger::Manual
        } else {
            Trigger::Proactive
        };
        let adopted = self.adopt(attempt, trigger);
        if adopted.is_none() {
            self.keep_in_sight(&attempt.basis.known);
        }
        if let Need::Soon(covers) = attempt.outlook.need {
            self.prepare_summary(attempt, covers);
        }
        adopted
    }

    /// Counts what the model asks for once more, unless this is its answer to the same again.
    fn count_rereads(&self, view: &View) {
        let rereads = reread::rereads(self.came.conversation, view);
        let shared = self.shared();
        if rereads == 0 || shared.bills.has(&self.chains, &self.model) {
            return;
        }
        shared.metrics.rereads.add(rereads as u64);
        if let Some(sighting) = &self.sighting {
            sighting.reread(rereads);
        }
    }

    /// What it does to the history stays done: every later request starts from it.
    fn adopt(&self, attempt: &Attempt, trigger: Trigger) -> Option<Adopted> {
        let outlook = &attempt.outlook;
        let mut adopted = None;
        self.used_elsewhere(outlook);
        if let Some(base) = outlook.base.as_ref().filter(|base| !base.adopted)
            && let Some(key) = self.chains.key_at(base.at)
        {
            adopted = Some(self.put_in_use((base.at, key), &base.record, trigger));
            self.shared().guards.used(self.came.scope, &self.chains);
            self.tell_thrash(&outlook.view);
        }
        if outlook.fresh_digest {
            let inherited = outlook.base.as_ref().and_then(|base| base.record.window);
            adopted = self.keep(attempt, inherited, trigger).or(adopted);
            self.tell_thrash(&outlook.view);
        }
        adopted
    }

    /// A summary that was made here may have been put in use by another process.
    fn used_elsewhere(&self, outlook: &Outlook) {
        let base = outlook.base.as_ref();
        let base = base.filter(|base| base.adopted && base.record.summary.is_some());
        let covers = base.map(|base| base.record.compacted_message_count);
        if let Some(key) = covers.and_then(|covers| self.chains.key_at(covers)) {
            let guards = &self.shared().guards;
            guards.in_use(self.came.scope, &self.chains, key);
        }
    }

    fn put_in_use(
        &self,
        (at, key): (usize, RecordKey),
        record: &Record,
        trigger: Trigger,
    ) -> Adopted {
        let shared = self.shared();
        // Where another model's lies, it is kept under a longer prefix alone.
        let near = if shared.store.adopt(key, record.clone()) {
            self.chains.nearer_than(at)
        } else {
            self.chains.behind(at)
        };
        if let Some(near) = near {
            shared.store.adopt(near, record.once_more(at));
        }
        shared.metrics.compactions.add(trigger);
        Adopted
    }

    /// A record in use is kept once more before it lies too far back to be looked up.
    fn keep_in_sight(&self, known: &Known) {
        if let (Some(base), Some(near)) = (&known.adopted, known.renewal) {
            let record = base.record.once_more(base.at);
            self.shared().store.adopt(near, record);
        }
    }

    /// What was sent in second place was answered.
    fn accepted_again(&self, attempt: &Attempt, second: Second) -> Option<Adopted> {
        match second {
            Second::Compacted { refused, .. } => {
                self.accepted(attempt);
                self.learn_from(&refused);
                let window = attempt.basis.policy.marks.window;
                self.keep(attempt, Some(window), Trigger::Overflow)
            }
            Second::Elsewhere => self.stays(attempt),
            Second::FewerBytes => {
                self.accepted(attempt);
                let base = attempt.basis.adopted();
                let window = base.and_then(|record| record.window);
                self.keep(attempt, window, Trigger::Bytes)
            }
            Second::Original { why, suspected } => {
                self.blame(why, suspected);
                None
            }
            Second::SmallerOutput { refused } => {
                self.accepted(attempt);
                if let Some(refused) = refused {
                    self.learn_from(&refused);
                }
                None
            }
        }
    }

    /// What the client gets is a refusal; its next request is the better for it.
    fn refused_again(&self, attempt: &Attempt, second: Second, verdict: Verdict) {
        match verdict {
            Verdict::Malformed => {
                if let Second::Compacted { .. } | Second::Elsewhere = second {
                    self.suspect_form(attempt);
                }
                self.excuse(second);
            }
            Verdict::Overflow(overflow) => self.overflowed_again(attempt, second, &overflow),
            Verdict::Unexplained => self.excuse(second),
            Verdict::Failed
            | Verdict::FewerBytes
            | Verdict::Fine
            | Verdict::SmallerOutput { .. } => {}
        }
    }

    /// It was too large again: how large is known better.
    fn overflowed_again(&self, attempt: &Attempt, second: Second, overflow: &Overflow) {
        let windows = &self.shared().lessons.windows;
        match overflow.evidence {
            Evidence::Stated => {
                let tokens = self.tokens(attempt);
                if tokens > windows.of(&self.model).accepted {
                    windows.refused(&self.model, tokens, overflow);
                }
                windows.refused_again(&self.chains, tokens, overflow);
                let pair = overflow.used.and_then(|used| Pair::of(tokens, used));
                if let (Some((_, key)), Some(pair)) = (self.chains.lasting(), pair) {
                    let density = windows.of(&self.model).density;
                    let counted = Counted { pair, density };
                    self.shared().store.count(key, &self.model, counted);
                }
            }
            Evidence::Silent if second.follows_silence() => windows.still_silent(&self.model),
            Evidence::Silent => {}
        }
    }

    /// Less was answered: what came before it was for the size. Silence has many other reasons, and
    /// is this conversation's lesson alone.
    fn learn_from(&self, refused: &TooLarge) {
        let TooLarge { tokens, overflow } = refused;
        if refused.is_silent() {
            tracing::info!(
                tokens = tokens.get(),
                "a reply without a word is taken for an overflow, since less was answered"
            );
        } else {
            let windows = &self.shared().lessons.windows;
            windows.refused(&self.model, *tokens, overflow);
        }
    }

    fn accepted(&self, attempt: &Attempt) {
        self.trust_form(attempt);
        self.settle_doubts(attempt.view());
        // A reply that nobody looked at may be a refusal under the status of an answer.
        if self.recovers() {
            let windows = &self.shared().lessons.windows;
            let tokens = self.tokens(attempt);
            windows.accepted(&self.model, tokens);
            windows.accepted_own(&self.chains, tokens);
        }
        if let Some((_, key)) = self.chains.lasting() {
            self.shared().store.met(key);
        }
    }

    fn keep(&self, attempt: &Attempt, window: Option<Tokens>, trigger: Trigger) -> Option<Adopted> {
        let (conversation, view) = (self.came.conversation, attempt.view());
        let known = &attempt.basis.known;
        let prefix = self.chains.reaching(view.reaches())?;
        let base = known.adopted.as_ref().map(|base| &base.record);
        let done = view.record(conversation);
        // Text that a record has already brings the model's own part along.
        let written = [&known.ready, &known.adopted]
            .into_iter()
            .flatten()
            .map(|found| &found.record)
            .find(|other| done.text.is_some() && other.text == done.text);
        if written.is_some_and(|other| other.summary.is_some()) {
            self.shared().guards.used(self.came.scope, &self.chains);
        }
        let record = Record {
            summary: written.and_then(|other| other.summary.clone()),
            previous_summary: written.and_then(|other| other.previous_summary.clone()),
            window,
            tokens_before: conversation.tokens(),
            tokens_after: view.tokens(conversation),
            compaction_count: base.map_or(0, |base| base.compaction_count) + 1,
            model: self.model.clone(),
            ..done
        };
        Some(self.put_in_use(prefix, &record, trigger))
    }
}
