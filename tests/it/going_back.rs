//! A conversation that is played to its end and then taken up again at earlier points, as by an undo
//! or a regenerated answer: whatever was done to it by then, what the client asks last is forwarded.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use longhaul::rewrite::chain::{Chains, RecordKey, Scope};
use longhaul::rewrite::chat_completions::read;
use longhaul::rewrite::compact::{Recovery, Rung, recover};
use longhaul::rewrite::conversation::Conversation;
use longhaul::rewrite::plan::{Summaries, plan};
use longhaul::rewrite::policy::Policy;
use longhaul::rewrite::record::{Known, Record};
use longhaul::rewrite::view::View;

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
    all: HashMap<RecordKey, Arc<Record>>,
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

    fn keep(&mut self, conversation: &Conversation<'_>, view: &View) {
        let chains = Chains::of(conversation, self.scope);
        let (at, key) = chains.reaching(view.reaches()).unwrap();
        let record = Arc::new(Record {
            model: conversation.model().into_owned(),
            ..view.record(conversation)
        });
        self.places.extend([at, view.covers(), view.reaches()]);
        self.all.entry(key).or_insert(record);
    }

    fn known(&self, conversation: &Conversation<'_>) -> Known {
        let chains = Chains::of(conversation, self.scope);
        let look = |key| {
            let record = self.all.get(&key)?;
            Some((self.adopted, Arc::clone(record)))
        };
        Known::gather(&chains, look, |_| true)
    }

    /// What is sent of `body`, which is refused as too long first where `refused` says so.
    pub(crate) fn send(&mut self, body: &[u8], policy: &Policy, refused: bool) -> Vec<u8> {
        let conversation = read(body).unwrap();
        let known = self.known(&conversation);
        let digest = Summaries::Digest;
        let outlook = plan(&conversation, policy, &known, digest);
        if refused
            && let Recovery::Retry(view, rung) =
                recover(&conversation, policy, &known, &outlook.view, digest)
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
        for summaries in [Summaries::Digest, Summaries::Model] {
            let goes_on = |view: &View| {
                let newest = shortened(&conversation, view);
                forwarded(&conversation, body, policy, view, newest);
            };
            let view = plan(&conversation, policy, &known, summaries).view;
            goes_on(&view);
            let recovery = recover(&conversation, policy, &known, &view, Summaries::Digest);
            if let Recovery::Retry(view, _) = recovery {
                goes_on(&view);
            }
        }
    }
}

fn newest(rung: Rung) -> Newest {
    match rung {
        Rung::Clipped => Newest::Shortened,
        Rung::Cleared | Rung::Digest | Rung::Summary => Newest::Kept,
    }
}

/// Where the newest results were too long, they are as long as they were.
fn shortened(conversation: &Conversation<'_>, view: &View) -> Newest {
    let last = conversation.messages().len() - 1;
    let clips = view.record(conversation).clips;
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
