//! Sources for the context window of a chat's model, including a query to the upstream.

use http::StatusCode;

use crate::chat::attempt::{Attempt, PlanInputs};
use crate::chat::context::Chat;
use crate::chat::notices;
use crate::chat::refusal::RefusedAttempt;
use crate::config::SummaryModel;
use crate::explanation::{WindowNote, WindowSource};
use crate::learned::reported_windows::query::WindowQuery;
use crate::learned::windows::ModelObservations;
use crate::models::HostKind;
use crate::request::caller_identity::identifying_query;
use crate::request::headers;
use crate::summaries::CallOverflow;
use longhaul_core::dialect::Dialect;
use longhaul_core::overflow::Overflow;
use longhaul_core::policy::Policy;
use longhaul_core::policy::record::CompactionRecord;
use longhaul_core::units::tokens::Tokens;
use longhaul_core::window::credible_limit::{is_credible_given_hidden_history, is_credible_limit};
use longhaul_core::window::learned_window::LearnedWindow;
use longhaul_core::window::token_ratio::TokenCalibration;
use longhaul_core::window::{RefusalWindow, SelectedSource, WindowSources, script_ratio};

/// Collects the sources for the window of `model`, for a conversation that starts from `record`.
pub(super) fn model_window_sources(
    chat: &Chat<'_>,
    model: &str,
    record: Option<&CompactionRecord>,
) -> WindowSources {
    let observations = chat.knowledge.windows.observations(model);
    observed_window_sources(chat, model, record, &observations)
}

/// Like [`model_window_sources`], with these observations of the model.
fn observed_window_sources(
    chat: &Chat<'_>,
    model: &str,
    record: Option<&CompactionRecord>,
    observations: &ModelObservations,
) -> WindowSources {
    let config = &chat.services().config;
    let settings = config.settings_for(model);
    let kept = record
        .filter(|record| record.model == model)
        .and_then(|record| record.window);
    WindowSources {
        setting: settings.configured_window(),
        refusal: kept.map(RefusalWindow::Estimated).or_else(|| {
            let learned = observations.learned_window();
            learned.map(LearnedWindow::for_other_conversations)
        }),
        reported: chat.knowledge.reported_windows.window(model),
        table: if *model == *chat.model {
            chat.table_window
        } else {
            config.table_window(model)
        },
        default: settings.window,
    }
}

/// Collects token counts that show how the chat's model counts this conversation.
pub(super) fn counts(chat: &Chat<'_>) -> TokenCalibration {
    let conversation = chat.request.conversation;
    let last = chat
        .services()
        .store
        .last_count(&chat.prefix_keys, &chat.model);
    // The average stored with the conversation's last count applies to the conversation on every
    // replica.
    let average = last.and_then(|counted| counted.average_ratio);
    TokenCalibration {
        last_sample: last.map(|counted| counted.sample),
        model_ratio: average.or_else(|| {
            chat.knowledge
                .windows
                .observations(&chat.model)
                .average_ratio
        }),
        text_ratio: script_ratio::predict(conversation),
    }
}

/// Returns the window in force in estimated tokens. `None` if no source states the window.
pub(super) fn window_in_force(
    chat: &Chat<'_>,
    inputs: &PlanInputs,
    observations: &ModelObservations,
) -> Option<Tokens> {
    let sources = observed_sources(chat, inputs.adopted(), observations);
    (!sources.is_assumed()).then_some(inputs.policy.thresholds.actual_window)
}

/// Returns the tokens that the window in force leaves for input, if any window is.
pub(super) fn input_limit_in_force(
    chat: &Chat<'_>,
    inputs: &PlanInputs,
    observations: &ModelObservations,
) -> Option<Tokens> {
    let output = chat.request.conversation.output_tokens();
    window_in_force(chat, inputs, observations).map(|window| window - output.unwrap_or_default())
}

