//! Readers of keys and values that the requests of every dialect have, and their limits. Every dialect lists
//! its own keys, and an object contains each at most once.

use crate::clients;
use crate::conversation::{OutputLimit, Role};
use crate::dialect::bypass::Bypass;
use crate::json::scanner::{Literal, NotJson, Scanner};
use crate::json::span::Span;
use crate::units::tokens::Tokens;

/// Longest accepted model name, in bytes as written. Facts learned about models are stored by name;
/// names in use are shorter than 100 bytes.
const MAX_MODEL_NAME_BYTES: usize = 512;

impl From<NotJson> for Bypass {
    fn from(_: NotJson) -> Self {
        Self::Malformed
    }
}

pub(super) fn read_model(scanner: &mut Scanner<'_>) -> Result<Option<Literal>, Bypass> {
    let model = string_or_null(scanner)?;
    if model.is_some_and(|model| model.span().len() > MAX_MODEL_NAME_BYTES) {
        return Err(Bypass::Shape);
    }
    Ok(model)
}

/// Reads a string. Returns `None` for any other value.
pub(super) fn read_string(scanner: &mut Scanner<'_>) -> Result<Option<Literal>, Bypass> {
    if scanner.peek() == Some(b'"') {
        return Ok(Some(scanner.string()?));
    }
    scanner.skip()?;
    Ok(None)
}

/// Returns the role with this name, or [`Role::Other`] if the role is not among those that the API has, `known`.
pub(super) fn role_from_name(name: &str, known: &[Role]) -> Role {
    let role = match name {
        "assistant" => Role::Assistant,
        "developer" => Role::Developer,
        "function" => Role::Function,
        "system" => Role::System,
        "tool" => Role::Tool,
        "user" => Role::User,
        _ => Role::Other,
    };
    if known.contains(&role) { role } else { Role::Other }
}

/// Reads a flag. Any value other than `true` counts as `false`.
pub(super) fn read_flag(scanner: &mut Scanner<'_>) -> Result<bool, Bypass> {
    Ok(scanner.json()? == "true")
}

/// Reads the value of a cache mark; `None` for null.
pub(super) fn read_mark(scanner: &mut Scanner<'_>) -> Result<Option<Span>, Bypass> {
    let value = scanner.value()?;
    Ok((value.slice(scanner.text()) != "null").then_some(value))
}

/// Reads a string, or null as `None`. Any other type is an error.
pub(super) fn string_or_null(scanner: &mut Scanner<'_>) -> Result<Option<Literal>, Bypass> {
    match scanner.peek() {
        Some(b'"') => Ok(Some(scanner.string()?)),
        Some(b'n') => Ok(scanner.skip().map(|()| None)?),
        _ => Err(wrong_type(scanner)),
    }
}

/// Checks that the next value begins with `first`.
pub(super) fn expect_start(scanner: &mut Scanner<'_>, first: u8) -> Result<(), Bypass> {
    if scanner.peek() == Some(first) { Ok(()) } else { Err(wrong_type(scanner)) }
}

/// Distinguishes a value of the wrong type from text that is not JSON.
pub(super) fn wrong_type(scanner: &mut Scanner<'_>) -> Bypass {
    scanner.value().map_or(Bypass::Malformed, |_| Bypass::Shape)
}

/// Reads a limit of output tokens. Returns `None` unless the value is a non-negative integer; the
/// upstream refuses other values itself.
pub(super) fn read_output_limit(
    scanner: &mut Scanner<'_>,
    key: Literal,
) -> Result<Option<OutputLimit>, Bypass> {
    let span = scanner.value()?;
    let number = span.slice(scanner.text()).parse().ok();
    Ok(number.map(|tokens| OutputLimit { key, span, tokens: Tokens::new(tokens) }))
}

/// Whether a text begins with one of `beginnings`, and the forms of clients show that the program wrote all of
/// the text. Any other text is not decoded.
pub(super) fn is_of_program(text: Literal, body: &str, beginnings: &[&str]) -> bool {
    let raw = text.raw(body).trim_start_matches("\\n").trim_start();
    let begins = beginnings.iter().any(|words| raw.starts_with(words));
    begins && clients::own_words(&text.decode(body)).is_empty()
}

/// Key of one kind of object. Each kind has at most 32.
pub(super) trait Key: Copy {
    /// Returns the key with this name, or `None` if longhaul does not use it.
    fn from_name(name: &str) -> Option<Self>;

    /// Returns the key's number within its kind.
    fn number(self) -> u32;

    /// Whether several names share this meaning, and may occur together.
    fn is_shared(self) -> bool;
}

