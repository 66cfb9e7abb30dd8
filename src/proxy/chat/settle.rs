//! What stays when a reply is relayed: records that were used, windows that were shown.

use http::StatusCode;

use super::super::report::Report;
use super::super::watch::Judged;
use super::Chat;
use super::second::{Met, Second};
use crate::config::Mode;
use crate::metrics::{AgainOutcome, Trigger};
use crate::rewrite::chain::RecordKey;
use crate::rewrite::overflow::{Evidence, Overflow, Verdict};
use crate::rewrite::plan::{Need, Outlook};
use crate::rewrite::record::Record;
use crate::rewrite::reread;
use crate::rewrite::tokens::Tokens;
use crate::rewrite::view::View;
use crate::rewrite::window::count::Pair;
use crate::store::Counted;
use crate::upstream::Download;

/// What became of the second send.
fn outcome(judged: &Judged<Download>) -> AgainOutcome {
    match judged.verdict {
        Verdict::Fine if judged.broke_off => AgainOutcome::BrokeOff,
        Verdict::Fine if judged.response.status().is_success() => AgainOutcome::Accepted,
        Verdict::Overflow(_) => AgainOutcome::Overflow,
        Verdict::FewerBytes
        | Verdict::Fine
        | Verdict::Malformed
        | Verdict::SmallerOutput { .. }
        | Verdict::Unexplained => AgainOutcome::Refused,
    }
}

