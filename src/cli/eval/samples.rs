//! Choice of the requests to evaluate, from those that longhaul changes.

use std::collections::BTreeMap;

use longhaul_core::evaluation::sampling::spread;

/// The requests that each arm changes: by session, by arm, by request.
pub(super) type ChangedRequests = Vec<Vec<Vec<bool>>>;

/// The chosen requests of each session, ascending.
pub(super) type Samples = BTreeMap<usize, Vec<usize>>;

/// The choice, and what it was made from.
pub(super) struct Choice {
    pub(super) samples: Samples,
    /// Requests that at least one arm changes.
    pub(super) changed: usize,
    /// Requests of all sessions.
    pub(super) requests: usize,
}

/// Chooses `most` requests. Requests that every arm changes come first, so that the arms are compared on
/// the same requests. If those are too few, requests that some arm changes fill up.
pub(super) fn choose(
    changed: &ChangedRequests,
    lengths: &[usize],
    most: usize,
    seed: u64,
) -> Choice {
    let (mut by_all, mut by_some) = (Vec::new(), Vec::new());
    for (session, (arms, length)) in changed.iter().zip(lengths).enumerate() {
        for request in 0..*length {
            let is_changed = |arm: &Vec<bool>| arm.get(request).copied().unwrap_or_default();
            if arms.iter().all(is_changed) {
                by_all.push((session, request));
            } else if arms.iter().any(is_changed) {
                by_some.push((session, request));
            }
        }
    }
    let mut chosen = pick(&by_all, most, seed);
    chosen.extend(pick(&by_some, most - chosen.len(), seed));
    chosen.sort_unstable();
    let mut samples = Samples::new();
    for (session, request) in chosen {
        samples.entry(session).or_default().push(request);
    }
    Choice {
        samples,
        changed: by_all.len() + by_some.len(),
        requests: lengths.iter().sum(),
    }
}

fn pick(from: &[(usize, usize)], most: usize, seed: u64) -> Vec<(usize, usize)> {
    let places = spread(from.len(), most, seed);
    places
        .into_iter()
        .filter_map(|place| from.get(place).copied())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(changed: &ChangedRequests, most: usize) -> Vec<(usize, Vec<usize>)> {
        let lengths: Vec<usize> = changed
            .iter()
            .map(|arms| arms.iter().map(Vec::len).max().unwrap_or(0))
            .collect();
        choose(changed, &lengths, most, 1)
            .samples
            .into_iter()
            .collect()
    }

    #[test]
    fn requests_that_every_arm_changes_come_first() {
        let changed = vec![vec![
            vec![false, true, true, true],
            vec![false, false, true, true],
        ]];
        assert_eq!(chosen(&changed, 2), [(0, vec![2, 3])]);
        assert_eq!(chosen(&changed, 3), [(0, vec![1, 2, 3])]);
        assert_eq!(chosen(&changed, 40), [(0, vec![1, 2, 3])]);
    }

    #[test]
    fn requests_that_no_arm_changes_are_never_chosen() {
        let changed = vec![vec![vec![false; 9]], vec![vec![false, true]]];
        assert_eq!(chosen(&changed, 5), [(1, vec![1])]);
        let choice = choose(&changed, &[9, 2], 5, 1);
        assert_eq!((choice.changed, choice.requests), (1, 11));
    }

    #[test]
    fn a_replay_that_ended_early_changes_nothing_behind_its_end() {
        let changed = vec![vec![vec![true], vec![true, true, true]]];
        assert_eq!(chosen(&changed, 1), [(0, vec![0])]);
    }

    #[test]
    fn a_choice_is_spread_over_the_sessions() {
        let changed = vec![vec![vec![true; 50]], vec![vec![true; 50]]];
        let found = chosen(&changed, 10);
        let counts: Vec<usize> = found.iter().map(|(_, all)| all.len()).collect();
        assert_eq!(counts, [5, 5]);
    }
}
