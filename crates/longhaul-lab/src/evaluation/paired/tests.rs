//! Tests of the statistics, by published examples.

use super::*;

fn counts(both: u32, only_treatment: u32, only_control: u32, neither: u32) -> PairedCounts {
    PairedCounts { both, only_treatment, only_control, neither }
}

/// Rounds to four places, as the published tables do.
fn rounded(number: f64) -> f64 {
    (number * 1e4).round() / 1e4
}

#[test]
fn intervals_of_the_difference_are_those_of_the_published_examples() {
    // Newcombe 1998 (Statistics in Medicine 17, 2635–2650), method 10.
    for (cells, low, high) in [
        (counts(36, 12, 2, 0), 0.0569, 0.3404),
        (counts(20, 12, 2, 16), 0.0562, 0.3292),
        (counts(2, 0, 0, 54), -0.0686, 0.0686),
    ] {
        let found = cells.result().unwrap().difference;
        assert_eq!((rounded(found.low), rounded(found.high)), (low, high));
    }
}

#[test]
fn intervals_of_a_share_are_those_of_the_published_examples() {
    // Newcombe 1998 (Statistics in Medicine 17, 857–872), method 3.
    for (part, whole, low, high) in
        [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611)]
    {
        let found = Share::wilson(part, whole);
        assert_eq!((rounded(found.low), rounded(found.high)), (low, high));
    }
}

#[test]
fn the_exact_test_counts_the_rarer_half_of_all_outcomes_twice() {
    let p = |one: u32, other: u32| counts(5, one, other, 5).result().unwrap().p_value;
    assert!((p(12, 2) - 0.012_939_453_125).abs() < 1e-12);
    assert!((p(2, 12) - 0.012_939_453_125).abs() < 1e-12);
    assert!((p(500, 400) - 0.000_956_444_136_921).abs() < 1e-12);
    assert!((p(1, 0) - 1.0).abs() < 1e-12);
    assert!((p(0, 0) - 1.0).abs() < 1e-12);
}

#[test]
fn swapping_both_outcomes_negates_the_difference() {
    for cells in [counts(60, 1, 30, 9), counts(1, 14, 3, 2), counts(0, 0, 7, 3)] {
        let PairedCounts { both, only_treatment, only_control, neither } = cells;
        let one = cells.result().unwrap();
        let other = counts(both, only_control, only_treatment, neither).result().unwrap();
        assert!((one.difference.share + other.difference.share).abs() < 1e-12);
        assert!((one.difference.low + other.difference.high).abs() < 1e-12);
        assert!((one.p_value - other.p_value).abs() < 1e-12);
    }
}

#[test]
fn a_conclusion_needs_an_interval_that_excludes_a_side() {
    let conclusion = |cells: PairedCounts| cells.result().unwrap().conclusion;
    assert_eq!(conclusion(counts(60, 1, 30, 9)), Conclusion::Loss);
    assert_eq!(conclusion(counts(54, 0, 0, 0)), Conclusion::NoLargeLoss);
    let too_few = |cells: PairedCounts| {
        let Conclusion::TooFew { pairs_needed } = conclusion(cells) else {
            panic!("{:?}", conclusion(cells));
        };
        pairs_needed
    };
    assert_eq!(too_few(counts(30, 0, 0, 0)), 40);
    // Three of ten differ, and the figures agree: 0.3 · (1.96 / 0.1)² pairs are about 116.
    assert_eq!(too_few(counts(14, 3, 3, 0)), 120);
    // The figures differ by a lot, but nine pairs are never enough.
    assert_eq!(too_few(counts(0, 0, 9, 0)), 19);
    assert_eq!(counts(0, 0, 0, 0).result(), None);
}

#[test]
fn pairs_are_counted_by_both_outcomes() {
    let mut cells = PairedCounts::default();
    for (treatment, control) in [(true, true), (true, false), (false, true), (false, true)] {
        cells.add(treatment, control);
    }
    cells.add(false, false);
    assert_eq!(cells, counts(1, 1, 2, 1));
    let result = cells.result().unwrap();
    assert!((result.treatment.share - 0.4).abs() < 1e-12);
    assert!((result.control.share - 0.6).abs() < 1e-12);
}
