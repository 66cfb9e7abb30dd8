//! The difference made by a reload: settings that apply at once, and settings that wait for a
//! restart.

use super::Config;
use super::keys::require_guarded_key;
use super::layers::LISTS;
use super::mounts::MOUNT_TABLES;
use super::raw_value::RawValue;
use super::resolved::ResolvedSettings;
use super::settings::{UPSTREAM_API_KEY, UPSTREAM_API_KEY_FILE, UPSTREAM_BASE};
use super::tables::have_same_values;
use crate::error::Problem;

/// Settings of the upstream's key. The key belongs to that upstream alone, so both change together.
const UPSTREAM_KEY_SETTINGS: &[&str] = &[UPSTREAM_API_KEY.key, UPSTREAM_API_KEY_FILE.key];

/// Outcome of reading the settings again.
pub(crate) struct ReloadDiff {
    /// The settings in force after the reload.
    pub(crate) settings: ResolvedSettings,
    /// Keys of changed settings that apply at once. The contents of files that settings name are
    /// not compared.
    pub(crate) applied: Vec<&'static str>,
    /// Keys of changed settings that keep their old value until a restart.
    pub(crate) deferred: Vec<&'static str>,
}

impl ReloadDiff {
    /// Builds the configuration in force after the reload.
    ///
    /// While a new upstream address waits for a restart, the upstream keeps the key of `running`.
    /// By now the file may contain the key of the new address, or be gone.
    pub(crate) fn config(&self, running: &Config) -> Result<Config, Vec<Problem>> {
        let mut config = if self.deferred.contains(&UPSTREAM_BASE.key) {
            let key = &running.upstream.authorization;
            if key.is_some() {
                require_guarded_key(&self.settings, UPSTREAM_API_KEY_FILE.key)
                    .map_err(|problem| vec![problem])?;
            }
            let mut keyless = self.settings.clone();
            for (entry, raw, _) in &mut keyless.settings {
                if UPSTREAM_KEY_SETTINGS.contains(&entry.key) {
                    *raw = RawValue::Text(String::new());
                }
            }
            let mut config = Config::from_resolved(&keyless)?;
            config.upstream.authorization.clone_from(key);
            config
        } else {
            Config::from_resolved(&self.settings)?
        };
        if self.deferred.contains(&MOUNT_TABLES.name) {
            config.mounts.clone_from(&running.mounts);
        }
        Ok(config)
    }
}

