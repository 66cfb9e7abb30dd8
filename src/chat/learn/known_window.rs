//! The window of a model, from the sources that a chat's caller has.

use crate::chat::attempt::PlanInputs;
use crate::chat::context::Chat;
use crate::learned::windows::LearnedSizes;
use longhaul_core::policy::Policy;
use longhaul_core::policy::record::CompactionRecord;
use longhaul_core::units::tokens::Tokens;
use longhaul_core::window::learned_window::LearnedWindow;
use longhaul_core::window::source::{SourcedWindow, WindowSource};
use longhaul_core::window::token_ratio::TokenCalibration;
use longhaul_core::window::{RefusalWindow, WindowSources, script_ratio};

/// The window of one model for one chat, and what replies have shown of the window.
pub(in crate::chat) struct KnownWindow<'a> {
    chat: &'a Chat<'a>,
    model: &'a str,
    /// Window of the record that the conversation starts from.
    kept: Option<Tokens>,
    pub(in crate::chat) sizes: LearnedSizes,
}

/// Refusals that count as a source of the window. Each variant includes those before it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::chat) enum CountedRefusals {
    /// Of all conversations of the caller with the model, and of the record.
    Model,
    /// Of this conversation alone.
    Conversation,
    /// Of one request as too large for the account. Such a limit is not a window.
    RequestLimit,
}

impl<'a> KnownWindow<'a> {
    /// Looks up the window of the chat's model, for the conversation that starts from `record`.
    pub(in crate::chat) fn of_chat(chat: &'a Chat<'_>, record: Option<&CompactionRecord>) -> Self {
        let record = record.filter(|record| *record.model == *chat.model);
        let kept = record.and_then(|record| record.window);
        Self { kept, ..Self::of_model(chat, &chat.model) }
    }

    /// Looks up the window of `model`, for no conversation.
    pub(in crate::chat) fn of_model(chat: &'a Chat<'_>, model: &'a str) -> Self {
        Self { chat, model, kept: None, sizes: chat.learned.windows.sizes(model) }
    }

    pub(in crate::chat) fn sources(&self, counted: CountedRefusals) -> WindowSources {
        let (chat, model) = (self.chat, self.model);
        let config = &chat.state().config;
        let settings = config.settings_for(model);
        let kept = self.kept.map(RefusalWindow::Estimated);
        let sources = WindowSources {
            setting: settings.configured_window(),
            refusal: kept.or_else(|| self.of_other_conversations()),
            reported: chat.learned.reported_windows.window(model),
            table: if *model == *chat.model {
                chat.table_window
            } else {
                config.table_window(model)
            },
            default: settings.window,
        };
        if let Some(sent) = chat.request.from_gateway {
            return sources.for_sent_part(sent.budget, sent.part);
        }
        if counted == CountedRefusals::Model {
            return sources;
        }
        let own = chat.learned.windows.by_conversation.get(&chat.prefix_keys);
        let limit = self.sizes.request_limit();
        let limit = limit.filter(|_| counted == CountedRefusals::RequestLimit);
        sources.with_conversation_window(own).with_conversation_window(limit)
    }

    fn all_sources(&self) -> WindowSources {
        self.sources(CountedRefusals::RequestLimit)
    }

    fn of_other_conversations(&self) -> Option<RefusalWindow> {
        let learned = self.sizes.learned_window();
        learned.map(LearnedWindow::for_other_conversations)
    }

    /// Whether the window is only assumed, because no source states it.
    pub(in crate::chat) fn is_assumed(&self) -> bool {
        self.all_sources().is_assumed()
    }

    /// Returns the window in force for the plan of `inputs`, in estimated tokens. `None` if no source
    /// states the window.
    pub(in crate::chat) fn in_force(&self, inputs: &PlanInputs) -> Option<Tokens> {
        (!self.is_assumed()).then_some(inputs.policy.thresholds.actual_window)
    }

    /// Returns the window that the operator set, or the upstream stated to this caller.
    pub(in crate::chat) fn stated(&self) -> Option<Tokens> {
        let sources = self.sources(CountedRefusals::Model);
        sources.setting.or(sources.reported)
    }

    /// Whether the operator set the window, or the upstream stated the window to this caller. A window that
    /// only follows from the size of a refused request is not stated.
    pub(in crate::chat) fn is_stated(&self) -> bool {
        let sources = self.all_sources();
        match sources.policy_window().1 {
            WindowSource::Setting => true,
            WindowSource::Refusal | WindowSource::RefusedSize => {
                let learned = self.sizes.learned_window();
                self.sizes.request_limit().is_some()
                    || learned.is_some_and(|learned| learned.stated.is_some())
            }
            WindowSource::Table | WindowSource::Assumed | WindowSource::Upstream => {
                sources.reported.is_some()
            }
        }
    }

    /// Whether the model refused a request of at most `tokens` tokens in this conversation, and has
    /// accepted none of this size since. A window that follows from the size of a refused request is nine
    /// tenths of that size, or more. Other conversations may have sparser text, so they are sent as they
    /// are.
    pub(in crate::chat) fn was_refused_at(&self, tokens: Tokens) -> bool {
        let own = &self.chat.learned.windows;
        let own = own.by_conversation.get(&self.chat.prefix_keys);
        let window = self.kept.into_iter().chain(own);
        window.min().is_some_and(|window| tokens.percent(90) > window)
            && tokens > self.sizes.largest_accepted
    }

    /// Returns the smallest window that refusals have shown for the model or for this conversation.
    pub(in crate::chat) fn smallest_refused(&self) -> Option<Tokens> {
        let own = self.sources(CountedRefusals::Conversation).refusal;
        let shown = own.into_iter().chain(self.of_other_conversations());
        shown.map(RefusalWindow::tokens).min()
    }

    /// Returns the window in force as its source states it.
    pub(in crate::chat) fn sourced(&self) -> SourcedWindow {
        let learned = self.sizes.learned_window();
        let stated = learned.and_then(|learned| learned.stated);
        self.all_sources().window_in_force(stated)
    }
}

/// Builds the policy for the window in force and the conversation's token counts.
pub(in crate::chat) fn policy(chat: &Chat<'_>, record: Option<&CompactionRecord>) -> Policy {
    let sources = KnownWindow::of_chat(chat, record).all_sources();
    let conversation = chat.request.conversation;
    sources.calibrated_policy(&chat.settings, conversation, || counts(chat))
}

/// Collects token counts that show how the chat's model counts this conversation.
fn counts(chat: &Chat<'_>) -> TokenCalibration {
    let conversation = chat.request.conversation;
    let store = &chat.state().store;
    let last = store.last_count(&chat.prefix_keys, &chat.model);
    // The average stored with the conversation's last count applies to the conversation on every
    // replica.
    let average = last.and_then(|counted| counted.average_ratio);
    TokenCalibration {
        last_sample: last.map(|counted| counted.sample),
        model_ratio: average.or_else(|| chat.learned.windows.sizes(&chat.model).average_ratio),
        text_ratio: script_ratio::predict(conversation),
    }
}
