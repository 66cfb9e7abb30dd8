//! Prices of particular models: the `[[price]]` tables of the file.
//!
//! Prices in a table replace those of the built-in list. Like model tables, they have no environment
//! variable or flag.

use longhaul_core::cost::pricing::{Price, PriceOrigin, TokenPrices};

use super::model_tables::{ModelPattern, model_pattern};
use super::parse::{mismatch, optional, single_text};
use super::raw_value::RawValue;
use super::setting::settings;
use super::tables::{Table, TableList};
use crate::error::Problem;

/// The list: at most 64 tables, more than anyone reads in order.
pub(super) const PRICE_TABLES: TableList = TableList {
    name: "price",
    most: 64,
    settings: || OWN_SETTINGS.iter().collect(),
    required: &[
        ("match", ", expected the name of a model, like \"gpt-5*\""),
        ("input", ", expected dollars per million input tokens, like 1.25"),
    ],
};

settings! { OWN_SETTINGS:
    MATCH: ModelPattern = model_pattern, "price.match" = "";
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
    Ok((table.value(&MATCH)?, prices))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Layers};

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
}