/// Whether the operator set the window, or the upstream stated the window to this caller. A window that
/// only follows from the size of a refused request is not stated.
pub(super) fn window_is_stated(chat: &Chat<'_>, inputs: &PlanInputs) -> bool {
    let observations = chat.knowledge.windows.observations(&chat.model);
    let sources = observed_sources(chat, inputs.adopted(), &observations);
    match sources.policy_window().1 {
        SelectedSource::Setting => true,
        SelectedSource::Refusal => {
            let learned = observations.learned_window();
            observations.request_limit().is_some()
                || learned.is_some_and(|learned| learned.stated.is_some())
        }
        SelectedSource::Table | SelectedSource::Default => sources.reported.is_some(),
    }
}

/// Whether the model refused a request of at most `tokens` tokens in this conversation, and has accepted
/// none of this size since. A window that follows from the size of a refused request is nine tenths of
/// that size, or more. Other conversations may have sparser text, so they are sent as they are.
pub(super) fn was_refused_at(chat: &Chat<'_>, inputs: &PlanInputs, tokens: Tokens) -> bool {
    let record = inputs.adopted().filter(|it| *it.model == *chat.model);
    let window = record.and_then(|record| record.window);
    let accepted = || {
        let observations = chat.knowledge.windows.observations(&chat.model);
        observations.largest_accepted
    };
    window.is_some_and(|window| tokens.percent(90) > window) && tokens > accepted()
}

/// Collects the sources for the model's window, including the record in use, this conversation's own
/// refusals, and the largest request that the account may send.
pub(super) fn window_sources(chat: &Chat<'_>, record: Option<&CompactionRecord>) -> WindowSources {
    let observations = chat.knowledge.windows.observations(&chat.model);
    observed_sources(chat, record, &observations)
}

/// Like [`window_sources`], with these observations of the model.
fn observed_sources(
    chat: &Chat<'_>,
    record: Option<&CompactionRecord>,
    observations: &ModelObservations,
) -> WindowSources {
    refused_window_sources(chat, record, observations)
        .with_conversation_window(observations.request_limit())
}

/// Builds the policy for the window in force and the conversation's token counts.
pub(super) fn policy(chat: &Chat<'_>, record: Option<&CompactionRecord>) -> Policy {
    let sources = window_sources(chat, record);
    let conversation = chat.request.conversation;
    sources.calibrated_policy(&chat.settings, conversation, || counts(chat))
}

/// Like [`window_sources`], without the limit on one request, which is no window.
fn refused_window_sources(
    chat: &Chat<'_>,
    record: Option<&CompactionRecord>,
    observations: &ModelObservations,
) -> WindowSources {
    let windows = &chat.knowledge.windows;
    let own = windows.conversation_window(&chat.prefix_keys);
    observed_window_sources(chat, &chat.model, record, observations).with_conversation_window(own)
}

/// Returns the window in force as its source states it.
pub(super) fn window_note(chat: &Chat<'_>, record: Option<&CompactionRecord>) -> WindowNote {
    let observations = chat.knowledge.windows.observations(&chat.model);
    let sources = observed_sources(chat, record, &observations);
    let (tokens, selected) = sources.policy_window();
    let stated = || observations.learned_window()?.stated;
    let (tokens, source) = match selected {
        SelectedSource::Setting => (tokens, WindowSource::Setting),
        SelectedSource::Refusal => match stated() {
            Some(stated) => (stated, WindowSource::Refusal),
            None => (tokens, WindowSource::EstimatedFromRefusal),
        },
        SelectedSource::Table | SelectedSource::Default => match sources.reported {
            Some(reported) => (reported, WindowSource::Upstream),
            None if selected == SelectedSource::Table => (tokens, WindowSource::Table),
            None => (tokens, WindowSource::Assumed),
        },
    };
    WindowNote { tokens, source }
}

/// Returns the smallest window that refusals have shown for the model or for this conversation.
pub(super) fn smallest_refused_window(chat: &Chat<'_>, inputs: &PlanInputs) -> Option<Tokens> {
    let observations = chat.knowledge.windows.observations(&chat.model);
    let own = refused_window_sources(chat, inputs.adopted(), &observations);
    let others = observations.learned_window();
    let others = others.map(LearnedWindow::for_other_conversations);
    let shown = own.refusal.into_iter().chain(others);
    shown.map(RefusalWindow::tokens).min()
}

