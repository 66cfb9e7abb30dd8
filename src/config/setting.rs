//! Definition of a setting: everything about it in one place.

use std::borrow::Cow;

use super::parse::switch;
use super::raw_value::RawValue;
use longhaul_console::paragraphs::paragraph;

const DOCUMENTATION: &str = include_str!("settings.txt");

/// A setting with a value of type `T`. The file, environment and flag readers, the built-in
/// default, `longhaul defaults` and `longhaul check` all derive from it.
///
/// A `Setting<()>` is a setting of any type, as listed by [`settings!`]: its parser only checks.
pub(crate) struct Setting<T: 'static> {
    /// Key in the file: `section.name`.
    pub(crate) key: &'static str,
    /// Default, as text for `parse`.
    pub(crate) default: &'static str,
    /// Parses a value; the error states what was found and what was expected.
    pub(super) parse: fn(&RawValue) -> Result<T, String>,
    pub(super) kind: Kind,
    /// Environment name in addition to the one derived from the key.
    pub(super) short_env: Option<&'static str>,
    /// Command-line flag, if users are expected to type it.
    pub(crate) flag: Option<Flag>,
    /// Value of the flag without a value. `None` if the flag needs one.
    pub(crate) bare: Option<&'static str>,
    /// Whether a change waits for a restart: the setting configures a socket, pool, thread or file,
    /// or a bound divided at start.
    pub(super) restart: bool,
    /// Whether the value is a secret, never shown.
    pub(super) secret: bool,
    /// Whether a `[[model]]` table may contain the setting.
    pub(super) per_model: bool,
}

/// A command-line flag that sets a setting.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flag {
    /// Name without the dashes.
    pub(crate) name: &'static str,
    /// Placeholder for the value in the help.
    pub(crate) value_name: &'static str,
}

/// Defines settings, each an entry of this form, and the list of all of them:
///
/// ```text
/// NAME: Type = parser, "section.name" = "default", option, …;
/// ```
///
/// An option is a field of [`Setting`], with `= value` or for true.
macro_rules! settings {
    ($list:ident: $(
        $name:ident: $type:ty = $parse:expr, $key:literal = $default:literal
            $(, $option:ident $(= $value:expr)?)*;
    )+) => {
        $(
            pub(crate) const $name: $crate::config::setting::Setting<$type> =
                $crate::config::setting::Setting {
                    $($option: $crate::config::setting::settings!(@value $($value)?),)*
                    ..$crate::config::setting::Setting::new(
                        $key,
                        $default,
                        <$type as $crate::config::parse::HasKind>::KIND,
                        $parse,
                    )
                };
        )+

        /// Every setting, in the order of definition.
        pub(crate) const $list: &[$crate::config::setting::Setting<()>] = &[$(
            $crate::config::setting::Setting {
                key: $name.key,
                default: $name.default,
                kind: $name.kind,
                parse: |raw| ($name.parse)(raw).map(drop),
                short_env: $name.short_env,
                flag: $name.flag,
                bare: $name.bare,
                restart: $name.restart,
                secret: $name.secret,
                per_model: $name.per_model,
            }
        ),+];
    };
    (@value) => {
        true
    };
    (@value $value:expr) => {
        $value
    };
}
pub(super) use settings;

impl<T> Setting<T> {
    pub(super) const fn new(
        key: &'static str,
        default: &'static str,
        kind: Kind,
        parse: fn(&RawValue) -> Result<T, String>,
    ) -> Self {
        Self {
            key,
            default,
            parse,
            kind,
            short_env: None,
            flag: None,
            bare: None,
            restart: false,
            secret: false,
            per_model: false,
        }
    }

    /// Returns the user documentation, with the reason for the default.
    pub(crate) fn doc(&self) -> String {
        paragraph(DOCUMENTATION, self.key)
    }

    /// Returns the name within a table: the key without the section.
    pub(super) fn name_in_table(&self) -> &'static str {
        self.key.rsplit_once('.').map_or(self.key, |(_, name)| name)
    }

    /// Returns the environment name derived from the key: `LONGHAUL_UPSTREAM_BASE` for
    /// `upstream.base`.
    pub(super) fn long_env(&self) -> String {
        format!("LONGHAUL_{}", self.key.replace('.', "_").to_uppercase())
    }

    /// Returns the environment names, those that take precedence last. A shared name counts in
    /// either case.
    pub(super) fn env_names(&self) -> impl DoubleEndedIterator<Item = String> {
        let lower = self.short_env.filter(|name| is_shared_variable(name));
        let lower = lower.map(str::to_lowercase);
        let short = self.short_env.map(str::to_owned);
        lower.into_iter().chain(short).chain([self.long_env()])
    }

    /// Normalises a switch to `true` or `false`; returns any other value as given.
    pub(super) fn normalised<'r>(&self, raw: &'r RawValue) -> Cow<'r, RawValue> {
        match (self.kind, switch(raw)) {
            (Kind::Switch, Ok(on)) => Cow::Owned(RawValue::Text(on.to_string())),
            _ => Cow::Borrowed(raw),
        }
    }
}

/// Whether other programs read the environment variable `name` too.
pub(super) fn is_shared_variable(name: &str) -> bool {
    name.to_uppercase().ends_with("_PROXY")
}

/// Form of a setting's values. A file may also hold each of them as text.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// `true` or `false`.
    Switch,
    /// A whole number; text may add a unit.
    Integer,
    Number,
    /// One of the words that the function returns.
    Choice(fn() -> Vec<&'static str>),
    List,
    Text,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::layers::LISTS;
    use crate::config::settings::ALL_SETTINGS;

    #[test]
    fn every_setting_has_its_documentation_and_no_other_key_has() {
        let listed = LISTS.into_iter().flat_map(|list| (list.settings)());
        let mut keys: Vec<&str> = ALL_SETTINGS.iter().map(|entry| entry.key).collect();
        keys.extend(listed.map(|entry| entry.key));
        let lines = DOCUMENTATION.lines().filter_map(|line| line.strip_suffix(':'));
        let documented: Vec<&str> = lines.filter(|line| !line.starts_with(' ')).collect();
        for key in &documented {
            assert!(keys.contains(key), "{key} is no setting");
        }
        for key in keys {
            assert!(paragraph(DOCUMENTATION, key).ends_with('.'), "{key}");
        }
    }
}
