//! What is known of a model's window without a conversation, in words.

use crate::config::{Conduct, Config, WindowSource};
use crate::models::{self, Found, Place, Reason};
use crate::rewrite::conversation::Conversation;
use crate::rewrite::policy::Policy;
use crate::rewrite::tokens::Tokens;
use crate::rewrite::window::count::Counts;
use crate::rewrite::window::{Believed, Sayings, expected};

/// What is known of one model's window at the configured upstream.
pub(super) struct Window<'c> {
    config: &'c Config,
    conduct: Conduct<'c>,
    model: String,
    found: Option<Found>,
    sayings: Sayings,
}

impl<'c> Window<'c> {
    /// What the settings and the table know of `model`, and what the upstream has `asked` to hold.
    pub(super) fn of(config: &'c Config, model: &str, asked: Option<Tokens>) -> Self {
        let found = models::look_up(host(config), model);
        let conduct = config.conduct(model);
        Self {
            config,
            model: model.to_owned(),
            found,
            sayings: Sayings {
                setting: conduct.set_window(),
                refused: None,
                asked,
                table: found.map(|found| found.entry.tabled()),
                default: conduct.window,
            },
            conduct,
        }
    }

    /// What the settings come to for it.
    pub(super) fn policy(&self) -> Policy {
        self.sayings.policy(&self.conduct.wishes)
    }

    /// The same for a conversation of which nothing was counted yet.
    pub(super) fn policy_for(&self, conversation: &Conversation<'_>) -> Policy {
        let uncounted = || Counts {
            text: expected(conversation),
            ..Counts::default()
        };
        self.sayings
            .counted(&self.conduct.wishes, conversation, uncounted)
    }

    /// Who says what its policy window is, in a word or two.
    pub(super) fn source(&self) -> String {
        match (self.sayings.policy_window().1, &*self.conduct.window_source) {
            (Believed::Setting, WindowSource::Setting(place)) => place.clone(),
            (Believed::Table, _) => match self.found {
                Some(found) => format!("table, {} {}", found.entry.provider, found.entry.model),
                None => "table".into(),
            },
            (Believed::Default | Believed::Refused | Believed::Setting, WindowSource::Profile) => {
                "profile local".into()
            }
            (Believed::Default | Believed::Refused | Believed::Setting, _) => "default".into(),
        }
    }

    /// Why: which row of the table it is and how it was come by, or why there is none.
    pub(super) fn why(&self) -> String {
        let host = host(self.config);
        let Some(Found { entry, reason }) = self.found else {
            return match Place::of(host) {
                Place::Local => format!("{host} is local: it holds what it was started with"),
                Place::Provider(provider) => {
                    format!(
                        "{host} is {provider}, which has no {:?} in the table",
                        self.model
                    )
                }
                Place::Unknown => format!("no provider has {:?} in the table", self.model),
            };
        };
        match reason {
            Reason::Exact => format!("{host} is {}, which has it by that name", entry.provider),
            Reason::Normalised => {
                format!(
                    "{host} is {}, which has it as {}",
                    entry.provider, entry.model
                )
            }
            Reason::OtherHost { rows } => format!(
                "{host} is nobody's that is known; rows by that name: {rows}, the smallest is {} of {}",
                entry.model, entry.provider
            ),
        }
    }
}

/// Where the upstream is.
fn host(config: &Config) -> &str {
    config.upstream.base.authority().host()
}
