//! What is known of one chat, and what is decided for it.

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, StatusCode};

use super::report::{Act, Report};
use super::watch::Holding;
use super::{Shared, headers};
use crate::config::{Mode, Summariser};
use crate::rewrite::bypass::Bypass;
use crate::rewrite::chain::Chains;
use crate::rewrite::compact::{Answer, Recovery, Rung, recover};
use crate::rewrite::conversation::Conversation;
use crate::rewrite::overflow::{Evidence, Overflow, Verdict};
use crate::rewrite::plan::{Outlook, Summaries, plan};
use crate::rewrite::policy::{Policy, Wishes};
use crate::rewrite::record::{Known, Record};
use crate::rewrite::splice::Splice;
use crate::rewrite::tokens::Tokens;
use crate::rewrite::view::View;
use crate::rewrite::window::policy_window;
use crate::rewrite::{chat_completions, images};

/// Between our count of a prompt and the upstream's, where only ours is there: real tokenizers were
/// up to 1.3 times the plain estimate on mixed code and prose.
const DENSER_PERCENT: u32 = 130;
/// Left free when an output is lowered to what the window leaves.
const OUTPUT_MARGIN: Tokens = Tokens::new(256);
/// A reply that only looks like an overflow is one where the request is that near the window.
const NEAR_PERCENT: u32 = 75;

/// What the second send is: exactly one of these.
#[derive(Debug)]
pub(super) enum Second {
    /// The first reply was an overflow.
    Compacted(View, Rung),
    /// The first reply was a limit on bytes.
    FewerBytes(View),
    /// Our rewrite was refused as malformed, and the original is estimated to fit.
    Original,
    /// The history fits, and only the output asked for is too much.
    SmallerOutput(View),
}

/// Reads a chat's body, unless it must go on as it came.
///
/// # Errors
/// The reason for that.
pub(super) fn read<'b>(head: &Parts, body: &'b Bytes) -> Result<Conversation<'b>, Bypass> {
    if headers::is_signed(&head.headers) {
        return Err(Bypass::Signed);
    }
    chat_completions::read(body)
}

/// One chat, with what is known of it.
pub(super) struct Chat<'c> {
    shared: &'c Shared,
    conversation: &'c Conversation<'c>,
    body: &'c Bytes,
    chains: Chains,
    known: Known,
    model: String,
    wishes: Wishes,
    policy: Policy,
}

impl<'c> Chat<'c> {
    /// Looks up what is known of a conversation and works out the policy for it.
    pub(super) fn new(
        shared: &'c Shared,
        headers: &HeaderMap,
        body: &'c Bytes,
        conversation: &'c Conversation<'c>,
    ) -> Self {
        let scope = shared.scopes.of(&shared.config.upstream.base, headers);
        let chains = Chains::of(conversation, scope);
        let known = shared.store.known(&chains);
        let model = conversation.model().into_owned();
        let wishes = shared.config.wishes.clone();
        let kept = known
            .adopted
            .as_ref()
            .filter(|found| found.record.model == model);
        let window = kept
            .and_then(|found| found.record.window)
            .or_else(|| shared.windows.of(&model).window.map(policy_window))
            .unwrap_or(shared.config.window);
        let policy = Policy::new(&wishes, window);
        Self {
            shared,
            conversation,
            body,
            chains,
            known,
            model,
            wishes,
            policy,
        }
    }

    /// Whether replies are held back to see what they are.
    pub(super) fn recovers(&self) -> bool {
        self.policy.recover && self.shared.config.mode == Mode::On
    }

    /// How the request is forwarded.
    pub(super) fn plan(&self) -> Outlook {
        plan(
            self.conversation,
            &self.policy,
            &self.known,
            self.summaries(),
        )
    }

    /// What is sent first.
    pub(super) fn first(&self, outlook: &Outlook) -> Bytes {
        match self.shared.config.mode {
            Mode::On => self
                .spliced(&outlook.view)
                .unwrap_or_else(|| self.body.clone()),
            Mode::Off => self.body.clone(),
        }
    }

