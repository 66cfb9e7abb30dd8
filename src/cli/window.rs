//! What is known of a model's window without a conversation, in words.

use crate::config::{Config, ModelSettings, WindowOrigin};
use crate::models::{self, HostKind, MatchKind, TableMatch};
use crate::rewrite::conversation::Conversation;
use crate::rewrite::policy::Policy;
use crate::rewrite::tokens::Tokens;
use crate::rewrite::window::count::TokenCalibration;
use crate::rewrite::window::{SelectedSource, WindowSources, expected_ratio};

/// What is known of one model's window at the configured upstream.
pub(super) struct ModelWindow<'c> {
    config: &'c Config,
    settings: ModelSettings<'c>,
    model: String,
    table_entry: Option<TableMatch>,
    sources: WindowSources,
}

impl<'c> ModelWindow<'c> {
    /// What the settings and the table know of `model`, and what the upstream has `asked` to hold.
    pub(super) fn for_model(config: &'c Config, model: &str, asked: Option<Tokens>) -> Self {
        let found = models::look_up(upstream_host(config), model);
        let conduct = config.settings_for(model);
        Self {
            config,
            model: model.to_owned(),
            table_entry: found,
            sources: WindowSources {
                setting: conduct.configured_window(),
                refusal: None,
                reported: asked,
                table: found.map(|found| found.limits.table_window()),
                default: conduct.window,
            },
            settings: conduct,
        }
    }

    /// What the settings come to for it.
    pub(super) fn policy(&self) -> Policy {
        self.sources.policy(&self.settings.compaction)
    }

    /// The same for a conversation of which nothing was counted yet.
    pub(super) fn policy_for(&self, conversation: &Conversation<'_>) -> Policy {
        let uncounted = || TokenCalibration {
            text_ratio: expected_ratio(conversation),
            ..TokenCalibration::default()
        };
        self.sources
            .calibrated_policy(&self.settings.compaction, conversation, uncounted)
    }

    /// Who says what its policy window is, in a word or two.
    pub(super) fn source(&self) -> String {
        match (
            self.sources.policy_window().1,
            &*self.settings.window_origin,
        ) {
            (SelectedSource::Setting, WindowOrigin::Setting(place)) => place.clone(),
            (SelectedSource::Table, _) => match self.table_entry {
                Some(found) => format!("table, {} {}", found.limits.provider, found.limits.model),
                None => "table".into(),
            },
            (
                SelectedSource::Default | SelectedSource::Refusal | SelectedSource::Setting,
                WindowOrigin::Profile,
            ) => "profile local".into(),
            (SelectedSource::Default | SelectedSource::Refusal | SelectedSource::Setting, _) => {
                "default".into()
            }
        }
    }

    /// Why: which row of the table it is and how it was come by, or why there is none.
    pub(super) fn table_match(&self) -> String {
        let host = upstream_host(self.config);
        let Some(TableMatch {
            limits: entry,
            kind: reason,
        }) = self.table_entry
        else {
            return match HostKind::from_host(host) {
                HostKind::Local => format!("{host} is local: it holds what it was started with"),
                HostKind::Provider(provider) => {
                    format!(
                        "{host} is {provider}, which has no {:?} in the table",
                        self.model
                    )
                }
                HostKind::Unknown => format!("no provider has {:?} in the table", self.model),
            };
        };
        match reason {
            MatchKind::Exact => format!("{host} is {}, which has it by that name", entry.provider),
            MatchKind::Normalised => {
                format!(
                    "{host} is {}, which has it as {}",
                    entry.provider, entry.model
                )
            }
            MatchKind::OtherHost { rows } => format!(
                "{host} is nobody's that is known; rows by that name: {rows}, the smallest is {} of {}",
                entry.model, entry.provider
            ),
        }
    }
}

/// Where the upstream is.
fn upstream_host(config: &Config) -> &str {
    config.upstream.base.authority().host()
}
