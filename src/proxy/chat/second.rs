//! What is sent after a first reply that was no answer.

use super::Chat;
use crate::rewrite::compact::{Recovery, Rung, recover};
use crate::rewrite::images;
use crate::rewrite::overflow::{Evidence, Overflow, Verdict};
use crate::rewrite::plan::{Outlook, Summaries};
use crate::rewrite::policy::Policy;
use crate::rewrite::tokens::Tokens;
use crate::rewrite::view::View;
use crate::rewrite::window::policy_window;

/// Between our count of a prompt and the upstream's, where only ours is there: real tokenizers were
/// up to 1.3 times the plain estimate on mixed code and prose.
const DENSER_PERCENT: u32 = 130;
/// Left free when an output is lowered to what the window leaves.
const OUTPUT_MARGIN: Tokens = Tokens::new(256);
/// A reply that only looks like an overflow is one where the request is that near the window.
const NEAR_PERCENT: u32 = 75;

/// What the second send is: exactly one of these.
#[derive(Debug)]
pub(in crate::proxy) enum Second {
    /// The first reply was an overflow.
    Compacted(View, Rung),
    /// The first reply was a limit on bytes.
    FewerBytes(View),
    /// Our rewrite was refused as malformed, and the original is estimated to fit.
    Original,
    /// The history fits, and only the output asked for is too much.
    SmallerOutput(View),
}

impl Chat<'_> {
    /// What is sent after a reply to `first` with this verdict, if anything is.
    pub(in crate::proxy) async fn second(
        &mut self,
        first: &Outlook,
        verdict: Verdict,
    ) -> Option<Second> {
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
            Verdict::Overflow(overflow) => self.overflowed(first, &overflow).await,
            Verdict::SmallerOutput {
                limit,
                input,
                output,
            } => {
                let lowered =
                    self.smaller_output(first, Tokens::new(limit), input.map(Tokens::new));
                if lowered.is_some() {
                    return lowered;
                }
                // No key to lower: the history has to make room for the output.
                let overflow = Overflow {
                    evidence: Evidence::Stated,
                    excess: None,
                    limit: Some(limit.saturating_sub(output)),
                    output: None,
                    used: input,
                };
                self.overflowed(first, &overflow).await
            }
        }
    }

    /// What the ladder says, for a window that the refusal has shown.
    async fn overflowed(&mut self, first: &Outlook, overflow: &Overflow) -> Option<Second> {
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
        let learned = self.shared().windows.refused(&self.model, tokens, overflow);
        self.policy = Policy::new(&self.wishes, policy_window(learned));
        let mut recovery = self.climb(first, self.summaries());
        if let Recovery::Ask(covers) = recovery {
            self.wait_for_summary(covers).await;
            recovery = self.climb(first, Summaries::Digest);
        }
        match recovery {
            Recovery::Ask(_) | Recovery::GiveUp => None,
            Recovery::Retry(view, rung) => Some(Second::Compacted(view, rung)),
        }
    }

    fn climb(&self, first: &Outlook, summaries: Summaries) -> Recovery {
        recover(
            self.conversation,
            &self.policy,
            &self.known,
            &first.view,
            summaries,
        )
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
}
