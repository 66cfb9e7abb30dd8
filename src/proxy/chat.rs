//! What is known of one chat, and how it is forwarded.

mod form;
mod making;
mod notices;
mod second;
mod settle;
mod summary;
mod title;
mod window;

use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use http::request::Parts;

use super::exchange::Route;
use super::observe::{Asked, Observer};
use super::recent::{Arrival, Sighting};
use super::report::Report;
use super::shared::Shared;
use super::watch::Holding;
use super::whole::{Sending, Whole};
use super::wish::{Compact, Wish};
use super::{Proxy, headers};
use crate::config::{Mode, Placing, Summariser};
use crate::metrics::Act;
use crate::rewrite::bypass::Bypass;
use crate::rewrite::chain::{Chains, Scope};
use crate::rewrite::chat_completions;
use crate::rewrite::conversation::Conversation;
use crate::rewrite::money::Billed;
use crate::rewrite::plan::{Outlook, Summaries, plan, plan_untouched};
use crate::rewrite::policy::{Policy, Wishes};
use crate::rewrite::record::Known;
use crate::rewrite::splice::Splice;
use crate::rewrite::tokens::Tokens;
use crate::rewrite::view::View;
use crate::rewrite::window::note::Sent;
use crate::traces::Parent;
use crate::upstream::Meter;
pub(super) use second::{Next, Second};

/// Reads a chat's body, unless it must go on as it came.
///
/// # Errors
/// The reason for that.
pub(super) fn read<'b>(
    shared: &Shared,
    head: &Parts,
    body: &'b Bytes,
    scope: Scope,
) -> Result<Conversation<'b>, Bypass> {
    if headers::is_signed(&head.headers) {
        return Err(Bypass::Signed);
    }
    chat_completions::read_recalled(body, scope, &shared.recall)
}

/// One chat, with what is known of it.
pub(super) struct Chat<'c> {
    proxy: &'c Proxy,
    route: &'c Route,
    head: &'c Parts,
    body: &'c Whole,
    conversation: &'c Conversation<'c>,
    meter: Arc<Meter>,
    mode: Mode,
    compact_now: bool,
    scope: Scope,
    chains: Chains,
    known: Known,
    model: String,
    wishes: Wishes,
    policy: Policy,
    /// Until when this request may wait for summaries, once it has begun to.
    deadline: Option<tokio::time::Instant>,
    /// Itself among the conversations that are shown.
    sighting: Option<Sighting>,
    /// Whether a record was adopted, which other processes must see before the next request.
    adopted: bool,
    /// What calls of ours for it are recorded under, if they are.
    parent: Option<Parent>,
}

impl<'c> Chat<'c> {
    /// Looks up what is known of a conversation and works out the policy for it.
    pub(super) async fn new(
        proxy: &'c Proxy,
        route: &'c Route,
        head: &'c Parts,
        body: &'c Whole,
        conversation: &'c Conversation<'c>,
        scope: Scope,
        meter: &Arc<Meter>,
    ) -> Self {
        let shared = &*proxy.0;
        let wish = Wish::of(&head.headers);
        let model = conversation.model().into_owned();
        let mut wishes = shared.config.conduct(&model).wishes.into_owned();
        wishes.prune &= !wish.no_prune;
        if wish.compact == Some(Compact::Off) {
            wishes.proactive = false;
            wishes.recover = false;
        }
        let chains = Chains::of(conversation, scope);
        shared.lessons.hear(&chains, &model).await;
        let known = shared.store.known(&chains);
        if shared.config.summary.placement == Placing::Auto {
            wishes.placement = shared.lessons.forms.of(&model, chains.oldest());
        }
        let adopted = known.adopted.as_ref().map(|found| &*found.record);
        let summary = adopted.and_then(|record| record.text.clone());
        let policy =
            window::sayings(shared, &model, adopted).counted(&wishes, conversation, || {
                window::counts(shared, &model, conversation, &chains)
            });
        let sighting = shared.recent.arrive(&Arrival {
            conversation,
            chains: &chains,
            window: policy.marks.window,
            summary: summary.filter(|_| shared.config.admin_shows_content),
        });
        Self {
            proxy,
            route,
            head,
            body,
            conversation,
            meter: Arc::clone(meter),
            mode: wish.mode.unwrap_or(shared.config.mode),
            compact_now: wish.compact == Some(Compact::Now),
            scope,
            chains,
            known,
            model,
            policy,
            wishes,
            deadline: None,
            sighting,
            adopted: false,
            parent: None,
        }
    }

