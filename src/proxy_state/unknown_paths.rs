//! Logs, once for each path, that the upstream does not know a path that longhaul mapped.

use std::collections::HashSet;

use http::StatusCode;

use parking_lot::Mutex;

/// Maximum distinct paths whose 404 is logged; a scanner must not fill the log.
const MAX_LOGGED_PATHS: usize = 32;

/// Results for paths that were joined to the base. A plain mutex, never held across an await.
#[derive(Debug, Default)]
pub(crate) struct UnknownPaths(Mutex<UnknownPathState>);

#[derive(Debug, Default)]
struct UnknownPathState {
    /// Whether anything was found under the base. If so, a 404 concerns the requested resource,
    /// such as a model.
    has_found: bool,
    /// Paths already logged.
    logged: HashSet<String>,
}

impl UnknownPaths {
    /// Records a reply's status. Logs the requested and the mapped path if the base may be wrong
    /// and the path was not logged before.
    pub(crate) fn record_status(&self, status: StatusCode, asked: &str, became: &str) {
        if self.should_log(status, asked) {
            tracing::warn!(
                asked,
                became,
                "the upstream answered 404 to a path that was joined to its base; the resource \
                 does not exist, or upstream.base is wrong"
            );
        }
    }

    fn should_log(&self, status: StatusCode, asked: &str) -> bool {
        let mut state = self.0.lock();
        state.has_found |= status.is_success();
        status == StatusCode::NOT_FOUND
            && !state.has_found
            && state.logged.len() < MAX_LOGGED_PATHS
            && state.logged.insert(asked.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_each_unknown_path_once_up_to_a_limit() {
        let paths = UnknownPaths::default();
        let is_new = |path: &str| paths.should_log(StatusCode::NOT_FOUND, path);
        assert!(is_new("/a"));
        assert!(!is_new("/a"));
        let logged = (0..1000).filter(|n| is_new(&format!("/{n}"))).count();
        assert_eq!(logged, MAX_LOGGED_PATHS - 1);
    }

    #[test]
    fn ignores_a_404_once_another_path_succeeded() {
        let paths = UnknownPaths::default();
        assert!(!paths.should_log(StatusCode::UNAUTHORIZED, "/a"));
        assert!(paths.should_log(StatusCode::NOT_FOUND, "/a"));
        assert!(!paths.should_log(StatusCode::OK, "/b"));
        assert!(!paths.should_log(StatusCode::NOT_FOUND, "/c"));
    }
}
