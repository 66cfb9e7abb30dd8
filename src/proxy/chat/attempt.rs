//! One send of a chat: what it goes by, how the conversation stands in it, and what is told of it.

use http::Response;
use http::request::Parts;
use tokio::time::Instant;

use super::super::headers;
use super::super::observe::{Observed, Observer};
use super::super::report::Report;
use super::super::watch::Holding;
use super::super::whole::Sending;
use super::second::Second;
use super::{Chat, window};
use crate::config::Mode;
use crate::metrics::Act;
use crate::rewrite::bypass::Bypass;
use crate::rewrite::money::Billed;
use crate::rewrite::plan::{Outlook, plan_untouched};
use crate::rewrite::policy::Policy;
use crate::rewrite::record::{Found, Known, Record};
use crate::rewrite::splice::Splice;
use crate::rewrite::tokens::Tokens;
use crate::rewrite::view::View;
use crate::rewrite::window::note::Sent;
use crate::traces::Errand;

/// What a chat is planned by. A summary that was waited for adds to what is known; a refusal gives the
/// second send a policy of its own.
#[derive(Clone, Debug)]
pub(in crate::proxy) struct Basis {
    pub(super) policy: Policy,
    /// What is known of its history.
    pub(super) known: Known,
    /// Until when the request may wait for summaries, once it has begun to.
    pub(super) deadline: Option<Instant>,
}

/// One send of a chat.
#[derive(Debug)]
pub(in crate::proxy) struct Attempt {
    pub(super) basis: Basis,
    pub(super) outlook: Outlook,
    /// Why it is sent in second place; none where it is sent first.
    pub(super) second: Option<Second>,
    /// What is told of it.
    pub(in crate::proxy) report: Report,
}

impl Basis {
    /// The record in use.
    pub(super) fn adopted(&self) -> Option<&Record> {
        self.known.adopted.as_ref().map(|found| &*found.record)
    }
}

impl Attempt {
    /// How the conversation stands in it.
    pub(super) fn view(&self) -> &View {
        &self.outlook.view
    }

    /// What it is made for.
    pub(in crate::proxy) fn errand(&self) -> Errand {
        let second = self.second.map(Second::kind);
        second.map_or(Errand::First, Errand::Again)
    }
}

