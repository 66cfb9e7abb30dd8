//! What is wrong with the settings, met on the way: all of it is told, not the first alone.

use crate::error::Problem;

/// The problems so far. The same one, met by two ways, is one.
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
    /// What was read, or nothing and one problem or more.
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

    /// The same for several: all of them, or nothing.
    pub(super) fn all_ok_or_record<T>(
        &mut self,
        read: impl Iterator<Item = Result<T, Problem>>,
    ) -> Option<Vec<T>> {
        let taken: Vec<Option<T>> = read.map(|one| self.ok_or_record(one)).collect();
        taken.into_iter().collect()
    }
}
