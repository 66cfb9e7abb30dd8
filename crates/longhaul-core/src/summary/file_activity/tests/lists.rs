//! Tests of lists that exceed their space.

use super::*;

/// Renders the list of `names`, newest first, in `room` characters beside the section's heading.
fn list(names: &[&str], room: usize) -> String {
    let mut list = FileActivity::default();
    for (call, name) in names.iter().rev().enumerate() {
        list.record((*name).to_owned(), call);
    }
    let text = list.within(HEADING.len() + room);
    text.strip_prefix(HEADING).unwrap_or(&text).to_owned()
}

#[test]
fn a_list_holds_the_entries_that_fit_beside_heading_and_count() {
    let (names, both) = (&["new1", "old2"][..], "- [2 older left out]");
    // The heading takes 14 characters, the longest count 30, and each name with its bullet 7.
    for (names, room, expect) in [
        (names, 43, ""),
        (names, 44, both),
        (names, 50, both),
        (names, 51, "- new1\n- [1 older left out]"),
        (names, 57, "- new1\n- [1 older left out]"),
        (names, 58, "- new1\n- old2"),
        // Characters are counted and not bytes.
        (&["日本語."], 51, "- 日本語."),
        // An entry that does not fit is not passed over for an older one.
        (&["a_longer_name.rs", "b.rs"], 54, both),
        (&[], 1_000, ""),
    ] {
        let heading = if expect.is_empty() { "" } else { MODIFIED_HEADING };
        assert_eq!(list(names, room), format!("{heading}{expect}"), "{room}");
    }
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
fn a_list_keeps_at_most_20000_files_and_updates_known_ones() {
    let mut list = FileActivity::default();
    for number in 0..20_001 {
        list.record(number.to_string(), number);
    }
    assert_eq!(list.last_call.len(), 20_000);
    assert!(list.within(200).contains("\n- 19999\n- 19998\n"));
    list.record("7".to_owned(), 20_001);
    assert!(list.within(200).contains("\n- 7\n- 19999\n"));
}

#[test]
fn a_rendered_list_is_read_back_newest_first_with_what_it_left_out() {
    let older = "\n### Modified\n- b.rs\n- c.rs\n- [3 older left out]";
    let newer = "\n### Modified\n- c.rs\n- d.rs";
    let text = FileActivity::from_sections(&[older, newer]).render(Tokens::new(200));
    let expect = "\n### Modified\n- c.rs\n- d.rs\n- b.rs\n- [3 older left out]";
    assert_eq!(text, format!("{HEADING}{expect}"));
}
