//! A chat as it came, and what is done with it.

mod attempt;
mod form;
mod making;
#[cfg(test)]
mod met;
mod notices;
mod second;
mod settle;
mod summary;
mod title;
mod unheard;
mod window;

use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;

use super::exchange::Route;
use super::recent::{Arrival, Sighting};
use super::shared::Shared;
use super::whole::Whole;
use super::wish::{Compact, Wish};
use super::{Proxy, headers};
use crate::config::{Mode, Placing, Summariser};
use crate::rewrite::bypass::Bypass;
use crate::rewrite::chain::{Chains, Scope};
use crate::rewrite::chat_completions;
use crate::rewrite::conversation::Conversation;
use crate::rewrite::plan::Summaries;
use crate::rewrite::policy::Wishes;
use crate::rewrite::tokens::Tokens;
use crate::traces::Parent;
use crate::upstream::Meter;
pub(super) use attempt::{Attempt, Basis};
pub(super) use second::Next;

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

/// What came, and who asked.
pub(super) struct Arrived<'c> {
    pub(super) proxy: &'c Proxy,
    pub(super) route: &'c Route,
    pub(super) head: &'c Parts,
    pub(super) body: &'c Whole,
    pub(super) conversation: &'c Conversation<'c>,
    pub(super) scope: Scope,
    pub(super) meter: Arc<Meter>,
    /// What calls of ours for it are recorded under, if they are.
    pub(super) parent: Option<Parent>,
}

/// One chat. Nothing of it changes: what it is sent by travels with each [`Attempt`].
pub(super) struct Chat<'c> {
    pub(super) came: Arrived<'c>,
    mode: Mode,
    compact_now: bool,
    chains: Chains,
    model: String,
    wishes: Wishes,
    /// Itself among the conversations that are shown.
    pub(super) sighting: Option<Sighting>,
}

impl<'c> Chat<'c> {
    /// A chat, and what it is planned by, once others were asked what they know of it.
    pub(super) async fn meet(came: Arrived<'c>) -> (Self, Basis) {
        let shared = &*came.proxy.0;
        let wish = Wish::of(&came.head.headers);
        let model = came.conversation.model().into_owned();
        let chains = Chains::of(came.conversation, came.scope);
        shared.lessons.hear(&chains, &model).await;
        let mut chat = Self {
            mode: came.proxy.mode(came.head),
            compact_now: wish.compact == Some(Compact::Now),
            wishes: wishes(shared, wish, &model, &chains),
            came,
            chains,
            model,
            sighting: None,
        };
        let basis = chat.basis();
        chat.sighting = chat.arrives(&basis);
        (chat, basis)
    }

    /// Takes it in among the conversations that are shown.
    fn arrives(&self, basis: &Basis) -> Option<Sighting> {
        let shared = self.shared();
        let summary = basis.adopted().and_then(|record| record.text.clone());
        shared.recent.arrive(&Arrival {
            conversation: self.came.conversation,
            chains: &self.chains,
            window: basis.policy.marks.window,
            summary: summary.filter(|_| shared.config.admin_shows_content),
        })
    }

    /// Whether replies are held back to see what they are.
    fn recovers(&self) -> bool {
        self.wishes.recover && self.mode == Mode::On
    }

    fn shared(&self) -> &'c Shared {
        &self.came.proxy.0
    }

    fn output(&self) -> Option<Tokens> {
        self.came.conversation.output()
    }

    fn summaries(&self) -> Summaries {
        match (self.mode, &self.shared().config.summary.model) {
            // A shadow asks nobody: a summary is a paid call.
            (Mode::Off | Mode::Shadow, _) | (Mode::On, Summariser::Nobody) => Summaries::Digest,
            (Mode::On, Summariser::Named(_) | Summariser::Own) => Summaries::Model,
        }
    }
}

/// What the operator asks for with this model, less what the request itself does not want.
fn wishes(shared: &Shared, wish: Wish, model: &str, chains: &Chains) -> Wishes {
    let mut wishes = shared.config.conduct(model).wishes.into_owned();
    wishes.prune &= !wish.no_prune;
    if wish.compact == Some(Compact::Off) {
        wishes.proactive = false;
        wishes.recover = false;
    }
    if shared.config.summary.placement == Placing::Auto {
        wishes.placement = shared.lessons.forms.of(model, chains.oldest());
    }
    wishes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn check(name: &str, value: &str, expect: Option<Bypass>) {
        let request = http::Request::post("/v1/chat/completions").header(name, value);
        let (head, ()) = request.body(()).unwrap().into_parts();
        let body = Bytes::from_static(br#"{"messages":[{"role":"user","content":"hi"}]}"#);
        let config = Config::default_with([("upstream.base", "http://127.0.0.1:9/v1")]).unwrap();
        let Proxy(shared) = Proxy::new(config).unwrap();
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
}
