//! A title for the dashboard, by a small model, behind the request's back.

use std::sync::Arc;

use super::Chat;
use crate::config::Mode;
use crate::metrics::Purpose;
use crate::models;
use crate::rewrite::brief::Frame;
use crate::rewrite::housekeeping::is_housekeeping;
use crate::rewrite::policy::Profile;
use crate::rewrite::title;
use crate::summarise::{Place, Till, title as asked};

impl Chat<'_> {
    /// Has a title of this conversation made, where that is wanted and it has none of late: with the
    /// caller's own credentials, or at the endpoint of summaries, and never more than a few at
    /// once. Without one, or until then, the user's own words stand on the dashboard.
    pub(super) fn ask_title(&self) {
        let shared = self.shared();
        let (Some(model), Some(sighting)) = (&shared.config.title_model, &self.sighting) else {
            return;
        };
        let messages = self.came.conversation.messages().len();
        if self.mode != Mode::On || !sighting.lacks_title(messages) {
            return;
        }
        let Some((_, newest)) = self.chains.newest() else {
            return;
        };
        // On one's own machine it would take the model from the agent.
        let takes = self.wishes.profile == Profile::Local && shared.summariser.is_none();
        if takes || !shared.guards.is_open_to(&self.ticket(newest)) {
            return;
        }
        let Ok(place) = Arc::clone(&shared.titling).try_acquire_owned() else {
            return;
        };
        if is_housekeeping(self.came.conversation) || !sighting.begin_title(messages) {
            return;
        }
        let Some((head, at)) = self.summary_head() else {
            return;
        };
        let frame = Frame::of(self.came.conversation, Some(model));
        let (frame, upstream) = match (at, &shared.summariser) {
            (Place::Elsewhere, Some(endpoint)) => (frame.elsewhere(), &endpoint.upstream),
            (Place::Elsewhere | Place::Upstream, _) => (frame, &shared.upstream),
        };
        let Some(body) = title::ask(self.came.conversation, &frame) else {
            return;
        };
        let host = self.summary_host();
        let prices = models::prices(host, model);
        let till = Till::new(&shared.metrics, Purpose::Title, prices);
        let origin = self.origin(Purpose::Title, model);
        let (upstream, sighting) = (Arc::clone(upstream), sighting.clone());
        let model = model.clone();
        tokio::spawn(async move {
            let host = head.uri.host().map(str::to_owned);
            let title = asked(&upstream, &head, body, &till, origin.as_ref()).await;
            if let Some(failure) = sighting.titled(&model, title, &till) {
                tracing::warn!(
                    why = failure.label(),
                    status = failure.status(),
                    model,
                    host,
                    "no title; conversations go by the user's own words"
                );
            }
            drop(place);
        });
    }
}
