//! Plays a conversation to its end and continues it at earlier points, as after an undo or a
//! regenerated answer. Whatever was compacted before, the client's newest message must be
//! forwarded.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use longhaul_core::conversation::Conversation;
use longhaul_core::dialect::chat_completions::read;
use longhaul_core::planning::plan::{SummarySource, plan};
use longhaul_core::planning::recovery::{RecoveryDecision, RecoveryStep, plan_recovery};
use longhaul_core::planning::view::ForwardedView;
use longhaul_core::policy::Policy;
use longhaul_core::policy::record::{CompactionRecord, PriorRecords};
use longhaul_core::prefix::keys::PrefixKeys;
use longhaul_core::units::scope::{RecordKey, Scope};

use crate::oracle::reader::messages;
use crate::promises::{Newest, forwarded};

/// Every `REFUSED`th request is refused as too long.
const REFUSED: usize = 5;
/// Conversations up to this length are continued at every message; longer ones only at messages
/// that were changed.
const SHORT: usize = 64;

/// Records of one caller.
pub(crate) struct Notes {
    scope: Scope,
    /// Whether the records are in use, rather than waiting until they are needed.
    adopted: bool,
    all: HashMap<RecordKey, Arc<CompactionRecord>>,
    /// Ends of the records' prefixes, and positions of the changes.
    places: BTreeSet<usize>,
}

impl Notes {
    pub(crate) fn of_caller(adopted: bool) -> Self {
        Self {
            scope: Scope::new(&[0; 32], &[]),
            adopted,
            all: HashMap::new(),
            places: BTreeSet::new(),
        }
    }

    fn keep(&mut self, conversation: &Conversation<'_>, view: &ForwardedView) {
        let chains = PrefixKeys::new(conversation, self.scope);
        // Look-ups take the longest prefix with a record.
        let in_use = self.known(conversation).adopted;
        let in_use = in_use.map_or(0, |found| found.prefix_end);
        let least = view.changed_prefix_len().max(in_use);
        let (at, key) = chains.first_at_least(least).unwrap();
        let record = Arc::new(CompactionRecord {
            model: conversation.model().into_owned(),
            ..view.to_record(conversation)
        });
        self.places.extend([at, view.summarised_until(), view.changed_prefix_len()]);
        // The first writer of a key wins; the proxy then stores the record under a longer prefix.
        let key = if self.all.contains_key(&key) { chains.longer_than(at) } else { Some(key) };
        if let Some(key) = key {
            self.all.entry(key).or_insert(record);
        }
    }

    fn known(&self, conversation: &Conversation<'_>) -> PriorRecords {
        let chains = PrefixKeys::new(conversation, self.scope);
        let look = |key| {
            let record = self.all.get(&key)?;
            Some((self.adopted, Arc::clone(record)))
        };
        PriorRecords::look_up(&chains, look, |_| true)
    }

    /// Returns the body forwarded for `body`; if `refused`, the first attempt is refused as too
    /// long.
    pub(crate) fn send(&mut self, body: &[u8], policy: &Policy, refused: bool) -> Vec<u8> {
        let conversation = read(body).unwrap();
        let known = self.known(&conversation);
        let digest = SummarySource::Digest;
        let outlook = plan(&conversation, policy, &known, digest);
        if refused
            && let RecoveryDecision::Retry(view, rung) =
                plan_recovery(&conversation, policy, &known, &outlook.view, digest)
        {
            self.keep(&conversation, &view);
            return forwarded(&conversation, body, policy, &view, newest(rung));
        }
        if outlook.fresh_digest {
            self.keep(&conversation, &outlook.view);
        }
        forwarded(&conversation, body, policy, &outlook.view, Newest::Kept)
    }

    /// Checks the forwarded bodies of a repeated conversation, both accepted and refused.
    fn again(&self, body: &[u8], policy: &Policy) {
        let conversation = read(body).unwrap();
        let known = self.known(&conversation);
        for summaries in [SummarySource::Digest, SummarySource::Model] {
            let goes_on = |view: &ForwardedView| {
                let newest = shortened(&conversation, view);
                forwarded(&conversation, body, policy, view, newest);
            };
            let view = plan(&conversation, policy, &known, summaries).view;
            goes_on(&view);
            let recovery =
                plan_recovery(&conversation, policy, &known, &view, SummarySource::Digest);
            if let RecoveryDecision::Retry(view, _) = recovery {
                goes_on(&view);
            }
        }
    }
}

fn newest(rung: RecoveryStep) -> Newest {
    match rung {
        RecoveryStep::Clipped => Newest::Shortened,
        RecoveryStep::Cleared
        | RecoveryStep::Digest
        | RecoveryStep::Images
        | RecoveryStep::Summary => Newest::Kept,
    }
}

/// Whether the newest results may be shortened, because they were too long before.
fn shortened(conversation: &Conversation<'_>, view: &ForwardedView) -> Newest {
    let last = conversation.messages().len() - 1;
    let clips = view.to_record(conversation).clips;
    if clips.iter().any(|clip| clip.message == last) { Newest::Shortened } else { Newest::Kept }
}

/// Plays a body's conversation at every `every`th request, and goes back.
pub(crate) fn goes_back_soundly(body: &[u8], policy: &Policy, every: usize) {
    let Ok(conversation) = read(body) else {
        return;
    };
    let messages = messages(body);
    let upto = |end: usize| format!(r#"{{"messages":[{}]}}"#, messages[..end].join(","));
    for adopted in [true, false] {
        let mut records = Notes::of_caller(adopted);
        let points = conversation.request_points().step_by(every);
        for (turn, end) in points.enumerate() {
            let refused = turn % REFUSED == REFUSED - 1;
            records.send(upto(end).as_bytes(), policy, refused);
        }
        let ends = 1..=messages.len();
        let places = &records.places;
        let near = |end: &usize| (end - 1..=end + 1).any(|it| places.contains(&it));
        for end in ends.filter(|end| messages.len() <= SHORT || near(end)) {
            records.again(upto(end).as_bytes(), policy);
        }
    }
}
