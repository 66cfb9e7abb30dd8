//! Collects problems with the settings, so that all are reported at once.

use crate::error::Problem;

/// Joins lists of problems. A problem found twice is kept once.
pub(crate) fn join_problems(lists: impl IntoIterator<Item = Vec<Problem>>) -> Vec<Problem> {
    let mut all: Vec<Problem> = Vec::new();
    for problem in lists.into_iter().flatten() {
        let text = problem.to_string();
        if all.iter().all(|other| other.to_string() != text) {
            all.push(problem);
        }
    }
    all
}

pub(super) fn all_of<T>(
    read: impl Iterator<Item = Result<T, Problem>>,
) -> Result<Vec<T>, Vec<Problem>> {
    let (mut values, mut problems) = (Vec::new(), Vec::new());
    for one in read {
        match one {
            Ok(value) => values.push(value),
            Err(problem) => problems.push(problem),
        }
    }
    if problems.is_empty() { Ok(values) } else { Err(problems) }
}

/// Binds each name to the value read, or returns the problems of all.
macro_rules! read_all {
    ($($name:ident = $read:expr;)+) => {
        $(let $name = $read.map_err(Vec::<$crate::error::Problem>::from);)+
        let ($($name),+) = match ($($name),+) {
            ($(Ok($name)),+) => ($($name),+),
            ($($name),+) => {
                let failed = [$($name.err()),+].into_iter().flatten();
                return Err($crate::config::problems::join_problems(failed));
            }
        };
    };
}
pub(super) use read_all;
