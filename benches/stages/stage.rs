//! The stages of a rewrite, and what they are held against, each as something to run again.

use longhaul::rewrite::chain::{PrefixKeys, Scope};
use longhaul::rewrite::chat_completions::{read, read_cached};
use longhaul::rewrite::conversation::Conversation;
use longhaul::rewrite::plan::{Replacements, SummarySource, plan};
use longhaul::rewrite::policy::{CompactionSettings, Policy};
use longhaul::rewrite::recall::ParseCache;
use longhaul::rewrite::record::PriorRecords;
use longhaul::rewrite::splice::Splice;
use longhaul::rewrite::tokens::Tokens;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::hint::black_box;

/// One pass over a body. What it gives is of no use but to keep it from being optimised away.
pub(crate) type Pass<'a> = Box<dyn FnMut() -> usize + 'a>;

/// A window that most of the bodies fit into, and one that only the smallest does.
const WIDE: Tokens = Tokens::new(200_000);
const SMALL: Tokens = Tokens::new(32_000);

/// What is measured.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Stage {
    /// The body copied: what memory allows.
    Copy,
    /// `serde_json` finding the messages as raw values: the yardstick.
    RawValues,
    /// The body read, as where none of it was met before.
    ReadNew,
    /// The body read, as where all of it was, and more than once.
    Read,
    /// The keys of its prefixes, as where none of it was met before.
    ChainNew,
    /// The keys of its prefixes, as where all of it was and its reader has found it again.
    Chain,
    /// What to replace, for a wide window.
    PlanWide,
    /// The new bytes of that.
    SpliceWide,
    /// What to replace, for a small window.
    PlanSmall,
    /// The new bytes of that.
    SpliceSmall,
    /// All that a request in a wide window passes, most of which was met before.
    Whole,
}

impl Stage {
    pub(crate) const ALL: [Self; 11] = [
        Self::Copy,
        Self::RawValues,
        Self::ReadNew,
        Self::Read,
        Self::ChainNew,
        Self::Chain,
        Self::PlanWide,
        Self::SpliceWide,
        Self::PlanSmall,
        Self::SpliceSmall,
        Self::Whole,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Copy => "copy",
            Self::RawValues => "serde_json RawValue",
            Self::ReadNew => "read, new",
            Self::Read => "read, met before",
            Self::ChainNew => "chain, new",
            Self::Chain => "chain, met before",
            Self::PlanWide => "plan, 200k",
            Self::SpliceWide => "splice, 200k",
            Self::PlanSmall => "plan, 32k",
            Self::SpliceSmall => "splice, 32k",
            Self::Whole => "all, 200k",
        }
    }

    /// The stage over `body`, with all that goes before it done; none where nothing is spliced.
    pub(crate) fn pass(self, body: &[u8]) -> Result<Option<Pass<'_>>, String> {
        let read_first = || read(body).map_err(|why| format!("a body was not read: {why:?}"));
        let scope = Scope::new(&[0; 32], &[b"bench"]);
        Ok(match self {
            Self::Copy => Some(Box::new(|| black_box(body.to_vec()).len())),
            Self::RawValues => Some(Box::new(|| raw_values(body))),
            Self::ReadNew => Some(Box::new(|| read(body).map_or(0, |it| it.messages().len()))),
            Self::Read => {
                let recall = met_once(body, scope)?;
                Some(Box::new(move || {
                    read_cached(body, scope, &recall).map_or(0, |it| it.messages().len())
                }))
            }
            Self::ChainNew => {
                let conversation = read_first()?;
                Some(Box::new(move || {
                    PrefixKeys::new(&conversation, scope).newest_first().count()
                }))
            }
            Self::Chain => {
                let recall = met_once(body, scope)?;
                let conversation = read_cached(body, scope, &recall)
                    .map_err(|why| format!("a body was not read: {why:?}"))?;
                Some(Box::new(move || {
                    let chains = PrefixKeys::new(&conversation, scope);
                    chains.newest_first().count()
                }))
            }
            Self::PlanWide => Some(planning(read_first()?, policy(WIDE))),
            Self::PlanSmall => Some(planning(read_first()?, policy(SMALL))),
            Self::SpliceWide => splicing(read_first()?, &policy(WIDE)),
            Self::SpliceSmall => splicing(read_first()?, &policy(SMALL)),
            Self::Whole => {
                let (policy, recall) = (policy(WIDE), met_once(body, scope)?);
                Some(Box::new(move || whole(body, &policy, scope, &recall)))
            }
        })
    }
}

/// A memory in which the messages of `body` are. What was met in a row is found in one look from the
/// second time on that it was met: the pass before the one that counts.
fn met_once(body: &[u8], scope: Scope) -> Result<ParseCache, String> {
    let recall = ParseCache::new(scope);
    read_cached(body, scope, &recall).map_err(|why| format!("a body was not read: {why:?}"))?;
    Ok(recall)
}

fn policy(window: Tokens) -> Policy {
    Policy::new(&CompactionSettings::default(), window)
}

fn raw_values(body: &[u8]) -> usize {
    #[derive(Deserialize)]
    struct Request<'a> {
        #[serde(borrow)]
        messages: Vec<&'a RawValue>,
    }
    serde_json::from_slice::<Request<'_>>(body).map_or(0, |request| request.messages.len())
}

fn planning(conversation: Conversation<'_>, policy: Policy) -> Pass<'_> {
    Box::new(move || usize::from(decide(&conversation, &policy).is_some()))
}

fn splicing<'a>(conversation: Conversation<'a>, policy: &Policy) -> Option<Pass<'a>> {
    let plan = decide(&conversation, policy)?;
    Some(Box::new(move || spliced(&conversation, &plan)))
}

fn whole(body: &[u8], policy: &Policy, scope: Scope, recall: &ParseCache) -> usize {
    let Ok(conversation) = read_cached(body, scope, recall) else {
        return 0;
    };
    let keys = PrefixKeys::new(&conversation, scope).newest_first().count();
    let length = decide(&conversation, policy).map_or(0, |plan| spliced(&conversation, &plan));
    keys + length
}

fn decide(conversation: &Conversation<'_>, policy: &Policy) -> Option<Replacements> {
    let outlook = plan(
        conversation,
        policy,
        &PriorRecords::default(),
        SummarySource::Digest,
    );
    outlook.view.replacements(conversation)
}

fn spliced(conversation: &Conversation<'_>, plan: &Replacements) -> usize {
    Splice::new(conversation, plan).map_or(0, |splice| splice.apply().len())
}
