//! Rules that a newer rule replaces.

use super::phrases::{is_hangul, is_unspaced, is_word, lines};
use std::collections::HashSet;
use std::sync::LazyLock;

/// Words of a correction. A line that begins with `~` may also begin a rule on another matter.
pub(super) const CORRECTIONS: &str = include_str!("corrections.txt");
/// Words that name the old value behind them, or, with the ellipsis in front, before them.
pub(super) const OLD_VALUES: &str = include_str!("old_values.txt");
/// Words that leave the matter of a rule as it is.
pub(super) const FILLERS: &str = include_str!("fillers.txt");
/// Words between a matter and its value.
pub(super) const EQUATIVES: &str = include_str!("equatives.txt");
/// Nouns that a number names, such as `issue`.
pub(super) const NUMBERED: &str = include_str!("numbered.txt");

/// Maximum bytes of a sentence that is compared.
const MAX_BYTES: usize = 600;
/// Maximum words of a value with its unit.
const MAX_VALUE_WORDS: usize = 2;

/// Whether `newer` is certainly about the same as the rule `older` and states another value.
///
/// - The newer one names the old value, as in `instead of X`.
/// - Or the two differ in one value alone. If no word says that the newer one corrects, a value is a number
///   that names no thing, or a name behind a word such as `is`.
pub(crate) fn replaces(newer: &str, older: &str) -> bool {
    if newer.len().max(older.len()) > MAX_BYTES {
        return false;
    }
    let mut new = words(newer);
    let old = matter(&words(older));
    if names_old_value(&new, &old) {
        return true;
    }
    let correction = take_corrections(&mut new);
    let new = matter(&new);
    let differs = |new: &[Word], old: &[Word]| differ_in_value(new, old, correction);
    // A correction may explain itself behind the rule, and the old rule may have done so.
    let (first_new, first_old) = (first_clause(&new), first_clause(&old));
    differs(&new, &old)
        || (correction.is_some()
            && (differs(first_new, &old)
                || differs(&new, first_old)
                || differs(first_new, first_old)))
}

/// Certainty with which words say that a sentence corrects an older one.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Correction {
    /// It may also state a rule on another matter.
    Likely,
    /// It corrects.
    Certain,
}

/// Word of a sentence.
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
        let behind = token.rsplit_once(text).map_or(token, |(_, behind)| behind);
        let mut inner = text.chars().skip(1);
        let is_value = text.chars().any(char::is_numeric)
            || text.contains(['/', '_', '.', '@', '\\', '$', '#'])
            || inner.any(char::is_uppercase)
            || token.starts_with(['`', '"', '“', '«', '「']);
        let ends_clause = |c: char| ",;:.!?—–，；：。、".contains(c);
        Self {
            key: text.to_lowercase(),
            is_value,
            ends_clause: behind.contains(ends_clause),
        }
    }

    fn is_number(&self) -> bool {
        let digits = self.key.trim_start_matches(|c: char| !c.is_alphanumeric());
        digits.starts_with(char::is_numeric)
    }
}

/// Returns the words of a sentence; each character of a script without spaces is one.
fn words(text: &str) -> Vec<Word> {
    let mut tokens = vec![String::new()];
    let mut before = ' ';
    for c in text.chars() {
        let is_own = is_unspaced(c) || is_unspaced(before) || is_hangul(c) != is_hangul(before);
        if c.is_whitespace() || (is_own && is_word(c)) {
            tokens.push(String::new());
        }
        if let Some(token) = tokens.last_mut() {
            token.push(c);
        }
        before = c;
    }
    let found = tokens.iter().map(|token| Word::of(token.trim()));
    found.filter(|word| !word.key.is_empty()).collect()
}

/// Returns the words that say what a rule is about.
fn matter(words: &[Word]) -> Vec<Word> {
    static WORDS: LazyLock<HashSet<&str>> = LazyLock::new(|| lines(FILLERS).collect());
    let kept = words
        .iter()
        .filter(|word| !WORDS.contains(word.key.as_str()));
    kept.cloned().collect()
}

/// Returns the words up to the end of the first clause.
fn first_clause(words: &[Word]) -> &[Word] {
    let end = words.iter().position(|word| word.ends_clause);
    end.and_then(|end| words.get(..=end)).unwrap_or(words)
}