    /// What is sent in second place.
    pub(super) fn again(&self, second: &Second) -> Bytes {
        match second {
            Second::Compacted(view, _) | Second::FewerBytes(view) | Second::SmallerOutput(view) => {
                self.spliced(view).unwrap_or_else(|| self.body.clone())
            }
            Second::Original => self.body.clone(),
        }
    }

    /// The bytes of a view that changes something.
    fn spliced(&self, view: &View) -> Option<Bytes> {
        let plan = view.plan(self.conversation)?;
        let splice = Splice::of(self.conversation, &plan);
        if splice.is_none() {
            self.shared.metrics.bypasses.add(Bypass::Unsound);
            tracing::warn!("a rewrite was not sound: the request goes on as it came");
        }
        Some(Bytes::from(splice?.apply()))
    }

    /// What `outlook` does to the request.
    pub(super) fn report(&self, outlook: &Outlook) -> Report {
        let by_model = !outlook.fresh_digest
            && outlook
                .base
                .as_ref()
                .is_some_and(|base| base.record.summary.is_some());
        let mut report = Report::of(self.conversation, &outlook.view, by_model);
        if report.action().is_none() {
            report.bypass = Some(Bypass::Nothing);
        }
        report
    }

    /// How far the reply is held: a request that is proven to fit gets an answer, not an overflow.
    pub(super) fn holding(&self, view: &View) -> Holding {
        let tokens = view.tokens(self.conversation);
        if self.shared.windows.of(&self.model).proves(tokens) {
            Holding::Errors
        } else {
            Holding::Everything
        }
    }

    /// What is sent after a reply to `first` with this verdict, if anything is.
    pub(super) fn second(&mut self, first: &Outlook, verdict: Verdict) -> Option<Second> {
        match verdict {
            Verdict::Fine => None,
            Verdict::FewerBytes => {
                let before = images::before_newest_turn(self.conversation)?;
                let mut view = first.view.clone();
                view.drop_images_before(before);
                Some(Second::FewerBytes(view))
            }
            Verdict::Malformed => {
                let fits = self.policy.marks.fit(self.output());
                let rewritten = first.view.plan(self.conversation).is_some();
                (rewritten && self.conversation.tokens() <= fits).then_some(Second::Original)
            }
            Verdict::Overflow(overflow) => self.overflowed(first, &overflow),
            Verdict::SmallerOutput {
                limit,
                input,
                output,
            } => self
                .smaller_output(first, Tokens::new(limit), input.map(Tokens::new))
                .or_else(|| {
                    // No key to lower: the history has to make room for the output.
                    let limit = limit.saturating_sub(output);
                    let overflow = Overflow {
                        evidence: Evidence::Stated,
                        excess: None,
                        limit: Some(limit),
                        output: None,
                        used: input,
                    };
                    self.overflowed(first, &overflow)
                }),
        }
    }

    /// What the ladder says, for a window that the refusal has shown.
    fn overflowed(&mut self, first: &Outlook, overflow: &Overflow) -> Option<Second> {
        let tokens = first.view.tokens(self.conversation);
        let near = self.policy.marks.window.percent(NEAR_PERCENT);
        if overflow.evidence == Evidence::Silent && tokens < near {
            return None;
        }
        if let (Some(limit), None, Some(_)) = (overflow.limit, overflow.used, overflow.output) {
            let limit = Tokens::new(limit);
            if tokens.percent(DENSER_PERCENT) < limit.percent(NEAR_PERCENT)
                && let Some(second) = self.smaller_output(first, limit, None)
            {
                return Some(second);
            }
        }
        let learned = self.shared.windows.refused(&self.model, tokens, overflow);
        self.policy = Policy::new(&self.wishes, policy_window(learned));
        let answer = Answer::Unasked(Summaries::Digest);
        match recover(
            self.conversation,
            &self.policy,
            &self.known,
            &first.view,
            &answer,
        ) {
            Recovery::Ask(_) | Recovery::GiveUp => None,
            Recovery::Retry(view, rung) => Some(Second::Compacted(view, rung)),
        }
    }

