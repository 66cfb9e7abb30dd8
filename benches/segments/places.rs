//! Facts in other places, for building: the numbers of the index may be chosen on them.
//!
//! [`judging`](crate::judging) states facts in the same places, and judges the choice.

use crate::facts::Numbers;
use crate::judging;
use serde_json::Value;

/// Places of each tenth of the session.
const PLACES: [Place; 4] = [
    Place::Argument,
    Place::Request,
    Place::Reply,
    Place::ResultLine,
];
const TENTHS: usize = 10;
/// Characters within which all pieces of a fact have to stand.
const REACH: usize = 60;

/// Place of a fact.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Place {
    /// After the longest text among the arguments of a call.
    Argument,
    /// After the first line of a text of the user.
    Request,
    /// Before a text of the model.
    Reply,
    /// A separate line within a tool result.
    ResultLine,
}

/// A fact: pieces that have to stand close together, in this order.
pub(crate) struct Fact {
    pub(crate) pieces: Vec<String>,
    pub(crate) place: Place,
}

impl Fact {
    /// Whether `text` states the fact.
    pub(crate) fn stands_in(&self, text: &str) -> bool {
        let Some((first, others)) = self.pieces.split_first() else {
            return false;
        };
        text.match_indices(&**first).any(|(at, _)| {
            let near = text.get(at..).unwrap_or_default().char_indices();
            let end = near.map(|(at, _)| at).nth(REACH);
            let mut rest = text.get(at + first.len()..at + end.unwrap_or(text.len() - at));
            others.iter().all(|piece| {
                let found = rest.and_then(|it| it.split_once(&**piece));
                rest = found.map(|(_, behind)| behind);
                rest.is_some()
            })
        })
    }
}

/// Returns a fact and the words that state it.
#[allow(clippy::too_many_lines, reason = "a table of shapes")]
fn fact(numbers: &mut Numbers, shape: usize) -> Stated {
    const LOWER: &str = "bcdfghjklmnpqrstvwz";
    const UPPER: &str = "BCDFGHJKLMNPQRSTVWZ";
    const DIGITS: &str = "123456789";
    let word = numbers.text(5, LOWER);
    let one = |piece: String, around: &str| {
        let said = around.replace("{}", &piece);
        (vec![piece], said)
    };
    match shape % 14 {
        0 => {
            let size = numbers.text(3, DIGITS);
            let key = format!("{word}Window");
            let said = format!("{{\"{key}\": {size}, \"ok\": true}}");
            (vec![key, size], said)
        }
        1 => {
            let seconds = numbers.text(3, DIGITS);
            let key = format!("{word}_grace");
            let said = format!("{key}: {seconds}s");
            (vec![key, seconds], said)
        }
        2 => one(
            format!(
                "registry.{word}.example/tools/runner:{}.{}-slim",
                numbers.next(9),
                numbers.next(90)
            ),
            "The last image that started was {}",
        ),
        3 => one(
            format!(
                "10.{}.{}.0/2{}",
                numbers.next(200),
                numbers.next(200),
                numbers.next(8)
            ),
            "Only {} is let through by the gateway.",
        ),
        4 => one(
            format!("01{}", numbers.text(24, "0123456789ABCDEFGHJKMNPQRSTVWXYZ")),
            "event {} was delivered twice",
        ),
        5 => one(
            format!("--{word}-shards={}", 10 + numbers.next(80)),
            "It has to be started with {} from now on.",
        ),
        6 => one(
            format!("E{}: {word} denied", numbers.text(5, DIGITS)),
            "fatal {}",
        ),
        7 => one(
            format!(
                "{}-{}-{}",
                numbers.text(4, UPPER),
                numbers.text(3, DIGITS),
                numbers.text(4, UPPER)
            ),
            "the order went out under {} yesterday",
        ),
        8 => one(
            format!(
                "{},{}.{} EUR",
                numbers.text(2, DIGITS),
                numbers.text(3, DIGITS),
                numbers.text(2, DIGITS)
            ),
            "We may spend {} and not more.",
        ),
        9 => one(
            format!(
                "2031-0{}-1{}T0{}:4{}Z",
                1 + numbers.next(9),
                numbers.next(10),
                numbers.next(10),
                numbers.next(10)
            ),
            "the freeze ends at {}",
        ),
        10 => one(
            format!("@{word}/{}-adapter", numbers.text(4, LOWER)),
            "Everything else is pinned but {} is not.",
        ),
        11 => one(
            format!(
                "{}.{word}_{}_id",
                numbers.text(4, LOWER),
                numbers.text(4, LOWER)
            ),
            "the join column is {} in the new schema",
        ),
        12 => one(
            format!(
                "{}{}",
                numbers.text(1, "abcdef"),
                numbers.text(9, "0123456789abcdef")
            ),
            "bisected to {} (first bad)",
        ),
        _ => one(
            format!(
                "{word}-{}-{}",
                numbers.text(6, LOWER),
                numbers.text(5, LOWER)
            ),
            "We decided to call it {} in public.",
        ),
    }
}