impl ResolvedSettings {
    /// Compares these settings with those just `read`.
    pub(crate) fn diff(&self, read: Self) -> ReloadDiff {
        let mut changes = ReloadDiff { settings: read, applied: Vec::new(), deferred: Vec::new() };
        let base =
            |settings: &Self| settings.find(UPSTREAM_BASE.key).map(|(_, raw, _)| raw.clone());
        let moves = base(&changes.settings) != base(self);
        // Both lists have the order of `ALL_SETTINGS`.
        let settings = changes.settings.settings.iter_mut().zip(&self.settings);
        for ((entry, raw, origin), (_, before, from)) in settings {
            let key = entry.key;
            if raw == before {
                continue;
            }
            if entry.restart || (moves && UPSTREAM_KEY_SETTINGS.contains(&key)) {
                raw.clone_from(before);
                origin.clone_from(from);
                changes.deferred.push(key);
            } else {
                changes.applied.push(key);
            }
        }
        let tables = changes.settings.tables.iter_mut().zip(&self.tables);
        for (list, (tables, before)) in LISTS.iter().zip(tables) {
            if have_same_values(tables, before) {
                continue;
            }
            if list.name == MOUNT_TABLES.name {
                tables.clone_from(before);
                changes.deferred.push(list.name);
            } else {
                changes.applied.push(list.name);
            }
        }
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Layers;

    fn read(text: &str) -> ResolvedSettings {
        let found = Layers::of_text(text).resolve();
        found.map_err(|problems| problems[0].to_string()).unwrap()
    }

    fn check(before: &str, after: &str, taken: &[&str], waiting: &[&str]) -> ResolvedSettings {
        let changes = read(before).diff(read(after));
        assert_eq!((&*changes.applied, &*changes.deferred), (taken, waiting), "{after}");
        changes.settings
    }

    #[test]
    fn reload_defers_startup_settings_and_applies_all_others() {
        let after = "listen = \"127.0.0.1:1\"\nwindow = 9000\n[log]\nlevel = \"debug\"\n";
        let now = check("mode = \"off\"\n", after, &["mode", "window"], &["listen", "log.level"]);
        let value =
            |key: &str| now.settings.iter().find(|(entry, ..)| entry.key == key).unwrap().1.clone();
        let text = |text: &str| RawValue::Text(text.into());
        assert_eq!(value("listen"), text("127.0.0.1:8484"));
        assert_eq!(value("window"), text("9000"));
    }

    #[test]
    fn reload_ignores_comments_and_restated_defaults() {
        check("window = 9000", "\n# more\nwindow = 9000", &[], &[]);
        check("window = 2000", "window = 9000\nprofile = \"auto\"", &["window"], &[]);
    }

    #[test]
    fn reload_compares_model_tables_by_content() {
        let one = "[[model]]\nmatch = \"a*\"\nwindow = 9000\n";
        check(one, &format!("# more\n{one}"), &[], &[]);
        check("", one, &["model"], &[]);
        check(one, "", &["model"], &[]);
        check(one, &one.replace("a*", "b*"), &["model"], &[]);
        check(one, &one.replace("9000", "9001"), &["model"], &[]);
    }

    #[test]
    fn reload_defers_changed_mounts() {
        let one = "[[mount]]\npath = \"/a\"\nupstream = \"http://a.example\"\n";
        let now = check(one, &one.replace("a.example", "b.example"), &[], &["mount"]);
        assert_eq!(now.tables_of(&MOUNT_TABLES).len(), 1);
        assert!(crate::config::report(&now, None).contains("http://a.example"));
        check("", one, &[], &["mount"]);
        check(one, &format!("# more\n{one}"), &[], &[]);
    }

    #[test]
    fn reload_defers_a_key_with_its_changed_upstream() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
        let put = |name: &str, key: &str| std::fs::write(file(name), key).unwrap();
        let settings = |base: &str, key: &str, mount: &str| {
            format!(
                "[upstream]\nbase = \"http://{base}.example\"\napi_key_file = \"{}\"\n\
                 [[mount]]\npath = \"/m\"\nupstream = \"http://{mount}.example\"\n\
                 api_key_file = \"{}\"\n",
                file(key),
                file("mount")
            )
        };
        put("one", "sk-one");
        put("two", "sk-two");
        put("mount", "sk-mount");
        let mut found = read(&settings("a", "one", "c"));
        let mut running = Config::from_resolved(&found).unwrap();
        let mut check = |text: String, waiting: &[&str], keys: [&str; 2]| {
            let changes = found.diff(read(&text));
            assert_eq!(changes.deferred, waiting, "{text}");
            running = changes.config(&running).unwrap();
            found = changes.settings;
            let general = (&running.upstream.base, &running.upstream.authorization);
            let mount = (&running.mounts[0].base, &running.mounts[0].authorization);
            let went = [general, mount].map(|(base, key)| {
                let key = key.as_ref().unwrap().to_str().unwrap();
                format!("{key} to {base}")
            });
            assert_eq!(went, keys.map(|key| format!("Bearer {key}.example")), "{text}");
        };
        let moved = ["upstream.base", "upstream.api_key_file"];
        let before = ["sk-one to http://a", "sk-mount to http://c"];
        check(settings("b", "two", "c"), &moved, before);
        check(settings("b", "two", "c"), &moved, before);
        // The content of the file counts, even if its name stays.
        put("one", "sk-of-b");
        put("mount", "sk-of-d");
        check(settings("b", "one", "d"), &["upstream.base", "mount"], before);
        put("one", "sk-new");
        put("mount", "sk-newer");
        let after = ["sk-new to http://a", "sk-newer to http://c"];
        check(settings("a", "one", "c"), &[], after);
    }
}