/// Learns the window that a refusal reveals: for the caller if the stated limit is credible, else
/// for this conversation alone. A body that lacks a part of its history has an unknown size, so its
/// refusal counts for this conversation alone.
pub(super) fn learn_from_refusal(chat: &Chat<'_>, refused: &RefusedAttempt) {
    let windows = &chat.knowledge.windows;
    let sources = model_window_sources(chat, &chat.model, None);
    let is_partial = chat.request.conversation.params().is_partial;
    if !is_partial && is_credible_limit(refused.tokens, &refused.overflow, sources.stated()) {
        learn_for_caller(chat, refused);
    } else {
        windows.learn_for_conversation(&chat.prefix_keys, refused.tokens, &refused.overflow);
    }
}

/// Learns the window that a refusal reveals for all conversations of the caller with the model.
fn learn_for_caller(chat: &Chat<'_>, refused: &RefusedAttempt) {
    let windows = &chat.knowledge.windows;
    let before = windows.observations(&chat.model).learned_window();
    windows.learn_from_refusal(&chat.model, refused.tokens, &refused.overflow);
    notices::log_learned_window(chat, refused, before);
    if windows.observations(&chat.model).learned_window() != before {
        notices::report_lowered_window(chat, refused);
    }
}

/// Learns the window that the refusal of a request states whose history the provider keeps.
///
/// The request itself stays as it is. Other conversations of the caller with the model hold their history, and
/// fit the window before they are sent.
pub(super) fn learn_from_stateful_refusal(
    chat: &Chat<'_>,
    first: &Attempt,
    status: StatusCode,
    overflow: Overflow,
) {
    let visible = first.tokens(chat.request.conversation);
    if !is_credible_given_hidden_history(visible, &overflow) {
        return;
    }
    let refused = RefusedAttempt {
        // The upstream alone knows the size. At this size, the window in estimated tokens is the stated one.
        tokens: Tokens::new(overflow.prompt_size().unwrap_or_default()),
        window: first.inputs.policy.thresholds.window,
        status,
        overflow,
    };
    learn_for_caller(chat, &refused);
}

/// Learns the window that the refusal of a summary call reveals, of the model that was called. An endpoint
/// of its own for summaries says nothing about the upstream.
pub(super) fn learn_from_summary_call(chat: &Chat<'_>, refused: CallOverflow) {
    let services = chat.services();
    if services.summary_endpoint.is_some() {
        return;
    }
    let CallOverflow {
        tokens,
        status,
        overflow,
    } = refused;
    match &services.config.summary.model {
        SummaryModel::Named(name) if **name != *chat.model => {
            let sources = model_window_sources(chat, name, None);
            if is_credible_limit(tokens, &overflow, sources.stated()) {
                let windows = &chat.knowledge.windows;
                windows.learn_from_refusal(name, tokens, &overflow);
            }
        }
        SummaryModel::Disabled | SummaryModel::Named(_) | SummaryModel::SameAsConversation => {
            let refused = RefusedAttempt {
                tokens,
                window: policy(chat, None).thresholds.window,
                status,
                overflow,
            };
            learn_from_refusal(chat, &refused);
        }
    }
}

/// Learns the largest request that the account may send: for the caller if the stated limit is
/// credible, else for this conversation alone.
pub(super) fn learn_request_limit(chat: &Chat<'_>, refused: &RefusedAttempt) {
    let (windows, overflow) = (&chat.knowledge.windows, &refused.overflow);
    let is_partial = chat.request.conversation.params().is_partial;
    if !is_partial && is_credible_limit(refused.tokens, overflow, []) {
        windows.learn_request_limit(&chat.model, refused.tokens, overflow);
        notices::log_request_limit(chat, refused);
    } else {
        windows.learn_for_conversation(&chat.prefix_keys, refused.tokens, overflow);
    }
}

/// Whether the model's window is only assumed, because no source states it.
pub(super) fn window_is_assumed(chat: &Chat<'_>, inputs: &PlanInputs) -> bool {
    window_sources(chat, inputs.adopted()).is_assumed()
}

/// Divisor of the assumed window above which a listing may matter, if the table of models states
/// the window.
const NEAR_TABLE_WINDOW: u32 = 2;

