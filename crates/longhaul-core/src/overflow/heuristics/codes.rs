//! Reads codes by their parts, which `words.tsv` lists: `context_length_exceeded`, `PromptTooLongError`,
//! `ERR_INPUT_TOO_LARGE`.

use std::sync::LazyLock;

use crate::overflow::vocabulary::{WORDS, is_listed, rows};

/// Whether a code names an overflow.
///
/// Tokens alone are the prompt's, unless the code begins with `max`: `max_tokens_exceeded` is about the
/// output.
pub(in crate::overflow) fn names_overflow(code: &str) -> bool {
    let parts = parts(code);
    let has = |list: &[&str]| parts.iter().any(|part| list.contains(&part.as_str()));
    let pairs: Vec<String> = parts.windows(2).map(|pair| pair.join("_")).collect();
    // A service over capacity is overloaded; a context over capacity is not.
    let is_over_capacity = pairs.iter().any(|pair| pair == "over_capacity")
        && has(&["context", "ctx", "input", "prompt", "token", "tokens"]);
    let is_too_much = has_listed(&pairs, "pair-excess") || is_over_capacity;
    let is_chat_count = has(&["count", "limit", "limits", "max", "maximum", "number"])
        && !has(&["length", "size", "token", "tokens"]);
    let is_prompt =
        has_listed(&parts, "code-prompt") || (has_listed(&parts, "code-chat") && !is_chat_count);
    let is_tokens = has(&["token", "tokens"]) && !has(&["max", "maximum", "access", "auth"]);
    let is_excess = has_listed(&parts, "code-excess") || is_too_much;
    let is_failed_check = has_listed(&parts, "code-measure")
        && has_listed(&parts, "code-failure")
        && has_listed(&parts, "code-prompt");
    let is_body = has_listed(&pairs, "pair-body");
    !is_vetoed(code, false)
        && ((is_excess && (is_prompt || is_tokens || is_body)) || is_failed_check)
}

/// Whether a code is about something other than the window. If `is_measured`, the refusal states
/// the size of the request and a smaller limit, which outweigh a policy.
pub(super) fn is_vetoed(code: &str, is_measured: bool) -> bool {
    let parts = parts(code);
    let has = |name: &str| parts.iter().any(|part| part == name);
    // A code of the endpoint, not of the output's size.
    let is_endpoint = has("completion") && has("request");
    names_allowance(&parts)
        || parts.iter().any(|part| match part.as_str() {
            "policy" | "unsupported" => !is_measured,
            "completion" => !is_endpoint,
            part => is_listed("code-veto", part),
        })
}

/// Whether a code is about the allowance or the rate of an account.
pub(super) fn is_about_account(code: &str) -> bool {
    names_allowance(&parts(code))
}

/// Whether the parts of a code name the allowance or the rate of an account. `user_error` and
/// `user_prompt_too_long` do not.
fn names_allowance(parts: &[String]) -> bool {
    parts.iter().any(|part| match part.as_str() {
        "account" | "usage" | "user" | "users" | "workspace" => {
            has_listed(parts, "code-allowance") && !has_listed(parts, "code-prompt")
        }
        part => is_listed("code-account", part),
    })
}

fn has_listed(parts: &[String], list: &str) -> bool {
    parts.iter().any(|part| is_listed(list, part))
}

/// Maximum letters of a code that are read: several times the longest recorded code.
const MAX_CODE_LETTERS: usize = 200;

/// Splits a code into its words, in lower case:
///
/// - at separators
/// - before a capital after a small letter, and before the last of several capitals: `LLMContext`
/// - within letters that consist of known words alone: `contextlengthexceeded`
fn parts(code: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut before = ' ';
    let mut letters = code.chars().take(MAX_CODE_LETTERS).peekable();
    while let Some(letter) = letters.next() {
        let ends_capitals =
            before.is_ascii_uppercase() && letters.peek().is_some_and(char::is_ascii_lowercase);
        let begins = letter.is_ascii_uppercase() && (before.is_ascii_lowercase() || ends_capitals);
        if begins || !letter.is_ascii_alphanumeric() {
            parts.push(String::new());
        }
        if letter.is_ascii_alphanumeric()
            && let Some(part) = parts.last_mut()
        {
            part.push(letter.to_ascii_lowercase());
        }
        before = letter;
    }
    parts.retain(|part| !part.is_empty());
    parts.into_iter().flat_map(known_words).collect()
}

