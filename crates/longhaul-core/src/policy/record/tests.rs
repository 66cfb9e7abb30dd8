//! Tests of looking up stored records, and of mapping their indices to a conversation.

mod heads;

use super::*;
use crate::dialect::chat_completions::read;
use crate::policy::cut_point::tests::body;
use crate::units::scope::Scope;

/// Builds the keys of a conversation of one message a letter; every prefix has a key.
fn prefix_keys(letters: &str) -> PrefixKeys {
    let body = body(letters);
    let conversation = read(body.as_bytes()).unwrap();
    PrefixKeys::new(&conversation, Scope::new(&[7; 32], &[]))
}

fn named(name: &str) -> CompactionRecord {
    CompactionRecord { summary: Some(name.into()), ..CompactionRecord::default() }
}

/// Store content: end of a prefix, whether its record is in use, and the record.
type Kept = [(usize, bool, CompactionRecord)];

/// Looks up records in a store with this content. Also returns the prefixes that were looked up.
fn known(prefix_keys: &PrefixKeys, kept: &Kept, seen: &[usize]) -> (PriorRecords, Vec<usize>) {
    let mut asked = Vec::new();
    let place = |key| {
        let mut keys = prefix_keys.newest_first();
        keys.find(|(_, it)| *it == key).unwrap().0
    };
    let look = |key| {
        let at = place(key);
        asked.push(at);
        let (_, adopted, record) = kept.iter().find(|it| it.0 == at)?;
        Some((*adopted, Arc::new(record.clone())))
    };
    let known = PriorRecords::look_up(prefix_keys, look, |key| seen.contains(&place(key)));
    (known, asked)
}

/// Checks which record is in use and which waits, each with the end of the prefix that it was made
/// for.
#[track_caller]
fn check(kept: &Kept, adopted: Option<(usize, &str)>, ready: Option<(usize, &str)>) {
    check_seen(kept, adopted, ready, adopted.is_some());
}

/// Like [`check`], for a conversation that was seen before, or not.
#[track_caller]
fn check_seen(
    kept: &Kept,
    adopted: Option<(usize, &str)>,
    ready: Option<(usize, &str)>,
    seen: bool,
) {
    let (known, _) = known(&prefix_keys("uauaua"), kept, &[]);
    let name = |found: &Option<RecordMatch>, adopted| {
        let found = found.clone()?;
        assert_eq!(found.adopted, adopted);
        Some((found.prefix_end, found.record.summary.clone()?))
    };
    let owned = |it: Option<(usize, &str)>| it.map(|(at, name)| (at, name.into()));
    assert_eq!(name(&known.adopted, true), owned(adopted));
    assert_eq!(name(&known.ready, false), owned(ready));
    assert_eq!(known.seen, seen);
}

#[test]
fn deepest_adopted_record_is_used_and_a_deeper_one_waits() {
    let (one, two) = (named("one"), named("two"));
    check(&[], None, None);
    check(&[(4, true, one.clone())], Some((4, "one")), None);
    check(&[(4, false, one.clone())], None, Some((4, "one")));
    let both = |first, second| [(4, first, one.clone()), (2, second, two.clone())];
    check(&both(true, true), Some((4, "one")), None);
    check(&both(true, false), Some((4, "one")), None);
    check(&both(false, false), None, Some((4, "one")));
    check(&both(false, true), Some((2, "two")), Some((4, "one")));
}

#[test]
fn a_renewed_record_counts_for_the_prefix_it_was_made_for() {
    let (one, two) = (named("one"), named("two"));
    let again = one.renewed_at(3);
    assert_eq!(again.made_for, Some(3));
    let made_for = one.made_for;
    assert_eq!(CompactionRecord { made_for, ..again.clone() }, one);
    // The copy is found first, and does not hide records made for a longer prefix.
    for (at, adopted) in [(2, (3, "one")), (4, (4, "two")), (5, (5, "two"))] {
        let kept = [(6, true, again.clone()), (at, true, two.clone())];
        check(&kept, Some(adopted), None);
    }
    // A waiting record counts only if it was made for a longer prefix than the one in use.
    for (at, ready) in [(2, Some((3, "one"))), (3, None), (4, None)] {
        let kept = [(6, false, again.clone()), (at, true, two.clone())];
        check(&kept, Some((at, "two")), ready);
    }
}

