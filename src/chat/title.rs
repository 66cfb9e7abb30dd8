//! Conversation titles for the dashboard, written in the background by a small model.

use std::sync::Arc;

use crate::chat::context::Chat;
use crate::chat::summary_call;
use crate::config::Mode;
use crate::metrics::AuxiliaryPurpose;
use crate::summaries;
use crate::summaries::{CostMeter, SummaryTarget};
use longhaul_core::planning::agent_compaction::is_agent_compaction;
use longhaul_core::policy::Profile;
use longhaul_core::summary::request::RequestTemplate;
use longhaul_core::summary::title;

/// Starts a title call if titles are enabled and this conversation has no recent one. The call
/// uses the caller's own credentials or the summary endpoint, and only a few run at once.
/// Without a title, the dashboard shows the user's own words.
pub(super) fn request_title(chat: &Chat<'_>) {
    let services = chat.services();
    let (Some(model), Some(dashboard)) = (&services.config.title_model, &chat.dashboard) else {
        return;
    };
    let messages = chat.request.conversation.messages().len();
    if chat.mode != Mode::On || !dashboard.lacks_title(messages) {
        return;
    }
    let Some((_, newest)) = chat.prefix_keys.newest() else {
        return;
    };
    if summary_call::allows_cached_style_only(&chat.request) {
        return;
    }
    // With the local profile, the call would compete with the agent for the model.
    let competes = chat.settings.profile == Profile::Local && services.summary_endpoint.is_none();
    if competes
        || !services
            .summary_guards
            .allows_title(&summary_call::summary_permit(chat, newest))
    {
        return;
    }
    let Ok(place) = Arc::clone(&services.title_permits).try_acquire_owned() else {
        return;
    };
    if is_agent_compaction(chat.request.conversation) || !dashboard.begin_title(messages) {
        return;
    }
    let Some((head, at)) = summary_call::summary_head(&chat.request) else {
        return;
    };
    let dialect = summary_call::call_dialect(&chat.request);
    let frame = RequestTemplate::from_request(chat.request.conversation, Some(model));
    let (frame, upstream) = match (at, &services.summary_endpoint) {
        (SummaryTarget::Dedicated, Some(endpoint)) => (
            frame.for_other_endpoint().in_dialect(dialect),
            &endpoint.upstream,
        ),
        (SummaryTarget::Dedicated | SummaryTarget::Conversation, _) => (frame, &services.upstream),
    };
    let Some(body) = title::request_body(chat.request.conversation, &frame) else {
        return;
    };
    let host = summary_call::summary_host(&services.config);
    let prices = services.config.prices_at(host, model);
    let meter = CostMeter::new(&services.metrics, AuxiliaryPurpose::Title, prices);
    let origin = summary_call::origin(&chat.request, AuxiliaryPurpose::Title, model);
    let (upstream, dashboard) = (Arc::clone(upstream), dashboard.clone());
    let model = model.clone();
    tokio::spawn(async move {
        let host = head.uri.host().map(str::to_owned);
        let title =
            summaries::request_title(&upstream, dialect, &head, body, &meter, origin.as_ref())
                .await;
        if let Some(failure) = dashboard.record_title(&model, title, &meter) {
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

#[cfg(test)]
mod tests {
    use http::StatusCode;
    use tokio::net::TcpListener;
    use tokio::time::timeout;

    use super::*;
    use crate::chat::test_support::{chat_body, services, with_chat};
    use crate::services::Services;
    use crate::summaries::{CALL_TIMEOUT, SummaryError};

    /// Address of an upstream that cannot be reached.
    const NOBODY: &str = "http://127.0.0.1:9/v1";
    const NAMED: (&str, &str) = ("ui.title_model", "small");
    const LOCAL: (&str, &str) = ("profile", "local");
    /// A separate endpoint for summaries.
    const ELSEWHERE: [(&str, &str); 2] = [("summary.upstream", NOBODY), ("summary.model", "small")];

    /// Builds the services with a dashboard and these changes to the settings.
    fn shown(base: &str, changes: &[(&str, &str)]) -> Arc<Services> {
        let services = services(base, changes);
        services.recent.enable();
        services
    }

    /// Whether a title is requested after `before` has run.
    async fn is_asked(services: &Arc<Services>, before: impl FnOnce(&Chat<'_>)) -> bool {
        let places = || services.title_permits.available_permits();
        let free = places();
        let asked = with_chat(services, &[], chat_body(2, 50), async |chat, _| {
            before(&chat);
            request_title(&chat);
            places() < free
        });
        asked.await
    }

    async fn check(services: &Arc<Services>, expect: bool) {
        assert_eq!(is_asked(services, |_| {}).await, expect);
    }

    #[tokio::test]
    async fn requests_a_title_once_if_shown_and_a_model_is_set() {
        check(&services(NOBODY, &[NAMED]), false).await;
        check(&shown(NOBODY, &[]), false).await;
        let services = shown(NOBODY, &[NAMED]);
        check(&services, true).await;
        check(&services, false).await;
    }

    #[tokio::test]
    async fn local_profile_requests_titles_only_from_a_separate_endpoint() {
        check(&shown(NOBODY, &[NAMED, LOCAL]), false).await;
        let [at, by] = ELSEWHERE;
        check(&shown(NOBODY, &[NAMED, LOCAL, at, by]), true).await;
    }

    #[tokio::test]
    async fn requests_no_title_from_a_throttled_upstream() {
        let services = shown(NOBODY, &[NAMED]);
        let throttled = |chat: &Chat<'_>| {
            let (_, newest) = chat.prefix_keys.newest().unwrap();
            let throttled = SummaryError::Refused(StatusCode::TOO_MANY_REQUESTS);
            services
                .summary_guards
                .record_end(summary_call::summary_permit(chat, newest), Err(throttled));
        };
        assert!(!is_asked(&services, throttled).await);
    }

    #[tokio::test(start_paused = true)]
    async fn hanging_title_call_times_out() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}/v1", listener.local_addr().unwrap());
        let services = shown(&base, &[NAMED, ("upstream.connect", "1h")]);
        let places = services.title_permits.available_permits();
        check(&services, true).await;
        let all = u32::try_from(places).unwrap();
        let free = timeout(2 * CALL_TIMEOUT, services.title_permits.acquire_many(all)).await;
        assert!(free.is_ok(), "the next call can start");
    }
}
