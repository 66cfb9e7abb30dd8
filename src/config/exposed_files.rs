//! Warnings about files of secrets that other users of the machine can read or change.

use std::path::{Path, PathBuf};

use super::locations::StoreLocation;
use super::resolved::ResolvedSettings;
use super::{Config, mounts, settings};
use crate::error::Problem;

/// Suffixes of the files of a store: its database, its secret and its originals.
const STORE_SUFFIXES: [&str; 3] = ["", ".secret", ".recall"];

/// Returns the files of keys and tokens that the settings name.
pub(super) fn secret_files(found: &ResolvedSettings) -> Result<Vec<PathBuf>, Problem> {
    let named = [
        &settings::CLIENT_TOKENS_FILE,
        &settings::STORE_SCOPE_SECRET_FILE,
        &settings::SUMMARY_API_KEY_FILE,
        &settings::TLS_KEY_FILE,
        &settings::UPSTREAM_API_KEY_FILE,
    ];
    let named = named.into_iter().map(|setting| found.value(setting));
    let tables = found.tables_of(&mounts::MOUNT_TABLES);
    let mounted = tables.iter().map(|table| table.value(&mounts::KEY_FILE));
    named.chain(mounted).filter_map(Result::transpose).collect()
}

impl Config {
    /// Returns a warning for each file or folder of secrets, or of a store, that other users can read or
    /// change.
    pub(crate) fn exposed_file_warnings(&self) -> impl Iterator<Item = String> {
        let mut paths = self.secret_files.clone();
        if let StoreLocation::File(path) = &self.store.location {
            paths.extend(STORE_SUFFIXES.map(|suffix| {
                let mut path = path.as_os_str().to_owned();
                path.push(suffix);
                PathBuf::from(path)
            }));
        }
        let kept = [&self.store.lessons, &self.store.totals];
        let folders = kept.into_iter().flatten().filter_map(|path| path.parent());
        paths.extend(folders.map(Path::to_path_buf));
        paths.sort_unstable();
        paths.dedup();
        paths.into_iter().filter_map(|path: PathBuf| exposed_file_warning(&path))
    }
}

/// Returns a warning if other users can read or change what is at `path`.
///
/// A file on a read-only mount passes: Kubernetes and Docker mount secrets so, readable by all users of the
/// container.
#[cfg(unix)]
pub(crate) fn exposed_file_warning(path: &Path) -> Option<String> {
    use rustix::fs::{StatVfsMountFlags, statvfs};
    use std::os::unix::fs::PermissionsExt as _;

    let found = std::fs::metadata(path).ok()?;
    let mode = found.permissions().mode() & 0o7777;
    let can = match (mode & 0o004 != 0, mode & 0o002 != 0) {
        (false, false) => return None,
        (true, false) => "read",
        (false, true) => "change",
        (true, true) => "read and change",
    };
    let is_read_only =
        |mount: rustix::fs::StatVfs| mount.f_flag.contains(StatVfsMountFlags::RDONLY);
    if statvfs(path).is_ok_and(is_read_only) {
        return None;
    }
    let own = if found.is_dir() { "700" } else { "600" };
    let path = path.display();
    Some(format!(
        "{path} has mode {mode:04o}: other users of this machine can {can} it; run chmod {own} {path}"
    ))
}

/// Other systems have no mode.
#[cfg(not(unix))]
pub(crate) fn exposed_file_warning(_: &Path) -> Option<String> {
    None
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const TOKEN: &str = "0123456789abcdef0123456789abcdef";

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    /// Returns the warnings of `config` without the folder `dir`.
    fn warnings(config: &Config, dir: &Path) -> Vec<String> {
        let dir = format!("{}/", dir.display());
        let warnings = config.exposed_file_warnings();
        warnings.map(|text| text.replace(&dir, "")).collect()
    }

    #[test]
    fn every_file_of_secrets_that_others_can_read_or_change_is_named_with_its_mode() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
        let names = ["scope", "summary", "tls", "tokens", "upstream"];
        for name in names {
            fs::write(path(name), TOKEN).unwrap();
        }
        let store = format!("file:{}", path("db"));
        let config = Config::default_with([
            ("upstream.base", "http://127.0.0.1:9/v1"),
            ("client_tokens_file", &path("tokens")),
            ("upstream.api_key_file", &path("upstream")),
            ("summary.upstream", "http://127.0.0.1:9/v1"),
            ("summary.model", "m"),
            ("summary.api_key_file", &path("summary")),
            ("store.scope_secret_file", &path("scope")),
            ("tls.certificate_file", &path("certificate")),
            ("tls.key_file", &path("tls")),
            ("store.at", &store),
        ]);
        let config = config.unwrap();
        let of_store = ["db", "db.recall", "db.secret"];
        for name in of_store {
            fs::write(path(name), "").unwrap();
        }
        let all = [&names[..], &of_store].concat();
        for (mode, can) in [
            (0o644, Some("read")),
            (0o602, Some("change")),
            (0o666, Some("read and change")),
            (0o640, None),
            (0o600, None),
        ] {
            for name in &all {
                set_mode(path(name).as_ref(), mode);
            }
            let mut found = warnings(&config, dir.path());
            found.sort();
            let expect = |name: &&str| {
                let can = can?;
                Some(format!(
                    "{name} has mode {mode:04o}: other users of this machine can {can} it; run chmod 600 {name}"
                ))
            };
            let mut expect: Vec<String> = all.iter().filter_map(expect).collect();
            expect.sort();
            assert_eq!(found, expect, "{mode:o}");
        }
    }

    #[test]
    fn a_state_folder_that_others_can_enter_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("longhaul");
        fs::create_dir(&folder).unwrap();
        let mut config =
            Config::default_with([("upstream.base", "http://127.0.0.1:9/v1")]).unwrap();
        config.store.lessons = Some(folder.join("lessons.db"));
        set_mode(&folder, 0o755);
        let expect = "longhaul has mode 0755: other users of this machine can read it; run chmod 700 longhaul";
        assert_eq!(warnings(&config, dir.path()), [expect]);
        set_mode(&folder, 0o700);
        assert!(warnings(&config, dir.path()).is_empty());
    }
}