/// Removes the words of a correction, and returns the greatest certainty of theirs.
fn take_corrections(words: &mut Vec<Word>) -> Option<Correction> {
    static PHRASES: LazyLock<Vec<(Correction, Vec<Word>)>> = LazyLock::new(|| {
        let phrases = lines(CORRECTIONS).map(|line| match line.strip_prefix('~') {
            Some(line) => (Correction::Likely, self::words(line)),
            None => (Correction::Certain, self::words(line)),
        });
        phrases.collect()
    });
    let mut found = None;
    for (certainty, phrase) in PHRASES.iter() {
        if let Some(at) = words.windows(phrase.len()).position(|it| it == phrase) {
            let ends_clause = words
                .drain(at..at + phrase.len())
                .any(|word| word.ends_clause);
            if let Some(before) = at.checked_sub(1).and_then(|at| words.get_mut(at)) {
                before.ends_clause |= ends_clause;
            }
            found = found.max(Some(*certainty));
        }
    }
    found
}

/// Whether `new` names a value of `old` as the one that holds no longer, and is about the same.
fn names_old_value(new: &[Word], old: &[Word]) -> bool {
    static PHRASES: LazyLock<Vec<(bool, Vec<Word>)>> = LazyLock::new(|| {
        let phrases = lines(OLD_VALUES).map(|line| (line.starts_with('…'), words(line)));
        phrases.collect()
    });
    PHRASES.iter().any(|(is_in_front, phrase)| {
        let Some(at) = new.windows(phrase.len()).position(|it| it == phrase) else {
            return false;
        };
        let (front, rest) = new.split_at_checked(at).unwrap_or_default();
        let behind = rest.get(phrase.len()..).unwrap_or_default();
        let named = if *is_in_front {
            matter(front).pop()
        } else {
            matter(behind).into_iter().next()
        };
        let Some(named) = named.filter(|it| old.contains(it)) else {
            return false;
        };
        let mut others = matter(front);
        others.extend(matter(behind));
        let (shared, left): (Vec<&Word>, Vec<&Word>) = old
            .iter()
            .filter(|word| **word != named)
            .partition(|word| others.contains(word));
        // A long value is named together with the noun in front, as in `port 9443 instead of 8443`.
        let noun = old
            .windows(2)
            .find_map(|it| it.get(1).filter(|it| **it == named).and(it.first()));
        let is_same_noun = named.key.len() > 3 && noun.is_some_and(|noun| shared.contains(&noun));
        let limit = if named.is_value { shared.len() } else { 0 };
        !shared.is_empty() && (left.len() <= limit || (named.is_value && is_same_noun))
    })
}

/// Whether two rules differ in one value alone.
fn differ_in_value(new: &[Word], old: &[Word], correction: Option<Correction>) -> bool {
    let front = new.iter().zip(old).take_while(|(a, b)| a == b).count();
    let (new_rest, old_rest) = (new.get(front..), old.get(front..));
    let (Some(new_rest), Some(old_rest)) = (new_rest, old_rest) else {
        return false;
    };
    let pairs = new_rest.iter().rev().zip(old_rest.iter().rev());
    let end = pairs.take_while(|(a, b)| a == b).count();
    let value = |rest: &[Word]| rest.get(..rest.len() - end).unwrap_or_default().to_vec();
    let (new_value, old_value) = (value(new_rest), value(old_rest));
    let values = [&new_value, &old_value];
    if front + end < 2
        || values
            .iter()
            .any(|it| it.is_empty() || it.len() > MAX_VALUE_WORDS)
    {
        return false;
    }
    let lead = front.checked_sub(1).and_then(|at| new.get(at));
    let is_led_by = |list: &str| lead.is_some_and(|lead| lines(list).any(|it| it == lead.key));
    let are_numbers = values.iter().all(|it| it.iter().any(Word::is_number));
    let are_values = values.iter().all(|it| it.iter().any(|word| word.is_value));
    match correction {
        Some(Correction::Certain) => true,
        Some(Correction::Likely) => are_values && !is_led_by(NUMBERED),
        None => (are_numbers && !is_led_by(NUMBERED)) || (are_values && is_led_by(EQUATIVES)),
    }
}
