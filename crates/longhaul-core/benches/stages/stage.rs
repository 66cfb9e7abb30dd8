//! The stages of a rewrite and their baselines, each as a repeatable pass.

use longhaul_core::conversation::Conversation;
use longhaul_core::conversation::parse_cache::ParseCache;
use longhaul_core::dialect::Dialect;
use longhaul_core::planning::plan::{Replacement, SummarySource, plan};
use longhaul_core::planning::splice::Splice;
use longhaul_core::policy::record::PriorRecords;
use longhaul_core::policy::{CompactionSettings, Policy};
use longhaul_core::prefix::keys::PrefixKeys;
use longhaul_core::units::scope::Scope;
use longhaul_core::units::tokens::Tokens;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::hint::black_box;

/// A pass over a body. The result only prevents the pass from being optimised away.
pub(crate) type Pass<'a> = Box<dyn FnMut() -> usize + 'a>;

/// A window that fits most of the bodies, and one that fits only the smallest.
const WIDE: Tokens = Tokens::new(200_000);
const SMALL: Tokens = Tokens::new(32_000);

/// A measured stage.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Stage {
    /// Copies the body: the limit set by memory.
    Copy,
    /// Finds the messages as raw values with `serde_json`: the baseline.
    RawValues,
    /// Reads the body with a cold cache.
    ReadNew,
    /// Reads the body after it was read more than once.
    Read,
    /// Computes the prefix keys with a cold cache.
    ChainNew,
    /// Computes the prefix keys of a body that the reader found in its cache.
    Chain,
    /// Plans the replacements for a wide window.
    PlanWide,
    /// Splices the new bytes for a wide window.
    SpliceWide,
    /// Plans the replacements for a small window.
    PlanSmall,
    /// Splices the new bytes for a small window.
    SpliceSmall,
    /// All stages of a request in a wide window, with most of its messages seen before.
    Whole,
    /// All stages of a request in a wide window, with a cold cache.
    FirstSight,
}

impl Stage {
    pub(crate) const ALL: [Self; 12] = [
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
        Self::FirstSight,
    ];

    /// The stages of a body that is only as large as it is to show that the cost is linear.
    pub(crate) const LINEAR: [Self; 3] = [Self::RawValues, Self::Whole, Self::FirstSight];

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
            Self::FirstSight => "first sight, 200k",
        }
    }

    /// Prepares the stage over `body`, with all earlier stages done. Returns `None` if there is
    /// nothing to splice.
    pub(crate) fn pass(self, dialect: Dialect, body: &[u8]) -> Result<Option<Pass<'_>>, String> {
        let read_first =
            || dialect.read(body).map_err(|why| format!("a body was not read: {why:?}"));
        let scope = Scope::new(&[0; 32], &[b"bench"]);
        Ok(match self {
            Self::Copy => Some(Box::new(|| black_box(body.to_vec()).len())),
            Self::RawValues => Some(Box::new(|| raw_values(body))),
            Self::ReadNew => {
                Some(Box::new(move || dialect.read(body).map_or(0, |it| it.messages().len())))
            }
            Self::Read => {
                let recall = met_once(dialect, body, scope)?;
                Some(Box::new(move || {
                    dialect.read_cached(body, scope, &recall).map_or(0, |it| it.messages().len())
                }))
            }
            Self::ChainNew => {
                let conversation = read_first()?;
                Some(Box::new(move || PrefixKeys::new(&conversation, scope).newest_first().count()))
            }
            Self::Chain => {
                let conversation = read_met(dialect, body, scope)?;
                Some(Box::new(move || {
                    let chains = PrefixKeys::new(&conversation, scope);
                    chains.newest_first().count()
                }))
            }
            Self::PlanWide => Some(planning(read_met(dialect, body, scope)?, policy(WIDE))),
            Self::PlanSmall => Some(planning(read_met(dialect, body, scope)?, policy(SMALL))),
            Self::SpliceWide => splicing(read_first()?, &policy(WIDE)),
            Self::SpliceSmall => splicing(read_first()?, &policy(SMALL)),
            Self::Whole => {
                let (policy, recall) = (policy(WIDE), met_once(dialect, body, scope)?);
                Some(Box::new(move || whole(dialect, body, &policy, scope, &recall)))
            }
            Self::FirstSight => {
                let policy = policy(WIDE);
                Some(Box::new(move || {
                    whole(dialect, body, &policy, scope, &ParseCache::new(scope))
                }))
            }
        })
    }
}

/// Reads `body` from a cache that holds the messages, as every request but the first does.
fn read_met(dialect: Dialect, body: &[u8], scope: Scope) -> Result<Conversation<'_>, String> {
    let recall = met_once(dialect, body, scope)?;
    dialect.read_cached(body, scope, &recall).map_err(|why| format!("a body was not read: {why:?}"))
}

/// Returns a cache that holds the messages of `body`. A run of messages is found in one look-up
/// from its second reading on, which is the uncounted pass.
fn met_once(dialect: Dialect, body: &[u8], scope: Scope) -> Result<ParseCache, String> {
    let recall = ParseCache::new(scope);
    dialect
        .read_cached(body, scope, &recall)
        .map_err(|why| format!("a body was not read: {why:?}"))?;
    Ok(recall)
}

fn policy(window: Tokens) -> Policy {
    Policy::new(&CompactionSettings::default(), window)
}

fn raw_values(body: &[u8]) -> usize {
    #[derive(Deserialize)]
    struct Request<'a> {
        #[serde(alias = "input", borrow)]
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

fn whole(
    dialect: Dialect,
    body: &[u8],
    policy: &Policy,
    scope: Scope,
    recall: &ParseCache,
) -> usize {
    let Ok(conversation) = dialect.read_cached(body, scope, recall) else {
        return 0;
    };
    let keys = PrefixKeys::new(&conversation, scope).newest_first().count();
    let length = decide(&conversation, policy).map_or(0, |plan| spliced(&conversation, &plan));
    keys + length
}

fn decide(conversation: &Conversation<'_>, policy: &Policy) -> Option<Vec<Replacement>> {
    let outlook = plan(conversation, policy, &PriorRecords::default(), SummarySource::Digest);
    outlook.view.replacements(conversation)
}

fn spliced(conversation: &Conversation<'_>, replacements: &[Replacement]) -> usize {
    Splice::new(conversation, replacements).map_or(0, |splice| splice.apply().len())
}
