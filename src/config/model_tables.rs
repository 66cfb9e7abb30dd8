//! Settings for particular models: the `[[model]]` tables of the file.
//!
//! A table selects models by a pattern and repeats general settings under their own names, so each
//! value is read and checked like the general one. Tables have no environment variable or flag,
//! because neither can express an ordered list.

use regex::{Regex, RegexBuilder};

use crate::config::layers::{Origin, RawValue, unknown_key};
use crate::config::setting::AnySetting;
use crate::config::settings::conversations::{
    COMPACT_HARD, COMPACT_KEEP_RECENT, COMPACT_SOFT, PROFILE, PRUNE_MINIMUM, PRUNE_PROTECT, WINDOW,
};
use crate::config::tables::{TableValues, take_table_list, value_problem};
use crate::error::Problem;

/// Key of the list.
pub(super) const LIST: &str = "model";
/// Key of a table's pattern.
pub(super) const MATCH: &str = "match";
/// Maximum number of tables in a file: more than anyone reads in order.
const MAX_TABLES: usize = 64;
/// Maximum bytes of a pattern; model names are far shorter.
const PATTERN_BYTES: usize = 256;

/// Settings that a model table may contain.
pub(super) const TABLE_SETTINGS: &[&dyn AnySetting] = &[
    &WINDOW,
    &PROFILE,
    &PRUNE_PROTECT,
    &PRUNE_MINIMUM,
    &COMPACT_HARD,
    &COMPACT_SOFT,
    &COMPACT_KEEP_RECENT,
];