/// Returns the record as that of another model.
fn of_another(record: CompactionRecord) -> CompactionRecord {
    CompactionRecord { model: "another".to_owned(), ..record }
}

#[test]
fn a_record_adopted_for_another_model_is_only_ready_for_this_one() {
    let covering = |upto, name: &str| CompactionRecord {
        head: 0,
        compacted_message_count: upto,
        ..CompactionRecord { summary: Some(name.into()), ..covering(upto) }
    };
    let (one, two) = (covering(2, "one"), covering(4, "two"));
    let other = |record: &CompactionRecord| of_another(record.clone());
    for adopted in [true, false] {
        check_seen(&[(4, adopted, other(&two))], None, Some((4, "two")), adopted);
        // Ignored unless it covers more than the record in use for this model.
        let kept = [(4, adopted, other(&two)), (2, true, one.clone())];
        check(&kept, Some((2, "one")), Some((4, "two")));
        let kept = [(2, adopted, other(&one)), (4, true, two.clone())];
        check(&kept, Some((4, "two")), None);
        // The deepest waiting record wins; of two equally deep, the model's own.
        let kept = [(4, adopted, other(&two)), (2, false, one.clone())];
        check_seen(&kept, None, Some((4, "two")), adopted);
        let again = other(&covering(4, "again")).renewed_at(4);
        let kept = [(5, adopted, again.clone()), (4, false, two.clone())];
        check_seen(&kept, None, Some((4, "two")), adopted);
        let kept = [(6, adopted, other(&one).renewed_at(2)), (4, false, two.clone())];
        check_seen(&kept, None, Some((4, "two")), adopted);
    }
    // Stored again under this model's name, the record is in use for it.
    let own = covering(4, "own").renewed_at(4);
    check(&[(5, true, own), (4, true, other(&two))], Some((4, "own")), None);
}

#[test]
fn for_another_model_only_the_text_of_a_record_applies() {
    let clip = Clip { message: 4, head: Tokens::new(50), tail: Tokens::new(40) };
    let made = |text: Option<&str>| CompactionRecord {
        text: text.map(Arc::from),
        head: 1,
        history_from: 2,
        compacted_message_count: 3,
        cleared_before: 4,
        clips: vec![clip],
        images_before: 2,
        window: Some(Tokens::new(8_000)),
        thrash: ThrashState::restarted_at(5),
        compaction_count: 2,
        ..CompactionRecord::default()
    };
    let prefix_keys = prefix_keys("ssuauaua");
    let ready = |text| {
        let record = of_another(made(text));
        known(&prefix_keys, &[(7, true, record)], &[]).0.ready
    };
    assert!(ready(None).is_none());
    let found = ready(Some("what stands for the rest")).unwrap();
    let expect = CompactionRecord {
        text: Some("what stands for the rest".into()),
        head: 2,
        history_from: 3,
        compacted_message_count: 4,
        compaction_count: 2,
        ..CompactionRecord::default()
    };
    assert_eq!((found.prefix_end, &*found.record), (4, &expect));
}

#[test]
fn prefixes_shorter_than_the_record_in_use_are_not_looked_up() {
    let prefix_keys = prefix_keys("uauaua");
    let asked = |kept: &Kept| known(&prefix_keys, kept, &[]).1;
    assert_eq!(asked(&[]), [6, 5, 4, 3, 2, 1]);
    assert_eq!(asked(&[(4, false, named("one"))]), [6, 5, 4, 3, 2, 1]);
    assert_eq!(asked(&[(4, true, named("one"))]), [6, 5, 4]);
    // The prefix that it was made for is looked up too, so the store keeps it in use.
    assert_eq!(asked(&[(6, true, named("one").renewed_at(4))]), [6, 5, 4]);
}

