//! What a model's replies have taught, as far as it decides what is forwarded: the same for every
//! replica, and after a restart.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::rewrite::placement::Refusals;
use crate::rewrite::tokens::Tokens;
use crate::rewrite::window::count::Density;

/// What is known of one model of one upstream.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Lore {
    /// When it was learned, in milliseconds since 1970: of two, the later counts.
    pub(crate) at: u64,
    /// The window, learned from a refusal or from the end of a reply.
    pub(crate) window: Option<Tokens>,
    /// That window as the provider counts, where it cuts prompts to it.
    pub(crate) cut_to: Option<u32>,
    /// What it counts for the plain estimate, on average.
    pub(crate) density: Option<Density>,
    /// What the upstream says that it holds.
    pub(crate) asked: Option<Tokens>,
    /// Where it has refused a summary.
    pub(crate) refusals: Refusals,
}

impl Lore {
    /// It as what has been learned now, unless `before` says as much. An average moves with every
    /// reply: it is told again where it has moved by a sixteenth.
    pub(super) fn after(self, before: Self) -> Option<Self> {
        let density = match (before.density, self.density) {
            (Some(before), Some(now)) if !now.is_far_from(before) => Some(before),
            (_, now) => now,
        };
        let same = Self {
            at: before.at,
            density,
            ..self
        };
        (same != before).then(|| Self { at: now(), ..self })
    }
}

fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| {
            u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
        })
}