    /// Calls of ours for it are recorded under that.
    pub(super) fn recorded_under(&mut self, parent: Option<Parent>) {
        self.parent = parent;
    }

    /// Itself among the conversations that are shown.
    pub(super) fn sighting(&self) -> Option<Sighting> {
        self.sighting.clone()
    }

    /// Whether replies are held back to see what they are.
    pub(super) fn recovers(&self) -> bool {
        self.policy.recover && self.mode == Mode::On
    }

    /// How the request is forwarded.
    fn outlook(&self) -> Outlook {
        plan(
            self.conversation,
            &self.policy,
            &self.known,
            self.summaries(),
        )
    }

    /// What is sent first, how that stands, and what is told of it: where a rewrite is not sound, the
    /// body as it came.
    pub(super) fn first(&self, outlook: Outlook) -> (Sending, Outlook, Report) {
        let spliced = match self.mode {
            Mode::On => self.spliced(&outlook.view),
            Mode::Off | Mode::Shadow => Ok(None),
        };
        match spliced {
            Ok(sending) => {
                let report = self.report(&outlook);
                (
                    sending.unwrap_or_else(|| self.body.as_came()),
                    outlook,
                    report,
                )
            }
            Err(why) => {
                let outlook = plan_untouched(self.conversation, &self.policy);
                let report = Report::untouched(self.conversation, why);
                (self.body.as_came(), outlook, report)
            }
        }
    }

    /// What is sent in second place, unless it would be what was refused.
    pub(super) fn again(&self, second: &Second) -> Option<Sending> {
        match second.view() {
            Some(view) => self.spliced(view).ok().flatten(),
            None => Some(self.body.as_came()),
        }
    }

    /// Where the second request goes, and its head.
    pub(super) fn goes_again(&self) -> (&'c Route, Parts) {
        let mut head = self.head.clone();
        head.headers = headers::for_second(head.headers);
        (self.route, head)
    }

