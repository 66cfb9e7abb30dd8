//! One setting: everything there is to know about it, in one place.

use super::layers::RawValue;

/// A setting whose value is a `T`. From it come the built-in default, the reading of the file, the
/// environment and the flag, `longhaul defaults` and `longhaul check`.
pub(crate) struct Setting<T: 'static> {
    /// `section.name`, as in the file.
    pub(super) key: &'static str,
    /// The default, as text the reader understands.
    pub(super) default: &'static str,
    /// An environment name shorter than the one made from the key.
    pub(super) short_env: Option<&'static str>,
    /// The command-line flag, if people are expected to type it.
    pub(super) flag: Option<Flag>,
    /// What it does, in sentences, with the reason for its number.
    pub(super) doc: &'static str,
    /// Reads a value; the error says what was found and what was expected.
    pub(super) parse: fn(&RawValue) -> Result<T, String>,
}

/// A command-line flag that sets a setting.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flag {
    /// Without the dashes.
    pub(crate) name: &'static str,
    /// What stands for its value in the help.
    pub(crate) value_name: &'static str,
}

/// A setting without its type, as the table lists it.
pub(crate) trait AnySetting: Sync {
    /// `section.name`.
    fn key(&self) -> &'static str;
    /// The default as text.
    fn default(&self) -> &'static str;
    /// The short environment name.
    fn short_env(&self) -> Option<&'static str>;
    /// The flag.
    fn flag(&self) -> Option<Flag>;
    /// What it does.
    fn doc(&self) -> &'static str;
    /// Whether the value can be read.
    fn check(&self, raw: &RawValue) -> Result<(), String>;

    /// The environment name made from the key: `upstream.base` is `LONGHAUL_UPSTREAM_BASE`.
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
