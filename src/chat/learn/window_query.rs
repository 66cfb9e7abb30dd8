//! Queries the upstream for the window of a chat's model.

use http::StatusCode;

use crate::chat::context::Chat;
use crate::chat::learn::known_window::{CountedRefusals, KnownWindow};
use crate::learned::reported_windows::query::WindowQuery;
use crate::models::HostKind;
use crate::request::caller_identity::identifying_query;
use crate::request::headers;
use longhaul_core::dialect::Dialect;
use longhaul_core::units::tokens::Tokens;
use longhaul_core::window::source::WindowSource;

/// Divisor of the assumed window above which a listing may matter, if the table of models states
/// the window.
const NEAR_TABLE_WINDOW: u32 = 2;

/// Divisor of the assumed window above which a listing may matter. The actual window may be much
/// smaller.
const NEAR_ASSUMED_WINDOW: u32 = 16;

/// Half of Ollama's default window of 4,096 tokens. A shorter chat fits all common defaults but those of old
/// releases.
const NEAR_LOCAL_WINDOW: Tokens = Tokens::new(2_048);

/// Whether a chat of `tokens` comes near the assumed window, so that the window that the upstream lists may
/// change its next plan. So hundreds of callers do not query every hour. A local server may have any window.
fn is_near(tokens: Tokens, host: HostKind, (window, source): (Tokens, WindowSource)) -> bool {
    if host == HostKind::Local {
        return tokens >= NEAR_LOCAL_WINDOW;
    }
    let divisor =
        if source == WindowSource::Assumed { NEAR_ASSUMED_WINDOW } else { NEAR_TABLE_WINDOW };
    tokens >= window.divided_by(divisor)
}

/// Queries the upstream for the window of this chat's model after a reply with `status`.
/// Skipped if a better source exists or the upstream was queried recently.
pub(crate) fn query_upstream_window(chat: &Chat<'_>, status: StatusCode) {
    let state = chat.state();
    let config = &state.config;
    let asks = config.upstream.query_windows && status.is_success() && !chat.model.is_empty();
    // A cloud whose path names the model lists other models at that place.
    let has_path = chat.request.conversation.params().path.is_some();
    if !asks || has_path || chat.configured_window().is_some() {
        return;
    }
    let known = KnownWindow::of_chat(chat, None);
    let window = || known.sources(CountedRefusals::Model).policy_window();
    let (tokens, base) = (chat.request.conversation.tokens(), &config.upstream.base);
    if known.sizes.window().is_some()
        || !chat.learned.reported_windows.is_due(&chat.model)
        || !is_near(tokens, base.host_kind(), window())
    {
        return;
    }
    // For a deployment, the path selects the model, whatever name is in the body.
    let path = chat.request.route.mapped.path();
    let Some(prefix) = Dialect::split_path(path)
        .map(|(prefix, _)| prefix)
        .filter(|prefix| !prefix.contains("/deployments/"))
        // An answer to longhaul's own key counts for all callers, so no caller chooses its path.
        .filter(|prefix| !state.keys.holds_upstream_key() || *prefix == base.path())
    else {
        return;
    };
    let mut fields = headers::for_model_query(&chat.request.head.headers, base.host());
    if let Some(name) = state.scopes.caller_header() {
        fields.remove(name);
    }
    let question = WindowQuery {
        model: (*chat.model).to_owned(),
        base: base.clone(),
        host_kind: base.host_kind(),
        models_path: format!("{prefix}/models"),
        credentials: if state.keys.holds_upstream_key() {
            String::new()
        } else {
            identifying_query(chat.request.route.mapped.query())
        },
        headers: state.keys.replace_credentials(chat.request.head, path, fields),
    };
    chat.learned.reported_windows.query_in_background(
        question,
        chat.learned.scope,
        &state.learned.queries,
        &state.upstream,
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assumed_window_is_near_at_a_smaller_size_than_a_listed_one() {
        let window = Tokens::new(200_000);
        for (source, near) in [(WindowSource::Table, 100_000), (WindowSource::Assumed, 12_500)] {
            let is_near =
                |tokens| is_near(Tokens::new(tokens), HostKind::Unknown, (window, source));
            assert!(is_near(near) && !is_near(near - 1));
        }
    }

    #[test]
    fn short_chats_do_not_query_a_local_server() {
        let default = (Tokens::new(200_000), WindowSource::Assumed);
        let is_near = |tokens| is_near(Tokens::new(tokens), HostKind::Local, default);
        assert!(is_near(2_048) && !is_near(2_047));
    }
}
