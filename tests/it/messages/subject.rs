//! Test adapters for the product's API, for bodies of Messages.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;

use flate2::read::GzDecoder;
use longhaul_core::conversation::Conversation;
use longhaul_core::dialect::messages::read;
use longhaul_core::planning::history_fold::{HardThresholdMode, fold};
use longhaul_core::planning::plan::{SummarySource, plan};
use longhaul_core::planning::recovery::{RecoveryDecision, plan_recovery};
use longhaul_core::planning::splice::Splice;
use longhaul_core::planning::view::ForwardedView;
use longhaul_core::policy::cut_point::PinnedHead;
use longhaul_core::policy::placement::Placement;
use longhaul_core::policy::record::PriorRecords;
use longhaul_core::policy::{CompactionSettings, Policy};
use longhaul_core::units::tokens::Tokens;

use crate::oracle::pruner::Rule;
use crate::subject::policy;

/// Returns the recorded sessions, each with its name and its last request.
pub(crate) fn sessions() -> Vec<(String, Vec<u8>)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/messages/sessions");
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let mut files: Vec<_> =
        files.filter(|file| file.extension().is_some_and(|ending| ending == "gz")).collect();
    files.sort();
    let open = |file: std::path::PathBuf| {
        let mut body = Vec::new();
        let bytes = fs::read(&file).unwrap();
        GzDecoder::new(&*bytes).read_to_end(&mut body).unwrap();
        (file.file_name().unwrap().to_string_lossy().into_owned(), body)
    };
    files.into_iter().map(open).collect()
}

/// Returns the results that the product clears, by message.
pub(crate) fn cleared(body: &[u8], rule: &Rule) -> BTreeMap<usize, String> {
    let conversation = read(body).unwrap();
    let policy = policy(rule);
    let kept = PinnedHead::new(&conversation, &policy, None);
    let state = fold(&conversation, &policy, kept, None, HardThresholdMode::Cut, &[]).prune_state;
    let cleared = state.cleared().map(|result| {
        let message = conversation.message(result.message).unwrap();
        let words = result.placeholder.render(&conversation, message);
        (result.message, words.into_owned())
    });
    cleared.collect()
}

/// Returns the body that a view produces, if it changes anything.
fn spliced(conversation: &Conversation<'_>, view: &ForwardedView) -> Option<Vec<u8>> {
    let plan = view.replacements(conversation)?;
    Some(Splice::new(conversation, &plan)?.apply())
}

/// Returns the body that the rule's clearing alone produces.
pub(crate) fn pruned(body: &[u8], rule: &Rule) -> Option<Vec<u8>> {
    let conversation = read(body).unwrap();
    let known = PriorRecords::default();
    let view = plan(&conversation, &policy(rule), &known, SummarySource::Digest).view;
    spliced(&conversation, &view)
}

/// Returns every body that the product sends for `body` under a window: as planned, with the summary
/// merged, and after a refusal.
pub(crate) fn sent(body: &[u8], window: u32) -> Vec<Vec<u8>> {
    let conversation = read(body).unwrap();
    let known = PriorRecords::default();
    let mut sent = Vec::new();
    for placement in [Placement::Separate, Placement::Merged] {
        let mut policy = Policy::new(&CompactionSettings::default(), Tokens::new(window));
        policy.settings.placement = placement;
        let view = plan(&conversation, &policy, &known, SummarySource::Digest).view;
        sent.extend(spliced(&conversation, &view));
        let source = SummarySource::Digest;
        let decision = plan_recovery(&conversation, &policy, &known, &view, source);
        if let RecoveryDecision::Retry(view, _) = decision {
            sent.extend(spliced(&conversation, &view));
        }
    }
    sent
}