/// Pieces of a fact, and the words that state it.
pub(crate) type Stated = (Vec<String>, String);

/// Plants facts on which numbers may be chosen. Returns those that found a place.
pub(crate) fn plant(messages: &mut [Value]) -> Vec<Fact> {
    plant_by(messages, 0x2545_F491_4F6C_DD1D, fact)
}

/// Plants facts that judge the choice. Returns those that found a place.
pub(crate) fn plant_judging(messages: &mut [Value]) -> Vec<Fact> {
    plant_by(messages, 0x9E37_79B9_7F4A_7C15, judging::state)
}

/// Plants forty facts in the messages of a session, four for each tenth.
fn plant_by(
    messages: &mut [Value],
    seed: u64,
    make: fn(&mut Numbers, usize) -> Stated,
) -> Vec<Fact> {
    let mut numbers = Numbers(seed);
    let mut facts = Vec::new();
    let length = messages.len();
    for number in 0..TENTHS * PLACES.len() {
        let tenth = number / PLACES.len();
        let (from, to) = (length * tenth / TENTHS, length * (tenth + 1) / TENTHS);
        let (pieces, words) = make(&mut numbers, number * 3 + tenth);
        let start = numbers.next(to - from);
        let share = 20 + numbers.next(60);
        let Some(&place) = PLACES.get(number % PLACES.len()) else {
            continue;
        };
        let mut order = (0..to - from).map(|at| from + (start + at) % (to - from));
        let planted = order.any(|at| {
            let message = messages.get_mut(at);
            message.is_some_and(|message| state(message, place, &words, share).is_some())
        });
        if planted {
            facts.push(Fact { pieces, place });
        }
    }
    facts
}

/// States a fact in a message. `share` is the position within a result, in percent of its lines.
/// Returns `None` if the message has no such place.
fn state(message: &mut Value, place: Place, words: &str, share: usize) -> Option<()> {
    let role = message.get("role")?.as_str()?;
    let is_role = match place {
        Place::Argument | Place::Reply => role == "assistant",
        Place::Request => role == "user",
        Place::ResultLine => role == "tool",
    };
    if !is_role {
        return None;
    }
    if place == Place::Argument {
        let call = message
            .get_mut("tool_calls")?
            .get_mut(0)?
            .get_mut("function")?;
        let mut arguments: Value = call.get("arguments")?.as_str()?.parse().ok()?;
        let texts = arguments
            .as_object_mut()?
            .values_mut()
            .filter_map(|it| match it {
                Value::String(text) => Some(text),
                Value::Null
                | Value::Bool(_)
                | Value::Number(_)
                | Value::Array(_)
                | Value::Object(_) => None,
            });
        let longest = texts
            .max_by_key(|text| text.len())
            .filter(|text| text.len() > 40)?;
        *longest = format!("{longest}\n{words}");
        *call.get_mut("arguments")? = arguments.to_string().into();
        return Some(());
    }
    let Value::String(text) = message.get_mut("content")? else {
        return None;
    };
    let lines: Vec<&str> = text.split('\n').collect();
    let at = match place {
        Place::Argument => return None,
        Place::Request => 1,
        Place::Reply => 0,
        Place::ResultLine => lines.len() * share / 100,
    };
    if text.trim().is_empty() || (place == Place::ResultLine && lines.len() < 10) {
        return None;
    }
    let (before, behind) = lines.split_at(at.min(lines.len()));
    *text = [before, &[words], behind].concat().join("\n");
    Some(())
}
