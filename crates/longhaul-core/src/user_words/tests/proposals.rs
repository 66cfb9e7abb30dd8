//! Sentences of a proposal.

use super::super::proposal;

#[test]
fn a_marked_proposal_reaches_up_to_the_question() {
    let text = "I compared both. I propose to keep the queue in Postgres. One worker drains it, \
                in batches of 200. Shall I go ahead?";
    let expected =
        ["I propose to keep the queue in Postgres.", "One worker drains it, in batches of 200."];
    assert_eq!(proposal(text), expected);
}

#[test]
fn a_heading_and_a_list_are_a_proposal() {
    let text = "The tests pass.\n\n## Plan\n\n1. Split the parser in two\n2. Keep the old entry point\n\nMore later.";
    assert_eq!(proposal(text), ["1. Split the parser in two", "2. Keep the old entry point"]);
}

#[test]
fn without_a_mark_the_paragraph_in_front_of_the_question_counts() {
    let text = "All is green.\n\nThe cache moves into the worker. Its size is fixed at 64 MB. OK to proceed?";
    assert_eq!(proposal(text), ["The cache moves into the worker.", "Its size is fixed at 64 MB."]);
}

#[test]
fn a_question_that_says_what_to_do_is_the_proposal() {
    let text = "Done.\n\nWould you like me to rename `load` to `read_all` in both crates?";
    assert!(
        proposal(text)
            .contains(&"Would you like me to rename `load` to `read_all` in both crates?")
    );
}

#[test]
fn options_below_the_question_count() {
    let text = "Which one do you prefer?\n\n- A) one table for each tenant\n- B) one schema for each tenant";
    assert_eq!(proposal(text), ["A) one table for each tenant", "B) one schema for each tenant"]);
}

#[test]
fn proposals_are_found_in_other_languages() {
    let texts = [
        "Ich habe beides geprüft. Mein Vorschlag: Die Daten liegen in SQLite. Soll ich so weitermachen?",
        "J'ai comparé. Je propose de garder SQLite pour les données. On y va ?",
        "Comparé ambos. Propongo guardar los datos en SQLite. ¿Te parece bien?",
        "我比较了两种做法。我建议把数据放在 SQLite 里。可以吗？",
        "両方を比べました。提案：データは SQLite に置きます。よろしいでしょうか？",
        "둘 다 비교했습니다. 제안: 데이터는 SQLite에 둡니다. 진행할까요?",
        "Я сравнил оба варианта. Предлагаю хранить данные в SQLite. Согласны?",
        "قارنت بينهما. أقترح حفظ البيانات في SQLite. هل توافق؟",
        "İkisini karşılaştırdım. Verileri SQLite içinde tutmayı öneriyorum. Uygun mu?",
    ];
    for text in texts {
        let found = proposal(text);
        assert!(found.len() == 1 && found[0].contains("SQLite"), "{text}: {found:?}");
    }
}

#[test]
fn a_report_proposes_nothing() {
    let texts =
        ["", "Done. All 12 tests pass.", "The file has three functions. What is your user ID?"];
    for text in texts {
        assert!(proposal(text).is_empty(), "{text}");
    }
}

#[test]
fn code_is_no_part_of_a_proposal_and_its_length_is_bounded() {
    let text = "I suggest this:\n\n```\nlet a = 1;\n```\n\nThe rest stays. Shall I?";
    assert_eq!(proposal(text), ["The rest stays."]);
    let long = format!("I propose: {} Shall I?", "One more step follows. ".repeat(500));
    assert!(proposal(&long).len() <= 16);
}
