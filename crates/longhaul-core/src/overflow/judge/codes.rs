//! Reads codes by their parts: `context_length_exceeded`, `PromptTooLongError`, `ERR_INPUT_TOO_LARGE`.

/// Parts that name the prompt or its room.
const PROMPT: [&str; 12] = [
    "chat",
    "context",
    "conversation",
    "ctx",
    "history",
    "input",
    "inputs",
    "message",
    "messages",
    "prompt",
    "prompts",
    "sequence",
];

/// Parts that say that a measure is exceeded.
const EXCESS: [&str; 12] = [
    "exceed",
    "exceeded",
    "exceeds",
    "exceeding",
    "full",
    "overflow",
    "overflowed",
    "overlimit",
    "overlong",
    "reached",
    "toolong",
    "toolarge",
];

/// Parts of codes about something other than the window.
const VETOED: [&str; 46] = [
    "apikey",
    "array",
    "audio",
    "balance",
    "budget",
    "bytes",
    "canceled",
    "cancelled",
    "completion",
    "concurrency",
    "credit",
    "credits",
    "daily",
    "day",
    "deadline",
    "expired",
    "file",
    "filter",
    "header",
    "headers",
    "hour",
    "image",
    "images",
    "inspection",
    "key",
    "media",
    "minute",
    "moderation",
    "monthly",
    "output",
    "overloaded",
    "path",
    "policy",
    "quota",
    "rate",
    "requests",
    "second",
    "string",
    "throttled",
    "throttling",
    "timeout",
    "tool",
    "tools",
    "uri",
    "url",
    "video",
];

/// Whether a code names an overflow.
///
/// Tokens alone are the prompt's, unless the code begins with `max`: `max_tokens_exceeded` is about the
/// output.
pub(in crate::overflow) fn names_overflow(code: &str) -> bool {
    let parts = parts(code);
    let has = |list: &[&str]| parts.iter().any(|part| list.contains(&part.as_str()));
    let pairs = || {
        parts
            .windows(2)
            .filter_map(|pair| <&[String; 2]>::try_from(pair).ok())
    };
    let is_too_much = pairs().any(|[first, second]| {
        let second = second.as_str();
        match first.as_str() {
            "too" => matches!(second, "long" | "large" | "big" | "many"),
            "over" | "above" | "beyond" => {
                matches!(
                    second,
                    "limit" | "max" | "maximum" | "length" | "size" | "window"
                )
            }
            _ => false,
        }
    });
    // A service over capacity is overloaded; a context over capacity is not.
    let is_over_capacity = pairs().any(|[first, second]| first == "over" && second == "capacity")
        && has(&["context", "ctx", "input", "prompt", "token", "tokens"]);
    let is_too_much = is_too_much || is_over_capacity;
    let is_prompt = has(&PROMPT);
    let is_tokens = has(&["token", "tokens"]) && !has(&["max", "maximum", "access", "auth"]);
    let is_excess = has(&EXCESS) || is_too_much;
    let is_length_error = has(&["length"]) && has(&["error"]) && is_prompt;
    !is_vetoed(code, false) && ((is_excess && (is_prompt || is_tokens)) || is_length_error)
}

/// Whether a code is about something other than the window. `is_measured` says that the refusal states
/// the size of the request and a smaller limit, which outweigh a policy.
pub(super) fn is_vetoed(code: &str, is_measured: bool) -> bool {
    let parts = parts(code);
    let has = |name: &str| parts.iter().any(|part| part == name);
    // A code of the endpoint, not of the output's size.
    let is_endpoint = has("completion") && has("request");
    parts.iter().any(|part| match part.as_str() {
        "policy" => !is_measured,
        "completion" => !is_endpoint,
        part => VETOED.contains(&part),
    })
}

/// Splits a code into its words, in lower case: at separators, and at capitals after small letters.
fn parts(code: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut was_lower = false;
    for letter in code.chars().take(200) {
        let begins = letter.is_ascii_uppercase() && was_lower;
        if begins || !letter.is_ascii_alphanumeric() {
            parts.push(String::new());
        }
        if letter.is_ascii_alphanumeric()
            && let Some(part) = parts.last_mut()
        {
            part.push(letter.to_ascii_lowercase());
        }
        was_lower = letter.is_ascii_lowercase();
    }
    parts.retain(|part| !part.is_empty());
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_that_combine_prompt_measure_and_excess_name_an_overflow() {
        for code in [
            "context_length_exceeded",
            "ContextWindowExceededError",
            "tokens_too_long",
            "input_too_long",
            "ERR_PROMPT_TOO_LARGE",
            "model_max_prompt_tokens_exceeded",
            "token_limit_exceeded",
            "tokens_limit_reached",
            "token_quantity_exceeded",
            "exceed_context_size_error",
            "context-overflow",
            "input_length_error",
        ] {
            assert!(names_overflow(code), "{code}");
        }
    }

    #[test]
    fn other_codes_name_no_overflow() {
        for code in [
            "",
            "invalid_request_error",
            "context_deadline_exceeded",
            "rate_limit_exceeded",
            "tokens",
            "max_tokens_exceeded",
            "string_too_long",
            "request_too_large",
            "insufficient_quota",
            "access_token_too_long",
            "output_token_limit_exceeded",
            "daily_token_limit_exceeded",
            "context_management",
            "length_required",
        ] {
            assert!(!names_overflow(code), "{code}");
        }
    }
}
