//! Recognition of a refusal of one text that is longer than the API allows, whatever the window is.

use crate::overflow::error_details::ErrorDetails;

/// Words of the refusal, normalised.
const STATEMENT: &str = "string too long";
/// Words before the limit.
const LIMIT: &str = "maximum length ";
/// Minimum limit of an item's text, in characters. Ids, names and instructions have smaller limits.
const LEAST_LIMIT: u32 = 1_000_000;

/// Returns the maximum characters of a text, if an error refuses a longer text.
pub(super) fn stated(details: &ErrorDetails) -> Option<u32> {
    details.texts.iter().find_map(|text| {
        let text = String::from_utf8_lossy(text);
        let (_, refused) = text.split_once(STATEMENT)?;
        let (_, limit) = refused.split_once(LIMIT)?;
        let digits = limit.bytes().take_while(u8::is_ascii_digit).count();
        let limit = limit.get(..digits)?.parse().ok()?;
        (limit >= LEAST_LIMIT).then_some(limit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_the_limit_of_an_items_text_is_read() {
        for (message, expect) in [
            (
                "Invalid 'input[2].output': string too long. Expected a string with maximum length \
                 10485760, but got a string with length 11000000 instead.",
                Some(10_485_760),
            ),
            (
                "Invalid 'messages[3].content': string too long. Expected a string with maximum length \
                 10,485,760.",
                Some(10_485_760),
            ),
            (
                "Invalid 'input[1].call_id': string too long. Expected a string with maximum length 64, \
                 but got a string with length 70 instead.",
                None,
            ),
            ("Expected a string with maximum length 10485760.", None),
            ("Invalid 'input': string too long.", None),
            ("string too long, maximum length 99999999999", None),
        ] {
            let mut details = ErrorDetails::default();
            details.add_value(&json!({"error": {"message": message}}));
            assert_eq!(stated(&details), expect, "{message}");
        }
    }
}
