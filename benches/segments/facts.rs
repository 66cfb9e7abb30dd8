//! Facts in many shapes, for building: the numbers of the index are chosen on them, among others.
//!
//! [`judging`](crate::judging) judges the choice.

use serde_json::Value;

/// Facts of each tenth of the session.
const EACH: usize = 4;
const TENTHS: usize = 10;

/// A small generator of numbers, the same on every machine.
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap_or(0) % below.max(1)
    }

    pub(crate) fn text(&mut self, length: usize, alphabet: &str) -> String {
        let characters: Vec<char> = alphabet.chars().collect();
        let pick = |_| characters.get(self.next(characters.len())).copied();
        (0..length).filter_map(pick).collect()
    }

    /// Returns a fact and the sentence that states it.
    fn fact(&mut self, shape: usize) -> (String, String) {
        let (upper, lower, digits) = ("BCDFGKLMNPRSTVZ", "bcdfgklmnprstvz", "0123456789");
        let word = self.text(6, lower);
        match shape % 8 {
            0 => {
                let fact = format!("s3://{word}-artifacts/{}", self.text(5, digits));
                (
                    fact.clone(),
                    format!("Backups of last week are in {fact}, nowhere else."),
                )
            }
            1 => {
                let fact = format!("feature/{word}-{}", self.text(3, digits));
                (
                    fact.clone(),
                    format!("We agreed to merge {fact} only after the audit."),
                )
            }
            2 => {
                let fact = format!("{word}@corp-{}.example", self.text(4, lower));
                (
                    fact.clone(),
                    format!("Questions about billing go to {fact}."),
                )
            }
            3 => {
                let fact = format!(
                    "{}:{}:{}",
                    self.text(2, digits),
                    self.text(2, "abcdef"),
                    self.text(4, "0123456789abcdef")
                );
                (
                    fact.clone(),
                    format!("The adapter answers as {fact} on the bench."),
                )
            }
            4 => {
                let fact = format!(
                    "{}{}{}",
                    self.text(3, upper),
                    self.text(4, digits),
                    self.text(2, upper)
                );
                (fact.clone(), format!("The rack is labelled {fact}."))
            }
            5 => {
                let fact = format!("retry.{word}.max_seconds={}", 100 + self.next(900));
                (
                    fact.clone(),
                    format!("Production runs with {fact} since Tuesday."),
                )
            }
            6 => {
                let fact = format!(
                    "v{}.{}.{}-rc{}",
                    self.next(9),
                    self.next(40),
                    self.next(90),
                    1 + self.next(8)
                );
                (
                    fact.clone(),
                    format!("Only {fact} passed on the old kernel."),
                )
            }
            _ => {
                let fact = format!("urn:{word}:{}", self.text(7, digits));
                (fact.clone(), format!("The record to restore is {fact}."))
            }
        }
    }
}

/// Plants forty facts in the messages of a session: of each tenth, one after a text of the model, one at
/// the start of a text of the user, one in the middle and one at the end of a result. Returns the facts.
pub(crate) fn plant(messages: &mut [Value]) -> Vec<String> {
    let mut numbers = Numbers(0x5DEE_CE66_D1CE_4E5B);
    let mut facts = Vec::new();
    let length = messages.len();
    for number in 0..TENTHS * EACH {
        let tenth = number / EACH;
        let (from, to) = (length * tenth / TENTHS, length * (tenth + 1) / TENTHS);
        let role = ["assistant", "user", "tool", "tool"].get(number % EACH);
        let (fact, sentence) = numbers.fact(number + tenth);
        // A part of the session may have few messages of a role: the search goes round.
        let start = numbers.next(to - from);
        let order = (0..to - from).map(|at| from + (start + at) % (to - from));
        let planted = order.into_iter().any(|at| {
            let Some(message) = messages.get_mut(at) else {
                return false;
            };
            let is_role = message.get("role").and_then(Value::as_str) == role.copied();
            let Some(Value::String(text)) = message.get_mut("content") else {
                return false;
            };
            if !is_role || text.trim().is_empty() {
                return false;
            }
            *text = match number % EACH {
                0 | 3 => format!("{text}\n{sentence}"),
                1 => format!("{sentence} {text}"),
                _ => {
                    let middle = text.char_indices().nth(text.chars().count() / 2);
                    let (one, other) = text.split_at(middle.map_or(0, |(at, _)| at));
                    format!("{one} {sentence} {other}")
                }
            };
            true
        });
        if planted {
            facts.push(fact);
        }
    }
    facts
}
