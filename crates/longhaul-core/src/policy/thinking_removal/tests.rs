//! Tests of stored removals: their ranges, their look-up and their format.

#![expect(clippy::single_range_in_vec_init, reason = "a list of ranges, often one")]

use super::*;
use crate::dialect::chat_completions::read;
use crate::units::scope::Scope;

fn edits(count: usize) -> EditChain {
    EditChain { count, hash: 7 }
}

#[test]
fn ranges_that_touch_are_one() {
    assert_eq!(merge_ranges(vec![5..7, 1..3, 2..4, 4..5, 9..9]), [1..7]);
    assert_eq!(merge_ranges(vec![8..9, 1..2]), [1..2, 8..9]);
}

#[test]
fn ranges_move_with_the_leading_messages() {
    let removal = ThinkingRemoval::new(vec![3..5], edits(1), 2);
    assert_eq!(removal.ranges(4).collect::<Vec<_>>(), [5..7]);
}

#[test]
fn too_many_ranges_become_one() {
    let ranges = (0..=MAX_RANGES).map(|at| 2 * at..2 * at + 1).collect();
    let removal = ThinkingRemoval::new(ranges, edits(1), 0);
    assert_eq!(removal.ranges(0).collect::<Vec<_>>(), [0..2 * MAX_RANGES + 1]);
    // A note at a Redis server may take 4 KiB.
    let longest = (0..MAX_RANGES).map(|at| 90_000 + 2 * at..90_001 + 2 * at);
    let removal = ThinkingRemoval::new(longest.collect(), edits(usize::MAX), 0);
    assert!(serde_json::to_vec(&removal).unwrap().len() < 3_500);
}

#[test]
fn stored_format_round_trips() {
    let removal = ThinkingRemoval::new(vec![3..5, 7..9], edits(1), 2);
    let text = serde_json::to_string(&removal).unwrap();
    assert_eq!(
        text,
        r#"{"removed":[{"start":1,"end":3},{"start":5,"end":7}],"edits":{"count":1,"hash":7}}"#
    );
    assert_eq!(serde_json::from_str::<ThinkingRemoval>(&text).unwrap(), removal);
}

#[test]
fn newest_edits_come_from_the_longest_prefix() {
    let body = r#"{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"}]}"#;
    let conversation = read(body.as_bytes()).unwrap();
    let keys = PrefixKeys::new(&conversation, Scope::new(&[0; 32], &[]));
    let stored = |range, count| Arc::new(ThinkingRemoval::new(vec![range], edits(count), 0));
    let found = PriorRemovals::look_up(&keys, false, |key| {
        if keys.key_at(2) == Some(key) {
            vec![stored(4..6, 2), stored(5..8, 3)]
        } else if keys.key_at(1) == Some(key) {
            vec![stored(1..2, 1)]
        } else {
            Vec::new()
        }
    });
    assert_eq!(found.ranges, [1..2, 4..8]);
    assert_eq!(found.newest_edits, [edits(2), edits(3)]);
    assert!(found.renewed(0).is_none());
    assert!(PriorRemovals::look_up(&keys, false, |_| None).is_empty());
}