    /// The output lowered to what the window leaves, in the key that the client used.
    fn smaller_output(
        &self,
        first: &Outlook,
        limit: Tokens,
        input: Option<Tokens>,
    ) -> Option<Second> {
        let asked = self.output()?;
        let tokens = first.view.tokens(self.conversation);
        let input = input.unwrap_or_else(|| tokens.percent(DENSER_PERCENT));
        let left = limit - input - OUTPUT_MARGIN;
        if left == Tokens::ZERO || left >= asked {
            return None;
        }
        let mut view = first.view.clone();
        view.ask_for(left);
        Some(Second::SmallerOutput(view))
    }

    /// Closes a chat whose first reply is the one that is relayed.
    pub(super) fn close(
        &self,
        outlook: &Outlook,
        verdict: Verdict,
        status: StatusCode,
        report: &mut Report,
    ) {
        match verdict {
            Verdict::Fine => self.settle(outlook, status),
            Verdict::Overflow(_) => {
                report.add(Act::GaveUp);
                tracing::warn!(
                    tokens = report.after.get(),
                    window = self.policy.marks.window.get(),
                    "Context too large. Compaction failed. Use the header 'x-longhaul-compact: \
                     now' to retry manually."
                );
            }
            Verdict::FewerBytes | Verdict::Malformed | Verdict::SmallerOutput { .. } => {}
        }
    }

    /// A first reply of this status is relayed: where it is an answer, what was done stays done.
    pub(super) fn settle(&self, outlook: &Outlook, status: StatusCode) {
        if !status.is_success() {
            return;
        }
        self.met(&outlook.view);
        if let Some(base) = outlook.base.as_ref().filter(|base| !base.adopted)
            && let Some(key) = self.chains.key_at(base.at)
        {
            self.shared.store.adopt(key, Record::clone(&base.record));
        }
        if outlook.fresh_digest {
            let inherited = outlook.base.as_ref().and_then(|base| base.record.window);
            self.keep(&outlook.view, inherited);
        }
    }

    /// Closes a chat whose second reply is the one that is relayed.
    pub(super) fn close_again(
        &self,
        second: &Second,
        verdict: Verdict,
        status: StatusCode,
        report: &mut Report,
    ) {
        match second {
            Second::Compacted(view, rung) => report.retried(self.conversation, view, *rung),
            Second::FewerBytes(view) => {
                report.add(Act::FewerBytes);
                report.see(self.conversation, view);
            }
            Second::Original => {
                report.add(Act::Original);
                report.after = report.before;
            }
            Second::SmallerOutput(_) => report.add(Act::SmallerOutput),
        }
        if verdict != Verdict::Fine || !status.is_success() {
            return;
        }
        match second {
            Second::Compacted(view, _) => {
                self.met(view);
                self.keep(view, Some(self.policy.marks.window));
            }
            Second::FewerBytes(view) => {
                self.met(view);
                let base = self.known.adopted.as_ref();
                self.keep(view, base.and_then(|base| base.record.window));
            }
            Second::Original => {}
            Second::SmallerOutput(view) => self.met(view),
        }
    }

    fn met(&self, view: &View) {
        self.shared
            .windows
            .accepted(&self.model, view.tokens(self.conversation));
        if let Some((_, key)) = self.chains.newest() {
            self.shared.store.met(key);
        }
    }

    fn keep(&self, view: &View, window: Option<Tokens>) {
        let Some(key) = self.chains.key_reaching(view.reaches()) else {
            return;
        };
        let base = self.known.adopted.as_ref().map(|base| &base.record);
        let record = Record {
            window,
            tokens_before: self.conversation.tokens(),
            tokens_after: view.tokens(self.conversation),
            compaction_count: base.map_or(0, |base| base.compaction_count) + 1,
            model: self.model.clone(),
            ..view.record()
        };
        self.shared.store.adopt(key, record);
    }

    fn output(&self) -> Option<Tokens> {
        self.conversation
            .envelope()
            .output
            .map(|output| output.tokens)
    }

    fn summaries(&self) -> Summaries {
        match self.shared.config.summary.model {
            Summariser::Named(_) | Summariser::Nobody | Summariser::Own => Summaries::Digest,
        }
    }
}
