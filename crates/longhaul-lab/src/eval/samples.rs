//! Choice of the requests to evaluate, from those that longhaul changes.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::evaluation::sampling::spread;

/// The requests that each arm changes: by session, by arm, by request.
pub(super) type ChangedRequests = Vec<Vec<Vec<bool>>>;

/// The chosen requests of each session, ascending.
pub(super) type Samples = BTreeMap<usize, Vec<usize>>;

/// The choice, and the requests that it was made from.
#[derive(Debug, Default, Serialize)]
pub(super) struct Choice {
    #[serde(skip)]
    pub(super) samples: Samples,
    /// Requests of all sessions.
    pub(super) requests: usize,
    /// Requests that at least one arm changes.
    pub(super) changed: usize,
    /// Those of them that cannot be compared, because they do not fit the model's window as they came.
    pub(super) too_large: usize,
}

/// Chooses `most` requests. `may_fit` returns, for each request of each session, whether the model may accept
/// the history as it came; others are not chosen.
///
/// Requests that every arm changes come first, so that the arms are compared on the same requests. If those
/// are too few, requests that some arm changes fill up.
pub(super) fn choose(
    changed: &ChangedRequests,
    may_fit: &[Vec<bool>],
    most: usize,
    seed: u64,
) -> Choice {
    let (mut by_all, mut by_some) = (Vec::new(), Vec::new());
    let (mut all_changed, mut too_large) = (0, 0);
    for (session, (arms, fits)) in changed.iter().zip(may_fit).enumerate() {
        for (request, fits) in fits.iter().enumerate() {
            let is_changed = |arm: &Vec<bool>| arm.get(request).copied().unwrap_or_default();
            if !arms.iter().any(is_changed) {
                continue;
            }
            all_changed += 1;
            if !fits {
                too_large += 1;
            } else if arms.iter().all(is_changed) {
                by_all.push((session, request));
            } else {
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
        requests: may_fit.iter().map(Vec::len).sum(),
        changed: all_changed,
        too_large,
    }
}

fn pick(from: &[(usize, usize)], most: usize, seed: u64) -> Vec<(usize, usize)> {
    let places = spread(from.len(), most, seed);
    places.into_iter().filter_map(|place| from.get(place).copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(changed: &ChangedRequests, most: usize) -> Vec<(usize, Vec<usize>)> {
        let fits = |arms: &Vec<Vec<bool>>| vec![true; arms.iter().map(Vec::len).max().unwrap_or(0)];
        let may_fit: Vec<Vec<bool>> = changed.iter().map(fits).collect();
        choose(changed, &may_fit, most, 1).samples.into_iter().collect()
    }

    #[test]
    fn requests_that_the_model_cannot_accept_are_counted_and_not_chosen() {
        let changed = vec![vec![vec![false, true, true, true]]];
        let choice = choose(&changed, &[vec![true, true, true, false]], 9, 1);
        assert_eq!(choice.samples[&0], [1, 2]);
        assert_eq!((choice.requests, choice.changed, choice.too_large), (4, 3, 1));
    }

    #[test]
    fn requests_that_every_arm_changes_come_first() {
        let changed = vec![vec![vec![false, true, true, true], vec![false, false, true, true]]];
        assert_eq!(chosen(&changed, 2), [(0, vec![2, 3])]);
        assert_eq!(chosen(&changed, 3), [(0, vec![1, 2, 3])]);
        assert_eq!(chosen(&changed, 40), [(0, vec![1, 2, 3])]);
    }

    #[test]
    fn requests_that_no_arm_changes_are_never_chosen() {
        let changed = vec![vec![vec![false; 9]], vec![vec![false, true]]];
        assert_eq!(chosen(&changed, 5), [(1, vec![1])]);
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
