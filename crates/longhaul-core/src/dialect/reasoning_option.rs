//! Options of a request that control how much its model reasons.

use crate::json::scanner::{NotJson, Scanner, members};
use crate::json::span::Span;
use crate::units::tokens::Tokens;

/// Reads a reasoning option. Returns its span and the tokens that it grants: Anthropic's
/// `thinking.budget_tokens` or OpenRouter's `reasoning.max_tokens`, unless reasoning is off.
pub(super) fn read_reasoning_option(scanner: &mut Scanner<'_>) -> Result<(Span, Tokens), NotJson> {
    let (mut granted, mut is_off) = (0, false);
    let span = scanner.value()?;
    for (key, value) in members(span.slice(scanner.text())) {
        match (&*key, value) {
            ("budget_tokens" | "max_tokens", number) => {
                granted = granted.max(number.parse::<u64>().unwrap_or_default());
            }
            ("enabled", "false") | ("type", "\"disabled\"") => is_off = true,
            _ => {}
        }
    }
    let granted = if is_off { 0 } else { granted };
    let granted = u32::try_from(granted).unwrap_or(u32::MAX);
    Ok((span, Tokens::new(granted)))
}

/// Efforts below the default of models.
const LOW_EFFORTS: [&str; 3] = ["\"low\"", "\"minimal\"", "\"none\""];

/// Whether a reasoning option reduces the model's default reasoning. Such an option applies to the
/// summary too, since the upstream supports the key. Options for more reasoning are dropped:
/// reasoning counts as output, and a summary needs none.
pub fn reduces_reasoning(key: &str, value: &str) -> bool {
    let value: String =
        value.chars().filter(|c| !c.is_ascii_whitespace()).collect::<String>().to_lowercase();
    let names = |words: &[&str]| words.iter().any(|word| value.contains(word));
    match key {
        "enable_thinking" | "think" => value == "false",
        "reasoning_effort" => names(&LOW_EFFORTS),
        "reasoning" => {
            names(&["\"enabled\":false"]) || value.contains("\"effort\":") && names(&LOW_EFFORTS)
        }
        "thinking" => names(&["\"type\":\"disabled\""]),
        // A format would change the kind of the answer.
        "output_config" => value == r#"{"effort":"low"}"#,
        "chat_template_kwargs" => names(&["\"enable_thinking\":false", "\"thinking\":false"]),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::chat_completions::read;

    #[test]
    fn reasoning_budget_counts_unless_thinking_is_disabled() {
        for (wish, output, may) in [
            (r#""thinking":{"type":"enabled","budget_tokens":5000}"#, 5_000, true),
            (r#""thinking":{"type":"enabled","budget_tokens":5000}"#, 5_001, false),
            (r#""thinking":{"type":"disabled","budget_tokens":5000}"#, 1, false),
            (r#""reasoning":{"max_tokens":5000}"#, 5_000, true),
            (r#""reasoning":{"max_tokens":0}"#, 0, false),
            (r#""reasoning":{"enabled":false,"max_tokens":5000}"#, 1, false),
            (r#""reasoning":{"effort":"high"}"#, 0, false),
            (r#""reasoning_effort":"high""#, 0, false),
        ] {
            let body = format!(r#"{{"messages":[{{"role":"user","content":"x"}}],{wish}}}"#);
            let conversation = read(body.as_bytes()).unwrap();
            assert_eq!(
                conversation.grants_reasoning_tokens(Tokens::new(output)),
                may,
                "{wish} {output}"
            );
        }
    }
}
