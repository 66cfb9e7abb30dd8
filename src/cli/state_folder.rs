//! The user's state folder, for what the next start reads
//! (<https://specifications.freedesktop.org/basedir-spec/latest/>).

use std::path::PathBuf;

use super::settings_files;
use crate::cli::Env;
use crate::config::{Config, StoreLocation};
use crate::store::create_private_dir;

/// File of learned facts within the folder.
const LESSONS: &str = "lessons.db";

/// Lets a proxy with these settings use the state folder, if there is one, for what its store lacks.
/// A store in memory lacks learned facts, a store on servers the process's totals by day.
pub(super) fn keep_lessons(config: &mut Config, env: &Env) {
    if !config.store.keeps_lessons {
        return;
    }
    config.state_folder = folder(env);
    match config.store.location {
        StoreLocation::File(_) => {}
        StoreLocation::Memory => {
            config.store.lessons = config.state_folder.as_ref().map(|folder| folder.join(LESSONS));
        }
        // Replicas on one machine have different ports. A port that is drawn at each start
        // identifies no process.
        StoreLocation::Redis(_) => {
            let is_drawn = config.listen.port() == 0;
            let name = config.listen.to_string().replace([':', '[', ']'], "-");
            let folder = config.state_folder.as_ref().filter(|_| !is_drawn);
            config.store.totals = folder.map(|folder| folder.join(format!("port-{name}")));
        }
    }
}

/// Returns longhaul's state folder, which is created for its owner only. `None` if the user has none.
pub(super) fn folder(env: &Env) -> Option<PathBuf> {
    let state = settings_files::folder(env, "XDG_STATE_HOME");
    let home = || settings_files::folder(env, "HOME");
    let state = state.or_else(|| Some(home()?.join(".local/state")))?;
    let folder = state.join("longhaul");
    create_private_dir(&folder).ok()?;
    Some(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_totals_beside_servers_belong_to_a_port() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().to_str().unwrap().to_owned();
        let env = Env::from([("XDG_STATE_HOME".to_owned(), path)]);
        let kept = |listen: &str| {
            let mut config = Config::default_with([
                ("upstream.base", "http://127.0.0.1:9/v1"),
                ("listen", listen),
                ("store.at", "redis://127.0.0.1"),
                ("store.scope_secret", "0123456789abcdef0123456789abcdef"),
            ])
            .unwrap();
            keep_lessons(&mut config, &env);
            (config.store.totals, config.store.lessons)
        };
        let expect = home.path().join("longhaul").join("port-127.0.0.1-8484");
        assert_eq!(kept("127.0.0.1:8484"), (Some(expect), None));
        assert_eq!(kept("127.0.0.1:0"), (None, None));
    }

    #[test]
    fn the_folder_is_the_user_s_and_absolute() {
        let home = tempfile::tempdir().unwrap();
        let env = |name: &str, value: &str| Env::from([(name.to_owned(), value.to_owned())]);
        let path = home.path().to_str().unwrap();
        assert_eq!(folder(&env("HOME", path)), Some(home.path().join(".local/state/longhaul")));
        assert_eq!(folder(&env("XDG_STATE_HOME", path)), Some(home.path().join("longhaul")));
        assert_eq!(folder(&env("XDG_STATE_HOME", "relative")), None);
        assert_eq!(folder(&Env::new()), None);
    }
}
