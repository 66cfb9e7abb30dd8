//! Header fields that control a single request, header fields of its reply, and shadow mode.

use longhaul_mock_model::{ErrorFamily, ModelOptions};

use super::{
    AUTO, BY_RULE, HUGE, NO_MODEL, OFF, OVERFLOW, PLACEHOLDER, PRUNE, SHADOW, SMALL,
    STANDS_FOR_HISTORY, Stage, foldable, full_of_words,
};
use crate::caller::chat;

#[tokio::test]
async fn prune_header_off_disables_clearing_for_one_request() {
    let stage = Stage::start(HUGE, &[BY_RULE]).await;
    let sent = stage.send_with(&[("x-longhaul-prune", "off")], foldable()).await;
    sent.went_untouched();
    // Unknown values are ignored.
    let sent = stage.send_with(&[("x-longhaul-prune", "never")], foldable()).await;
    assert_eq!(sent.arrived.action(), "prune");
}

#[tokio::test]
async fn compact_header_off_disables_compaction_for_one_request() {
    let stage = Stage::start(SMALL, &[]).await;
    let sent = stage.send_with(&[("x-longhaul-compact", "off")], full_of_words()).await;
    sent.went_untouched();
    assert_eq!((sent.arrived.status, stage.summaries()), (400, 0));
    let sent = stage.send_with(&[("x-longhaul-compact", "never")], full_of_words()).await;
    assert_eq!(sent.arrived.action(), "retry, summary");
}

#[tokio::test]
async fn compact_now_makes_a_digest_without_a_summary_model() {
    let stage = Stage::start(HUGE, &[NO_MODEL]).await;
    let now = [("x-longhaul-compact", "now")];
    let sent = stage.send_with(&now, full_of_words()).await;
    sent.was_answered();
    assert_eq!(sent.arrived.action(), "digest");
    assert_eq!((sent.chats().len(), stage.summaries()), (1, 0));
    assert!(sent.last_chat().contains(STANDS_FOR_HISTORY));
    let number = |name| sent.arrived.field(name).unwrap().parse::<u32>().unwrap();
    assert!(number("tokens-after") < number("tokens-before"));
}

#[tokio::test]
async fn compact_now_makes_a_summary_that_stays_in_use() {
    for environment in [&[][..], &[PRUNE, OVERFLOW]] {
        let stage = Stage::start(HUGE, environment).await;
        let now = [("x-longhaul-compact", "now")];
        let sent = stage.send_with(&now, full_of_words()).await;
        sent.was_answered();
        assert_eq!(sent.arrived.action(), "summary", "{environment:?}");
        assert_eq!(stage.summaries(), 1);
        let again = stage.send(full_of_words()).await;
        assert_eq!(again.arrived.action(), "summary", "{environment:?}");
        assert!(again.last_chat() == sent.last_chat());
        assert_eq!(stage.summaries(), 1);
    }
}

/// Headers that raise whatever the settings switch off.
const RAISE: [(&str, &str); 2] = [("x-longhaul-mode", "on"), ("x-longhaul-compact", "now")];
const OWN_KEY: [(&str, &str); 1] = [("authorization", "Bearer own")];
const MAY_RAISE: (&str, &str) = ("LONGHAUL_HEADERS_MAY_RAISE", "true");
const OPERATORS_KEY: (&str, &str) = ("LONGHAUL_UPSTREAM_API_KEY", "sk-operator");

/// Checks that headers change no byte and spend nothing under the operator's `settings`.
async fn check_lowered(settings: &[(&str, &str)], fields: &[(&str, &str)]) {
    let stage = Stage::start(HUGE, settings).await;
    let sent = stage.send_with(fields, full_of_words()).await;
    sent.went_untouched();
    let path = "/__longhaul__/compact";
    _ = stage.caller.ask_at(path, fields, full_of_words()).await;
    assert_eq!(stage.summaries(), 0, "{settings:?}");
    stage.send_with(fields, full_of_words()).await.went_untouched();
}

#[tokio::test]
async fn headers_raise_nothing_that_the_operator_switched_off() {
    for switched_off in [&[OFF][..], &[SHADOW], &[PRUNE, AUTO, OVERFLOW], &[AUTO]] {
        for key in [&[][..], &[OPERATORS_KEY]] {
            let fields = [&RAISE[..], &OWN_KEY].concat();
            check_lowered(&[switched_off, key].concat(), &fields).await;
        }
    }
}

