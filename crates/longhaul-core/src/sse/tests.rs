//! Events of streams under every chunking.

mod literal;

use proptest::prelude::*;

use super::*;

/// Name, data and dropped bytes of an event, owned.
type Owned = (String, String, usize);

fn split<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<Owned> {
    let mut found = Vec::new();
    let mut each = |event: Event<'_>| {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        found.push((text(event.name), text(event.data), event.dropped));
    };
    let mut splitter = Splitter::default();
    for piece in pieces {
        splitter.push(piece, &mut each);
    }
    splitter.finish(&mut each);
    found
}

/// Checks the events of a stream in one piece, byte by byte, and cut in two at every position.
fn check(stream: &str, expected: &[(&str, &str)]) {
    let expected: Vec<Owned> =
        expected.iter().map(|(name, data)| ((*name).into(), (*data).into(), 0)).collect();
    let bytes = stream.as_bytes();
    assert_eq!(split([bytes]), expected, "{stream:?}");
    assert_eq!(split(bytes.chunks(1)), expected, "{stream:?} by bytes");
    for at in 0..=bytes.len() {
        let (before, after) = bytes.split_at(at);
        assert_eq!(split([before, after]), expected, "{stream:?} at {at}");
    }
}

#[test]
fn lines_end_in_lf_cr_or_crlf() {
    check("data: a\n\ndata: b\n\n", &[("", "a"), ("", "b")]);
    check("data: a\r\rdata: b\r\r", &[("", "a"), ("", "b")]);
    check("data: a\r\n\r\ndata: b\r\n\r\n", &[("", "a"), ("", "b")]);
    check("data: a\r\n\ndata: b\n\r\n", &[("", "a"), ("", "b")]);
    check("data: a\n\r\rdata: b\r\r\n", &[("", "a"), ("", "b")]);
}

#[test]
fn a_line_end_cut_in_two_is_one_line_end() {
    check("data: a\r\ndata: b\r\n\r\n", &[("", "a\nb")]);
    check("data: a\r\rdata: b\r\ndata: c\r\n\r\n", &[("", "a"), ("", "b\nc")]);
}

#[test]
fn only_one_space_after_the_colon_is_removed() {
    check("data:a\n\ndata:  b \n\ndata: \n\n", &[("", "a"), ("", " b "), ("", "")]);
}

#[test]
fn several_data_lines_are_one_event() {
    check("data: a\ndata:\ndata: b\n\n", &[("", "a\n\nb")]);
    check("data\ndata\n\n", &[("", "\n")]);
}

#[test]
fn a_field_of_an_error_is_an_event_of_that_name() {
    check("error: {}\n\ndata: a\n\n", &[("error", "{}"), ("", "a")]);
    check("event: x\nerror: a\n\n", &[("error", "a")]);
}

#[test]
fn comments_and_unknown_fields_are_no_events() {
    check(": OPENROUTER PROCESSING\n\n:\n\nid: 7\nretry: 1\nfoo: x\n\ndata: a\n\n", &[("", "a")]);
    check("id:1\nevent:error\n:HTTP_STATUS/429\ndata:{}\n\n", &[("error", "{}")]);
}

#[test]
fn a_name_belongs_to_its_own_event() {
    check("event: a\ndata: 1\n\ndata: 2\n\n", &[("a", "1"), ("", "2")]);
    check("event: a\n\ndata: 2\n\n", &[("", "2")]);
    check("event: a\nevent: b\ndata: 1\n\n", &[("b", "1")]);
}

#[test]
fn a_byte_order_mark_is_skipped_at_the_start_and_nowhere_else() {
    check("\u{feff}data: a\n\n\u{feff}data: b\n\n", &[("", "a")]);
    check("\u{feff}\n\ndata: \u{feff}a\n\n", &[("", "\u{feff}a")]);
}

#[test]
fn an_event_cut_off_by_the_end_is_an_event() {
    check("data: a\n\ndata: b\n", &[("", "a"), ("", "b")]);
    check("data: a\n\ndata: b", &[("", "a"), ("", "b")]);
    check("data: a\r", &[("", "a")]);
    check("event: x\n", &[]);
}

#[test]
fn bytes_past_the_event_limit_are_counted_but_not_kept() {
    let line = format!(
        "data: {}\ndata: tail\ndata: end\ndata: end\n\ndata: next\n\n",
        "x".repeat(MAX_EVENT_BYTES)
    );
    let bytes = line.as_bytes();
    let whole = split([bytes]);
    assert_eq!(whole, split(bytes.chunks(7777)));
    let [(_, data, dropped), next] = whole.as_slice() else { panic!("two events") };
    assert!(data.len() <= MAX_EVENT_BYTES);
    assert_eq!(data.len() + dropped, MAX_EVENT_BYTES + "\ntail\nend\nend".len());
    assert_eq!(*next, (String::new(), "next".into(), 0));
}

#[test]
fn a_line_without_end_costs_no_more_than_the_bound() {
    let mut splitter = Splitter::default();
    let piece = vec![b'x'; 64 * 1024];
    for _ in 0..40 {
        splitter.push(&piece, |_| panic!("no event"));
    }
    assert_eq!(splitter.partial_line.len(), MAX_EVENT_BYTES);
}

proptest! {
    #[test]
    fn any_chunking_matches_the_reference_parser(
        stream in "(data|event|:|[a-c]|\u{feff}|\r\n|[\r\n :]){0,60}",
        piece in 1usize..9,
    ) {
        let bytes = stream.as_bytes();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let plain = literal::events(bytes).into_iter();
        let plain: Vec<Owned> = plain.map(|(name, data)| (text(name), text(data), 0)).collect();
        prop_assert_eq!(&split([bytes]), &plain);
        prop_assert_eq!(split(bytes.chunks(piece)), plain);
    }
}
