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
        render_list(READ_HEADING, &list(&NAMES), room),
        expect,
        "{room}"
    );
}

#[test]
fn a_list_holds_the_entries_that_fit_beside_heading_and_count() {
    // The heading takes 10 characters, the longest count 30, and each name with its bullet 7.
    check_list(39, "");
    check_list(40, "\n### Read\n- [2 older left out]");
    check_list(46, "\n### Read\n- [2 older left out]");
    check_list(47, "\n### Read\n- new1\n- [1 older left out]");
    check_list(53, "\n### Read\n- new1\n- [1 older left out]");
    check_list(54, "\n### Read\n- new1\n- old2");
}

#[test]
fn characters_are_counted_and_not_bytes() {
    let text = render_list(READ_HEADING, &list(&["日本語."]), 47);
    assert_eq!(text, "\n### Read\n- 日本語.");
}

#[test]
fn an_entry_that_does_not_fit_is_not_passed_over_for_an_older_one() {
    let entries = ["a_longer_name.rs", "b.rs"];
    let text = render_list(READ_HEADING, &list(&entries), 50);
    assert_eq!(text, "\n### Read\n- [2 older left out]");
}

#[test]
fn a_list_of_nothing_has_no_heading() {
    assert_eq!(render_list(READ_HEADING, &list(&[]), 1_000), "");
}

/// Returns how many of 100 edits and 100 reads, of 18 characters each, a budget lists.
fn listed(tokens: u32) -> (usize, usize) {
    let file = |verb, n| (verb, json!({"path": format!("src/of_a_{n:03}.rs")}));
    let edits = (0..100).map(|n| file("edit", n));
    let reads = (100..200).map(|n| file("read", n));
    let body = body(&edits.chain(reads).collect::<Vec<_>>());
    let conversation = read(body.as_bytes()).unwrap();
    let text = FileActivity::from_messages(&conversation, 0..1).render(Tokens::new(tokens));
    assert!(text.chars().count() <= Tokens::new(tokens).to_chars());
    let (modified, read) = text.split_once("### Read").unwrap_or((&text, ""));
    let count = |text: &str| text.matches(".rs").count();
    (count(modified), count(read))
}

#[test]
fn modified_files_get_45_percent_and_read_files_55_of_the_rest() {
    // 1,584 characters remain after the heading; 712 of them are for edits. The edit heading and
    // count take 44, and 37 names fit: 701 in total. Of the remaining 883, 485 are for reads: 40
    // and 24 names.
    assert_eq!(listed(400), (37, 24));
    assert_eq!(listed(4_000), (100, 100));
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
fn rendered_lists_are_read_back_newest_first_with_what_they_left_out() {
    let older = "\n### Modified\n- b.rs\n- [3 older left out]\n### Read\n- a.rs\n- c.rs";
    let newer = "\n### Modified\n- c.rs\n### Commands\n- make";
    let text = FileActivity::from_sections(&[older, newer]).render(Tokens::new(200));
    // A file that was modified later is not listed as read.
    let expect = "\n### Modified\n- c.rs\n- b.rs\n- [3 older left out]\n### Read\n- a.rs\n### Commands\n- make";
    assert_eq!(text, format!("{HEADING}{expect}"));
}
