//! Tells the operator, once for each path, that the upstream does not know a path we mapped.

use std::collections::HashSet;

use crate::lock::Mutex;

/// Distinct paths whose 404 is told to the operator; a scanner must not fill the log.
const UNKNOWN_PATHS_TOLD: usize = 32;

/// The paths already told. A plain mutex: it is taken on a 404 only and never over an await.
#[derive(Debug, Default)]
pub(super) struct UnknownPaths(Mutex<HashSet<String>>);

impl UnknownPaths {
    /// Says what was asked and what it became, if it was not said before.
    pub(super) fn tell(&self, asked: &str, became: &str) {
        if self.is_new(asked) {
            tracing::warn!(
                asked,
                became,
                "the upstream does not know a path that was joined to its base; check upstream.base"
            );
        }
    }

    fn is_new(&self, asked: &str) -> bool {
        let mut told = self.0.lock();
        told.len() < UNKNOWN_PATHS_TOLD && told.insert(asked.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_each_path_once_and_stops_at_its_bound() {
        let paths = UnknownPaths::default();
        assert!(paths.is_new("/a"));
        assert!(!paths.is_new("/a"));
        let told = (0..1000).filter(|n| paths.is_new(&format!("/{n}"))).count();
        assert_eq!(told, UNKNOWN_PATHS_TOLD - 1);
    }
}
