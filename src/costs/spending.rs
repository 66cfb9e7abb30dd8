//! Spending of conversations and callers, on which a person can set caps.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::callers::AcceptedCallers;
use crate::callers::fair_cache::FairCache;
use crate::error::Fault;
use crate::wall_clock;
use longhaul_core::cost::caps::{Cap, Caps, Spent};
use longhaul_core::prefix::keys::PrefixKeys;
use longhaul_core::units::scope::{RecordKey, Scope};
use longhaul_core::units::usd::Usd;

/// Maximum conversations and callers whose spending is remembered. At 200 bytes each, 6 MB.
const MAX_SPENDERS: u64 = 32_768;
/// Lifetime of a sum after its last change.
const LIFETIME: Duration = Duration::from_hours(62 * 24);
/// Percentage of a cap from which on the log has a line.
const NEAR_PERCENT: u64 = 80;
/// Seconds of a day.
const DAY_SECONDS: u64 = 24 * 60 * 60;

/// The conversation and the caller that pay for a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Payer {
    /// `None` for a request without messages.
    conversation: Option<RecordKey>,
    caller: RecordKey,
}

impl Payer {
    /// Returns the payer of a request. Forks of one conversation begin alike, and share one sum.
    pub(crate) fn new(scope: Scope, prefix_keys: &PrefixKeys) -> Self {
        Self { conversation: prefix_keys.first_key(), caller: scope.named_key("spending of a day") }
    }
}

/// A sum in the state file.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct SpentRow {
    /// Bytes of the record key.
    key: Vec<u8>,
    #[serde(flatten)]
    spent: Spent,
}

/// Sums of the conversations, and of the day of each caller.
pub(crate) struct Spending {
    sums: FairCache<RecordKey, Spent>,
    /// Whether the log has said that a cost is unknown.
    has_warned: AtomicBool,
}

impl Spending {
    pub(crate) fn new(accepted: &Arc<AcceptedCallers>) -> Self {
        Self {
            sums: FairCache::of_entries(MAX_SPENDERS, LIFETIME, accepted),
            has_warned: AtomicBool::new(false),
        }
    }

    /// Returns the fault of a request whose payer has reached a cap; `None` if the request may pass.
    pub(crate) fn fault(&self, caps: Caps, payer: Payer) -> Option<Fault> {
        let spent = |key| self.sums.get(&key).unwrap_or_default();
        let conversation = payer.conversation.map(spent).unwrap_or_default();
        if conversation.reaches(caps.conversation) {
            Some(Fault::ConversationCap)
        } else if spent(payer.caller).on(today()).reaches(caps.day) {
            Some(Fault::DayCap)
        } else {
            None
        }
    }

    /// Adds a call's cost, if known, and its tokens. The log has a line when a sum nears its cap.
    pub(crate) fn add(&self, caps: Caps, payer: Payer, cost: Option<Usd>, tokens: u64) {
        let today = today();
        let more = Spent { day: today, cost: cost.unwrap_or(Usd::ZERO), tokens };
        let sums = [
            ("cap.conversation", caps.conversation, payer.conversation, false),
            ("cap.day", caps.day, Some(payer.caller), true),
        ];
        for (setting, cap, key, ends_daily) in sums {
            let (Some(cap), Some(key)) = (cap, key) else {
                continue;
            };
            let is_unknown = cost.is_none() && matches!(cap, Cap::Cost(_));
            if is_unknown && !self.has_warned.swap(true, Ordering::Relaxed) {
                tracing::warn!(
                    setting,
                    "the cost of a reply is unknown and does not count; set the model's price, or a cap in tokens"
                );
            }
            self.sums.update(key, |spent| {
                let before = spent.unwrap_or_default();
                let before = if ends_daily { before.on(today) } else { before };
                let after = before.plus(more);
                let percent = after.percent_of(cap);
                if percent >= NEAR_PERCENT && before.percent_of(cap) < NEAR_PERCENT {
                    tracing::warn!(setting, percent, "spending nears its cap");
                }
                Some(after)
            });
        }
    }

    /// Returns all sums, ordered by their keys.
    pub(crate) fn rows(&self) -> Vec<SpentRow> {
        let sums = self.sums.entries().into_iter();
        let mut rows: Vec<SpentRow> =
            sums.map(|(key, spent)| SpentRow { key: key.to_bytes().to_vec(), spent }).collect();
        rows.sort_by(|one, other| one.key.cmp(&other.key));
        rows
    }

    /// Restores the sums of an earlier process.
    pub(crate) fn restore(&self, rows: Vec<SpentRow>) {
        for row in rows {
            if let Some(key) = RecordKey::from_bytes(&row.key) {
                self.sums.insert(key, row.spent);
            }
        }
    }
}

/// Returns the number of days since 1970, in UTC.
fn today() -> u64 {
    wall_clock::unix_seconds() / DAY_SECONDS
}