impl Chat<'_> {
    /// A first reply of this status is relayed: where it is an answer, what was done stays
    /// done.
    pub(in crate::proxy) fn settle(&mut self, outlook: &Outlook, status: StatusCode) {
        if !status.is_success() || self.mode != Mode::On {
            return;
        }
        self.met(&outlook.view);
        self.count_rereads(&outlook.view);
        self.ask_title();
        self.tell_headless(outlook);
        let trigger = if self.compact_now {
            Trigger::Manual
        } else {
            Trigger::Proactive
        };
        self.adopt(outlook, trigger);
        self.keep_in_sight();
        if let Need::Soon(covers) = outlook.need {
            self.prepare_summary(covers, &outlook.view);
        }
    }

    /// Counts what the model asks for once more, unless this is its answer to the same again.
    fn count_rereads(&self, view: &View) {
        let rereads = reread::rereads(self.conversation, view);
        let shared = self.shared();
        if rereads == 0 || shared.bills.has(&self.chains, &self.model) {
            return;
        }
        shared.metrics.rereads.add(rereads as u64);
        if let Some(sighting) = &self.sighting {
            sighting.reread(rereads);
        }
    }

    /// What `outlook` does to the history stays done: every later request starts from it.
    pub(in crate::proxy) fn adopt(&mut self, outlook: &Outlook, trigger: Trigger) {
        if let Some(base) = outlook.base.as_ref().filter(|base| !base.adopted)
            && let Some(key) = self.chains.key_at(base.at)
        {
            self.put_in_use((base.at, key), &base.record, trigger);
            self.shared().guards.used(self.scope);
            self.tell_thrash(&outlook.view);
        }
        if outlook.fresh_digest {
            let inherited = outlook.base.as_ref().and_then(|base| base.record.window);
            self.keep(&outlook.view, inherited, trigger);
            self.tell_thrash(&outlook.view);
        }
    }

    fn put_in_use(&mut self, (at, key): (usize, RecordKey), record: &Record, trigger: Trigger) {
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
        self.adopted = true;
    }

    /// A record in use is kept once more before it lies too far back to be looked up.
    fn keep_in_sight(&self) {
        if let (Some(base), Some(near)) = (&self.known.adopted, self.known.renewal)
            && !self.adopted
        {
            let record = base.record.once_more(base.at);
            self.shared().store.adopt(near, record);
        }
    }

    /// Closes a chat whose second reply is the one that is relayed.
    pub(in crate::proxy) fn close_again(
        &mut self,
        second: &Second,
        judged: &Judged<Download>,
        report: &mut Report,
    ) {
        let outcome = outcome(judged);
        self.shared().metrics.again.add(second.kind(), outcome);
        second.tell(self.conversation, report);
        if outcome == AgainOutcome::Accepted {
            self.accepted_again(second);
        } else {
            self.refused_again(second, judged.verdict);
        }
    }

    /// What was sent in second place was answered.
    fn accepted_again(&mut self, second: &Second) {
        match second {
            Second::Compacted { view, met, .. } => {
                self.met(view);
                self.learn_from(met);
                let window = self.policy.marks.window;
                self.keep(view, Some(window), Trigger::Overflow);
            }
            Second::Elsewhere(outlook) => self.settle(outlook, StatusCode::OK),
            Second::FewerBytes(view) => {
                self.met(view);
                let base = self.known.adopted.as_ref();
                let window = base.and_then(|base| base.record.window);
                self.keep(view, window, Trigger::Bytes);
            }
            Second::Original { why, suspected } => self.blame(*why, *suspected),
            Second::SmallerOutput { view, met } => {
                self.met(view);
                if let Some(met) = met {
                    self.learn_from(met);
                }
            }
        }
    }

    /// What the client gets is a refusal; its next request is the better for it.
    fn refused_again(&self, second: &Second, verdict: Verdict) {
        match verdict {
            Verdict::Malformed => {
                self.suspect_form_of(second);
                self.excuse(second);
            }
            Verdict::Overflow(overflow) => self.overflowed_again(second, &overflow),
            Verdict::Unexplained => self.excuse(second),
            Verdict::FewerBytes | Verdict::Fine | Verdict::SmallerOutput { .. } => {}
        }
    }

    /// It was too large again: how large is known better.
    fn overflowed_again(&self, second: &Second, overflow: &Overflow) {
        let windows = &self.shared().lessons.windows;
        match overflow.evidence {
            Evidence::Stated => {
                let tokens = second.tokens(self.conversation);
                if tokens > windows.of(&self.model).accepted {
                    windows.refused(&self.model, tokens, overflow);
                }
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
    fn learn_from(&self, Met { tokens, overflow }: &Met) {
        if overflow.evidence == Evidence::Silent {
            tracing::info!(
                tokens = tokens.get(),
                "a reply without a word is taken for an overflow, since less was answered"
            );
        } else {
            self.shared()
                .lessons
                .windows
                .refused(&self.model, *tokens, overflow);
        }
    }

    fn met(&self, view: &View) {
        self.trust_form(view);
        self.settle_doubts(view);
        // A reply that nobody looked at may be a refusal under the status of an answer.
        if self.recovers() {
            self.shared()
                .lessons
                .windows
                .accepted(&self.model, view.tokens(self.conversation));
        }
        if let Some((_, key)) = self.chains.lasting() {
            self.shared().store.met(key);
        }
    }

    fn keep(&mut self, view: &View, window: Option<Tokens>, trigger: Trigger) {
        let Some(prefix) = self.chains.reaching(view.reaches()) else {
            return;
        };
        let base = self.known.adopted.as_ref().map(|base| &base.record);
        let done = view.record(self.conversation);
        // Text that a record has already brings the model's own part along.
        let written = [&self.known.ready, &self.known.adopted]
            .into_iter()
            .flatten()
            .map(|found| &found.record)
            .find(|other| done.text.is_some() && other.text == done.text);
        if written.is_some_and(|other| other.summary.is_some()) {
            self.shared().guards.used(self.scope);
        }
        let record = Record {
            summary: written.and_then(|other| other.summary.clone()),
            previous_summary: written.and_then(|other| other.previous_summary.clone()),
            window,
            tokens_before: self.conversation.tokens(),
            tokens_after: view.tokens(self.conversation),
            compaction_count: base.map_or(0, |base| base.compaction_count) + 1,
            model: self.model.clone(),
            ..done
        };
        self.put_in_use(prefix, &record, trigger);
    }
}