#[tokio::test]
async fn permitted_headers_raise_only_at_the_callers_own_cost() {
    let tokens = tempfile::NamedTempFile::new().unwrap();
    let token = "0123456789abcdef0123456789abcdef";
    std::fs::write(tokens.path(), token).unwrap();
    let tokens = ("LONGHAUL_CLIENT_TOKENS_FILE", tokens.path().to_str().unwrap());
    let endpoint = ("LONGHAUL_SUMMARY_UPSTREAM", "http://127.0.0.1:9/v1");
    let endpoint = [endpoint, ("LONGHAUL_SUMMARY_MODEL", "small")];
    let of_token = [("authorization", &*format!("Bearer {token}"))];
    for switched_off in [OFF, SHADOW, AUTO] {
        let permitted = [switched_off, MAY_RAISE];
        for (settings, key) in [
            (&[][..], &[][..]),
            (&[OPERATORS_KEY], &OWN_KEY),
            (&[OPERATORS_KEY, tokens], &of_token),
            (&[tokens], &of_token),
            (&endpoint, &OWN_KEY),
        ] {
            let settings = [&permitted, settings].concat();
            check_lowered(&settings, &[&RAISE, key].concat()).await;
        }
        let stage = Stage::start(HUGE, &permitted).await;
        let fields = [&RAISE[..], &OWN_KEY].concat();
        let sent = stage.send_with(&fields, full_of_words()).await;
        assert_eq!(sent.arrived.action(), "summary", "{switched_off:?}");
    }
}

#[tokio::test]
async fn manual_compaction_is_refused_where_compaction_is_switched_off() {
    for (settings, status) in [(&[OFF][..], 403), (&[AUTO], 403), (&[OFF, MAY_RAISE], 200)] {
        let stage = Stage::start(HUGE, settings).await;
        let fields = [&RAISE[..], &OWN_KEY].concat();
        let path = "/__longhaul__/compact";
        let reply = stage.caller.ask_at(path, &fields, full_of_words()).await;
        assert_eq!(reply.status, status, "{settings:?}");
    }
}

#[tokio::test]
async fn forwards_no_longhaul_header() {
    let stage = Stage::start(HUGE, &[NO_MODEL]).await;
    let fields = [
        ("x-longhaul-mode", "on"),
        ("X-Longhaul-Prune", "off"),
        ("x-longhaul-compact", "now"),
        ("x-longhaul-future", "x"),
        ("x-kept", "y"),
    ];
    let sent = stage.send_with(&fields, full_of_words()).await;
    assert_eq!(sent.arrived.action(), "digest");
    let names: Vec<&str> = sent.chats()[0].headers.keys().map(http::HeaderName::as_str).collect();
    assert!(names.contains(&"x-kept"), "{names:?}");
    assert!(!names.iter().any(|name| name.starts_with("x-longhaul")), "{names:?}");
}

// ---- what a reply says

const FIELDS: [&str; 3] = ["action", "tokens-before", "tokens-after"];

#[tokio::test]
async fn reply_has_report_headers_only_if_something_was_done() {
    let stage = Stage::start(HUGE, &[BY_RULE]).await;
    let acted = stage.send(foldable()).await;
    assert!(FIELDS.iter().all(|name| acted.arrived.field(name).is_some()));
    let not = stage.send(chat(1, 10)).await;
    assert!(FIELDS.iter().all(|name| not.arrived.field(name).is_none()));
}

#[tokio::test]
async fn report_headers_can_be_switched_off() {
    let stage = Stage::start(HUGE, &[BY_RULE, ("LONGHAUL_REPORT_HEADERS", "off")]).await;
    let acted = stage.send(foldable()).await;
    assert!(acted.last_chat().contains(PLACEHOLDER));
    assert!(FIELDS.iter().all(|name| acted.arrived.field(name).is_none()));
}

// ---- shadow

#[tokio::test]
async fn shadow_mode_changes_nothing_and_requests_no_summary() {
    for (environment, fields) in [(&[SHADOW][..], &[][..]), (&[], &[("x-longhaul-mode", "shadow")])]
    {
        let stage = Stage::start(HUGE, environment).await;
        stage.send_with(fields, foldable()).await.went_untouched();
        stage.model.change(|options| options.window = SMALL);
        let sent = stage.send_with(fields, full_of_words()).await;
        sent.went_untouched();
        assert_eq!(sent.arrived.status, 400);
        let now = [fields, &[("x-longhaul-compact", "now")]].concat();
        stage.send_with(&now, full_of_words()).await.went_untouched();
        assert_eq!(stage.summaries(), 0);
    }
}

#[tokio::test]
async fn shadow_mode_relays_a_refusal_in_events() {
    let options = ModelOptions::with_window(SMALL).refusing_as(ErrorFamily::OpenRouterStream);
    let stage = Stage::with(options, &[SHADOW]).await;
    let mut body: serde_json::Value = serde_json::from_slice(&full_of_words()).unwrap();
    body["stream"] = true.into();
    let sent = stage.send(body.to_string().into()).await;
    assert_eq!((sent.arrived.status, sent.chats().len()), (200, 1));
    assert!(sent.arrived.body.starts_with(b": OPENROUTER"));
}

#[tokio::test]
async fn unexamined_reply_does_not_prove_that_its_request_fits() {
    let options = ModelOptions::with_window(SMALL).refusing_as(ErrorFamily::OpenRouterStream);
    let stage = Stage::with(options, &[NO_MODEL]).await;
    let mut body: serde_json::Value = serde_json::from_slice(&full_of_words()).unwrap();
    body["stream"] = true.into();
    let body = body.to_string().into_bytes();
    let off = [("x-longhaul-compact", "off")];
    assert_eq!(stage.send_with(&off, body.clone()).await.chats().len(), 1);
    let sent = stage.send(body).await;
    assert_eq!(sent.arrived.action(), "retry, digest");
}