/// Declares the keys of one kind of object, each with the names that spell it. Names of a `shared` key
/// may occur together.
macro_rules! keys {
    ($(#[$of:meta])* $kind:ident { $($key:ident = $names:pat,)+ } shared { $($shared:ident = $alike:pat,)* }) => {
        $(#[$of])*
        #[derive(Clone, Copy, Eq, PartialEq)]
        pub(super) enum $kind {
            $($key,)+
            $($shared,)*
        }

        impl $crate::dialect::request_values::Key for $kind {
            fn from_name(name: &str) -> Option<Self> {
                Some(match name {
                    $($names => Self::$key,)+
                    $($alike => Self::$shared,)*
                    _ => return None,
                })
            }

            fn number(self) -> u32 {
                self as u32
            }

            fn is_shared(self) -> bool {
                match self {
                    $(Self::$key => false,)+
                    $(Self::$shared => true,)*
                }
            }
        }
    };
}

pub(super) use keys;

/// Set of keys found in an object so far.
#[derive(Default)]
pub(super) struct SeenKeys(u32);

impl SeenKeys {
    pub(super) fn contains(&self, key: impl Key) -> bool {
        self.0 & (1 << key.number()) != 0
    }

    /// Inserts `key`. Fails if the object contains the key twice. Parsers differ in which of the
    /// two values they take.
    pub(super) fn insert_once(&mut self, key: impl Key) -> Result<(), Bypass> {
        if self.contains(key) && !key.is_shared() {
            return Err(Bypass::Duplicate);
        }
        self.0 |= 1 << key.number();
        Ok(())
    }

    /// Returns the known key that a literal spells, and inserts it.
    pub(super) fn next<K: Key>(
        &mut self,
        scanner: &Scanner<'_>,
        spelt: Literal,
    ) -> Result<Option<K>, Bypass> {
        let key = known_key(scanner, spelt);
        if let Some(key) = key {
            self.insert_once(key)?;
        }
        Ok(key)
    }
}

/// Returns the known key that a literal spells, escaped or not.
pub(super) fn known_key<K: Key>(scanner: &Scanner<'_>, spelt: Literal) -> Option<K> {
    let text = scanner.text();
    // Only an escaped key is copied.
    if spelt.is_escaped() {
        K::from_name(&spelt.decode(text))
    } else {
        K::from_name(spelt.raw(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::Dialect;
    use crate::json::scanner::Scanner;

    #[test]
    fn negative_output_limit_is_found_at_the_top_only() {
        use Dialect::{ChatCompletions, Messages, Responses};
        for (dialect, body, expect) in [
            (ChatCompletions, r#"{"messages":[],"max_tokens":-7232}"#, true),
            (ChatCompletions, r#"{"max_tokens":null,"max_completion_tokens" : -1}"#, true),
            (ChatCompletions, r#"{"max_tokens":7232}"#, false),
            (ChatCompletions, r#"{"max_tokens":-0.5}"#, false),
            (ChatCompletions, r#"{"metadata":{"max_tokens":-1}}"#, false),
            (ChatCompletions, "{}", false),
            (ChatCompletions, "", false),
            (ChatCompletions, r#"{"max_tokens":-7232"#, false),
            (Messages, r#"{"messages":[],"max_tokens":-7232}"#, true),
            (Messages, r#"{"max_output_tokens":-7232}"#, false),
            (Messages, r#"{"max_tokens":null}"#, false),
            (Responses, r#"{"input":"a","max_output_tokens":-7}"#, true),
            (Responses, r#"{"input":"a","max_output_tokens":7}"#, false),
            (Responses, r#"{"input":[{"max_output_tokens":-7}]}"#, false),
        ] {
            assert_eq!(dialect.has_negative_output_limit(body), expect, "{body}");
        }
    }

    fn check(text: &str, beginnings: &[&str], expect: bool) {
        let body = serde_json::to_string(text).unwrap();
        let text = Scanner::new(&body).string().unwrap();
        assert_eq!(is_of_program(text, &body, beginnings), expect, "{body}");
    }

    #[test]
    fn a_reminder_that_quotes_the_user_or_precedes_the_users_words_is_the_users() {
        let check = |text: &str, expect: bool| check(text, &["<system-reminder>"], expect);
        check("<system-reminder>\nx\n</system-reminder>", true);
        check("\n <system-reminder>x</system-reminder>\n\n", true);
        let two = "<system-reminder>a</system-reminder>\n<system-reminder>b</system-reminder>";
        check(two, true);
        check("<system-reminder>a</system-reminder>\nport it", false);
        check("port <system-reminder>a</system-reminder>", false);
        check("<system-reminder>a", false);
        check(
            "<system-reminder>\nThe user sent the following message:\nstop\n</system-reminder>",
            false,
        );
        check("", false);
    }

    #[test]
    fn a_description_of_the_workspace_is_no_text_of_the_user() {
        let check = |text: &str, expect: bool| check(text, &["<", "# AGENTS.md"], expect);
        check("<environment_context>\n  <cwd>/home/user</cwd>\n</environment_context>", true);
        check(
            "# AGENTS.md instructions for /home/user\n\n<INSTRUCTIONS>\nx\n</INSTRUCTIONS>",
            true,
        );
        check("<environment_context>x</environment_context>\nfix the build", false);
        check("why does <environment_context> repeat?", false);
        check("<b>fix the build</b>", false);
    }
}
