//! Rules that a newer rule replaces.

use super::phrases::{is_joined, is_unspaced, is_word, lines};
use crate::collections::{StaticMap, StaticSet};
use std::sync::LazyLock;

/// Words of a correction. A line that begins with `~` may also begin a rule on another matter. At the start of
/// a sentence, a line that begins with `?` names the next step.
pub(super) const CORRECTIONS: &str = include_str!("corrections.txt");
/// Words that name the old value behind them, or, with the ellipsis in front, before them.
pub(super) const OLD_VALUES: &str = include_str!("old_values.txt");
/// Words that leave the matter of a rule as it is.
pub(super) const FILLERS: &str = include_str!("fillers.txt");
/// Words between a matter and its value.
pub(super) const EQUATIVES: &str = include_str!("equatives.txt");
/// Words of a prohibition. No other value takes the place of a prohibited one.
pub(super) const NEGATIONS: &str = include_str!("negations.txt");
/// Numbers in words. Those that are also an article are no numbers.
pub(super) const NUMBERS: &str = include_str!("numbers.txt");
/// Nouns that a number names, such as `issue`.
pub(super) const NUMBERED: &str = include_str!("numbered.txt");

/// Maximum words of a value with its unit.
const MAX_VALUE_WORDS: usize = 2;
/// Maximum bytes of a sentence that only announces a correction.
const MAX_ANNOUNCEMENT_BYTES: usize = 90;

/// Rule as words, to be compared with others.
pub(crate) struct RuleWords {
    all: Vec<Word>,
    /// The words that say what the rule is about.
    matter: Vec<Word>,
    /// The words of the matter without words of a correction.
    stated: Vec<Word>,
    correction: Option<Correction>,
}

impl RuleWords {
    pub(crate) fn new(sentence: &str) -> Self {
        let all = words(sentence);
        let mut stated = all.clone();
        let correction = take_corrections(&mut stated).filter(|it| *it > Correction::Next);
        Self { matter: matter(all.clone()), stated: matter(stated), all, correction }
    }

    /// Whether words say that this sentence corrects an older one.
    pub(crate) fn corrects(&self) -> bool {
        self.correction.is_some()
    }

    /// Whether a sentence only says that a correction follows, as in `Change of plan.`
    pub(crate) fn only_announces(sentence: &str) -> bool {
        if sentence.len() > MAX_ANNOUNCEMENT_BYTES {
            return false;
        }
        let words = Self::new(sentence);
        words.correction == Some(Correction::Certain) && words.stated.is_empty()
    }

    /// Whether this rule is certainly about the same as the rule `older` and states another value.
    ///
    /// - The newer one names the old value, as in `instead of X`.
    /// - Or the two differ in one value alone. Without a word of correction, a value is a number that names
    ///   no thing, or a name behind a word such as `is`.
    pub(crate) fn replaces(&self, older: &Self) -> bool {
        let (new, old) = (&self.all, &older.matter);
        old.iter().any(|word| new.contains(word))
            && (names_old_value(new, old) || self.states_another_value(old))
    }

    /// Whether this rule corrects the old words, or differs from them in a value that certainly changed.
    fn states_another_value(&self, old: &[Word]) -> bool {
        let correction = self.correction;
        // A correction may explain itself behind the rule, and the old rule may have done so.
        let forms = |words| match correction {
            Some(_) => vec![words, first_clause(words)],
            None => vec![words],
        };
        let old_forms = forms(old);
        let differ = |new, old| {
            differ_in_value(new, old, correction)
                || (correction.is_some() && are_reordered(new, old))
        };
        let mut new_forms = forms(&self.stated).into_iter();
        new_forms.any(|new| old_forms.iter().any(|old| differ(new, old)))
    }
}

/// Certainty with which words say that a sentence corrects an older one.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Correction {
    /// The sentence may name the next step.
    Next,
    /// The sentence may also state a rule on another matter.
    Likely,
    /// The sentence corrects.
    Certain,
}

#[derive(Clone, Debug)]
struct Word {
    /// The word in lower case, without the punctuation around.
    key: String,
    /// Whether the word is a number, a path, an identifier or quoted.
    is_value: bool,
    /// Whether a clause ends behind the word.
    ends_clause: bool,
}

