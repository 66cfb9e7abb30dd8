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

    fn check(message: &str, expect: bool) {
        let mut details = ErrorDetails::default();
        details.add_value(&json!({ "error": { "message": message } }));
        assert_eq!(is_stated(&details), expect, "{message}");
    }

    #[test]
    fn recognises_a_binding_mismatch_by_its_wording() {
        let at = "messages.1.content.0: Invalid `signature` in `thinking` block.";
        for (more, expect) in [
            (" The block is bound to a different conversation.", true),
            (" The block is bound to another conversation.", true),
            (
                " This block was bound to a different request prefix when it was created.",
                true,
            ),
            (
                " The `thinking` block that preceded this one is missing from this request.",
                true,
            ),
            ("", false),
            (" The signature is not valid base64.", false),
            (" The block is bound to this organization.", false),
        ] {
            check(&format!("{at}{more}"), expect);
        }
        check("The session is bound to a different conversation.", false);
        check(
            "thinking.block_binding: Extra inputs are not permitted",
            false,
        );
    }

    #[test]
    fn the_binding_mismatch_code_alone_suffices() {
        let mut details = ErrorDetails::default();
        details.add_value(
            &json!({ "error": { "message": "refused", "code": "prefix_binding_mismatch" } }),
        );
        assert!(is_stated(&details));
    }
}
