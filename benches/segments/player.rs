//! Plays a session against the core, as the proxy does: every request starts from the record that the
//! one before left.

use crate::caches::{Cache, Charge, Prompt, Rule};
use crate::sessions::Failure;
use longhaul_core::conversation::Conversation;
use longhaul_core::conversation::parse_cache::ParseCache;
use longhaul_core::dialect::Dialect;
use longhaul_core::planning::plan::{SummarySource, plan};
use longhaul_core::planning::recovery::{RecoveryDecision, plan_recovery};
use longhaul_core::planning::splice::Splice;
use longhaul_core::planning::view::ForwardedView;
use longhaul_core::policy::Policy;
use longhaul_core::policy::record::{CompactionRecord, PriorRecords, RecordMatch};
use longhaul_core::units::scope::Scope;
use std::sync::Arc;

/// A proxy without sockets.
pub(crate) struct Player {
    policy: Policy,
    scope: Scope,
    parse_cache: ParseCache,
    record: Option<RecordMatch>,
    caches: Vec<Cache>,
}

/// Outcome of a request.
pub(crate) struct Played {
    /// Charge by rule.
    pub(crate) charges: Vec<(Rule, Charge)>,
    /// Whether history gave way to a text, or to a longer one.
    pub(crate) compacted: bool,
    /// Whether the request would have been refused and sent again.
    pub(crate) refused: bool,
    /// The forwarded body.
    pub(crate) forwarded: Vec<u8>,
}

impl Player {
    pub(crate) fn new(policy: Policy, rules: &[Rule]) -> Self {
        Self {
            policy,
            scope: scope(),
            parse_cache: ParseCache::new(scope()),
            record: None,
            caches: rules.iter().copied().map(Cache::new).collect(),
        }
    }

    /// Forgets everything, like a process that restarts with a store in memory.
    pub(crate) fn restart(&mut self) {
        self.record = None;
        self.parse_cache = ParseCache::new(scope());
    }

    /// Returns the record from which the next request starts.
    pub(crate) fn record(&self) -> Option<RecordMatch> {
        self.record.clone()
    }

    /// Lets the next request start from `record`.
    pub(crate) fn restore(&mut self, record: Option<RecordMatch>) {
        self.record = record;
    }

    /// Sends a request.
    pub(crate) fn send(&mut self, body: &[u8]) -> Result<Played, Failure> {
        let conversation = Dialect::ChatCompletions
            .read_cached(body, self.scope, &self.parse_cache)
            .map_err(|why| format!("a body was not read: {why:?}"))?;
        let prior = PriorRecords { adopted: self.record.clone(), ..PriorRecords::default() };
        let planned = plan(&conversation, &self.policy, &prior, SummarySource::Digest);
        let (mut view, mut compacted) = (planned.view, planned.fresh_digest);
        let most = self.policy.thresholds.max_input(conversation.output_tokens());
        let refused = view.tokens(&conversation) > most;
        if refused
            && let RecoveryDecision::Retry(smaller, _) =
                plan_recovery(&conversation, &self.policy, &prior, &view, SummarySource::Digest)
        {
            (view, compacted) = (smaller, true);
        }
        let forwarded = match view.replacements(&conversation) {
            Some(edits) => {
                Splice::new(&conversation, &edits).ok_or("a rewrite is not sound")?.apply()
            }
            None => body.to_vec(),
        };
        if compacted {
            self.record = adopted(&conversation, &view);
        }
        let mut charges = Vec::new();
        if !self.caches.is_empty() {
            let prompt = Prompt::read(&forwarded)?;
            charges.extend(self.caches.iter_mut().map(|it| (it.rule(), it.charge(&prompt))));
        }
        Ok(Played { charges, compacted, refused, forwarded })
    }
}

fn scope() -> Scope {
    Scope::new(&[0; 32], &[b"bench"])
}

/// Returns the record that an accepted request leaves.
fn adopted(conversation: &Conversation<'_>, view: &ForwardedView) -> Option<RecordMatch> {
    let least = view.changed_prefix_len();
    let mut boundaries = conversation.boundaries().iter().copied();
    Some(RecordMatch {
        prefix_end: boundaries.find(|&at| at >= least)?,
        adopted: true,
        record: Arc::new(CompactionRecord { compaction_count: 1, ..view.to_record(conversation) }),
    })
}
