//! Digest texts, checked over every recorded session.

use longhaul_core::conversation::Conversation;
use longhaul_core::dialect::chat_completions::read;
use longhaul_core::policy::{CompactionSettings, NO_STANDING_WORDS, Policy};
use longhaul_core::summary::digest::digest;
use longhaul_core::summary::file_activity::FileActivity;
use longhaul_core::summary::prompts::Prompts;
use longhaul_core::summary::request::{RequestTemplate, SummariserLimits, SummaryRequest};
use longhaul_core::summary::segments::SegmentPlace;
use longhaul_core::text::wording::{is_wrapped_summary, wrap_summary};
use longhaul_core::units::tokens::Tokens;
use serde_json::Value;
use std::collections::HashSet;
use std::ops::Range;

/// Returns every session's name and body.
fn sessions() -> impl Iterator<Item = (String, Value)> {
    crate::sessions::sessions().map(|session| {
        let body = serde_json::from_slice(&session.body).expect("a body");
        (session.name, body)
    })
}

/// Returns the part of a conversation that a record under this policy would cover.
fn covered(conversation: &Conversation<'_>, policy: &Policy) -> Option<Range<usize>> {
    let total = conversation.messages().len();
    let covers = conversation
        .boundaries()
        .iter()
        .copied()
        .rfind(|&at| conversation.tokens_of(at..total) >= policy.keep_recent)?;
    (covers > conversation.head_len() + 1).then_some(conversation.head_len()..covers)
}

/// A small random generator, so that planted facts are identical everywhere.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % sides.max(1)
    }

    fn pick<'t>(&mut self, words: &[&'t str]) -> &'t str {
        words[self.roll(words.len())]
    }

    fn letters(&mut self, count: usize, alphabet: &str) -> String {
        (0..count).map(|_| char::from(alphabet.as_bytes()[self.roll(alphabet.len())])).collect()
    }

    /// Returns a sentence with a fact, and the fact.
    fn fact(&mut self) -> (&'static str, String, String) {
        const UPPER: &str = "ABCDEFGHJKLMNPQRSTUVWXYZ";
        const DIGITS: &str = "0123456789";
        let star = self.pick(&["ORION", "VEGA", "LYRA", "CYGNUS", "ALTAIR", "RIGEL"]);
        let flower = self.pick(&["violet", "crimson", "maple", "walrus", "copper", "heron"]);
        let number = 1000 + self.roll(98_999);
        match self.roll(9) {
            0 => {
                let fact = format!(
                    "{star}_{}={flower}-{number}",
                    self.pick(&["TOKEN", "SECRET", "REGION", "MODE"])
                );
                ("setting", format!("Set {fact} in the environment."), fact)
            }
            1 => {
                let fact =
                    format!("{}-{number}", self.pick(&["FACT", "TICK", "OPS", "BUG", "REQ"]));
                ("ticket", format!("Remember {fact}: it is needed later."), fact)
            }
            2 => {
                let fact = format!("{}-{number}-{star}", self.letters(2, UPPER));
                ("code", format!("the vault code is {fact}"), fact)
            }
            3 => {
                let fact = self.letters(10, "0123456789abcdef");
                let fact = format!("4f{fact}1");
                ("hash", format!("build id {fact}"), fact)
            }
            4 => {
                let fact = format!("https://{flower}.{}.example/{number}", star.to_lowercase());
                ("url", format!("The staging site is {fact} today."), fact)
            }
            5 => {
                let fact = format!("ERR_{star}_{}", self.letters(4, UPPER));
                ("error", format!("It failed with {fact}."), fact)
            }
            6 => {
                let fact = format!("{}.internal:{}", flower, 3000 + self.roll(6000));
                ("endpoint", format!("The database listens on {fact}, not the default."), fact)
            }
            7 => {
                let fact = format!("{flower}{}", self.letters(4, DIGITS));
                ("password", format!("password: {fact}"), fact)
            }
            _ => {
                let fact = format!(
                    "{}{}{}",
                    self.letters(2, UPPER),
                    self.letters(3, DIGITS),
                    self.letters(2, UPPER)
                );
                ("serial", format!("Your confirmation number is {fact}."), fact)
            }
        }
    }
}

/// Inserts `sentence` into a message of the user or the model in `body` within `range`. Returns the
/// message's role. A digest takes no words from tool results.
fn plant(
    body: &mut Value,
    range: &Range<usize>,
    dice: &mut Dice,
    sentence: &str,
) -> Option<String> {
    for _ in 0..200 {
        let at = range.start + dice.roll(range.len());
        let message = &mut body["messages"][at];
        let role = message["role"].as_str()?.to_owned();
        let Some(text) = message["content"].as_str().map(str::to_owned) else {
            continue;
        };
        if !matches!(role.as_str(), "assistant" | "user") || text.len() < 2 {
            continue;
        }
        let goal = dice.roll(text.len());
        let split = (goal..=text.len()).find(|&i| {
            text.is_char_boundary(i)
                && (i == text.len() || text.as_bytes()[i].is_ascii_whitespace())
        })?;
        let lead = if dice.roll(2) == 0 { "\n" } else { " " };
        message["content"] =
            Value::String(format!("{}{lead}{sentence}{}", &text[..split], &text[split..]));
        return Some(role);
    }
    None
}

