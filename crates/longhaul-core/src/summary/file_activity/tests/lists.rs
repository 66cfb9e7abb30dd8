//! Tests of lists that exceed their space.

use super::*;

const NAMES: [&str; 2] = ["new1", "old2"];

/// Returns the list of `names`, newest first.
fn list(names: &[&str]) -> RecencyList {
    let mut list = RecencyList::default();
    for (call, name) in names.iter().rev().enumerate() {
        list.record((*name).to_owned(), call);
    }
    list
}

fn check_list(room: usize, expect: &str) {
    assert_eq!(
        render_list(MODIFIED_HEADING, &list(&NAMES), room),
        expect,
        "{room}"
    );
}

#[test]
fn a_list_holds_the_entries_that_fit_beside_heading_and_count() {
    // The heading takes 14 characters, the longest count 30, and each name with its bullet 7.
    check_list(43, "");
    check_list(44, "\n### Modified\n- [2 older left out]");
    check_list(50, "\n### Modified\n- [2 older left out]");
    check_list(51, "\n### Modified\n- new1\n- [1 older left out]");
    check_list(57, "\n### Modified\n- new1\n- [1 older left out]");
    check_list(58, "\n### Modified\n- new1\n- old2");
}

#[test]
fn characters_are_counted_and_not_bytes() {
    let text = render_list(MODIFIED_HEADING, &list(&["日本語."]), 51);
    assert_eq!(text, "\n### Modified\n- 日本語.");
}

#[test]
fn an_entry_that_does_not_fit_is_not_passed_over_for_an_older_one() {
    let entries = ["a_longer_name.rs", "b.rs"];
    let text = render_list(MODIFIED_HEADING, &list(&entries), 54);
    assert_eq!(text, "\n### Modified\n- [2 older left out]");
}

#[test]
fn a_list_of_nothing_has_no_heading() {
    assert_eq!(render_list(MODIFIED_HEADING, &list(&[]), 1_000), "");
}

/// Returns how many of 100 edits, of 18 characters each, a budget lists.
fn listed(tokens: u32) -> usize {
    let edits = (0..100).map(|n| ("edit", json!({"path": format!("src/of_a_{n:03}.rs")})));
    let body = body(&edits.collect::<Vec<_>>());
    let conversation = read(body.as_bytes()).unwrap();
    let text = FileActivity::from_messages(&conversation, 0..1).render(Tokens::new(tokens));
    assert!(text.chars().count() <= Tokens::new(tokens).to_chars());
    text.matches(".rs").count()
}

#[test]
fn modified_files_get_all_of_the_room() {
    // 1,584 characters remain after the heading. The list's own heading and count take 44.
    assert_eq!(listed(400), 85);
    assert_eq!(listed(4_000), 100);
}

#[test]
fn recency_list_keeps_at_most_20000_names_and_updates_known_ones() {
    let mut entries = RecencyList::default();
    for number in 0..20_001 {
        entries.record(number.to_string(), number);
    }
    assert_eq!(entries.last_call.len(), 20_000);
    assert_eq!(entries.newest_first().first(), Some(&"19999"));
    entries.record("7".to_owned(), 20_001);
    assert_eq!(entries.newest_first().first(), Some(&"7"));
}

#[test]
fn a_rendered_list_is_read_back_newest_first_with_what_it_left_out() {
    let older = "\n### Modified\n- b.rs\n- c.rs\n- [3 older left out]";
    let newer = "\n### Modified\n- c.rs\n- d.rs";
    let text = FileActivity::from_sections(&[older, newer]).render(Tokens::new(200));
    let expect = "\n### Modified\n- c.rs\n- d.rs\n- b.rs\n- [3 older left out]";
    assert_eq!(text, format!("{HEADING}{expect}"));
}
