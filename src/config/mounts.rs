//! Additional upstreams: the `[[mount]]` tables of the file, each under its own path.
//!
//! Like model tables, mounts have no environment variable or flag.

use std::path::PathBuf;

use http::HeaderValue;

use super::base_url::BaseUrl;
use super::keys;
use super::parse::{base_url, mismatch, optional_path, single_text};
use super::problems::all_of;
use super::raw_value::RawValue;
use super::resolved::ResolvedSettings;
use super::setting::settings;
use super::tables::{Table, TableList};
use crate::error::Problem;

/// The list: at most 64 mounts, more than anyone runs at one address.
pub(super) const MOUNT_TABLES: TableList = TableList {
    name: "mount",
    most: 64,
    settings: || OWN_SETTINGS.iter().collect(),
    required: &[("path", "; add path = \"/name\""), ("upstream", "; add upstream = \"https://…\"")],
};

settings! { OWN_SETTINGS:
    PATH: String = mount_path, "mount.path" = "";
    UPSTREAM: BaseUrl = base_url, "mount.upstream" = "";
    KEY_FILE: Option<PathBuf> = optional_path, "mount.api_key_file" = "";
}

/// Maximum bytes of a path.
const PATH_BYTES: usize = 256;

/// An additional upstream. All its other settings are the general ones.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Mount {
    /// Path prefix that selects the upstream: `/name`, or several such segments.
    pub path: String,
    /// Base URL that the agent would have used.
    pub base: BaseUrl,
    /// Authorization header that replaces the client's own credentials.
    pub authorization: Option<HeaderValue>,
}

/// Parses a path of plain segments. No character has a second spelling, so a request path is
/// unambiguously under it or not.
fn mount_path(raw: &RawValue) -> Result<String, String> {
    let text = single_text(raw)?;
    let wanted =
        "a path like /openrouter, of letters, digits, - and _, and not under /__longhaul__";
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let segment = |text: &str| !text.is_empty() && text.bytes().all(plain);
    let path = text.trim();
    let rest = path.strip_prefix('/').into_iter();
    let mut segments = rest.flat_map(|rest| rest.split('/'));
    let fits = path.starts_with('/')
        && path.len() <= PATH_BYTES
        && !path.starts_with("/__longhaul__")
        && segments.all(segment);
    fits.then(|| path.to_owned()).ok_or_else(|| mismatch(text, wanted))
}

/// Returns a problem for each mount among `tables` whose path is invalid or another mount's, too.
pub(super) fn repeated_paths(tables: &[Table]) -> Vec<Problem> {
    let (mut paths, mut problems) = (Vec::<String>::new(), Vec::new());
    for table in tables.iter().filter(|table| table.list == MOUNT_TABLES.name) {
        match table.value(&PATH) {
            Ok(path) if paths.contains(&path) => {
                let reason = format!("{path} is the path of another mount, too");
                problems.push(table.problem(&PATH, reason));
            }
            Ok(path) => paths.push(path),
            Err(problem) => problems.push(problem),
        }
    }
    problems
}

/// Returns the mounts of the settings, longest path first. Fails if a key cannot be read, or
/// strangers could spend it.
pub(super) fn build_mounts(found: &ResolvedSettings) -> Result<Vec<Mount>, Vec<Problem>> {
    let tables = found.tables_of(&MOUNT_TABLES);
    let mut mounts = all_of(tables.iter().map(|table| build_mount(found, table)))?;
    mounts.sort_by_key(|mount| std::cmp::Reverse(mount.path.len()));
    Ok(mounts)
}

fn build_mount(found: &ResolvedSettings, table: &Table) -> Result<Mount, Problem> {
    let path = table.value(&PATH)?;
    let authorization = match table.value(&KEY_FILE)? {
        None => None,
        Some(file) => {
            keys::require_guarded_key(found, KEY_FILE.key)?;
            let unreadable = |reason| {
                let file = keys::displayable_path(&file);
                table.problem(&KEY_FILE, format!("{file}: {reason}"))
            };
            Some(keys::authorization_from_file(&file).map_err(unreadable)?)
        }
    };
    Ok(Mount { path, base: table.value(&UPSTREAM)?, authorization })
}

#[cfg(test)]
mod tests {
    use super::super::{Config, Layers, report};
    use super::*;

    /// Reads a settings file with this text, in a folder that contains a key.
    fn read(text: &str) -> Result<(Config, String), String> {
        read_with("sk-mount", text)
    }