/// Numbers of planted and recovered facts in one run.
#[derive(Default)]
struct Tally {
    found: u32,
    planted: u32,
    missing: Vec<String>,
}

/// Plants four facts at a time in each session and searches for them in the digest of the covered
/// part.
fn facts_found(window: u32) -> Tally {
    let policy = Policy::new(&CompactionSettings::default(), Tokens::new(window));
    let mut dice = Dice(u64::from(window));
    let mut tally = Tally::default();
    for (name, body) in sessions() {
        let bytes = body.to_string();
        let conversation = read(bytes.as_bytes()).expect("a conversation");
        let Some(range) = covered(&conversation, &policy) else {
            continue;
        };
        let mut planted = body.clone();
        let mut facts = Vec::new();
        for _ in 0..4 {
            let (shape, sentence, fact) = dice.fact();
            if let Some(role) = plant(&mut planted, &range, &mut dice, &sentence) {
                facts.push((shape, role, fact));
            }
        }
        let bytes = planted.to_string();
        let conversation = read(bytes.as_bytes()).expect("a conversation");
        let text = digest(&conversation, range, &policy.budgets);
        for (shape, role, fact) in facts {
            tally.planted += 1;
            if text.contains(&fact) {
                tally.found += 1;
            } else {
                tally.missing.push(format!("{name}: {shape} in {role}: {fact}"));
            }
        }
    }
    tally
}

fn check_facts(window: u32, percent: u32) {
    let Tally { found, planted, missing } = facts_found(window);
    println!("window {window}: {found} of {planted} planted facts");
    assert!(planted > 100, "{planted} facts are too few to tell");
    assert!(
        found * 100 >= planted * percent,
        "window {window}: {found} of {planted}; missing {missing:#?}"
    );
}

#[test]
fn digest_keeps_90_percent_of_planted_facts_at_16k() {
    check_facts(16_000, 90);
}

#[test]
fn digest_keeps_95_percent_of_planted_facts_at_32k() {
    check_facts(32_000, 95);
}

#[test]
fn digest_keeps_95_percent_of_planted_facts_at_128k() {
    check_facts(128_000, 95);
}

/// Returns the identifiers of a text by this test's definition: words of six characters or more,
/// made of letters, digits and the joints of paths and names. Each has a joint, a digit or a
/// capital inside.
fn identifiers(text: &str) -> HashSet<&str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || "_-./".contains(c)))
        .map(|word| word.trim_matches(['.', '-', '/', '_']))
        .filter(|word| (6..=80).contains(&word.len()))
        .filter(|word| word.contains(|c: char| c.is_ascii_alphabetic()))
        .filter(|word| {
            word.contains(['_', '/', '.'])
                || word.contains(|c: char| c.is_ascii_digit())
                || word[1..].contains(|c: char| c.is_ascii_uppercase())
                    && word.contains(|c: char| c.is_ascii_lowercase())
        })
        .collect()
}

/// Returns the texts of consecutive messages and the values of their calls' arguments.
fn texts<'t>(messages: impl IntoIterator<Item = &'t Value>) -> String {
    let mut text = String::new();
    for message in messages {
        strings(&message["content"], &mut text);
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            let raw = call["function"]["arguments"].as_str().unwrap_or_default();
            let arguments = serde_json::from_str(raw).unwrap_or_else(|_| Value::from(raw));
            strings(&arguments, &mut text);
        }
    }
    text
}

/// Appends every string of a value, one per line.
fn strings(value: &Value, text: &mut String) {
    match value {
        Value::Array(values) => values.iter().for_each(|value| strings(value, text)),
        Value::Object(members) => members.values().for_each(|value| strings(value, text)),
        Value::String(string) => text.extend([string, "\n"]),
        Value::Bool(_) | Value::Null | Value::Number(_) => {}
    }
}

