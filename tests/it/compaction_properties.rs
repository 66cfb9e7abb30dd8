//! What holds of every conversation that is compacted: random or recorded, cut anywhere, under
//! windows of every size.

use longhaul::demo::Dialect;
use longhaul::rewrite::chat_completions::read;
use longhaul::rewrite::compact::{Recovery, Rung, recover};
use longhaul::rewrite::conversation::Conversation;
use longhaul::rewrite::placement::Placement;
use longhaul::rewrite::plan::{Summaries, plan};
use longhaul::rewrite::policy::{Policy, Wishes};
use longhaul::rewrite::record::Known;
use longhaul::rewrite::splice::Splice;
use longhaul::rewrite::tokens::Tokens;
use longhaul::rewrite::view::View;
use proptest::prelude::*;

use crate::journey::messages;
use crate::oracle::reader;
use crate::script::{self, render};
use crate::sessions::sessions;

/// Small and wide, and those between where the rule for pruning changes.
const WINDOWS: [u32; 7] = [2_000, 4_000, 8_000, 16_000, 32_000, 99_000, 200_000];

fn policy(window: u32) -> Policy {
    Policy::new(&Wishes::default(), Tokens::new(window))
}

/// Whether the newest message may be shortened.
#[derive(Clone, Copy, PartialEq)]
enum Newest {
    Kept,
    Shortened,
}

/// The bytes of a view, held to what every forwarded body is promised; the body as it came if the
/// view changes nothing or is not sound.
fn forwarded(conversation: &Conversation<'_>, body: &[u8], view: &View, newest: Newest) -> Vec<u8> {
    let valid = Dialect::standard().broken_by(body).is_none();
    let Some(plan) = view.plan(conversation) else {
        return body.to_vec();
    };
    let Some(splice) = Splice::of(conversation, &plan) else {
        assert!(
            !valid,
            "what came in order can be rewritten: {:?}",
            plan.cuts()
        );
        return body.to_vec();
    };
    let out = splice.apply();
    assert!(out.len() < body.len(), "strictly smaller");
    let (before, after) = (messages(body), messages(&out));
    let head = before
        .iter()
        .take_while(|message| instructs(message))
        .count();
    assert_eq!(before[..head], after[..head], "the head");
    let kept = before
        .iter()
        .rev()
        .take_while(|message| role(message) == "user")
        .count();
    assert_eq!(
        before[before.len() - kept..],
        after[after.len() - kept..],
        "what waits"
    );
    if newest == Newest::Kept {
        assert_eq!(before.last(), after.last(), "the newest message");
    }
    if valid {
        let broken = Dialect::standard().broken_by(&out);
        assert_eq!(broken.map(|rule| rule.id), None);
    }
    out
}

fn role(message: &str) -> String {
    let message = reader::tree(message.as_bytes()).unwrap();
    message["role"].as_str().unwrap_or_default().to_owned()
}

fn instructs(message: &str) -> bool {
    matches!(role(message).as_str(), "system" | "developer")
}

/// Holds what is planned for a body, and what recovers it, to the promises.
fn holds(body: &[u8], window: u32) {
    let Ok(conversation) = read(body) else {
        return;
    };
    let (policy, known) = (policy(window), Known::default());
    let outlook = plan(&conversation, &policy, &known, Summaries::Digest);
    forwarded(&conversation, body, &outlook.view, Newest::Kept);
    match recover(
        &conversation,
        &policy,
        &known,
        &outlook.view,
        Summaries::Digest,
    ) {
        Recovery::Ask(_) => panic!("nobody is there to ask"),
        Recovery::GiveUp => {}
        Recovery::Retry(view, rung) => {
            let refused = outlook.view.tokens(&conversation);
            assert!(
                view.tokens(&conversation) <= refused.percent(90),
                "a tenth at least"
            );
            let newest = match rung {
                Rung::Clipped => Newest::Shortened,
                Rung::Cleared | Rung::Digest | Rung::Summary => Newest::Kept,
            };
            forwarded(&conversation, body, &view, newest);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn random_conversations_are_compacted_soundly(
        case in script::case(),
        window in prop::sample::select(WINDOWS.to_vec()),
    ) {
        holds(render(&case).as_bytes(), window);
        // Long enough for the smaller windows.
        holds(render(&script::Case { scale: 40, ..case }).as_bytes(), window);
    }

    #[test]
    fn any_bytes_are_left_alone_or_compacted(body in prop::collection::vec(any::<u8>(), 0..300)) {
        holds(&body, 2_000);
    }
}

#[test]
fn recorded_sessions_cut_anywhere_are_compacted_soundly() {
    for (at, session) in sessions().enumerate() {
        let replay = session.replay();
        let requests: Vec<_> = replay.requests().collect();
        // Another part of each session for each window.
        for (turn, window) in WINDOWS.into_iter().enumerate() {
            let cut = (at * 31 + turn * requests.len() / WINDOWS.len()) % requests.len();
            holds(&requests[cut].body(), window);
        }
    }
}

/// A template in which user and assistant must alternate takes a merged summary of what alternated.
#[test]
fn merged_into_its_neighbours_a_digest_keeps_what_alternates_alternating() {
    let alternates = Dialect::only("alternation").unwrap();
    let standard = Dialect::standard();
    let mut merged = 0;
    for session in sessions() {
        let replay = session.replay();
        let body = replay.requests().next_back().unwrap().body();
        let conversation = read(&body).unwrap();
        for window in WINDOWS {
            let wishes = Wishes {
                placement: Placement::Merged,
                ..Wishes::default()
            };
            let policy = Policy::new(&wishes, Tokens::new(window));
            let known = Known::default();
            let view = plan(&conversation, &policy, &known, Summaries::Digest).view;
            let Some(plan) = view.plan(&conversation).filter(|_| view.is_summarised()) else {
                continue;
            };
            let out = Splice::of(&conversation, &plan).unwrap().apply();
            let name = &session.name;
            assert!(out.len() < body.len(), "{name} at {window}");
            for dialect in [&alternates, &standard] {
                if dialect.broken_by(&body).is_none() {
                    let broken = dialect.broken_by(&out).map(|rule| rule.id);
                    assert_eq!(broken, None, "{name} at {window}");
                    merged += 1;
                }
            }
        }
    }
    assert!(merged > 100, "{merged}");
}

/// With a window that is set, what is forwarded follows from the history alone: it grows with it,
/// but for breaks that are worth one.
#[test]
fn a_growing_session_is_forwarded_as_one_that_grows_but_at_breaks_that_gain() {
    let mut breaks = 0;
    for session in sessions().filter(|session| session.body.len() < 240_000) {
        for window in [8_000, 24_000] {
            breaks += grows_but_at_breaks(&session.replay(), window, &session.name);
        }
    }
    assert!(breaks > 100, "{breaks}");
}

fn grows_but_at_breaks(replay: &longhaul::demo::Replay, window: u32, name: &str) -> usize {
    let (policy, known) = (policy(window), Known::default());
    let mut last: Option<(Vec<String>, Tokens, Tokens)> = None;
    let mut breaks = 0;
    for request in replay.requests() {
        let body = request.body();
        let conversation = read(&body).unwrap();
        let view = plan(&conversation, &policy, &known, Summaries::Digest).view;
        let out = view.plan(&conversation);
        let out = out.and_then(|plan| Splice::of(&conversation, &plan));
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
