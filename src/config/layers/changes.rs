//! What settings that are read again change, and what of it waits for the next start.

use super::super::Config;
use super::super::keys::guarded;
use super::super::models::Table;
use super::super::mounts;
use super::super::settings::{UPSTREAM_API_KEY, UPSTREAM_API_KEY_FILE, UPSTREAM_BASE};
use super::{Raw, Resolved};
use crate::error::Problem;

/// Settings, and by a point at their end whole sections, that a process is built on: sockets and
/// pools, threads and files, bounds that are taken from a whole.
const FROM_THE_START: &[&str] = &[
    "admin.listen",
    "limits.buffered",
    "limits.connections",
    "limits.drain",
    "limits.drain_delay",
    "listen",
    "log.",
    "proxy.",
    "public",
    "store.",
    "summary.max_per_hour",
    "tls.",
    "upstream.base",
    "upstream.ca_file",
    "upstream.connect",
    "upstream.http2",
];

/// The settings of the key for the upstream: it is for nobody else, and waits where that does.
const KEYS: &[&str] = &[UPSTREAM_API_KEY.key, UPSTREAM_API_KEY_FILE.key];

/// What became of settings that were read again.
pub(crate) struct Changes {
    /// The settings from here on.
    pub(crate) now: Resolved,
    /// The names of those that have changed. What the files that they name hold is not compared.
    pub(crate) taken: Vec<&'static str>,
    /// The names of those that would have, and stay until the next start.
    pub(crate) waiting: Vec<&'static str>,
}

impl Changes {
    /// The settings from here on, as the program uses them. Where the address of an upstream waits,
    /// its key stays that of `running`: its file may hold the one for the new address by now, or be
    /// gone.
    ///
    /// # Errors
    /// All problems at once.
    pub(crate) fn config(&self, running: &Config) -> Result<Config, Vec<Problem>> {
        let mut config = if self.waiting.contains(&UPSTREAM_BASE.key) {
            let key = &running.upstream.authorization;
            if key.is_some() {
                guarded(&self.now, UPSTREAM_API_KEY_FILE.key).map_err(|problem| vec![problem])?;
            }
            let mut keyless = self.now.clone();
            for (entry, raw, _) in &mut keyless.settings {
                if KEYS.contains(&entry.key()) {
                    *raw = Raw::Text(String::new());
                }
            }
            let mut config = Config::of(&keyless)?;
            config.upstream.authorization.clone_from(key);
            config
        } else {
            Config::of(&self.now)?
        };
        if self.waiting.contains(&mounts::LIST) {
            config.mounts.clone_from(&running.mounts);
        }
        Ok(config)
    }
}

impl Resolved {
    /// What it changes that the settings now read so.
    pub(crate) fn changes(&self, read: Self) -> Changes {
        let mut changes = Changes {
            now: read,
            taken: Vec::new(),
            waiting: Vec::new(),
        };
        let base = |settings: &Self| {
            settings
                .find(UPSTREAM_BASE.key)
                .map(|(_, raw, _)| raw.clone())
        };
        let moves = base(&changes.now) != base(self);
        // Both are in the order of the one table of settings.
        let settings = changes.now.settings.iter_mut().zip(&self.settings);
        for ((entry, raw, origin), (_, before, from)) in settings {
            let key = entry.key();
            if raw == before {
                continue;
            }
            if waits(key) || (moves && KEYS.contains(&key)) {
                raw.clone_from(before);
                origin.clone_from(from);
                changes.waiting.push(key);
            } else {
                changes.taken.push(key);
            }
        }
        let same = |(one, other): (&Table, &Table)| {
            let values = |table: &Table| -> Vec<_> {
                let values = table.iter();
                values.map(|(name, raw, _)| (name, raw.clone())).collect()
            };
            one.models() == other.models() && values(one) == values(other)
        };
        let (now, before) = (&changes.now.tables, &self.tables);
        if now.len() != before.len() || !now.iter().zip(before).all(same) {
            changes.taken.push("model");
        }
        let said = |settings: &Self| -> Vec<Vec<(String, Raw)>> {
            let tables = settings.mounts.iter();
            let values = |table: &mounts::Table| {
                let values = table.iter();
                values
                    .map(|(name, raw, _)| (name.to_owned(), raw.clone()))
                    .collect()
            };
            tables.map(values).collect()
        };
        if said(&changes.now) != said(self) {
            changes.now.mounts.clone_from(&self.mounts);
            changes.waiting.push(mounts::LIST);
        }
        changes
    }
}