/// Percentage of surviving identifiers, with a digest and without.
///
/// The identifiers are those that the model uses in its next ten messages and that occur before the
/// cut. They survive if they occur in the digest or in the retained part. Every large enough
/// session is cut at three points.
fn identifiers_kept(window: u32) -> (usize, usize) {
    let policy = Policy::new(&CompactionSettings::default(), Tokens::new(window));
    let (mut used, mut kept, mut bare) = (0_usize, 0_usize, 0_usize);
    for (_, body) in sessions() {
        let messages = body["messages"].as_array().expect("messages");
        for share in [50, 70, 90] {
            let length = messages.len() * share / 100;
            let mut prefix = body.clone();
            prefix["messages"].as_array_mut().expect("messages").truncate(length);
            let bytes = prefix.to_string();
            let conversation = read(bytes.as_bytes()).expect("a conversation");
            if conversation.tokens() < policy.thresholds.hard {
                continue;
            }
            let Some(range) = covered(&conversation, &policy) else {
                continue;
            };
            let digest = digest(&conversation, range.clone(), &policy.budgets);
            let everything = texts(&messages[..length]);
            let tail = texts(&messages[range.end..length]);
            let next = &messages[length..(length + 10).min(messages.len())];
            let next = texts(next.iter().filter(|message| message["role"] == "assistant"));
            let before = identifiers(&everything);
            for word in identifiers(&next).intersection(&before) {
                used += 1;
                bare += usize::from(tail.contains(word));
                kept += usize::from(tail.contains(word) || digest.contains(word));
            }
        }
    }
    assert!(used > 200, "{used} identifiers are too few to tell");
    let percent = |part: usize| part * 100 / used;
    (percent(kept), percent(bare))
}

#[test]
fn digest_keeps_most_identifiers_that_are_used_next() {
    for (window, least) in [(16_000, 50), (32_000, 50), (128_000, 50)] {
        let (kept, bare) = identifiers_kept(window);
        println!("window {window}: {kept}% with the digest, {bare}% without");
        assert!(kept >= least, "window {window}: {kept}%, without the digest {bare}%");
        assert!(kept > bare);
    }
}

/// Windows at which the bounds are checked.
const WINDOWS: [u32; 6] = [2_000, 4_000, 8_000, 32_000, 128_000, 1_000_000];

#[test]
fn digest_never_exceeds_its_budgets() {
    for (name, body) in sessions() {
        let bytes = body.to_string();
        let conversation = read(bytes.as_bytes()).expect("a conversation");
        let all = conversation.messages().len();
        for window in WINDOWS {
            let budgets = Policy::new(&CompactionSettings::default(), Tokens::new(window)).budgets;
            let part = conversation.head_len()..all / 2;
            for covered in [if window == 8_000 { 0..all } else { part }, all..all] {
                let size = Tokens::estimate_text(&digest(&conversation, covered.clone(), &budgets));
                assert!(size <= budgets.nominal(), "{name} at {window}, {covered:?}: {size}");
                let ledger = FileActivity::from_messages(&conversation, covered.clone())
                    .render(budgets.file_activity);
                assert!(
                    Tokens::estimate_text(&ledger) <= budgets.file_activity,
                    "{name} at {window}: ledger"
                );
            }
        }
    }
}

#[test]
fn digest_depends_only_on_the_messages_it_covers() {
    for (name, body) in sessions() {
        let policy = Policy::new(&CompactionSettings::default(), Tokens::new(32_000));
        let bytes = body.to_string();
        let longer = read(bytes.as_bytes()).expect("a conversation");
        let Some(range) = covered(&longer, &policy) else {
            continue;
        };
        let mut shorter = body.clone();
        shorter["messages"].as_array_mut().expect("messages").truncate(range.end);
        let bytes = shorter.to_string();
        let shorter = read(bytes.as_bytes()).expect("a conversation");
        let of_longer = digest(&longer, range.clone(), &policy.budgets);
        assert_eq!(of_longer, digest(&shorter, range.clone(), &policy.budgets), "{name}");
        assert_eq!(of_longer, digest(&longer, range, &policy.budgets), "{name}");
        assert!(!is_wrapped_summary(&of_longer) && is_wrapped_summary(&wrap_summary(&of_longer)));
    }
}

#[test]
fn summary_requests_fit_the_summarisers_window_for_every_session() {
    for (name, body) in sessions() {
        let bytes = body.to_string();
        let conversation = read(bytes.as_bytes()).expect("a conversation");
        let covered = conversation.head_len()..conversation.messages().len();
        for (window, calls) in [(8_000, 1), (32_000, 8)] {
            let budgets = Policy::new(&CompactionSettings::default(), Tokens::new(window)).budgets;
            let summariser = SummariserLimits { window: Tokens::new(window), max_calls: calls };
            let brief = SummaryRequest::new(
                &conversation,
                &SegmentPlace {
                    earlier: None,
                    covered: covered.clone(),
                    retained: covered.end..covered.end,
                    said_until: covered.end,
                    words: &NO_STANDING_WORDS,
                },
                &budgets,
                &Prompts::default(),
                summariser,
            )
            .expect("a brief");
            assert!((1..=calls).contains(&brief.parts.len()), "{name}");
            let frame = RequestTemplate::from_request(&conversation, None);
            for part in 0..brief.parts.len() {
                let request: Value =
                    serde_json::from_str(&brief.call_body(part, None, &frame)).expect("a body");
                let texts = request["messages"].as_array().expect("messages");
                let chars: usize = texts
                    .iter()
                    .map(|m| m["content"].as_str().expect("a text").chars().count())
                    .sum();
                assert!(
                    chars / 4 + brief.max_output.get() as usize <= window as usize,
                    "{name} at {window}"
                );
            }
        }
    }
}
