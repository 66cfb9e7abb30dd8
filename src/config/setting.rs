//! Definition of a setting: everything about it in one place.

use super::layers::RawValue;

/// A setting with a value of type `T`. The file, environment and flag readers, the built-in
/// default, `longhaul defaults` and `longhaul check` all derive from it.
pub(crate) struct Setting<T: 'static> {
    /// Key in the file: `section.name`.
    pub(super) key: &'static str,
    /// Default, as text for `parse`.
    pub(super) default: &'static str,
    /// Environment name in addition to the one derived from the key.
    pub(super) short_env: Option<&'static str>,
    /// Command-line flag, if users are expected to type it.
    pub(super) flag: Option<Flag>,
    /// User documentation, with the reason for the default.
    pub(super) doc: &'static str,
    /// Parses a value; the error says what was found and what was expected.
    pub(super) parse: fn(&RawValue) -> Result<T, String>,
}

/// A command-line flag that sets a setting.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flag {
    /// Name without the dashes.
    pub(crate) name: &'static str,
    /// Placeholder for the value in the help.
    pub(crate) value_name: &'static str,
}

/// A setting of any type, as listed in `ALL_SETTINGS`.
pub(crate) trait AnySetting: Sync {
    /// Returns the key, `section.name`.
    fn key(&self) -> &'static str;
    /// Returns the default as text.
    fn default(&self) -> &'static str;
    /// Returns the short environment name.
    fn short_env(&self) -> Option<&'static str>;
    /// Returns the flag.
    fn flag(&self) -> Option<Flag>;
    /// Returns the user documentation.
    fn doc(&self) -> &'static str;
    /// Checks that the value can be parsed.
    fn check(&self, raw: &RawValue) -> Result<(), String>;

    /// Returns the environment name derived from the key: `LONGHAUL_UPSTREAM_BASE` for
    /// `upstream.base`.
    fn env_name(&self) -> String {
        format!("LONGHAUL_{}", self.key().replace('.', "_").to_uppercase())
    }
}

impl<T> AnySetting for Setting<T> {
    fn key(&self) -> &'static str {
        self.key
    }

    fn default(&self) -> &'static str {
        self.default
    }

    fn short_env(&self) -> Option<&'static str> {
        self.short_env
    }

    fn flag(&self) -> Option<Flag> {
        self.flag
    }

    fn doc(&self) -> &'static str {
        self.doc
    }

    fn check(&self, raw: &RawValue) -> Result<(), String> {
        (self.parse)(raw).map(drop)
    }
}
