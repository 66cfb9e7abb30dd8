//! A conversation that is played to its end and then taken up again at earlier points, as by an undo
//! or a regenerated answer: whatever was done to it by then, what the client asks last is forwarded.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use longhaul::rewrite::chain::{PrefixKeys, RecordKey, Scope};
use longhaul::rewrite::chat_completions::read;
use longhaul::rewrite::compact::{RecoveryDecision, RecoveryStep, plan_recovery};
use longhaul::rewrite::conversation::Conversation;
use longhaul::rewrite::plan::{SummarySource, plan};
use longhaul::rewrite::policy::Policy;
use longhaul::rewrite::record::{CompactionRecord, PriorRecords};
use longhaul::rewrite::view::ForwardedView;

use crate::oracle::reader::messages;
use crate::promises::{Newest, forwarded};

/// One request in so many is refused as too long.
const REFUSED: usize = 5;
/// Conversations of so many messages are taken up at each of them, longer ones where something was
/// done to them.
const SHORT: usize = 64;

/// What is kept of one caller.
pub(crate) struct Notes {
    scope: Scope,
    /// Whether they are in use, or wait to be needed.
    adopted: bool,
    all: HashMap<RecordKey, Arc<CompactionRecord>>,
    /// Where their prefixes end, and what they did to them.
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
        let (at, key) = chains.first_at_least(view.changed_prefix_len()).unwrap();
        let record = Arc::new(CompactionRecord {
            model: conversation.model().into_owned(),
            ..view.to_record(conversation)
        });
        self.places
            .extend([at, view.summarised_until(), view.changed_prefix_len()]);
        self.all.entry(key).or_insert(record);
    }

    fn known(&self, conversation: &Conversation<'_>) -> PriorRecords {
        let chains = PrefixKeys::new(conversation, self.scope);
        let look = |key| {
            let record = self.all.get(&key)?;
            Some((self.adopted, Arc::clone(record)))
        };
        PriorRecords::look_up(&chains, look, |_| true)
    }

    /// What is sent of `body`, which is refused as too long first where `refused` says so.
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

    /// The same conversation is asked for once more: what goes on of it, whether it is refused or not.
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
        RecoveryStep::Cleared | RecoveryStep::Digest | RecoveryStep::Summary => Newest::Kept,
    }
}

/// Where the newest results were too long, they are as long as they were.
fn shortened(conversation: &Conversation<'_>, view: &ForwardedView) -> Newest {
    let last = conversation.messages().len() - 1;
    let clips = view.to_record(conversation).clips;
    if clips.iter().any(|clip| clip.message == last) {
        Newest::Shortened
    } else {
        Newest::Kept
    }
}

/// Plays the conversation of a body, at every so many of its requests, and goes back.
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
