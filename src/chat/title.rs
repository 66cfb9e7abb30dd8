//! Conversation titles for the dashboard, written in the background by a small model.

use std::sync::Arc;

use crate::chat::Chat;
use crate::config::Mode;
use crate::metrics::AuxiliaryPurpose;
use crate::models;
use crate::summaries::{CostMeter, SummaryTarget, request_title as asked};
use longhaul_core::planning::agent_compaction::is_agent_compaction;
use longhaul_core::policy::Profile;
use longhaul_core::summary::request::RequestTemplate;
use longhaul_core::summary::title;

impl Chat<'_> {
    /// Starts a title call if titles are enabled and this conversation has no recent one. The call
    /// uses the caller's own credentials or the summary endpoint, and only a few run at once.
    /// Without a title, the dashboard shows the user's own words.
    pub(super) fn request_title(&self) {
        let shared = self.shared();
        let (Some(model), Some(sighting)) = (&shared.config.title_model, &self.dashboard) else {
            return;
        };
        let messages = self.request.conversation.messages().len();
        if self.mode != Mode::On || !sighting.lacks_title(messages) {
            return;
        }
        let Some((_, newest)) = self.prefix_keys.newest() else {
            return;
        };
        // With the local profile, the call would compete with the agent for the model.
        let takes = self.settings.profile == Profile::Local && shared.summary_endpoint.is_none();
        if takes
            || !shared
                .summary_guards
                .allows_title(&self.summary_permit(newest))
        {
            return;
        }
        let Ok(place) = Arc::clone(&shared.title_permits).try_acquire_owned() else {
            return;
        };
        if is_agent_compaction(self.request.conversation) || !sighting.begin_title(messages) {
            return;
        }
        let Some((head, at)) = self.summary_head() else {
            return;
        };
        let frame = RequestTemplate::from_request(self.request.conversation, Some(model));
        let (frame, upstream) = match (at, &shared.summary_endpoint) {
            (SummaryTarget::Dedicated, Some(endpoint)) => {
                (frame.for_other_endpoint(), &endpoint.upstream)
            }
            (SummaryTarget::Dedicated | SummaryTarget::Conversation, _) => {
                (frame, &shared.upstream)
            }
        };
        let Some(body) = title::request_body(self.request.conversation, &frame) else {
            return;
        };
        let host = self.summary_host();
        let prices = models::prices(host, model);
        let till = CostMeter::new(&shared.metrics, AuxiliaryPurpose::Title, prices);
        let origin = self.origin(AuxiliaryPurpose::Title, model);
        let (upstream, sighting) = (Arc::clone(upstream), sighting.clone());
        let model = model.clone();
        tokio::spawn(async move {
            let host = head.uri.host().map(str::to_owned);
            let title = asked(&upstream, &head, body, &till, origin.as_ref()).await;
            if let Some(failure) = sighting.record_title(&model, title, &till) {
                tracing::warn!(
                    why = failure.label(),
                    status = failure.status(),
                    model,
                    host,
                    "title call failed; the dashboard shows the user's own words"
                );
            }
            drop(place);
        });
    }
}

#[cfg(test)]
mod tests {
    use http::StatusCode;
    use tokio::net::TcpListener;
    use tokio::time::timeout;

    use super::*;
    use crate::chat::test_support::{meet, proxy, talk};
    use crate::proxy::Proxy;
    use crate::summaries::{CALL_TIMEOUT, SummaryError};

    /// Address of an upstream that cannot be reached.
    const NOBODY: &str = "http://127.0.0.1:9/v1";
    const NAMED: (&str, &str) = ("ui.title_model", "small");
    const LOCAL: (&str, &str) = ("profile", "local");
    /// A separate endpoint for summaries.
    const ELSEWHERE: [(&str, &str); 2] = [("summary.upstream", NOBODY), ("summary.model", "small")];

    /// Builds a proxy with a dashboard and these changes to the settings.
    fn shown(base: &str, changes: &[(&str, &str)]) -> Proxy {
        let proxy = proxy(base, changes);
        proxy.recent().enable();
        proxy
    }

    /// Whether a title is requested after `before` has run.
    async fn is_asked(proxy: &Proxy, before: impl FnOnce(&Chat<'_>)) -> bool {
        let places = || proxy.0.title_permits.available_permits();
        let free = places();
        let asked = meet(proxy, &[], talk(2, 50), async |chat, _| {
            before(&chat);
            chat.request_title();
            places() < free
        });
        asked.await
    }

    async fn check(proxy: &Proxy, expect: bool) {
        assert_eq!(is_asked(proxy, |_| {}).await, expect);
    }

    #[tokio::test]
    async fn a_title_is_asked_for_once_and_where_it_is_shown_alone() {
        check(&proxy(NOBODY, &[NAMED]), false).await;
        check(&shown(NOBODY, &[]), false).await;
        let proxy = shown(NOBODY, &[NAMED]);
        check(&proxy, true).await;
        check(&proxy, false).await;
    }

    #[tokio::test]
    async fn on_ones_own_machine_a_title_is_asked_for_elsewhere_or_not_at_all() {
        check(&shown(NOBODY, &[NAMED, LOCAL]), false).await;
        let [at, by] = ELSEWHERE;
        check(&shown(NOBODY, &[NAMED, LOCAL, at, by]), true).await;
    }

    #[tokio::test]
    async fn an_upstream_that_has_too_much_to_do_is_asked_for_no_title() {
        let proxy = shown(NOBODY, &[NAMED]);
        let throttled = |chat: &Chat<'_>| {
            let (_, newest) = chat.prefix_keys.newest().unwrap();
            let throttled = SummaryError::Refused(StatusCode::TOO_MANY_REQUESTS);
            proxy
                .0
                .summary_guards
                .record_end(chat.summary_permit(newest), Err(throttled));
        };
        assert!(!is_asked(&proxy, throttled).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_for_a_title_that_hangs_is_given_up_after_two_minutes() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}/v1", listener.local_addr().unwrap());
        let proxy = shown(&base, &[NAMED, ("upstream.connect", "1h")]);
        let places = proxy.0.title_permits.available_permits();
        check(&proxy, true).await;
        let all = u32::try_from(places).unwrap();
        let free = timeout(2 * CALL_TIMEOUT, proxy.0.title_permits.acquire_many(all)).await;
        assert!(free.is_ok(), "the next call can start");
    }
}