/// Maximum letters of a part that is split into known words.
const MAX_JOINED_LETTERS: usize = 64;

/// Splits a part into known words. Any other part stays whole.
fn known_words(part: String) -> Vec<String> {
    static KNOWN: LazyLock<Vec<&str>> = LazyLock::new(|| {
        let lists = rows(WORDS).filter(|row| row.list.starts_with("code-"));
        let lists = lists.filter(|row| row.list != "code-allowance");
        lists.flat_map(|row| row.pattern.split(' ')).collect()
    });
    let known = || KNOWN.iter().copied();
    if part.len() > MAX_JOINED_LETTERS || known().any(|word| word == part) {
        return vec![part];
    }
    // For each end within the part, the last word of a split up to there.
    let mut last: Vec<Option<&str>> = vec![None; part.len() + 1];
    for end in 1..=part.len() {
        let head = part.get(..end).unwrap_or_default();
        let is_split = |at: usize| at == 0 || last.get(at).is_some_and(Option::is_some);
        let word = known().find(|word| {
            let rest = head.strip_suffix(word);
            rest.is_some_and(|rest| is_split(rest.len()))
        });
        if let Some(entry) = last.get_mut(end) {
            *entry = word;
        }
    }
    let mut words = Vec::new();
    let mut end = part.len();
    while let Some(Some(word)) = last.get(end) {
        words.push((*word).to_owned());
        end -= word.len();
    }
    words.reverse();
    if words.is_empty() { vec![part] } else { words }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(is_one: fn(&str) -> bool, codes: &str, expect: bool) {
        for code in codes.split(' ') {
            assert_eq!(is_one(code), expect, "{code}");
        }
    }

    #[test]
    fn codes_that_combine_prompt_measure_and_excess_name_an_overflow() {
        check(
            names_overflow,
            "context_length_exceeded ContextWindowExceededError tokens_too_long input_too_long \
             ERR_PROMPT_TOO_LARGE model_max_prompt_tokens_exceeded token_limit_exceeded \
             tokens_limit_reached token_quantity_exceeded exceed_context_size_error \
             context-overflow input_length_error maximum_context_length_failed \
             ctx_limit_check_failure InvalidPromptLength LLMContextLengthExceededException \
             APIPromptTooLongError HTTPInputTooLargeError contextlengthexceeded prompttoolong \
             PROMPTTOKENLIMITEXCEEDED conversation_length_limit_exceeded \
             message_token_limit_reached user_prompt_too_long",
            true,
        );
    }

    #[test]
    fn other_codes_name_no_overflow() {
        check(names_overflow, "", false);
        check(
            names_overflow,
            "invalid_request_error context_deadline_exceeded rate_limit_exceeded tokens \
             max_tokens_exceeded string_too_long request_too_large insufficient_quota \
             access_token_too_long output_token_limit_exceeded daily_token_limit_exceeded \
             context_management input_validation_failed context_window message_length_invalid \
             length_required message_limit_reached chat_limit_exceeded ConversationLimitReached \
             max_messages_exceeded weekly_token_limit_exceeded trial_token_limit_reached \
             free_tier_tokens_exceeded user_token_limit_exceeded account_tokens_exceeded \
             usage_limit_reached ratelimitexceeded dailytokenlimitexceeded APIKeyTooLongError",
            false,
        );
    }

    #[test]
    fn codes_of_an_allowance_are_vetoed_and_codes_that_blame_the_user_are_not() {
        let about_account = "usage_limit_reached UserQuotaExceeded plan_cap trial_over";
        check(is_about_account, about_account, true);
        let others = "user_error UserInputError usage invalid_request_error";
        check(is_about_account, others, false);
    }
}