impl Chat<'_> {
    /// What is known of its history by now, and the policy for it.
    pub(super) fn basis(&self) -> Basis {
        let shared = self.shared();
        let known = shared.store.known(&self.chains);
        let adopted = known.adopted.as_ref().map(|found| &*found.record);
        let policy = self
            .sayings(adopted)
            .counted(&self.wishes, self.came.conversation, || {
                window::counts(shared, &self.model, self.came.conversation, &self.chains)
            });
        Basis {
            policy,
            known,
            deadline: None,
        }
    }

    /// What is sent first, and its body: where a rewrite is not sound, the one that came.
    pub(in crate::proxy) async fn first(&self, mut basis: Basis) -> (Attempt, Sending) {
        let outlook = self.plan(&mut basis).await;
        let spliced = match self.mode {
            Mode::On => self.spliced(&outlook.view),
            Mode::Off | Mode::Shadow => Ok(None),
        };
        let (outlook, report, sending) = match spliced {
            Ok(sending) => {
                let report = self.report(&outlook);
                (outlook, report, sending)
            }
            Err(why) => {
                let outlook = plan_untouched(self.came.conversation, &basis.policy);
                let report = Report::untouched(self.came.conversation, why);
                (outlook, report, None)
            }
        };
        let sending = sending.unwrap_or_else(|| self.came.body.as_came());
        let first = Attempt {
            basis,
            outlook,
            second: None,
            report,
        };
        (first, sending)
    }

    /// What who asks for a compaction and for nothing else gets; none where nothing is gained.
    pub(in crate::proxy) async fn by_hand(&self, mut basis: Basis) -> Option<(Attempt, Sending)> {
        let outlook = self.compacted_at_leisure(&mut basis).await?;
        let sending = self.spliced(&outlook.view).ok()??;
        let report = self.done(&outlook);
        let attempt = Attempt {
            basis,
            outlook,
            second: None,
            report,
        };
        Some((attempt, sending))
    }

    /// What is sent after `first`, for that reason.
    pub(super) fn second(
        &self,
        first: &Attempt,
        basis: Basis,
        outlook: Outlook,
        second: Second,
    ) -> Attempt {
        let mut report = first.report.clone();
        second.tell(self.came.conversation, &outlook.view, &mut report);
        Attempt {
            basis,
            outlook,
            second: Some(second),
            report,
        }
    }

    /// The body of what is sent in second place, unless it would be what was refused.
    pub(in crate::proxy) fn sending_again(&self, second: &Attempt) -> Option<Sending> {
        if let Some(Second::Original { .. }) = second.second {
            return Some(self.came.body.as_came());
        }
        self.spliced(second.view()).ok().flatten()
    }

    /// The head that goes with it.
    pub(in crate::proxy) fn head_again(&self) -> Parts {
        let mut head = self.came.head.clone();
        head.headers = headers::for_second(head.headers);
        head
    }

    /// What a view makes of the body; none where that changes nothing.
    ///
    /// # Errors
    /// It is not sound, and must not be sent.
    fn spliced(&self, view: &View) -> Result<Option<Sending>, Bypass> {
        let conversation = self.came.conversation;
        let Some(plan) = view.plan(conversation) else {
            return Ok(None);
        };
        let spliced = Splice::of(conversation, &plan).and_then(|splice| {
            let sending = self.came.body.spliced(&splice);
            let strays = splice.strays(sending.body.chunks());
            self.shared().metrics.strays.add(strays as u64);
            (strays == 0).then_some(sending)
        });
        if spliced.is_none() {
            tracing::warn!("a rewrite was not sound and is not sent");
        }
        spliced.map(Some).ok_or(Bypass::Unsound)
    }

    /// What `outlook` does to a conversation.
    fn done(&self, outlook: &Outlook) -> Report {
        let written = |found: &Found| found.record.summary.is_some();
        let stands = if !outlook.fresh_digest && outlook.base.as_ref().is_some_and(written) {
            Act::Summary
        } else {
            Act::Digest
        };
        Report::of(self.came.conversation, &outlook.view, stands)
    }

    /// What `outlook` does to the request.
    fn report(&self, outlook: &Outlook) -> Report {
        let mut report = self.done(outlook);
        if self.mode == Mode::Shadow && report.bypass().is_none() {
            report.add(Act::Shadow);
        }
        report
    }

    /// The plain estimate of what an attempt costs.
    pub(super) fn tokens(&self, attempt: &Attempt) -> Tokens {
        attempt.view().tokens(self.came.conversation)
    }

    /// How far the reply is held: a request that is proven to fit gets an answer, not an overflow.
    pub(in crate::proxy) fn holding(&self, first: &Attempt) -> Holding {
        let shown = self.shared().lessons.windows.of(&self.model);
        if !self.recovers() {
            Holding::Nothing
        } else if shown.proves(self.tokens(first), self.set_room(&first.basis)) {
            Holding::Errors
        } else {
            Holding::Everything
        }
    }

    /// Who looks at the reply as it passes, where anything is made of that.
    pub(super) fn observer<B>(
        &self,
        attempt: &Attempt,
        reply: &Response<B>,
    ) -> Option<Box<Observer>> {
        if !self.recovers() || attempt.report.acts().contains(&Act::GaveUp) {
            return None;
        }
        let bills = &self.shared().bills;
        let estimate = self.tokens(attempt);
        Observer::of(self.came.proxy, reply, &self.model, || Observed {
            sent: Sent {
                estimate,
                output: self.output(),
                text_alone: self.came.conversation.is_text_alone(),
            },
            prefix: self.chains.lasting().map(|(_, key)| key),
            bill: bills.open(&self.chains, &self.model, self.billed(attempt)),
        })
    }

    /// What an attempt is billed by: by what went on, which in shadow mode is what came.
    pub(super) fn billed(&self, attempt: &Attempt) -> Billed {
        let before = self.came.conversation.tokens();
        let after = match self.mode {
            Mode::On => self.tokens(attempt),
            Mode::Off | Mode::Shadow => before,
        };
        Billed {
            before,
            after,
            window: attempt.basis.policy.marks.window,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;

    use super::super::met::{meet, proxy};
    use super::*;

    /// What is sent first of the chat that `text` is, of which so much is known, and the bytes that came.
    async fn first(text: &str, known: Known) -> (Attempt, Sending, Bytes) {
        let proxy = proxy("http://127.0.0.1:9/v1", &[]);
        meet(&proxy, &[], text.to_owned(), async |chat, basis| {
            let (attempt, sending) = chat.first(Basis { known, ..basis }).await;
            (attempt, sending, chat.came.body.text().clone())
        })
        .await
    }

    #[tokio::test]
    async fn a_body_that_is_not_changed_goes_on_without_a_copy() {
        let text = r#"{"messages":[{"role":"user","content":"hi"}]}"#;
        let (_, sending, came) = first(text, Known::default()).await;
        let forwarded = sending.body.joined();
        assert_eq!(
            forwarded.as_ptr(),
            came.as_ptr(),
            "the same bytes, not equal ones"
        );
        assert_eq!(forwarded.len(), came.len());
    }

    #[tokio::test]
    async fn a_rewrite_that_is_not_sound_is_neither_sent_nor_told_of() {
        let text = r#"{"messages":[{"role":"user","content":"one"},{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":"two"},{"role":"user","content":"three"}]}"#;
        // Its cut falls between a call and its result.
        let record = Record {
            text: Some("-".into()),
            history_from: 1,
            compacted_message_count: 2,
            ..Record::default()
        };
        let adopted = Found {
            at: 3,
            adopted: true,
            record: Arc::new(record),
        };
        let known = Known {
            adopted: Some(adopted),
            ..Known::default()
        };
        let (attempt, sending, came) = first(text, known).await;
        assert_eq!(attempt.report.bypass(), Some(Bypass::Unsound));
        assert_eq!(sending.body.joined(), came);
        assert!(!attempt.view().is_summarised());
        assert!(attempt.outlook.base.is_none(), "nothing is there to adopt");
        assert_eq!(attempt.report.action(), None);
        assert_eq!(attempt.report.after, attempt.report.before);
    }
}
