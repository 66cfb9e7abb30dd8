//! What is known of the window of a chat's model, and asking for it.

use http::StatusCode;

use super::super::headers;
use super::super::shared::Shared;
use super::Chat;
use super::attempt::Basis;
use crate::config::CHAT;
use crate::models::{self, Place};
use crate::rewrite::chain::Chains;
use crate::rewrite::conversation::Conversation;
use crate::rewrite::record::Record;
use crate::rewrite::tokens::Tokens;
use crate::rewrite::window::count::Counts;
use crate::rewrite::window::lesson::Holds;
use crate::rewrite::window::{Refused, Sayings, expected, script};
use crate::upstream::Question;

/// Who says what of the window of `model`, where a conversation starts from `record`.
pub(super) fn sayings(shared: &Shared, model: &str, record: Option<&Record>) -> Sayings {
    let config = &shared.config;
    let conduct = config.conduct(model);
    let kept = record
        .filter(|record| record.model == model)
        .and_then(|record| record.window);
    Sayings {
        setting: conduct.set_window(),
        refused: kept.map(Refused::Estimated).or_else(|| {
            let holds = shared.lessons.windows.of(model).holds();
            holds.map(Holds::for_others)
        }),
        asked: shared.lessons.asked.of(model),
        table: models::look_up(config.upstream.base.authority().host(), model)
            .map(|found| found.entry.tabled()),
        default: conduct.window,
    }
}

/// How a conversation is counted by `model`.
pub(super) fn counts(
    shared: &Shared,
    model: &str,
    conversation: &Conversation<'_>,
    chains: &Chains,
) -> Counts {
    let last = shared.store.last_count(chains, model);
    // The average that held when the conversation was last counted holds for it on every replica.
    let average = last.and_then(|counted| counted.density);
    Counts {
        last: last.map(|counted| counted.pair),
        model: average.or_else(|| shared.lessons.windows.of(model).density),
        text: match last {
            None => expected(conversation),
            Some(_) => script::density(conversation),
        },
    }
}

impl Chat<'_> {
    /// What the operator's window, by how this conversation is counted, leaves beside its output.
    pub(super) fn set_room(&self, basis: &Basis) -> Option<Tokens> {
        let set = self.shared().config.conduct(&self.model).set_window();
        set.map(|_| basis.policy.marks.holds - self.output().unwrap_or_default())
    }

    /// What is said of its model's window: to everybody, by the record in use, and to this conversation.
    pub(super) fn sayings(&self, record: Option<&Record>) -> Sayings {
        let shared = self.shared();
        let own = shared.lessons.windows.own(&self.chains);
        sayings(shared, &self.model, record).beside(own)
    }

    /// The smallest window that refusals have shown of its model, and of this conversation.
    pub(super) fn shown_before(&self, basis: &Basis) -> Option<Tokens> {
        let shared = self.shared();
        let windows = &shared.lessons.windows;
        let own = self.sayings(basis.adopted());
        let others = windows.of(&self.model).holds().map(Holds::for_others);
        let shown = own.refused.into_iter().chain(others);
        shown.map(Refused::tokens).min()
    }

    /// Whether nobody has said what its model holds.
    pub(super) fn assumes_its_window(&self, basis: &Basis) -> bool {
        self.sayings(basis.adopted()).is_assumed()
    }

    /// Has the upstream asked what the model of this chat holds, now that it has answered with
    /// `status`, unless that is known better or was asked lately.
    pub(in crate::proxy) fn ask_what_it_holds(&self, status: StatusCode) {
        let shared = self.shared();
        let config = &shared.config;
        let asks = config.upstream.ask && status.is_success() && !self.model.is_empty();
        if !asks
            || config.conduct(&self.model).set_window().is_some()
            || shared.lessons.windows.of(&self.model).window().is_some()
            || !shared.lessons.asked.is_due(&self.model, self.came.scope)
        {
            return;
        }
        // A deployment's path says which model answers, whatever name the body gives.
        let path = self.came.route.mapped.path();
        let Some(prefix) = path
            .strip_suffix(CHAT)
            .filter(|prefix| !prefix.contains("/deployments/"))
        else {
            return;
        };
        let base = &config.upstream.base;
        let question = Question {
            model: self.model.clone(),
            scheme: base.scheme().clone(),
            authority: base.authority().clone(),
            place: Place::of(base.authority().host()),
            models: format!("{prefix}/models"),
            headers: shared.keys.put(
                self.came.head,
                headers::for_question(&self.came.head.headers, base.host()),
            ),
        };
        shared
            .lessons
            .asked
            .put(question, self.came.scope, &shared.upstream);
    }
}
