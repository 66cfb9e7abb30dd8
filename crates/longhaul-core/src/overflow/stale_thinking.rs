//! Recognition of a refusal of thinking that its provider bound to other bytes before it.
//!
//! The bytes of such a block are right, and removing the block helps. A signature that is wrong in
//! itself is another fault: "Invalid `signature` in `thinking` block" alone does not count.

use crate::overflow::error_details::ErrorDetails;

/// Reason that the provider gives in reports on dropped blocks, and gateways in codes.
const CODE: &str = "prefix_binding_mismatch";
/// Words for signed thinking.
const SUBJECTS: [&str; 3] = ["thinking", "signature", "reasoning"];
/// Words for the text that the thinking was bound to.
const OTHER_PREFIXES: [&str; 4] = ["conversation", "history", "prefix", "request"];

/// Whether an error states that thinking is bound to another conversation, or that the thinking before
/// it is missing.
pub(super) fn is_stated(details: &ErrorDetails) -> bool {
    details.texts_and_codes().any(|text| {
        let text = String::from_utf8_lossy(text);
        text.contains(CODE) || names_binding(&text)
    })
}

/// Whether a normalised text states a broken binding in words.
fn names_binding(text: &str) -> bool {
    let names = |words: &[&str], part: &str| words.iter().any(|word| part.contains(word));
    if !names(&SUBJECTS, text) {
        return false;
    }
    text.split(". ").any(|sentence| {
        let bound = sentence.split_once("bound to ").is_some_and(|(_, to)| {
            names(&["different", "another", "other "], to) && names(&OTHER_PREFIXES, to)
        });
        let gap = sentence.contains("preceded") && sentence.contains("missing");
        bound || gap
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(code: &str, message: &str, expect: bool) {
        let mut details = ErrorDetails::default();
        details.add_value(&json!({ "error": { "message": message, "code": code } }));
        assert_eq!(is_stated(&details), expect, "{message}");
    }

    #[test]
    fn recognises_a_binding_mismatch_by_its_wording_or_its_code() {
        let at = "messages.1.content.0: Invalid `signature` in `thinking` block.";
        for stated in [
            "The block is bound to a different conversation.",
            "The block is bound to another conversation.",
            "This block was bound to a different request prefix when it was created.",
            "The `thinking` block that preceded this one is missing from this request.",
        ] {
            check("invalid_request_error", &format!("{at} {stated}"), true);
        }
        for other in [
            at,
            &format!("{at} The signature is not valid base64."),
            &format!("{at} The block is bound to this organization."),
            "The session is bound to a different conversation.",
            "thinking.block_binding: Extra inputs are not permitted",
        ] {
            check("invalid_request_error", other, false);
        }
        check("prefix_binding_mismatch", "refused", true);
    }
}