    fn read_with(key_text: &str, text: &str) -> Result<(Config, String), String> {
        let dir = tempfile::tempdir().unwrap();
        let key = dir.path().join("key");
        std::fs::write(&key, key_text).unwrap();
        let layers = Layers::of_text(&text.replace("KEY", key.to_str().unwrap()));
        let messages = |problems: Vec<Problem>| {
            let messages: Vec<String> = problems.iter().map(Problem::to_string).collect();
            messages.join("\n")
        };
        let found = layers.resolve().map_err(messages)?;
        Ok((Config::from_resolved(&found).map_err(messages)?, report(&found, None)))
    }

    const ONE: &str = "[[mount]]\npath = \"/a\"\nupstream = \"https://a.example/v1\"\n";

    fn check_refused(text: &str, expect: &str) {
        let messages = read(text).map(drop).unwrap_err();
        assert!(messages.contains(expect), "{messages}");
        assert!(!messages.contains("sk-mount"), "{messages}");
    }

    #[test]
    fn mounts_keep_their_own_keys_and_are_sorted_longest_path_first() {
        let text = format!(
            "[upstream]\napi_key = \"sk-general\"\n{ONE}[[mount]]\npath = \"/a/b\"\n\
             upstream = \"http://b.example\"\napi_key_file = \"KEY\"\n"
        );
        let (config, shown) = read(&text).unwrap();
        let paths: Vec<&str> = config.mounts.iter().map(|mount| &*mount.path).collect();
        assert_eq!(paths, ["/a/b", "/a"]);
        assert!(shown.contains("mount[1].path = \"/a\""), "{shown}");
        assert!(shown.contains("mount[2].upstream = \"http://b.example\""), "{shown}");
        let own: Vec<_> = config.mounts.iter().map(|mount| config.for_mount(mount)).collect();
        assert_eq!(own[0].upstream.base.to_string(), "http://b.example");
        assert_eq!(own[0].upstream.authorization.as_ref().unwrap(), "Bearer sk-mount");
        assert!(own[1].upstream.authorization.is_none(), "the general key stays where it is");
        assert!(!format!("{config:?}").contains("sk-mount"));
    }

    #[test]
    fn warns_of_a_remote_mount_without_a_key_if_clients_use_tokens() {
        let tokens = "0123456789abcdef0123456789abcdef";
        let text = format!(
            "client_tokens_file = \"KEY\"\n[upstream]\napi_key = \"sk-general\"\n{ONE}\
             [[mount]]\npath = \"/b\"\nupstream = \"https://b.example\"\napi_key_file = \"KEY\"\n"
        );
        let (config, _) = read_with(tokens, &text).unwrap();
        let messages: Vec<String> = config.keyless_upstream_warnings().collect();
        assert_eq!(messages.len(), 1, "{messages:?}");
        for word in ["https://a.example", "mount"] {
            assert!(messages[0].contains(word), "{messages:?}");
        }
    }

    #[test]
    fn accepts_only_mount_paths_of_plain_segments() {
        for path in ["/a", "/open-router_2", "/a/b/C"] {
            assert!(read(&ONE.replace("/a\"", &format!("{path}\""))).is_ok(), "{path}");
        }
        for path in [
            "",
            "/",
            "a",
            "/a/",
            "//a",
            "/a//b",
            "/.",
            "/a/..",
            "/a%62",
            "/a?b",
            "/a b",
            "/ä",
            "/__longhaul__",
            "/__longhaul__/a",
        ] {
            check_refused(&ONE.replace("/a\"", &format!("{path}\"")), "expected a path like");
        }
    }

    #[test]
    fn rejects_an_invalid_mount_table_with_the_reason() {
        check_refused(&format!("{ONE}{ONE}"), "the path of another mount");
        check_refused("[[mount]]\npath = \"/a\"\n", "add upstream = \"https://…\"");
        check_refused("[[mount]]\nupstream = \"http://a\"\n", "mount.path");
        check_refused(&format!("{ONE}key = \"x\"\n"), "key");
        check_refused(&ONE.replace("https://", "ftp://"), "http://");
        check_refused("[mount]\npath = \"/a\"\n", "double brackets");
        check_refused(&format!("{ONE}api_key_file = \"none\"\n"), "mount.api_key_file");
        let messages = read(&format!("{ONE}api_key_file = \"sk-hunter2\"\n"));
        assert!(!messages.unwrap_err().contains("hunter2"));
        check_refused(&ONE.repeat(MOUNT_TABLES.most + 1), "at most");
    }

    #[test]
    fn refuses_a_mount_key_on_a_public_listener_without_client_tokens() {
        let public = format!("listen = \"0.0.0.0:1\"\npublic = true\n{ONE}");
        assert!(read(&public).is_ok());
        check_refused(&format!("{public}api_key_file = \"KEY\"\n"), "would spend the key");
    }
}