/// Divisor of the assumed window above which a listing may matter. The actual window may be much
/// smaller.
const NEAR_ASSUMED_WINDOW: u32 = 16;

/// Half of Ollama's default window of 4,096 tokens. A shorter chat fits all common defaults but those of old
/// releases.
const NEAR_LOCAL_WINDOW: Tokens = Tokens::new(2_048);

/// Whether the window that the upstream lists may change this chat's next plan: if the chat comes near
/// the window that its model may have. So hundreds of callers do not query every hour.
fn listing_may_matter(chat: &Chat<'_>, observations: &ModelObservations) -> bool {
    let host = chat.services().config.upstream.base.host_kind();
    let sources = observed_window_sources(chat, &chat.model, None, observations);
    let tokens = chat.request.conversation.tokens();
    is_near(tokens, host, sources.policy_window())
}

/// Whether a chat of `tokens` comes near the assumed window. A local server may have any window.
fn is_near(tokens: Tokens, host: HostKind, (window, source): (Tokens, SelectedSource)) -> bool {
    if host == HostKind::Local {
        return tokens >= NEAR_LOCAL_WINDOW;
    }
    let divisor = match source {
        SelectedSource::Default => NEAR_ASSUMED_WINDOW,
        SelectedSource::Refusal | SelectedSource::Setting | SelectedSource::Table => {
            NEAR_TABLE_WINDOW
        }
    };
    tokens >= window.divided_by(divisor)
}

/// Queries the upstream for the window of this chat's model after a reply with `status`.
/// Skipped if a better source exists or the upstream was queried recently.
pub(crate) fn query_upstream_window(chat: &Chat<'_>, status: StatusCode) {
    let services = chat.services();
    let config = &services.config;
    let asks = config.upstream.query_windows && status.is_success() && !chat.model.is_empty();
    if !asks || chat.configured_window().is_some() {
        return;
    }
    let observations = chat.knowledge.windows.observations(&chat.model);
    if observations.window().is_some()
        || !chat.knowledge.reported_windows.is_due(&chat.model)
        || !listing_may_matter(chat, &observations)
    {
        return;
    }
    // For a deployment, the path selects the model, whatever name is in the body.
    let path = chat.request.route.mapped.path();
    let Some(prefix) = Dialect::split_path(path)
        .map(|(prefix, _)| prefix)
        .filter(|prefix| !prefix.contains("/deployments/"))
        // An answer to longhaul's own key counts for all callers, so no caller chooses its path.
        .filter(|prefix| {
            !services.keys.holds_upstream_key() || *prefix == config.upstream.base.path()
        })
    else {
        return;
    };
    let base = &config.upstream.base;
    let mut fields = headers::for_model_query(&chat.request.head.headers, base.host());
    if let Some(name) = services.scopes.caller_header() {
        fields.remove(name);
    }
    let question = WindowQuery {
        model: (*chat.model).to_owned(),
        scheme: base.scheme().clone(),
        authority: base.authority().clone(),
        host_kind: base.host_kind(),
        models_path: format!("{prefix}/models"),
        credentials: if services.keys.holds_upstream_key() {
            String::new()
        } else {
            identifying_query(chat.request.route.mapped.query())
        },
        headers: services
            .keys
            .replace_credentials(chat.request.head, path, fields),
    };
    chat.knowledge.reported_windows.query_in_background(
        question,
        chat.knowledge.scope(),
        services.knowledge.queries(),
        &services.upstream,
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assumed_window_is_near_at_a_smaller_size_than_a_listed_one() {
        let window = Tokens::new(200_000);
        for (source, near) in [
            (SelectedSource::Table, 100_000),
            (SelectedSource::Default, 12_500),
        ] {
            let is_near =
                |tokens| is_near(Tokens::new(tokens), HostKind::Unknown, (window, source));
            assert!(is_near(near) && !is_near(near - 1));
        }
    }

    #[test]
    fn short_chats_do_not_query_a_local_server() {
        let default = (Tokens::new(200_000), SelectedSource::Default);
        let is_near = |tokens| is_near(Tokens::new(tokens), HostKind::Local, default);
        assert!(is_near(2_048) && !is_near(2_047));
    }
}