#[test]
fn a_conversation_is_seen_if_any_of_its_prefixes_was() {
    let prefix_keys = prefix_keys("uauaua");
    let met = |kept: &Kept, seen: &[usize]| known(&prefix_keys, kept, seen).0.seen;
    assert!(!met(&[], &[]));
    for at in 1..=6 {
        assert!(met(&[], &[at]), "{at}");
    }
    assert!(!met(&[(4, false, named("one"))], &[]));
    assert!(met(&[(4, true, named("one"))], &[]));
}

#[test]
fn a_record_in_use_is_renewed_before_look_ups_miss_it() {
    let prefix_keys = prefix_keys(&"ua".repeat(150));
    let renewal = |kept: &Kept| known(&prefix_keys, kept, &[]).0.renewal;
    let lasting = prefix_keys.stable_prefix().map(|(_, key)| key);
    assert_eq!(renewal(&[(43, true, named("one"))]), lasting);
    assert_eq!(renewal(&[(44, true, named("one"))]), None);
    assert_eq!(renewal(&[(43, false, named("one"))]), None);
    // A single copy is enough as long as it is within reach of the look-up.
    let again = named("one").renewed_at(43);
    assert_eq!(renewal(&[(290, true, again), (43, true, named("one"))]), None);
}

/// Returns where the record used is found, adopted and not. `record` is stored under each of the
/// prefixes that end at `places`; the conversation has one leading message.
fn found(letters: &str, places: &[usize], record: &CompactionRecord) -> [Option<usize>; 2] {
    let prefix_keys = prefix_keys(letters);
    [true, false].map(|adopted| {
        let kept: Vec<_> = places.iter().map(|&at| (at, adopted, record.clone())).collect();
        let known = known(&prefix_keys, &kept, &[]).0;
        assert_eq!(known.seen, adopted, "{letters}");
        let found = if adopted { known.adopted } else { known.ready };
        found.map(|found| found.prefix_end)
    })
}

/// Record of one leading message whose text covers the messages before `upto`.
fn covering(upto: usize) -> CompactionRecord {
    CompactionRecord {
        text: Some("what stands for the rest".into()),
        head: 1,
        compacted_message_count: upto,
        ..CompactionRecord::default()
    }
}

#[test]
fn after_a_rewind_no_record_covers_the_newest_unit() {
    let check = |letters: &str, upto: usize, used: bool| {
        let expect = [used.then_some(upto); 2];
        assert_eq!(found(letters, &[upto], &covering(upto)), expect, "{letters}");
    };
    // A question, results, and a question with the beginning of an answer.
    check("suauau", 6, false);
    check("suauaua", 6, false);
    check("suctct", 6, false);
    check("suauctt", 7, false);
    check("suauaus", 6, false);
    // Results, and what the user typed before the model saw them.
    check("suctctu", 6, false);
    // A newer unit follows.
    check("suauauau", 6, true);
    check("suctctct", 6, true);
    check("suctctau", 7, true);
    // A copy is found under a longer prefix, which extends no further than its cut.
    let again = covering(5).renewed_at(5);
    assert_eq!(found("suauau", &[6], &again), [Some(5); 2]);
    assert_eq!(found("suauau", &[6], &covering(6).renewed_at(6)), [None; 2]);
}

#[test]
fn the_next_record_is_used_if_the_deepest_covers_the_newest_unit() {
    for adopted in [true, false] {
        let kept = [(6, adopted, covering(6)), (3, true, covering(3))];
        let (known, asked) = known(&prefix_keys("suauau"), &kept, &[]);
        assert_eq!(known.adopted.map(|found| found.prefix_end), Some(3));
        assert!(known.ready.is_none());
        assert_eq!(asked, [6, 5, 4, 3]);
    }
}