impl PartialEq for Word {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl Word {
    fn of(token: &str) -> Self {
        let text = token.trim_matches(|c: char| !is_word(c) && !"/$€£%#@~<>".contains(c));
        let is_value = text.contains(char::is_numeric)
            || text.contains(['/', '_', '.', '@', '\\', '$', '#'])
            || text.chars().skip(1).any(char::is_uppercase)
            || token.starts_with(['`', '"', '“', '«', '「'])
            || is_number_word(&text.to_lowercase());
        let ends = token.trim_end_matches(|c| "\"'`)”»」".contains(c));
        Self {
            key: text.to_lowercase(),
            is_value,
            ends_clause: ends.ends_with(|c| ",;:.!?—–，；：。、".contains(c)),
        }
    }

    fn is_number(&self) -> bool {
        let digits = self.key.trim_start_matches(|c: char| !c.is_alphanumeric());
        digits.starts_with(char::is_numeric) || is_number_word(&self.key)
    }
}

fn is_number_word(key: &str) -> bool {
    static WORDS: LazyLock<StaticSet<&str>> = LazyLock::new(|| lines(NUMBERS).collect());
    WORDS.contains(key)
}

/// Returns the words of a sentence; each character of a script without spaces is one.
fn words(text: &str) -> Vec<Word> {
    let mut found = Vec::new();
    let mut token = String::new();
    let mut before = ' ';
    for c in text.chars() {
        let is_own = is_unspaced(c) || is_unspaced(before) || is_joined(c) != is_joined(before);
        if c.is_whitespace() || (is_own && is_word(c)) {
            found.push(Word::of(&token));
            token.clear();
        }
        token.extend(Some(c).filter(|c| !c.is_whitespace()));
        before = c;
    }
    found.push(Word::of(&token));
    found.retain(|word| !word.key.is_empty());
    found
}

/// Returns the words that say what a rule is about.
fn matter(mut words: Vec<Word>) -> Vec<Word> {
    static WORDS: LazyLock<StaticSet<&str>> = LazyLock::new(|| lines(FILLERS).collect());
    words.retain(|word| !WORDS.contains(word.key.as_str()));
    words
}

/// Returns the words up to the end of the first clause.
fn first_clause(words: &[Word]) -> &[Word] {
    let end = words.iter().position(|word| word.ends_clause);
    end.and_then(|end| words.get(..=end)).unwrap_or(words)
}

/// Phrases by their first word, each with what the phrase says.
type Phrases<T> = StaticMap<String, Vec<(T, Vec<Word>)>>;

fn phrases<T>(file: &'static str, read: fn(&str) -> T) -> Phrases<T> {
    let mut found = Phrases::default();
    for line in lines(file) {
        let phrase = words(line.trim_start_matches(['~', '?', '…']));
        if let Some(first) = phrase.first() {
            let key = first.key.clone();
            found.entry(key).or_default().push((read(line), phrase));
        }
    }
    found
}

/// Returns the phrases at the start of `words`, each as its length and what the phrase says.
fn phrases_of<T: Copy>(phrases: &Phrases<T>, words: &[Word]) -> impl Iterator<Item = (usize, T)> {
    let phrases = words.first().and_then(|word| phrases.get(&word.key));
    let fitting = phrases.into_iter().flatten();
    let fitting = fitting.filter(|(_, phrase)| words.starts_with(phrase));
    fitting.map(|(says, phrase)| (phrase.len(), *says))
}

/// Removes the words of a correction, and returns the greatest certainty of theirs.
fn take_corrections(words: &mut Vec<Word>) -> Option<Correction> {
    static PHRASES: LazyLock<Phrases<Correction>> = LazyLock::new(|| {
        phrases(CORRECTIONS, |line| match line.as_bytes() {
            [b'?', ..] => Correction::Next,
            [b'~', ..] => Correction::Likely,
            _ => Correction::Certain,
        })
    });
    let mut correction = None;
    let mut at = 0;
    while let Some(rest) = words.get(at..).filter(|rest| !rest.is_empty()) {
        let Some((length, certainty)) = phrases_of(&PHRASES, rest).max() else {
            at += 1;
            continue;
        };
        let certainty = if at > 0 { certainty.max(Correction::Likely) } else { certainty };
        correction = correction.max(Some(certainty));
        let ends_clause = words.drain(at..at + length).any(|word| word.ends_clause);
        if let Some(before) = words.get_mut(at.wrapping_sub(1)) {
            before.ends_clause |= ends_clause;
        }
    }
    correction
}

/// Whether `new` names a value of `old` as the one that holds no longer, and is about the same.
fn names_old_value(new: &[Word], old: &[Word]) -> bool {
    static PHRASES: LazyLock<Phrases<bool>> =
        LazyLock::new(|| phrases(OLD_VALUES, |line| line.starts_with('…')));
    let mut named = (0..new.len()).flat_map(|at| {
        let rest = new.get(at..).unwrap_or_default();
        phrases_of(&PHRASES, rest).filter_map(move |(length, is_behind)| {
            new.get(if is_behind { at.checked_sub(1)? } else { at + length })
        })
    });
    named.any(|named| {
        let others = old.iter().filter(|word| *word != named);
        let (shared, left): (Vec<&Word>, Vec<&Word>) = others.partition(|it| new.contains(it));
        // A long value is named with the noun in front, as in `port 9443 instead of 8443`.
        let mut pairs = old.windows(2);
        let has_noun = named.key.len() > 3
            && pairs.any(|it| {
                it.last() == Some(named) && it.first().is_some_and(|it| shared.contains(&it))
            });
        let is_same =
            if named.is_value { has_noun || left.len() <= shared.len() } else { left.is_empty() };
        old.contains(named) && !shared.is_empty() && is_same && !left.into_iter().any(is_negation)
    })
}

/// Whether two rules differ in one value alone.
fn differ_in_value(new: &[Word], old: &[Word], correction: Option<Correction>) -> bool {
    let front = new.iter().zip(old).take_while(|(a, b)| a == b).count();
    let (_, new_rest) = new.split_at_checked(front).unwrap_or_default();
    let (_, old_rest) = old.split_at_checked(front).unwrap_or_default();
    let pairs = new_rest.iter().rev().zip(old_rest.iter().rev());
    let end = pairs.take_while(|(a, b)| a == b).count();
    let values = [new_rest, old_rest].map(|rest| rest.get(..rest.len() - end).unwrap_or_default());
    if front + end < 2 || values.iter().any(|it| it.is_empty() || it.len() > MAX_VALUE_WORDS) {
        return false;
    }
    // Another unit follows its number. Another noun in front makes another rule.
    if values.iter().any(|it| matches!(it, [noun, value] if value.is_value && !noun.is_value)) {
        return false;
    }
    let is_led_by = |list: &str| is_led_by(new, front, list);
    let are_numbers = values.iter().all(|it| it.iter().any(Word::is_number));
    let are_values = values.iter().all(|it| it.iter().any(|word| word.is_value));
    match correction {
        Some(Correction::Certain) => are_values || new.len() == old.len(),
        Some(Correction::Likely) if is_led_by(EQUATIVES) => are_values || new.len() == old.len(),
        Some(Correction::Likely) => are_values && !is_led_by(NUMBERED),
        Some(Correction::Next) | None => {
            (are_numbers && !is_led_by(NUMBERED)) || (are_values && is_led_by(EQUATIVES))
        }
    }
}

/// Whether two rules have the same words in another order, but for one value.
fn are_reordered(new: &[Word], old: &[Word]) -> bool {
    let other = |all: &[Word], others: &[Word]| {
        let mut other =
            (0..all.len()).filter(|at| all.get(*at).is_some_and(|it| !others.contains(it)));
        let value = other.next().filter(|at| all.get(*at).is_some_and(|it| it.is_value))?;
        other.next().is_none().then_some(value)
    };
    let added = other(new, old).filter(|_| new.len() == old.len() && new.len() > 2);
    added.is_some_and(|at| other(old, new).is_some() && !is_led_by(new, at, NUMBERED))
}

/// Whether a word of `list` stands in front of the word at `at`.
fn is_led_by(words: &[Word], at: usize, list: &str) -> bool {
    let lead = at.checked_sub(1).and_then(|at| words.get(at));
    lead.is_some_and(|lead| lines(list).any(|it| it == lead.key))
}

fn is_negation(word: &Word) -> bool {
    lines(NEGATIONS).any(|it| it == word.key)
}
