//! Readers of values that the requests of every dialect have, and their limits.

use crate::conversation::{OutputLimit, Role};
use crate::dialect::bypass::Bypass;
use crate::json::scanner::{Literal, NotJson, Scanner, members};
use crate::units::tokens::Tokens;

/// Longest accepted model name, in bytes as written. Facts learned about models are stored by name;
/// names in use are shorter than 100 bytes.
const MAX_MODEL_NAME_BYTES: usize = 512;
impl From<NotJson> for Bypass {
    fn from(_: NotJson) -> Self {
        Self::Malformed
    }
}

/// Reads the members of a request body: `each` reads one value, after its key. Returns the body as
/// text. Fails if the body is not an object of JSON in UTF-8, or if `each` fails.
pub(super) fn read_request(
    body: &[u8],
    each: impl FnMut(&mut Scanner<'_>, Literal) -> Result<(), Bypass>,
) -> Result<&str, Bypass> {
    let body = simdutf8::basic::from_utf8(body).map_err(|_| Bypass::Malformed)?;
    let mut scanner = Scanner::new(body);
    if scanner.peek() != Some(b'{') {
        scanner.value()?;
        scanner.finish()?;
        return Err(Bypass::Shape);
    }
    scanner.object(each)?;
    scanner.finish()?;
    Ok(body)
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
    Ok(scanner.value()?.slice(scanner.text()) == "true")
}

/// Reads a string, or null as `None`. Any other type is an error.
pub(super) fn string_or_null(scanner: &mut Scanner<'_>) -> Result<Option<Literal>, Bypass> {
    match scanner.peek() {
        Some(b'"') => Ok(Some(scanner.string()?)),
        Some(b'n') => {
            scanner.value()?;
            Ok(None)
        }
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

/// Whether one of `keys` at the top of a body has a negative integer as its value.
pub(super) fn has_negative_number(body: &str, keys: &[&str]) -> bool {
    let is_negative = |value: &str| value.parse::<i64>().is_ok_and(i64::is_negative);
    let mut members = members(body);
    members.any(|(key, value)| keys.contains(&&*key) && is_negative(value))
}

#[cfg(test)]
mod tests {
    use crate::dialect::Dialect;

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
}
