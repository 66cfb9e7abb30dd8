//! Choice of the requests to evaluate.

/// Chooses `samples` of `count` places, ascending: one at random from each of `samples` parts of equal
/// size, so that the choice is spread evenly. Returns every place if there are at most `samples`.
/// An equal `seed` gives an equal choice.
pub(crate) fn spread(count: usize, samples: usize, seed: u64) -> Vec<usize> {
    if samples >= count {
        return (0..count).collect();
    }
    let mut state = seed;
    let part = |number: usize| number * count / samples;
    (0..samples)
        .map(|number| {
            let (from, to) = (part(number), part(number + 1));
            let width = u64::try_from(to - from).unwrap_or(1).max(1);
            // The remainder is below the width of a part, so it fits.
            from + usize::try_from(next(&mut state) % width).unwrap_or(0)
        })
        .collect()
}

/// Returns the next number of `SplitMix64` (Steele, Lea and Flood, OOPSLA 2014).
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_place_of_each_part_is_chosen_and_the_seed_decides_which() {
        for seed in 0..50 {
            let chosen = spread(100, 7, seed);
            assert_eq!(chosen.len(), 7);
            for (number, place) in chosen.iter().enumerate() {
                let part = number * 100 / 7..(number + 1) * 100 / 7;
                assert!(part.contains(place), "{chosen:?}");
            }
            assert_eq!(chosen, spread(100, 7, seed));
        }
        assert_ne!(spread(100, 7, 1), spread(100, 7, 2));
    }

    #[test]
    fn few_places_are_all_chosen() {
        assert_eq!(spread(3, 3, 9), [0, 1, 2]);
        assert_eq!(spread(3, 40, 9), [0, 1, 2]);
        assert_eq!(spread(0, 4, 9), [0; 0]);
        assert_eq!(spread(5, 0, 9), [0; 0]);
    }

    #[test]
    fn the_generator_gives_the_published_numbers() {
        // The first outputs of SplitMix64 for seed 1234567, as the reference implementation prints.
        let mut state = 1_234_567;
        let numbers = [next(&mut state), next(&mut state), next(&mut state)];
        let expect =
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!(numbers, expect);
    }
}
