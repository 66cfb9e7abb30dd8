//! The user's state folder, for what the next start should know
//! (<https://specifications.freedesktop.org/basedir-spec/latest/>).

use std::collections::BTreeMap;
use std::fs::DirBuilder;
use std::path::PathBuf;

use crate::config::{Config, StoreLocation};

/// File of lessons within the folder.
const LESSONS: &str = "lessons.db";

/// Lets a proxy with these settings keep its lessons in the state folder, if there is such a folder.
pub(super) fn keep_lessons(config: &mut Config, env: &BTreeMap<String, String>) {
    if config.store.keeps_lessons && config.store.location == StoreLocation::Memory {
        config.store.lessons = folder(env).map(|folder| folder.join(LESSONS));
    }
}

/// Returns longhaul's state folder, which is created for its owner only. `None` if the user has none.
fn folder(env: &BTreeMap<String, String>) -> Option<PathBuf> {
    let absolute = |name: &str| {
        let path = PathBuf::from(env.get(name)?);
        path.is_absolute().then_some(path)
    };
    let state = absolute("XDG_STATE_HOME");
    let state = state.or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
    let folder = state.join("longhaul");
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(&folder).ok()?;
    Some(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_is_the_user_s_and_absolute() {
        let home = tempfile::tempdir().unwrap();
        let env = |name: &str, value: &str| BTreeMap::from([(name.to_owned(), value.to_owned())]);
        let path = home.path().to_str().unwrap();
        assert_eq!(
            folder(&env("HOME", path)),
            Some(home.path().join(".local/state/longhaul"))
        );
        assert_eq!(
            folder(&env("XDG_STATE_HOME", path)),
            Some(home.path().join("longhaul"))
        );
        assert_eq!(folder(&env("XDG_STATE_HOME", "relative")), None);
        assert_eq!(folder(&BTreeMap::new()), None);
    }
}
