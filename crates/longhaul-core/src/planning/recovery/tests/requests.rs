//! Tests of recovery around the user's requests: kept next to a digest, and clipped after results.

use super::*;

#[test]
fn digest_omits_identifiers_that_results_hold_until_the_next_cut() {
    let long = "x".repeat(4_000);
    // The step of a digest has no room for the codes.
    let names = format!("{long} KX-40917-LM KX-55555-LM");
    let [alpha, beta] = ["KX-40917-LM", "KX-55555-LM"].map(|name| {
        let rest = "x".repeat(1_000 - name.len() - 1);
        format!("{name} {rest}")
    });
    // The result at 5 is cleared, the one at 7 is not.
    let says = [(2, &*names), (3, &long), (5, &alpha), (7, &beta)];
    let body = body_saying("suctctctct", &says);
    let conversation = read(body.as_bytes()).unwrap();
    let protecting = PruneRule { protect: Tokens::new(600), ..rule() };
    for (when, repeats) in [(PruneTrigger::HardThreshold, false), (PruneTrigger::Always, true)] {
        let mut policy = Policy {
            recovery_protect: Some([protecting.protect; 2]),
            keep_recent: conversation.tokens_of(4..10),
            ..clearing(when, protecting.clone())
        };
        policy.budgets.identifiers = Tokens::new(100);
        let old = conversation.message(3).unwrap().text_tokens;
        let cleared = conversation.tokens() - old - FREES;
        let policy = aiming(&policy, cleared - Tokens::new(100), FAR);
        let refused = as_it_came(&conversation, &policy);
        let known = nothing();
        let recovery =
            plan_recovery(&conversation, &policy, &known, &refused, SummarySource::Digest);
        let RecoveryDecision::Retry(view, RecoveryStep::Digest) = recovery else {
            panic!("{recovery:?}");
        };
        assert_eq!(
            (view.summarised_until(), view.is_cleared(5), view.is_cleared(7)),
            (4, true, false)
        );
        let text = view.to_record(&conversation).text.unwrap();
        assert!(text.contains("KX-40917-LM"), "{text}");
        assert_eq!(text.contains("KX-55555-LM"), repeats, "{text}");
    }
}

#[test]
fn digest_user_requests_get_only_the_room_left_to_the_target() {
    let request = format!("begin {} end", "x".repeat(2_000));
    let body = body_saying("suctctct", &[(1, &request)]);
    let conversation = read(body.as_bytes()).unwrap();
    let mut policy = Policy {
        max_pinned_first: Tokens::ZERO,
        keep_recent: conversation.tokens_of(6..8),
        ..policy()
    };
    policy.budgets.user_messages = Tokens::new(30);
    let known = nothing();
    let refused = as_it_came(&conversation, &policy);
    let digest = |target| {
        let policy = aiming(&policy, target, FAR);
        let recovery =
            plan_recovery(&conversation, &policy, &known, &refused, SummarySource::Digest);
        let RecoveryDecision::Retry(view, RecoveryStep::Digest) = recovery else {
            panic!("{recovery:?}");
        };
        assert!(view.tokens(&conversation) <= target);
        view.to_record(&conversation).text.unwrap()
    };
    let beside = conversation.tokens_of(0..1) + conversation.tokens_of(6..8);
    let enough =
        beside + Tokens::new(130 + 505) + Tokens::estimate_text(&wording::wrap_summary(""));
    assert!(digest(enough).contains(&request));
    let less = digest(enough - Tokens::new(200));
    assert!(!less.contains(&request) && less.contains("begin x") && less.contains("x end"));
    let none = digest(enough - Tokens::new(505));
    assert!(!none.contains("x end"));
}

#[test]
fn results_are_clipped_before_the_user_request() {
    let (request, long) = (format!("begin {} end", "x".repeat(2_000)), "y".repeat(40_000));
    let body = body_saying("suctctct", &[(1, &request), (7, &long)]);
    let conversation = read(body.as_bytes()).unwrap();
    let mut policy = Policy {
        max_pinned_first: Tokens::ZERO,
        keep_recent: conversation.tokens_of(6..8),
        ..policy()
    };
    policy.budgets.user_messages = Tokens::new(30);
    let refused = as_it_came(&conversation, &policy);
    let beside = conversation.tokens_of(0..1) + conversation.tokens_of(6..7);
    let beside = beside + Tokens::new(130 + 20) + Tokens::estimate_text(&wording::wrap_summary(""));
    let clipped = |is_window_stated, left: u32, end: u32, beside_it: u32, whole| {
        let target = beside + Tokens::new(left + beside_it);
        let policy = Policy { is_window_stated, ..aiming(&policy, Tokens::ZERO, target) };
        let recovery =
            plan_recovery(&conversation, &policy, &nothing(), &refused, SummarySource::Digest);
        let RecoveryDecision::Retry(view, RecoveryStep::Clipped) = recovery else {
            panic!("{recovery:?}");
        };
        assert!(view.tokens(&conversation) <= target);
        let record = view.to_record(&conversation);
        assert_eq!(record.clips[0].head, Tokens::new(end));
        assert_eq!(record.text.unwrap().contains(&request), whole);
    };
    clipped(true, 2_000, 1_000, 505, true);
    clipped(true, 1_000, 540, 505, true);
    clipped(true, 400, 240, 505, true);
    clipped(true, 400, 240, 0, false);
    // An estimated window may be smaller still, so as much as possible goes.
    clipped(false, 400, 200, 505, true);
    clipped(false, 400, 200, 0, false);
}
