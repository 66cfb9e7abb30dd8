//! Collects problems with the settings, so that all are reported at once.

use crate::error::Problem;

/// Problems found so far. A problem found twice is kept once.
#[derive(Debug, Default)]
pub(super) struct Problems(Vec<Problem>);

impl From<Problem> for Problems {
    fn from(problem: Problem) -> Self {
        Self(vec![problem])
    }
}

impl From<Problems> for Vec<Problem> {
    fn from(Problems(all): Problems) -> Self {
        all
    }
}

impl Problems {
    /// Returns the value read, or records the problems and returns `None`.
    pub(super) fn ok_or_record<T>(&mut self, read: Result<T, impl Into<Self>>) -> Option<T> {
        match read {
            Ok(read) => Some(read),
            Err(found) => {
                let Self(found) = found.into();
                for problem in found {
                    let text = problem.to_string();
                    if self.0.iter().all(|other| other.to_string() != text) {
                        self.0.push(problem);
                    }
                }
                None
            }
        }
    }

    /// Like [`Problems::ok_or_record`], for several values: returns all of them, or `None`.
    pub(super) fn all_ok_or_record<T>(
        &mut self,
        read: impl Iterator<Item = Result<T, Problem>>,
    ) -> Option<Vec<T>> {
        let taken: Vec<Option<T>> = read.map(|one| self.ok_or_record(one)).collect();
        taken.into_iter().collect()
    }
}
