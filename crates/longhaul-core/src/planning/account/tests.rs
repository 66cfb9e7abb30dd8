//! Tests of an account: it covers every message once, and its numbers add up.

use super::*;
use crate::dialect::chat_completions::read;
use crate::planning::plan::{SummarySource, plan};
use crate::policy::CompactionSettings;
use crate::policy::cut_point::PinnedHead;
use crate::policy::cut_point::tests::body;
use crate::policy::record::PriorRecords;
use crate::pruning::rule::PruneState;
use crate::pruning::rule::tests::rule;

/// Instructions, a question and four steps, each a call and its result of a thousand characters.
const STEPS: &str = "suctctctct";

fn policy(window: u32) -> Policy {
    Policy::new(&CompactionSettings::default(), Tokens::new(window))
}

/// Checks that the rows cover every message once and add up to the totals.
#[track_caller]
fn check_sums(account: &RequestAccount) {
    let mut end = account.rows.first().map_or(0, |row| row.from);
    for row in &account.rows {
        assert_eq!(row.from, end, "{row:?}");
        assert!(row.to > row.from);
        end = row.to;
    }
    assert_eq!(end, account.messages);
    let sum = |of: fn(&AccountRow) -> Tokens| account.rows.iter().map(of).sum::<Tokens>();
    assert_eq!(sum(|row| row.before) + account.tools, account.before);
    let summary = account
        .summary
        .as_ref()
        .map(|it| it.tokens)
        .unwrap_or_default();
    assert_eq!(
        sum(|row| row.after) + account.tools + summary,
        account.after
    );
}

#[test]
fn each_message_is_accounted_for_once_with_its_change() {
    let body = body(STEPS);
    let conversation = read(body.as_bytes()).unwrap();
    let mut state = PruneState::new(&conversation, Some(&rule()));
    state.ingest_until(conversation.messages().len());
    state.clear_before(6);
    let mut view = ForwardedView::new(PinnedHead { end: 2 }, &state);
    view.add_clips([crate::policy::record::Clip {
        message: 7,
        head: Tokens::new(50),
        tail: Tokens::new(40),
    }]);
    let decisions = RuleDecisions {
        prune_state: state,
        size: conversation.tokens(),
    };
    let account = RequestAccount::new(&conversation, &policy(8_000), &view, Some(&decisions));
    check_sums(&account);
    let changes: Vec<_> = account
        .changes()
        .map(|row| (row.from, row.decision))
        .collect();
    let cleared = MessageDecision::ToolResult(ClearDecision::Cleared);
    assert_eq!(
        changes,
        [(3, cleared), (5, cleared), (7, MessageDecision::Clipped)]
    );
    view.set_summary(4, "what stands for the rest".into());
    let account = RequestAccount::new(&conversation, &policy(8_000), &view, Some(&decisions));
    check_sums(&account);
    let folded = account.clone().folded(true);
    check_sums(&folded);
    let rows: Vec<_> = folded.rows.iter().map(|row| (row.from, row.to)).collect();
    assert_eq!(rows[..2], [(0, 2), (2, 4)], "{folded:?}");
    assert_eq!(folded.rows[1].decision, MessageDecision::Summarised);
    assert_eq!(folded.limited_to(1).omitted, rows.len() - 1);
    let unchanged = account.unchanged();
    assert_eq!(unchanged.after, unchanged.before);
    assert_eq!(unchanged.changes().count(), 0);
}

#[test]
fn the_account_of_a_plan_gives_the_rule_and_what_waits_for_it() {
    for window in [1_500, 2_500, 200_000] {
        let body = body(&format!("s{}", "uctctct".repeat(4)));
        let conversation = read(body.as_bytes()).unwrap();
        let policy = policy(window);
        let prior = PriorRecords::default();
        let plan = plan(&conversation, &policy, &prior, SummarySource::Digest);
        let decisions = plan.decisions.as_deref();
        let account = RequestAccount::new(&conversation, &policy, &plan.view, decisions);
        check_sums(&account);
        assert!(account.rule.is_some() && account.measured > Tokens::ZERO);
        let changes = plan.view.replacements(&conversation).is_some();
        assert_eq!(account.changes().count() > 0, changes, "{window}");
    }
}
