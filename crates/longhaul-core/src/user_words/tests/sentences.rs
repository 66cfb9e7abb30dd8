//! Sentences and list items.

use super::super::sentences;
use proptest::prelude::*;

#[test]
fn a_sentence_ends_at_the_marks_of_its_script() {
    let cases = [
        ("Push it. Never force! Clear?", 3),
        ("请先提交。不要合并！可以吗？", 3),
        ("テストを実行してください。変更はしないこと。", 2),
        ("لا تعدل الملفات. هل هذا واضح؟ شكرا.", 3),
        ("पहले टेस्ट चलाओ। कुछ मत बदलो।", 2),
        ("Ես չեմ ուզում։ Շնորհակալություն։", 2),
        ("What?! Really... yes.", 3),
        ("no semicolons. no classes. thanks", 3),
    ];
    for (text, count) in cases {
        assert_eq!(sentences(text).len(), count, "{text}: {:?}", sentences(text));
    }
}

#[test]
fn no_sentence_ends_within_numbers_names_abbreviations_and_quotations() {
    let whole = [
        "Support Rust 1.85.0 and src/lib.rs in v2.1, see https://a.example/x.y?z=1.",
        "Wir nutzen z. B. pnpm bzw. yarn, d. h. kein npm.",
        "Use a formatter, e.g. rustfmt, i.e. no hand work.",
        "Am 3. Mai ist Release.",
        "Ask Dr. Weber, Mrs. Lind or Mr. Cho first.",
        "Run `make a. b. C` in the end.",
        "It prints \"Done. Bye.\" and exits.",
        "Der Text „Fertig. Danke.“ bleibt.",
        "「はい。いいえ。」と表示する",
        "The status $? of a command counts.",
        "1. Use pnpm for all installs",
    ];
    for text in whole {
        assert_eq!(sentences(text), [text]);
    }
}

#[test]
fn lines_wrapped_by_hand_belong_together_and_short_lines_do_not() {
    let wrapped = "Every error text names the setting that is wrong and\n\
                   what to do about it, in one sentence. No stack traces\n\
                   in front of users.";
    assert_eq!(sentences(wrapped).len(), 2);
    let listed = "tabs only\nno semicolons\nnever rebase";
    assert_eq!(sentences(listed), ["tabs only", "no semicolons", "never rebase"]);
}

#[test]
fn items_and_headings_stand_alone_without_their_bullets() {
    let text = "# Rules\n- tabs only\n- never push\n  to trunk\n\n2) ask me\n• eins\n- [ ] zwei";
    let expected =
        ["Rules", "tabs only", "never push\n  to trunk", "2) ask me", "eins", "[ ] zwei"];
    assert_eq!(sentences(text), expected);
}

proptest! {
    #[test]
    fn sentences_stand_in_the_text_in_order(text in "([a-zA-Z0-9.!?。 \"`#*-]|\n|é|不){0,200}") {
        let mut rest = text.as_str();
        for sentence in sentences(&text) {
            prop_assert_eq!(sentence.trim(), sentence);
            let at = rest.find(sentence);
            prop_assert!(at.is_some(), "{:?}", sentence);
            rest = &rest[at.unwrap() + sentence.len()..];
        }
    }
}