#[test]
fn a_record_may_clip_but_not_clear_the_newest_unit() {
    let one = || CompactionRecord { head: 1, ..CompactionRecord::default() };
    let clip = Clip { message: 5, head: Tokens::new(50), tail: Tokens::new(40) };
    let check = |record: CompactionRecord, used: bool| {
        assert_eq!(found("suctct", &[6], &record)[0].is_some(), used);
        assert!(found("suctctct", &[6], &record)[0].is_some());
    };
    for (before, used) in [(6, false), (4, true)] {
        let cleared = CompactionRecord { cleared_before: before, ..one() };
        check(cleared, used);
        let images = CompactionRecord { images_before: before, ..one() };
        check(images, used);
    }
    let clips = vec![clip];
    check(CompactionRecord { clips, ..one() }, true);
    // Without a text, the record covers no messages.
    let covered = CompactionRecord { text: None, ..covering(6) };
    check(covered, true);
}

#[test]
fn newest_unit_stays_uncovered_with_more_leading_messages() {
    let record = covering(6);
    assert_eq!(found("sssuauau", &[8], &record), [None; 2]);
    assert_eq!(found("sssuauauau", &[8], &record), [Some(8); 2]);
}

#[test]
fn record_indices_shift_with_the_number_of_leading_messages() {
    /// Builds a record with two leading messages and its indices mapped by `on`.
    fn record(head: usize, on: impl Fn(usize) -> usize) -> CompactionRecord {
        let clip = |message| Clip { message, head: Tokens::new(50), tail: Tokens::new(40) };
        CompactionRecord {
            head,
            made_for: Some(on(8)),
            history_from: on(3),
            compacted_message_count: on(5),
            cleared_before: on(6),
            clips: vec![clip(on(6)), clip(on(7))],
            images_before: on(4),
            thrash: ThrashState::restarted_at(on(9)),
            text: Some("what stands for the rest".into()),
            compaction_count: 3,
            ..named("one")
        }
    }
    let kept = record(2, |at| at);
    let find = |letters: &str, record: &CompactionRecord| {
        let prefix_keys = prefix_keys(letters);
        let at = letters.len();
        known(&prefix_keys, &[(at, true, record.clone())], &[]).0.adopted.unwrap()
    };
    for (letters, expect) in [
        ("ssuauauaua", record(2, |at| at)),
        ("sssssuauauaua", record(5, |at| at + 3)),
        ("suauauaua", record(1, |at| at - 1)),
        ("uauauaua", record(0, |at| at - 2)),
    ] {
        let found = find(letters, &kept);
        assert_eq!((Some(found.prefix_end), &*found.record), (expect.made_for, &expect));
        // Under the prefix that it was made for, the record is found at that prefix.
        let first = CompactionRecord { made_for: None, ..kept.clone() };
        assert_eq!(find(letters, &first).prefix_end, letters.len(), "{letters}");
    }
    // A conversation that was never compacted has no index to map.
    let thrash = ThrashState::default();
    let never = find("suauauaua", &CompactionRecord { thrash, ..kept });
    assert_eq!(never.record.thrash, thrash);
}

#[test]
fn a_record_with_unshifted_indices_is_not_copied() {
    let prefix_keys = prefix_keys("sua");
    let record = Arc::new(CompactionRecord { head: 1, ..named("one") });
    let known =
        PriorRecords::look_up(&prefix_keys, |_| Some((true, Arc::clone(&record))), |_| false);
    assert!(Arc::ptr_eq(&known.adopted.unwrap().record, &record));
}

#[test]
fn a_record_is_new_if_it_covers_more_than_the_ready_one() {
    let ready = |upto| PriorRecords {
        ready: Some(RecordMatch {
            prefix_end: upto,
            adopted: false,
            record: Arc::new(covering(upto)),
        }),
        ..PriorRecords::default()
    };
    let none = PriorRecords::default();
    assert!(ready(3).covers_more_than(&none) && ready(4).covers_more_than(&ready(3)));
    assert!(!ready(3).covers_more_than(&ready(3)) && !ready(3).covers_more_than(&ready(4)));
    assert!(!none.covers_more_than(&none) && !none.covers_more_than(&ready(3)));
    let in_use = |upto| PriorRecords { adopted: ready(upto).ready, ..PriorRecords::default() };
    assert!(in_use(3).covers_more_than(&none) && !in_use(3).covers_more_than(&ready(3)));
}
