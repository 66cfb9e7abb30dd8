//! The names under which a model may be listed in the table.

use std::sync::LazyLock;

/// Suffixes with which `OpenRouter` chooses among the servers of one model. `:free` and `:thinking`
/// have their own rows if they differ.
static VARIANTS: LazyLock<Vec<&str>> =
    LazyLock::new(|| include_str!("../../config/models/variants.txt").lines().collect());

/// Suffix for a window of a million tokens.
const WIDE_MARK: &str = "[1m]";

/// Region prefixes of Bedrock's inference profiles.
static REGIONS: LazyLock<Vec<&str>> =
    LazyLock::new(|| include_str!("../../config/models/regions.txt").lines().collect());

/// Yields `name`, then ever shorter forms: without `~` and `models/`, a variant, a fine-tuner's
/// names, or the provider prefix. Each is also tried without a date, and without Bedrock's region
/// and version.
pub(super) fn candidates(name: &str) -> impl Iterator<Item = &str> {
    let plain = without_variant(name.trim_start_matches('~').trim_start_matches("models/"));
    let bases = [
        Some(plain),
        without_tuner(plain),
        plain.split_once('/').map(|(_, rest)| rest),
        plain.rsplit_once('/').map(|(_, rest)| rest),
    ];
    let shorter = bases.into_iter().flatten().flat_map(|base| {
        let versionless = without_version(base);
        let regionless = without_region(base);
        let both = without_version(regionless);
        [base, without_date(base), regionless, versionless, both, without_date(both)]
    });
    // Duplicates are looked up again, which is cheaper than detecting them.
    std::iter::once(name).chain(shorter.filter(move |form| *form != name && !form.is_empty()))
}

/// Returns the name of a model without the suffix for a window of a million tokens, or `None` if the
/// name has no such suffix. Coding agents write `claude-sonnet-4-5[1m]`.
pub(super) fn without_wide_window(name: &str) -> Option<&str> {
    let (base, mark) = name.split_at_checked(name.len().checked_sub(WIDE_MARK.len())?)?;
    mark.eq_ignore_ascii_case(WIDE_MARK).then_some(base)
}

/// Whether the name selects one server of a model, or one kind of service.
pub(super) fn has_variant(name: &str) -> bool {
    without_variant(name) != name
}

fn without_variant(name: &str) -> &str {
    VARIANTS.iter().find_map(|variant| name.strip_suffix(variant)).unwrap_or(name)
}

/// Shortens `ft:gpt-4o-2024-08-06:org:name:id` to `ft:gpt-4o-2024-08-06`, which has its price and
/// window.
fn without_tuner(name: &str) -> Option<&str> {
    let base = name.strip_prefix("ft:")?.split(':').next()?;
    name.get(.."ft:".len() + base.len())
}

fn without_region(name: &str) -> &str {
    REGIONS.iter().find_map(|region| name.strip_prefix(region)).unwrap_or(name)
}

/// Strips `-v1:0` or `-v1`.
fn without_version(name: &str) -> &str {
    let number =
        name.rsplit_once(':').filter(|(_, minor)| is_number(minor)).map_or(name, |(head, _)| head);
    number.rsplit_once("-v").filter(|(_, major)| is_number(major)).map_or(name, |(head, _)| head)
}

/// Strips `-20250514`, `-2024-08-06`, or a version after `@`.
fn without_date(name: &str) -> &str {
    if let Some((head, _)) = name.split_once('@').filter(|(head, _)| !head.is_empty()) {
        return head;
    }
    let Some((head, last)) = name.rsplit_once('-') else {
        return name;
    };
    if last.len() == 8 && last.starts_with("20") && is_number(last) {
        return head;
    }
    let dashed = || {
        let (head, month) = head.rsplit_once('-')?;
        let (head, year) = head.rsplit_once('-')?;
        let is_date = year.len() == 4 && year.starts_with("20") && month.len() == 2;
        (is_date && last.len() == 2 && [year, month, last].into_iter().all(is_number))
            .then_some(head)
    };
    dashed().unwrap_or(name)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, expect: &str) {
        let found: Vec<&str> = candidates(name).collect();
        assert_eq!(found.first(), Some(&name));
        assert!(found.contains(&expect), "{expect} is not in {found:?}");
    }

    #[test]
    fn strips_prefixes_and_suffixes_from_model_names() {
        check("gpt-5", "gpt-5");
        check("openai/gpt-5:nitro", "openai/gpt-5");
        check("~anthropic/claude-opus-latest", "anthropic/claude-opus-latest");
        check("models/gemini-2.5-pro", "gemini-2.5-pro");
        check("gpt-4o-2024-08-06", "gpt-4o");
        check("claude-sonnet-4-20250514", "claude-sonnet-4");
        check("claude-sonnet-4@20250514", "claude-sonnet-4");
        check("claude-sonnet-4@default", "claude-sonnet-4");
        check("openai/gpt-4o-2024-08-06", "gpt-4o-2024-08-06");
        check("us.anthropic.claude-sonnet-4-20250514-v1:0", "anthropic.claude-sonnet-4");
        check("anthropic.claude-opus-4-6-v1", "anthropic.claude-opus-4-6");
        check("fireworks_ai/accounts/fireworks/models/x", "accounts/fireworks/models/x");
        check("ft:gpt-4o-2024-08-06:org::id", "ft:gpt-4o-2024-08-06");
    }

    #[test]
    fn name_parts_that_only_resemble_a_date_or_version_stay() {
        let forms = |name| candidates(name).collect::<Vec<_>>();
        assert!(forms("deepseek-v3-0324").iter().all(|form| *form == "deepseek-v3-0324"));
        assert!(forms("m-12345678").iter().all(|form| *form == "m-12345678"));
        assert!(forms("").iter().all(|form| form.is_empty()));
    }
}
