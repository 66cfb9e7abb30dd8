//! Texts that stay in every compacted conversation: the `[[keep]]` tables of the file.
//!
//! Like model tables, they have no environment variable or flag.

use longhaul_core::policy::KeptText;

use super::model_tables::{ModelPattern, model_pattern};
use super::parse::single_text;
use super::raw_value::RawValue;
use super::setting::settings;
use super::tables::{Table, TableList};
use crate::error::Problem;
use crate::limits::MAX_KEPT_CHARS;

/// The list: at most 64 tables, more than fit the room for them.
pub(super) const KEEP_TABLES: TableList = TableList {
    name: "keep",
    most: 64,
    settings: || OWN_SETTINGS.iter().collect(),
    required: &[("text", "; add text = \"…\"")],
};

settings! { OWN_SETTINGS:
    MATCH: ModelPattern = model_pattern, "keep.match" = "*";
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
    Ok((table.value(&MATCH)?, KeptText { text, by_agent }))
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
