//! Tables of the file that are for particular models: `[[model]]` with settings, `[[price]]` with prices,
//! and `[[keep]]` with texts that stay in every compacted conversation.
//!
//! A table selects models by a pattern. A `[[model]]` table repeats general settings under their own names,
//! and each value is read and checked like the general one. Tables have no environment variable or flag,
//! because neither can express an ordered list.

use regex::{Regex, RegexBuilder};

use super::parse::{HasKind, mismatch, optional, single_text};
use super::raw_value::RawValue;
use super::setting::{Kind, settings};
use super::settings::ALL_SETTINGS;
use super::tables::{Table, TableList};
use crate::error::Problem;
use crate::limits::MAX_KEPT_CHARS;
use longhaul_core::cost::pricing::{Price, PriceOrigin, TokenPrices};
use longhaul_core::policy::KeptText;

/// Settings of models: at most 64 tables, more than anyone reads in order.
pub(super) const MODEL_TABLES: TableList = TableList {
    name: "model",
    most: 64,
    settings: || {
        let general = ALL_SETTINGS.iter().filter(|entry| entry.per_model);
        general.chain(MODEL_SETTINGS).collect()
    },
    required: &[("match", ", expected the name of a model, like \"gpt-5*\"")],
};

settings! { MODEL_SETTINGS:
    MODEL_MATCH: ModelPattern = model_pattern, "model.match" = "";
}

/// Maximum bytes of a pattern; model names are far shorter.
const PATTERN_BYTES: usize = 256;

/// A pattern for model names: `*` matches any characters, `?` a single one. Case is ignored.
#[derive(Clone, Debug)]
pub(crate) struct ModelPattern {
    regex: Regex,
}

impl HasKind for ModelPattern {
    const KIND: Kind = Kind::Text;
}

impl ModelPattern {
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
        Ok(Self { regex })
    }

    pub(crate) fn matches(&self, model: &str) -> bool {
        self.regex.is_match(model)
    }
}

pub(super) fn model_pattern(raw: &RawValue) -> Result<ModelPattern, String> {
    match raw {
        RawValue::Text(text) => ModelPattern::new(text.trim()),
        RawValue::List(_) => {
            Err("found a list, expected one pattern; write a table for each".into())
        }
    }
}

/// Prices of models, which replace those of the built-in list: at most 64 tables.
pub(super) const PRICE_TABLES: TableList = TableList {
    name: "price",
    most: 64,
    settings: || PRICE_SETTINGS.iter().collect(),
    required: &[
        ("match", ", expected the name of a model, like \"gpt-5*\""),
        ("input", ", expected dollars per million input tokens, like 1.25"),
    ],
};

settings! { PRICE_SETTINGS:
    PRICE_MATCH: ModelPattern = model_pattern, "price.match" = "";
    INPUT: Option<Price> = optional!(price), "price.input" = "";
    CACHED: Option<Price> = optional!(price), "price.cached" = "";
    WRITTEN: Option<Price> = optional!(price), "price.written" = "";
    OUTPUT: Option<Price> = optional!(price), "price.output" = "";
}

fn price(raw: &RawValue) -> Result<Price, String> {
    let text = single_text(raw)?;
    let wanted = "dollars per million tokens, like 1.25, or 0 for tokens that cost nothing";
    Price::stated(text.trim()).ok_or_else(|| mismatch(text, wanted))
}

pub(super) fn build_price(table: &Table) -> Result<(ModelPattern, TokenPrices), Problem> {
    let missing = || table.problem(&INPUT, "expected dollars per million input tokens".into());
    let input = table.value(&INPUT)?.ok_or_else(missing)?;
    let prices = TokenPrices {
        origin: PriceOrigin::Setting,
        input,
        // A provider without a cheaper cache charges the plain price.
        cached: table.value(&CACHED)?.or(Some(input)),
        written: table.value(&WRITTEN)?,
        output: table.value(&OUTPUT)?,
    };
    Ok((table.value(&PRICE_MATCH)?, prices))
}

/// Texts that stay: at most 64 tables, more than fit the room for them.
pub(super) const KEEP_TABLES: TableList = TableList {
    name: "keep",
    most: 64,
    settings: || KEEP_SETTINGS.iter().collect(),
    required: &[("text", "; add text = \"…\"")],
};

settings! { KEEP_SETTINGS:
    KEEP_MATCH: ModelPattern = model_pattern, "keep.match" = "*";
    TEXT: String = kept_text, "keep.text" = "";
}

fn kept_text(raw: &RawValue) -> Result<String, String> {
    let text = single_text(raw)?.trim();
    let chars = text.chars().count();
    let fits = (1..=MAX_KEPT_CHARS).contains(&chars);
    fits.then(|| text.to_owned()).ok_or_else(|| {
        format!("found {chars} characters, expected a text of 1 to {MAX_KEPT_CHARS} characters")
    })
}