fn waits(key: &str) -> bool {
    FROM_THE_START
        .iter()
        .any(|from| *from == key || (from.ends_with('.') && key.starts_with(from)))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::super::settings::ALL;
    use super::super::Layers;
    use super::*;

    fn read(text: &str) -> Resolved {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("longhaul.toml");
        std::fs::write(&path, text).unwrap();
        let mut layers = Layers::default();
        layers.file(Path::new(&path));
        layers
            .resolve()
            .map_err(|problems| problems[0].to_string())
            .unwrap()
    }

    fn check(before: &str, after: &str, taken: &[&str], waiting: &[&str]) -> Resolved {
        let changes = read(before).changes(read(after));
        assert_eq!(
            (&*changes.taken, &*changes.waiting),
            (taken, waiting),
            "{after}"
        );
        changes.now
    }

    #[test]
    fn what_a_process_is_built_on_waits_and_all_else_is_taken() {
        let after = "listen = \"127.0.0.1:1\"\nwindow = 9000\n[log]\nlevel = \"debug\"\n";
        let now = check(
            "mode = \"off\"\n",
            after,
            &["mode", "window"],
            &["listen", "log.level"],
        );
        let value = |key: &str| {
            now.iter()
                .find(|(entry, ..)| entry.key() == key)
                .unwrap()
                .1
                .clone()
        };
        let text = |text: &str| Raw::Text(text.into());
        assert_eq!(value("listen"), text("127.0.0.1:8484"));
        assert_eq!(value("window"), text("9000"));
    }

    #[test]
    fn other_lines_are_no_other_settings() {
        check("window = 9000", "\n# more\nwindow = 9000", &[], &[]);
        check(
            "window = 2000",
            "window = 9000\nprofile = \"auto\"",
            &["window"],
            &[],
        );
    }

    #[test]
    fn tables_of_models_are_compared_by_what_they_say() {
        let one = "[[model]]\nmatch = \"a*\"\nwindow = 9000\n";
        check(one, &format!("# more\n{one}"), &[], &[]);
        check("", one, &["model"], &[]);
        check(one, "", &["model"], &[]);
        check(one, &one.replace("a*", "b*"), &["model"], &[]);
        check(one, &one.replace("9000", "9001"), &["model"], &[]);
    }

    #[test]
    fn other_mounts_wait() {
        let one = "[[mount]]\npath = \"/a\"\nupstream = \"http://a.example\"\n";
        let now = check(one, &one.replace("a.example", "b.example"), &[], &["mount"]);
        assert_eq!(now.mounts().len(), 1);
        assert!(super::super::super::report(&now).contains("http://a.example"));
        check("", one, &[], &["mount"]);
        check(one, &format!("# more\n{one}"), &[], &[]);
    }

    #[test]
    fn a_key_waits_with_the_upstream_that_it_is_for() {
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
        let mut running = Config::of(&found).unwrap();
        let mut check = |text: String, waiting: &[&str], keys: [&str; 2]| {
            let changes = found.changes(read(&text));
            assert_eq!(changes.waiting, waiting, "{text}");
            running = changes.config(&running).unwrap();
            found = changes.now;
            let general = (&running.upstream.base, &running.upstream.authorization);
            let mount = (&running.mounts[0].base, &running.mounts[0].authorization);
            let went = [general, mount].map(|(base, key)| {
                let key = key.as_ref().unwrap().to_str().unwrap();
                format!("{key} to {base}")
            });
            assert_eq!(
                went,
                keys.map(|key| format!("Bearer {key}.example")),
                "{text}"
            );
        };
        let moved = ["upstream.base", "upstream.api_key_file"];
        let before = ["sk-one to http://a", "sk-mount to http://c"];
        check(settings("b", "two", "c"), &moved, before);
        check(settings("b", "two", "c"), &moved, before);
        // By what the file holds, where its name stays.
        put("one", "sk-of-b");
        put("mount", "sk-of-d");
        check(
            settings("b", "one", "d"),
            &["upstream.base", "mount"],
            before,
        );
        put("one", "sk-new");
        put("mount", "sk-newer");
        let after = ["sk-new to http://a", "sk-newer to http://c"];
        check(settings("a", "one", "c"), &[], after);
    }

    #[test]
    fn what_waits_is_what_a_process_is_built_on_and_nothing_else() {
        let waiting = ALL.iter().map(|entry| entry.key()).filter(|key| waits(key));
        assert_eq!(
            waiting.collect::<Vec<_>>(),
            [
                "listen",
                "public",
                "tls.certificate_file",
                "tls.key_file",
                "upstream.base",
                "upstream.http2",
                "upstream.ca_file",
                "upstream.connect",
                "proxy.https",
                "proxy.http",
                "proxy.all",
                "proxy.except",
                "summary.max_per_hour",
                "store.at",
                "store.ttl",
                "store.wait",
                "store.ca_file",
                "store.max_bytes",
                "store.memory",
                "store.scope",
                "store.trusted_headers",
                "store.scope_secret_file",
                "store.scope_secret",
                "limits.buffered",
                "limits.connections",
                "limits.drain",
                "limits.drain_delay",
                "admin.listen",
                "log.level",
                "log.format"
            ]
        );
    }

    #[test]
    fn every_name_is_that_of_a_setting() {
        for from in FROM_THE_START {
            let named = ALL.iter().filter(|entry| waits(entry.key()));
            let named = named.filter(|entry| entry.key().starts_with(from));
            assert!(named.count() > 0, "{from}");
        }
    }
}
