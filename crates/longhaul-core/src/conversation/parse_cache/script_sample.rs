//! Statistics of the scripts in a sample of text.

use crate::json::scanner::has_unicode_escape;

/// Estimated cost of a character of any other script, in thousandths of a token.
pub(crate) const OTHER_SCRIPT_COST: u32 = 250;

/// Character statistics of a sample; zero if the sample is plain ASCII.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScriptSample {
    /// Characters in the sample.
    pub(crate) chars: u32,
    /// Expected tokens of the sample, in thousandths.
    pub(crate) thousandths: u32,
}

impl ScriptSample {
    pub(crate) fn from_json_text(raw: &str) -> Self {
        let mut sampled = Self { chars: 0, thousandths: 0 };
        if raw.is_ascii() && !has_unicode_escape(raw) {
            return sampled;
        }
        let mut rest = raw.chars();
        while let Some(mut char) = rest.next() {
            // Some clients escape every non-ASCII character.
            if char == '\\'
                && rest.next() == Some('u')
                && let Some(unit) = rest.as_str().get(..4)
            {
                let code = u32::from_str_radix(unit, 16).ok();
                char = code.and_then(char::from_u32).unwrap_or(char);
                rest = rest.as_str().get(4..).unwrap_or_default().chars();
            }
            sampled.chars += 1;
            sampled.thousandths += char_cost(char);
        }
        sampled
    }
}

/// Returns the cost of a character in thousandths of a token, as measured with `o200k`. Hangul lies
/// between 0.6 and 0.96; full-width forms count like the CJK characters around them.
fn char_cost(char: char) -> u32 {
    match char {
        '\u{3040}'..='\u{30FF}' | '\u{31F0}'..='\u{31FF}' => 740,
        '\u{3000}'..='\u{303F}'
        | '\u{3400}'..='\u{4DBF}'
        | '\u{4E00}'..='\u{9FFF}'
        | '\u{F900}'..='\u{FAFF}'
        | '\u{FF00}'..='\u{FFEF}'
        | '\u{20000}'..='\u{3FFFF}' => 790,
        '\u{1100}'..='\u{11FF}' | '\u{3130}'..='\u{318F}' | '\u{AC00}'..='\u{D7A3}' => 960,
        _ => OTHER_SCRIPT_COST,
    }
}