/// Returns the text of one table, and the models whose conversations keep it.
pub(super) fn build_kept(table: &Table) -> Result<(ModelPattern, KeptText), Problem> {
    let text = table.value(&TEXT)?;
    let by_agent = false;
    Ok((table.value(&KEEP_MATCH)?, KeptText { text, by_agent }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Layers, report};
    use longhaul_core::policy::{Profile, ThresholdSetting};
    use longhaul_core::units::tokens::Tokens;

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
    fn first_matching_model_table_overrides_only_its_settings() {
        let config = Config::from_resolved(&Layers::of_text(TWO).resolve().unwrap()).unwrap();
        let big = config.settings_for("BIG-1");
        assert_eq!(big.window, Tokens::new(1_000_000));
        assert_eq!(big.compaction.hard, ThresholdSetting::Tokens(Tokens::new(150_000)));
        assert_eq!(big.compaction.soft, config.settings_for("x").compaction.soft);
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
    fn report_shows_each_model_table_setting_with_its_location() {
        let page = report(&Layers::of_text(TWO).resolve().unwrap(), None);
        for row in ["model[1].match = \"big*\"", "model[1].hard = 150000", "model[2].soft = 0.7"] {
            let line = page.lines().find(|line| line.starts_with(row));
            let line = line.unwrap_or_else(|| panic!("{row}: {page}"));
            assert!(line.contains("longhaul.toml:"), "{line}");
        }
    }

    #[test]
    fn model_table_errors_state_their_location() {
        let check = |file: &str, expect: &str| {
            let found = Layers::of_text(file).resolve();
            let problems = found.and_then(|found| Config::from_resolved(&found));
            let problems = problems.unwrap_err();
            assert_eq!(problems.len(), 1, "{problems:?}");
            let problem = problems[0].to_string();
            assert!(problem.contains(expect), "{problem}");
            assert!(problem.contains("longhaul.toml:"), "{problem}");
        };
        check("[[model]]\nwindow = 5000\n", "missing from its table");
        check("[[model]]\nmatch = ''\n", "expected the name of a model");
        check("[[model]]\nmatch = ['a', 'b']\n", "write a table for each");
        check("[[model]]\nmatch = 'a'\nhard = 85\n", "a number of tokens");
        check("[[model]]\nmatch = 'a'\nwindw = 1\n", "did you mean window?");
        check("[[model]]\nmatch = 'a'\nlisten = 'x'\n", "no setting is called listen");
        check("[model]\nmatch = 'a'\nwindow = 5000\n", "double brackets");
        check("model = 'a'\n", "double brackets");
        check(
            "[[model]]\nmatch = 'a'\nhard = 0.5\n",
            "compact.soft from default: found 85%, expected at most compact.hard, which is 50%",
        );
        let many = "[[model]]\nmatch = 'a'\n".repeat(MODEL_TABLES.most + 1);
        check(&many, "found 65 tables");
    }

    fn read(text: &str) -> Result<Config, Vec<String>> {
        let found = Layers::of_text(text).resolve();
        let config = found.and_then(|found| Config::from_resolved(&found));
        config.map_err(|problems| problems.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn the_first_table_that_matches_gives_the_prices() {
        let text = "[[price]]\nmatch = 'gpt-5*'\ninput = 1.25\ncached = 0.125\noutput = 10\n\
                    [[price]]\nmatch = 'local*'\ninput = 0\n";
        let config = read(text).unwrap();
        let prices = config.prices("gpt-5-mini").unwrap();
        assert_eq!(prices.origin, PriceOrigin::Setting);
        assert_eq!(prices.output, Price::stated("10"));
        assert_eq!(config.prices("local-llama").unwrap().cached, Price::stated("0"));
        assert!(config.prices("unheard-of").is_none());
    }

    #[test]
    fn what_is_no_price_is_refused_with_its_place() {
        let check = |text: &str, expect: &str| {
            let problems = read(text).unwrap_err();
            assert!(
                problems[0].contains(expect) && problems[0].contains("longhaul.toml:"),
                "{problems:?}"
            );
        };
        check("[[price]]\nmatch = 'a'\n", "missing from its table");
        check("[[price]]\nmatch = 'a'\ninput = -1\n", "dollars per million tokens");
        check("[[price]]\nmatch = 'a'\ninput = 'x'\n", "dollars per million tokens");
        check("[[price]]\nmatch = 'a'\ninput = 1\nouput = 2\n", "did you mean output?");
    }

    #[test]
    fn texts_stay_for_every_model_or_for_those_that_match() {
        let text = "[[keep]]\ntext = ' Never push to main. '\n\
                    [[keep]]\ntext = 'Answer in French.'\nmatch = 'gpt-5*'\n";
        let config = read(text).unwrap();
        let kept = |model: &str| -> Vec<&str> {
            let kept = config.kept_texts(model);
            kept.map(|kept| &*kept.text).collect()
        };
        assert_eq!(kept("o3"), ["Never push to main."]);
        assert_eq!(kept("gpt-5-mini"), ["Never push to main.", "Answer in French."]);
    }

    #[test]
    fn a_text_out_of_bounds_is_refused_with_its_place() {
        let check = |text: &str, expect: &str| {
            let problems = read(text).unwrap_err();
            assert!(
                problems[0].contains(expect) && problems[0].contains("longhaul.toml:"),
                "{problems:?}"
            );
        };
        check("[[keep]]\nmatch = 'a'\n", "add text");
        check("[[keep]]\ntext = ' '\n", "found 0 characters");
        check("[[keep]]\ntext = ['a', 'b']\n", "found a list");
        let long = "é".repeat(MAX_KEPT_CHARS);
        assert!(read(&format!("[[keep]]\ntext = '{long}'\n")).is_ok());
        check(&format!("[[keep]]\ntext = '{long}e'\n"), "found 4001 characters");
        let many = "[[keep]]\ntext = 'a'\n".repeat(KEEP_TABLES.most + 1);
        check(&many, "found 65 tables");
    }
}