/// Returns the name of a setting within a table: its key without the section.
pub(super) fn name_in_table(key: &'static str) -> &'static str {
    key.rsplit_once('.').map_or(key, |(_, name)| name)
}

/// A pattern for model names: `*` matches any characters, `?` a single one. Case is ignored.
#[derive(Clone, Debug)]
pub(crate) struct ModelPattern {
    text: String,
    regex: Regex,
}

impl ModelPattern {
    /// Parses a pattern.
    fn new(text: &str) -> Result<Self, String> {
        let wanted = || {
            format!(
                "found `{text}`, expected the name of a model, with * for any characters and ? \
                 for one, of 1 to {PATTERN_BYTES} bytes"
            )
        };
        if text.is_empty() || text.len() > PATTERN_BYTES {
            return Err(wanted());
        }
        let regex = regex::escape(text).replace(r"\*", ".*").replace(r"\?", ".");
        let regex = RegexBuilder::new(&format!("^(?:{regex})$"))
            .case_insensitive(true)
            .dot_matches_new_line(true)
            .build()
            .map_err(|_| wanted())?;
        Ok(Self {
            text: text.to_owned(),
            regex,
        })
    }

    /// Whether the pattern matches `model`.
    pub(crate) fn matches(&self, model: &str) -> bool {
        self.regex.is_match(model)
    }
}

/// A `[[model]]` table. Each value passed its setting's check.
#[derive(Clone, Debug)]
pub(super) struct ModelTable {
    pub(super) pattern: ModelPattern,
    pub(super) origin: Origin,
    values: Vec<(&'static str, RawValue, Origin)>,
}

impl ModelTable {
    /// Returns the table's value for the setting with this key.
    pub(super) fn setting(&self, key: &str) -> Option<&(&'static str, RawValue, Origin)> {
        self.values.iter().find(|(of, ..)| *of == key)
    }

    /// Returns the pattern's source text.
    pub(super) fn pattern_text(&self) -> &str {
        &self.pattern.text
    }

    /// Returns the names, values and origins of the table's settings.
    pub(super) fn settings(&self) -> impl Iterator<Item = (&'static str, &RawValue, &Origin)> {
        let values = self.values.iter();
        values.map(|(key, raw, origin)| (name_in_table(key), raw, origin))
    }
}

/// Removes the model tables from `values`, and returns them with the problems found.
pub(super) fn take_tables(values: &mut TableValues) -> (Vec<ModelTable>, Vec<Problem>) {
    let (said, mut problems) = take_table_list(LIST, MAX_TABLES, values);
    let mut tables = Vec::new();
    for table in said {
        match parse_table(table) {
            Ok(table) => tables.push(table),
            Err(found) => problems.extend(found),
        }
    }
    (tables, problems)
}

fn parse_table(mut said: TableValues) -> Result<ModelTable, Vec<Problem>> {
    let mut problems = Vec::new();
    let pattern = match said.remove(MATCH) {
        Some((RawValue::Text(text), origin)) => match ModelPattern::new(text.trim()) {
            Ok(pattern) => Some((pattern, origin)),
            Err(reason) => {
                problems.push(value_problem(&format!("{LIST}.{MATCH}"), &origin, reason));
                None
            }
        },
        Some((RawValue::List(_), origin)) => {
            let reason = "found a list, expected one pattern; write a table for each".to_owned();
            problems.push(value_problem(&format!("{LIST}.{MATCH}"), &origin, reason));
            None
        }
        None => {
            if let Some((_, origin)) = said.values().next() {
                let reason =
                    "missing from its table, expected the name of a model, like \"gpt-5*\"";
                problems.push(value_problem(
                    &format!("{LIST}.{MATCH}"),
                    origin,
                    reason.to_owned(),
                ));
            }
            None
        }
    };
    let mut values = Vec::new();
    for (own, (raw, origin)) in said {
        let Some(entry) = TABLE_SETTINGS
            .iter()
            .find(|entry| name_in_table(entry.key()) == own)
        else {
            let all = TABLE_SETTINGS
                .iter()
                .map(|entry| name_in_table(entry.key()))
                .chain([MATCH]);
            problems.push(unknown_key(&own, &origin, all));
            continue;
        };
        match entry.check(&raw) {
            Ok(()) => values.push((entry.key(), raw, origin)),
            Err(reason) => problems.push(value_problem(&format!("{LIST}.{own}"), &origin, reason)),
        }
    }
    match pattern {
        Some((pattern, origin)) if problems.is_empty() => Ok(ModelTable {
            pattern,
            origin,
            values,
        }),
        Some(_) | None => Err(problems),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Layers, report};
    use longhaul_core::policy::{Profile, ThresholdSetting};
    use longhaul_core::units::tokens::Tokens;

    fn layers(file: &str) -> Layers {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("longhaul.toml");
        std::fs::write(&path, file).unwrap();
        let mut layers = Layers::default();
        layers.load_file(&path);
        layers
    }

    fn config(file: &str) -> Config {
        Config::from_resolved(&layers(file).resolve().unwrap()).unwrap()
    }

    /// Returns all problems with a file that must be rejected.
    fn refused(file: &str) -> Vec<String> {
        let found = layers(file).resolve();
        let problems = found
            .and_then(|found| Config::from_resolved(&found))
            .unwrap_err();
        problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn patterns_name_models_with_stars_and_question_marks() {
        let check = |pattern: &str, model: &str, expect: bool| {
            let found = ModelPattern::new(pattern).unwrap().matches(model);
            assert_eq!(found, expect, "{pattern} {model}");
        };
        check("gpt-5*", "gpt-5-mini", true);
        check("gpt-5*", "openai/gpt-5", false);
        check("*/claude-*-4.?", "anthropic/Claude-sonnet-4.6", true);
        check("*/claude-*-4.?", "anthropic/claude-sonnet-4x6", false);
        check("o3", "o3-mini", false);
        check("*", "", true);
        check("[a]+(b", "[A]+(B", true);
        assert!(ModelPattern::new("").is_err());
        assert!(ModelPattern::new(&"a".repeat(PATTERN_BYTES + 1)).is_err());
    }

    const TWO: &str = "\
        window = 100000\n\
        [[model]]\nmatch = 'big*'\nwindow = 1000000\nhard = 150000\nprofile = 'standard'\n\
        [[model]]\nmatch = 'b*'\nhard = '80%'\nsoft = 0.7\nprotect_tokens = 1\n\
        minimum_tokens = 2\nkeep_recent_tokens = 3\n";

    #[test]
    fn the_first_table_that_matches_changes_what_it_names_and_nothing_else() {
        let config = config(TWO);
        let big = config.settings_for("BIG-1");
        assert_eq!(big.window, Tokens::new(1_000_000));
        assert_eq!(
            big.compaction.hard,
            ThresholdSetting::Tokens(Tokens::new(150_000))
        );
        assert_eq!(
            big.compaction.soft,
            config.settings_for("x").compaction.soft
        );
        assert_eq!(big.compaction.profile, Profile::Standard);
        assert_eq!(big.compaction.protect, None);
        let other = config.settings_for("b2");
        assert_eq!(other.window, Tokens::new(100_000));
        assert_eq!(other.compaction.hard, ThresholdSetting::Percent(80));
        assert_eq!(other.compaction.soft, ThresholdSetting::Percent(70));
        assert_eq!(other.compaction.protect, Some(Tokens::new(1)));
        assert_eq!(other.compaction.minimum, Some(Tokens::new(2)));
        assert_eq!(other.compaction.keep_recent, Some(Tokens::new(3)));
        let none = config.settings_for("c");
        assert_eq!(none.compaction.hard, ThresholdSetting::Percent(90));
        assert_eq!(none.window, Tokens::new(100_000));
    }

    #[test]
    fn check_shows_each_table_with_its_places() {
        let page = report(&layers(TWO).resolve().unwrap());
        for row in [
            "model[1].match = \"big*\"",
            "model[1].hard = 150000",
            "model[2].soft = 0.7",
        ] {
            let line = page.lines().find(|line| line.starts_with(row));
            let line = line.unwrap_or_else(|| panic!("{row}: {page}"));
            assert!(line.contains("longhaul.toml:"), "{line}");
        }
    }

    #[test]
    fn what_is_wrong_in_a_table_is_said_with_its_place() {
        let check = |file: &str, expect: &str| {
            let said = refused(file);
            assert_eq!(said.len(), 1, "{said:?}");
            assert!(said[0].contains(expect), "{said:?}");
            assert!(said[0].contains("longhaul.toml:"), "{said:?}");
        };
        check("[[model]]\nwindow = 5000\n", "missing from its table");
        check("[[model]]\nmatch = ''\n", "expected the name of a model");
        check("[[model]]\nmatch = ['a', 'b']\n", "write a table for each");
        check("[[model]]\nmatch = 'a'\nhard = 85\n", "a number of tokens");
        check(
            "[[model]]\nmatch = 'a'\nwindw = 1\n",
            "did you mean window?",
        );
        check(
            "[[model]]\nmatch = 'a'\nlisten = 'x'\n",
            "no setting is called listen",
        );
        check("[model]\nmatch = 'a'\nwindow = 5000\n", "double brackets");
        check("model = 'a'\n", "double brackets");
        check(
            "[[model]]\nmatch = 'a'\nhard = 0.5\n",
            "compact.soft from default: found 85%, expected at most compact.hard, which is 50%",
        );
        let many = "[[model]]\nmatch = 'a'\n".repeat(MAX_TABLES + 1);
        check(&many, "found 65 tables");
    }
}
