//! Tests of the words of users.

use super::*;

#[test]
fn pieces_and_sentences_of_a_message() {
    let text = "Never push.\n```\nlog\n```\nUse Rust 3.9. Thanks.";
    let found = pieces(text);
    assert_eq!(
        found,
        [
            Piece::Said("Never push.\n"),
            Piece::Shown("```\nlog\n```\n"),
            Piece::Said("Use Rust 3.9. Thanks."),
        ]
    );
    assert_eq!(
        sentences("Use Rust 3.9. Thanks."),
        ["Use Rust 3.9.", "Thanks."]
    );
}
