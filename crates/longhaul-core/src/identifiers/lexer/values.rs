//! Values that reach beyond a run: quoted, after the name of a setting, or with a currency.

use crate::identifiers::kind::IdentifierKind;
use crate::identifiers::kind::forms;
use std::ops::Range;

/// Maximum bytes of a quoted value after `KEY=` that is kept whole.
pub(super) const MAX_QUOTED_BYTES: usize = 80;
/// Maximum bytes of a number with its unit after `name:`.
const MAX_NUMBER_BYTES: usize = 24;
const CURRENCIES: [&str; 12] =
    ["AUD", "CAD", "CHF", "CNY", "DKK", "EUR", "GBP", "INR", "JPY", "NOK", "SEK", "USD"];

/// Returns the value that a run begins, with its name, and the kind of both together.
pub(super) fn value_of(text: &str, run: &Range<usize>) -> Option<(Range<usize>, IdentifierKind)> {
    let (word, rest) = (text.get(run.clone())?, text.get(run.end..)?);
    let setting = quoted_length(word, rest).or_else(|| number_length(word, rest));
    if let Some(length) = setting {
        return Some((run.start..run.end + length, IdentifierKind::Assignment));
    }
    amount(text, run.start).map(|amount| (amount, IdentifierKind::Code))
}

/// Returns the length of the quoted value after `KEY=`.
fn quoted_length(word: &str, rest: &str) -> Option<usize> {
    let quote = rest.chars().next().filter(|quote| matches!(quote, '"' | '\''))?;
    if !forms::is_constant(word.strip_suffix('=')?) {
        return None;
    }
    let mut value = rest.bytes().skip(1).take(MAX_QUOTED_BYTES);
    let length = value.position(|byte| byte == b'\n' || char::from(byte) == quote)?;
    let is_whole = length > 0 && rest.get(length + 1..)?.starts_with(quote);
    is_whole.then_some(length + 2)
}

/// Returns the length up to the end of the number that follows `word` as `name: 5`, `"name": 5` or `"name":5`.
fn number_length(word: &str, rest: &str) -> Option<usize> {
    let (name, value) = if let Some(name) = word.strip_suffix(':') {
        (name, rest.strip_prefix(' ')?)
    } else {
        let value = rest.strip_prefix(['"', '\''])?.strip_prefix(':')?;
        (word, value.strip_prefix(' ').unwrap_or(value))
    };
    let is_behind = |it: char| !it.is_ascii_alphanumeric() && !matches!(it, '.' | '_' | '%');
    let (number, behind) = value.split_at(value.find(is_behind).unwrap_or(value.len()));
    let number = number.strip_suffix('.').unwrap_or(number);
    let is_number = number.starts_with(|first: char| first.is_ascii_digit())
        && number.len() <= MAX_NUMBER_BYTES
        && !behind.starts_with([':', '/', '-', '@', '\\', '=']);
    let length = rest.len() - value.len() + number.len();
    (is_number && forms::is_compound(name)).then_some(length)
}

/// Returns the amount of money at byte `start` (`$1,250`, `79,756.52 EUR`), if any. A digit after a dollar is a
/// variable.
fn amount(text: &str, start: usize) -> Option<Range<usize>> {
    let (before, rest) = text.split_at_checked(start)?;
    if !rest.starts_with(['$', '.']) && !rest.starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    let sign = before.chars().next_back();
    let sign = sign.filter(|sign| matches!(sign, '€' | '£'));
    let start = start - sign.map_or(0, char::len_utf8);
    let digits = rest.strip_prefix('$').unwrap_or(rest);
    let has_sign = sign.is_some() || digits.len() < rest.len();
    let is_digit = |at: usize| digits.as_bytes().get(at).is_some_and(u8::is_ascii_digit);
    let is_in_number =
        |at: usize, byte: u8| is_digit(at) || (matches!(byte, b',' | b'.') && is_digit(at + 1));
    let numbered = digits.bytes().enumerate();
    let length = numbered.take_while(|&(at, byte)| is_in_number(at, byte)).count();
    let behind = digits.get(length..)?;
    let end = text.len() - behind.len();
    let is_word = |text: &str| text.starts_with(|next: char| next.is_ascii_alphanumeric());
    if let Some((currency, behind)) = behind.strip_prefix(' ').and_then(|it| it.split_at_checked(3))
        && CURRENCIES.contains(&currency)
        && !is_word(behind)
    {
        return (length > 0).then_some(start..end + 4);
    }
    (has_sign && length > 1 && !is_word(behind)).then_some(start..end)
}
