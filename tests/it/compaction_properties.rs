//! Properties of every compacted conversation: random or recorded, cut anywhere, under windows of
//! every size.

use crate::going_back::goes_back_soundly;
use crate::promises::compacts_soundly;
use longhaul_core::dialect::chat_completions::read;
use longhaul_core::planning::plan::{SummarySource, plan};
use longhaul_core::planning::splice::Splice;
use longhaul_core::policy::placement::Placement;
use longhaul_core::policy::record::PriorRecords;
use longhaul_core::policy::{CompactionSettings, Policy};
use longhaul_core::units::tokens::Tokens;
use longhaul_mock_model::ValidityRules;
use proptest::prelude::*;

use crate::oracle::reader::messages;
use crate::script::{self, render};
use crate::sessions::sessions;

/// Small and wide windows, and those between at which the pruning rule changes.
const WINDOWS: [u32; 7] = [2_000, 4_000, 8_000, 16_000, 32_000, 99_000, 200_000];

fn policy(window: u32) -> Policy {
    Policy::new(&CompactionSettings::default(), Tokens::new(window))
}

proptest! {
    #![proptest_config(script::cases(96))]

    #[test]
    fn random_conversations_are_compacted_soundly(
        case in script::case(),
        wishes in script::wishes(),
        window in prop::sample::select(WINDOWS.to_vec()),
    ) {
        let policy = Policy::new(&wishes, Tokens::new(window));
        compacts_soundly(render(&case).as_bytes(), &policy);
        // Large enough to fill the smaller windows.
        compacts_soundly(render(&script::Case { scale: 40, ..case }).as_bytes(), &policy);
    }
}

proptest! {
    // Few cases: each is played twice, and retried at each of its messages.
    #![proptest_config(script::cases(12))]

    #[test]
    fn going_back_in_a_random_conversation_forwards_the_newest_message(
        case in script::case(),
        wishes in script::wishes(),
        window in prop::sample::select(WINDOWS[..2].to_vec()),
    ) {
        let policy = Policy::new(&wishes, Tokens::new(window));
        goes_back_soundly(render(&script::Case { scale: 20, ..case }).as_bytes(), &policy, 1);
    }
}

#[test]
fn recorded_sessions_cut_anywhere_are_compacted_soundly() {
    for (at, session) in sessions().enumerate() {
        let replay = session.replay();
        let requests: Vec<_> = replay.requests().collect();
        // Covers a different part of each session per window.
        for (turn, window) in WINDOWS.into_iter().enumerate() {
            let cut = (at * 31 + turn * requests.len() / WINDOWS.len()) % requests.len();
            compacts_soundly(&requests[cut].body(), &policy(window));
        }
    }
}

#[test]
fn going_back_in_a_recorded_session_forwards_the_newest_message() {
    for session in sessions().filter(|session| session.body.len() < 120_000) {
        goes_back_soundly(&session.body, &policy(8_000), 4);
    }
}

/// A chat template that requires alternating roles accepts a merged summary of alternating
/// messages.
#[test]
fn merged_digest_keeps_alternating_roles_alternating() {
    let alternates = ValidityRules::only("alternation").unwrap();
    let standard = ValidityRules::standard();
    let mut merged = 0;
    for session in sessions() {
        let replay = session.replay();
        let body = replay.requests().next_back().unwrap().body();
        let conversation = read(&body).unwrap();
        for window in WINDOWS {
            let wishes = CompactionSettings {
                placement: Placement::Merged,
                ..CompactionSettings::default()
            };
            let policy = Policy::new(&wishes, Tokens::new(window));
            let known = PriorRecords::default();
            let view = plan(&conversation, &policy, &known, SummarySource::Digest).view;
            let Some(plan) = view.replacements(&conversation).filter(|_| view.is_condensed())
            else {
                continue;
            };
            let out = Splice::new(&conversation, &plan).unwrap().apply();
            let name = &session.name;
            assert!(out.len() < body.len(), "{name} at {window}");
            for validity in [&alternates, &standard] {
                if validity.broken_by(&body).is_none() {
                    let broken = validity.broken_by(&out).map(|rule| rule.id);
                    assert_eq!(broken, None, "{name} at {window}");
                    merged += 1;
                }
            }
        }
    }
    assert!(merged > 100, "{merged}");
}

/// With a configured window, the forwarded history depends only on the client's history. It grows
/// with it, except at breaks that save enough.
#[test]
fn forwarded_session_only_grows_except_at_breaks_that_save_enough() {
    let mut breaks = 0;
    for session in sessions().filter(|session| session.body.len() < 240_000) {
        for window in [8_000, 24_000] {
            breaks += grows_but_at_breaks(&session.replay(), window, &session.name);
        }
    }
    assert!(breaks > 100, "{breaks}");
}

fn grows_but_at_breaks(
    replay: &longhaul_mock_model::SessionRecording,
    window: u32,
    name: &str,
) -> usize {
    let (policy, known) = (policy(window), PriorRecords::default());
    let mut last: Option<(Vec<String>, Tokens, Tokens)> = None;
    let mut breaks = 0;
    for request in replay.requests() {
        let body = request.body();
        let conversation = read(&body).unwrap();
        let view = plan(&conversation, &policy, &known, SummarySource::Digest).view;
        let out = view.replacements(&conversation);
        let out = out.and_then(|plan| Splice::new(&conversation, &plan));
        let out = out.map_or_else(|| body.clone(), |splice| splice.apply());
        let now: Vec<String> = messages(&out).into_iter().map(str::to_owned).collect();
        let (raw, tokens) = (conversation.tokens(), view.tokens(&conversation));
        if let Some((before, raw_before, tokens_before)) = last
            && !now.starts_with(&before)
        {
            breaks += 1;
            let unbroken = tokens_before + (raw - raw_before);
            assert!(
                tokens <= unbroken.percent(90),
                "{name} at {window}, {} messages: {tokens} for {unbroken}",
                request.messages()
            );
        }
        last = Some((now, raw, tokens));
    }
    breaks
}
