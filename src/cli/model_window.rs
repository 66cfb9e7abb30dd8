//! A model's window as known without a conversation, and its source in words.

use crate::config::{Config, ModelSettings};
use crate::models::{self, HostKind, MatchKind, TableMatch};
use longhaul_core::conversation::Conversation;
use longhaul_core::policy::{Policy, Profile};
use longhaul_core::units::tokens::Tokens;
use longhaul_core::window::source::WindowSource;
use longhaul_core::window::token_ratio::TokenCalibration;
use longhaul_core::window::{WindowSources, script_ratio};

/// The known facts about one model's window at the configured upstream.
pub(super) struct ModelWindow<'c> {
    config: &'c Config,
    settings: ModelSettings<'c>,
    model: String,
    table_entry: Option<TableMatch>,
    sources: WindowSources,
}

impl<'c> ModelWindow<'c> {
    /// Combines the settings and the table for `model` with `reported`, the window that the upstream
    /// reports.
    pub(super) fn for_model(config: &'c Config, model: &str, reported: Option<Tokens>) -> Self {
        let found = models::look_up(config.upstream.base.host_kind(), model);
        let conduct = config.settings_for(model);
        Self {
            config,
            model: model.to_owned(),
            table_entry: found,
            sources: WindowSources {
                setting: conduct.configured_window(),
                refusal: None,
                reported,
                table: found.map(|found| found.limits.table_window()),
                default: conduct.window,
            },
            settings: conduct,
        }
    }

    /// Returns the policy that the settings yield for the model.
    pub(super) fn policy(&self) -> Policy {
        self.sources.policy(&self.settings.compaction)
    }

    /// Like [`Self::policy`], for a conversation without counted tokens.
    pub(super) fn policy_for(&self, conversation: &Conversation<'_>) -> Policy {
        let uncounted = || TokenCalibration {
            text_ratio: script_ratio::predict(conversation),
            ..TokenCalibration::default()
        };
        self.sources.calibrated_policy(&self.settings.compaction, conversation, uncounted)
    }

    /// Names the source of the policy's window in a word or two.
    pub(super) fn source(&self) -> String {
        match self.sources.policy_window().1 {
            WindowSource::Setting => {
                let place = self.settings.window_place.as_deref();
                place.unwrap_or_default().to_owned()
            }
            WindowSource::Table => match self.table_entry {
                Some(found) => format!("table, {} {}", found.limits.provider, found.limits.model),
                None => "table".into(),
            },
            WindowSource::Assumed
            | WindowSource::Refusal
            | WindowSource::RefusedSize
            | WindowSource::Upstream => {
                if self.is_of_profile() { "profile local" } else { "assumed" }.into()
            }
        }
    }

    /// Returns the largest window that a setting or the table states: a setting may be below the model's own.
    pub(super) fn largest_stated(&self) -> Option<Tokens> {
        self.sources.stated().max()
    }

    /// Whether neither a setting, a profile nor the table gives the window, so that only the default
    /// is left. An answer of the upstream does not count: the clearing rule does not use it.
    pub(super) fn is_assumed(&self) -> bool {
        self.sources.policy_window().1 == WindowSource::Assumed && !self.is_of_profile()
    }

    /// Whether the window is the profile's, which an answer of the upstream replaces for summaries alone.
    pub(super) fn is_of_profile(&self) -> bool {
        self.sources.policy_window().1 == WindowSource::Assumed
            && self.settings.compaction.profile == Profile::Local
    }

    /// Returns names in the table that resemble the model's, if the table does not list the model.
    pub(super) fn near_names(&self) -> Vec<&'static str> {
        if self.table_entry.is_some() {
            return Vec::new();
        }
        models::near_names(upstream_host(self.config), &self.model)
    }

    /// Explains which row of the table applies and how it was found, or why none does.
    pub(super) fn table_match(&self) -> String {
        let (host, name) = (upstream_host(self.config), &self.model);
        let Some(TableMatch { limits, kind }) = self.table_entry else {
            return match HostKind::from_host(host) {
                HostKind::Local => {
                    format!("{host} is local: the window depends on how its server was started")
                }
                HostKind::Provider(provider) => {
                    format!("{host} is {provider}, for which the table has no {name:?}")
                }
                HostKind::Unknown => format!("the table has no {name:?} of any provider"),
            };
        };
        let (provider, model) = (&limits.provider, &limits.model);
        match kind {
            MatchKind::Exact => format!("{host} is {provider}, which lists it by that name"),
            MatchKind::Normalised => format!("{host} is {provider}, which lists it as {model}"),
            MatchKind::OtherHost { rows } => format!(
                "{host} is not a known provider; rows by that name: {rows}, the smallest is {model} \
                 of {provider}"
            ),
        }
    }
}

fn upstream_host(config: &Config) -> &str {
    config.upstream.base.authority().host()
}
