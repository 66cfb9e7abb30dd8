//! The words that stand for history, over every recorded session.

use longhaul::rewrite::chat_completions::read;
use longhaul::rewrite::conversation::Conversation;
use longhaul::rewrite::index::index;
use longhaul::rewrite::policy::{Policy, Wishes};
use longhaul::rewrite::tokens::Tokens;
use serde_json::Value;
use std::io::Read;
use std::ops::Range;
use std::path::Path;

fn sessions() -> Vec<(String, Value)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/sessions");
    let mut sessions: Vec<(String, Value)> = std::fs::read_dir(folder)
        .expect("the sessions")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "gz"))
        .map(|path| {
            let mut body = String::new();
            flate2::read::GzDecoder::new(std::fs::File::open(&path).expect("a session"))
                .read_to_string(&mut body)
                .expect("an inflated session");
            let name = path
                .file_name()
                .expect("a name")
                .to_string_lossy()
                .into_owned();
            (name, serde_json::from_str(&body).expect("a body"))
        })
        .collect();
    sessions.sort_by(|one, other| one.0.cmp(&other.0));
    sessions
}

/// The part of a conversation that a record for this policy would cover.
fn covered(conversation: &Conversation<'_>, policy: &Policy) -> Option<Range<usize>> {
    let total = conversation.messages().len();
    let covers = conversation
        .boundaries()
        .iter()
        .copied()
        .filter(|&at| conversation.tokens_of(at..total) >= policy.keep_recent)
        .next_back()?;
    (covers > conversation.head() + 1).then_some(conversation.head()..covers)
}

/// A small generator of its own, so that what is planted is the same everywhere.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % sides.max(1)
    }

    fn pick<'t>(&mut self, words: &[&'t str]) -> &'t str {
        words[self.roll(words.len())]
    }

    fn letters(&mut self, count: usize, alphabet: &str) -> String {
        (0..count)
            .map(|_| char::from(alphabet.as_bytes()[self.roll(alphabet.len())]))
            .collect()
    }

    /// A sentence with a fact in it, and the fact.
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
                let fact = format!(
                    "{}-{number}",
                    self.pick(&["FACT", "TICK", "OPS", "BUG", "REQ"])
                );
                (
                    "ticket",
                    format!("Remember {fact}: it is needed later."),
                    fact,
                )
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
                (
                    "endpoint",
                    format!("The database listens on {fact}, not the default."),
                    fact,
                )
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
                (
                    "serial",
                    format!("Your confirmation number is {fact}."),
                    fact,
                )
            }
        }
    }
}

/// Puts `sentence` into a text message of `body` among the messages `range`; says into which role.
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
        if role == "system" || text.len() < 2 {
            continue;
        }
        let from = if role == "tool" && text.len() > 1300 {
            1200
        } else {
            0
        };
        let goal = from + dice.roll(text.len() - from);
        let split = (goal..=text.len()).find(|&i| {
            text.is_char_boundary(i)
                && (i == text.len() || text.as_bytes()[i].is_ascii_whitespace())
        })?;
        let lead = if dice.roll(2) == 0 { "\n" } else { " " };
        message["content"] = Value::String(format!(
            "{}{lead}{sentence}{}",
            &text[..split],
            &text[split..]
        ));
        return Some(role);
    }
    None
}

#[test]
fn a_planted_fact_stands_in_the_index() {
    for window in [16_000, 32_000, 128_000] {
        let policy = Policy::new(&Wishes::default(), Tokens::new(window));
        let mut dice = Dice(7);
        let mut found = std::collections::BTreeMap::<(String, String), (u32, u32)>::new();
        for (_, body) in sessions() {
            let bytes = body.to_string();
            let conversation = read(bytes.as_bytes()).expect("a conversation");
            let Some(range) = covered(&conversation, &policy) else {
                continue;
            };
            for _round in 0..2 {
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
                let text = index(&conversation, range.clone(), "", policy.budgets.index);
                assert!(Tokens::of_text(&text) <= policy.budgets.index);
                for (shape, role, fact) in facts {
                    let hit = u32::from(text.contains(&fact));
                    for key in [
                        (shape.to_owned(), role.clone()),
                        ("all".into(), "all".into()),
                        ("all".into(), role.clone()),
                    ] {
                        let tally = found.entry(key).or_default();
                        tally.0 += hit;
                        tally.1 += 1;
                    }
                }
            }
        }
        println!("window {window}");
        for ((shape, role), (hit, of)) in &found {
            println!("  {shape} in {role}: {hit}/{of}");
        }
    }
}
