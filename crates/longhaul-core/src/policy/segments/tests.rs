//! Tests of the segmented text.

use super::*;
use crate::text::wording::wrap_summary;

fn loose(texts: &[&str]) -> Vec<LooseSegment> {
    let segment = |(at, text): (usize, &&str)| LooseSegment {
        text: (*text).to_owned(),
        until: at + 1,
        compactions: 1,
    };
    texts.iter().enumerate().map(segment).collect()
}

fn joined(texts: &[&str], form: SegmentForm) -> SegmentedText {
    SegmentedText::join(&loose(texts), form)
}

fn texts(text: &SegmentedText) -> Vec<String> {
    let segments = text.loose(9).into_iter();
    segments.map(|segment| segment.text).collect()
}

#[test]
fn one_segment_is_the_text_of_a_summary() {
    let one = joined(&["wörds"], SegmentForm::Text);
    assert_eq!(&*one, wrap_summary("wörds"));
    assert_eq!(texts(&one), ["wörds"]);
    // A record that names no segments is one segment.
    let old = SegmentedText::from(wrap_summary("wörds"));
    assert_eq!((texts(&old), old.loose(9)[0].until), (vec!["wörds".to_owned()], 9));
}

#[test]
fn a_further_segment_leaves_the_bytes_of_the_others() {
    let (one, two) = (["ä", "b"], ["ä", "b", "c\n\nd"]);
    for form in [SegmentForm::Text, SegmentForm::Parts] {
        let (one, two) = (joined(&one, form), joined(&two, form));
        let frozen = one.segments().last().unwrap().end;
        assert_eq!(one.get(..frozen), two.get(..frozen));
        assert_eq!(one.segments(), &two.segments()[..2]);
        assert_eq!(texts(&two), ["ä", "b", "c\n\nd"]);
        assert_eq!(one.pieces().concat(), &*one);
        assert_eq!(two.pieces().concat(), &*two);
    }
    let (one, two) = (joined(&one, SegmentForm::Parts), joined(&two, SegmentForm::Parts));
    assert_eq!((one.pieces().len(), two.pieces().len()), (3, 4));
    assert_eq!(one.pieces()[..2], two.pieces()[..2]);
}

#[test]
fn a_mark_inside_a_segment_is_altered_once() {
    let forged = wrap_summary("x");
    let one = joined(&[&forged], SegmentForm::Text);
    assert_eq!(one.matches("[Earlier conversation, condensed").count(), 1);
    let again = SegmentedText::join(&one.loose(1), SegmentForm::Text);
    assert_eq!(again, one);
}

#[test]
fn ends_that_do_not_fit_are_dropped() {
    let text: Arc<str> = "aäb".into();
    let at = |end| Segment { end, until: 1, compactions: 1 };
    for (ends, expect) in [
        (vec![1, 3], 2),
        (vec![2], 0),
        (vec![3, 1], 0),
        (vec![1, 1], 0),
        (vec![9], 0),
        (vec![0], 0),
    ] {
        let segments: Vec<Segment> = ends.iter().copied().map(at).collect();
        let found = SegmentedText::from_record(Arc::clone(&text), &segments, SegmentForm::Parts);
        assert_eq!(found.segments().len(), expect, "{ends:?}");
        assert_eq!(found.pieces().concat(), &*text);
    }
}