    /// What a view makes of the body; none where that changes nothing.
    ///
    /// # Errors
    /// It is not sound, and must not be sent.
    pub(super) fn spliced(&self, view: &View) -> Result<Option<Sending>, Bypass> {
        let Some(plan) = view.plan(self.conversation) else {
            return Ok(None);
        };
        let spliced = Splice::of(self.conversation, &plan).and_then(|splice| {
            let sending = self.body.spliced(&splice);
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
    pub(super) fn done(&self, outlook: &Outlook) -> Report {
        let written = |found: &crate::rewrite::record::Found| found.record.summary.is_some();
        let by_model = !outlook.fresh_digest && outlook.base.as_ref().is_some_and(written);
        Report::of(self.conversation, &outlook.view, by_model)
    }

    /// What `outlook` does to the request.
    fn report(&self, outlook: &Outlook) -> Report {
        let mut report = self.done(outlook);
        if self.mode == Mode::Shadow && report.bypass().is_none() {
            report.add(Act::Shadow);
        }
        report
    }

    /// How far the reply is held: a request that is proven to fit gets an answer, not an overflow.
    pub(super) fn holding(&self, view: &View) -> Holding {
        let tokens = view.tokens(self.conversation);
        let shown = self.shared().lessons.windows.of(&self.model);
        if shown.proves(tokens, self.set_room()) {
            Holding::Errors
        } else {
            Holding::Everything
        }
    }

    /// Who looks at the reply to `view` as it passes.
    pub(super) fn observer<B>(&self, reply: &Response<B>, view: &View) -> Option<Box<Observer>> {
        self.observer_of(reply, view.tokens(self.conversation))
    }

    /// Who looks at the reply to `second` as it passes.
    pub(super) fn observer_again<B>(
        &self,
        reply: &Response<B>,
        second: &Second,
    ) -> Option<Box<Observer>> {
        self.observer_of(reply, second.tokens(self.conversation))
    }

    fn observer_of<B>(&self, reply: &Response<B>, estimate: Tokens) -> Option<Box<Observer>> {
        let bills = &self.shared().bills;
        Observer::of(self.proxy, reply, &self.model, || Asked {
            sent: Sent {
                estimate,
                output: self.output(),
                text_alone: self.conversation.is_text_alone(),
            },
            prefix: self.chains.lasting().map(|(_, key)| key),
            bill: bills.open(
                &self.chains,
                &self.model,
                Billed {
                    before: self.conversation.tokens(),
                    after: estimate,
                    window: self.policy.marks.window,
                },
            ),
        })
    }

    /// What was learned and adopted is told to other processes before the client can ask one of
    /// them. That is waited for only where a record was adopted: once a compaction.
    pub(super) async fn spread(&self) {
        let shared = self.shared();
        shared.lessons.tell(&self.model);
        if self.adopted {
            shared.store.spread().await;
        }
    }

    fn shared(&self) -> &'c Shared {
        &self.proxy.0
    }

    fn output(&self) -> Option<Tokens> {
        self.conversation
            .envelope()
            .output
            .map(|output| output.tokens)
    }

    fn summaries(&self) -> Summaries {
        match (self.mode, &self.shared().config.summary.model) {
            // A shadow asks nobody: a summary is a paid call.
            (Mode::Off | Mode::Shadow, _) | (Mode::On, Summariser::Nobody) => Summaries::Digest,
            (Mode::On, Summariser::Named(_) | Summariser::Own) => Summaries::Model,
        }
    }
}

#[cfg(test)]
mod tests {
    use http::uri::PathAndQuery;

    use super::*;
    use crate::config::Config;
    use crate::rewrite::record::{Found, Record};

    fn proxy() -> Proxy {
        let config = Config::default_with([("upstream.base", "http://127.0.0.1:9/v1")]).unwrap();
        Proxy::new(config).unwrap()
    }

    fn check(name: &str, value: &str, expect: Option<Bypass>) {
        let request = http::Request::post("/v1/chat/completions").header(name, value);
        let (head, ()) = request.body(()).unwrap().into_parts();
        let body = Bytes::from_static(br#"{"messages":[{"role":"user","content":"hi"}]}"#);
        let Proxy(shared) = proxy();
        let read = read(&shared, &head, &body, shared.scope(&head));
        assert_eq!(read.err(), expect, "{name}: {value}");
    }

    #[tokio::test]
    async fn a_body_that_is_signed_is_left_as_it_is() {
        check("content-digest", "sha-256=:x:", Some(Bypass::Signed));
        check("digest", "SHA-256=x", Some(Bypass::Signed));
        check(
            "authorization",
            "AWS4-HMAC-SHA256 Credential=x",
            Some(Bypass::Signed),
        );
        check("authorization", "Bearer x", None);
    }

    /// What `check` finds of the chat that `text` is, of which so much is known.
    async fn chat<R>(text: &str, known: Known, check: impl FnOnce(&Chat<'_>, &Whole) -> R) -> R {
        let proxy = proxy();
        let path = PathAndQuery::from_static("/v1/chat/completions");
        let route = Route {
            asked: path.clone(),
            mapped: path,
            towards: http::Version::HTTP_11,
        };
        let (head, ()) = http::Request::post("/").body(()).unwrap().into_parts();
        let whole = Whole::plain(Bytes::from(text.to_owned()));
        let scope = proxy.0.scope(&head);
        let meter = Arc::default();
        let conversation = read(&proxy.0, &head, whole.text(), scope).unwrap();
        let chat = Chat::new(&proxy, &route, &head, &whole, &conversation, scope, &meter).await;
        check(&Chat { known, ..chat }, &whole)
    }

    #[tokio::test]
    async fn a_body_that_is_not_changed_goes_on_without_a_copy() {
        let text = r#"{"messages":[{"role":"user","content":"hi"}]}"#;
        chat(text, Known::default(), |chat, whole| {
            let (sending, ..) = chat.first(chat.outlook());
            let forwarded = sending.body.joined();
            assert_eq!(
                forwarded.as_ptr(),
                whole.text().as_ptr(),
                "the same bytes, not equal ones"
            );
            assert_eq!(forwarded.len(), whole.text().len());
        })
        .await;
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
        chat(text, known, |chat, whole| {
            let planned = chat.outlook();
            assert!(planned.view.is_summarised());
            let (sending, outlook, report) = chat.first(planned);
            assert_eq!(sending.body.joined(), whole.text());
            assert!(!outlook.view.is_summarised());
            assert!(outlook.base.is_none(), "nothing is there to adopt");
            assert_eq!(report.action(), None);
            assert_eq!(report.bypass(), Some(Bypass::Unsound));
            assert_eq!(report.after, report.before);
        })
        .await;
    }
}
