//! Compiled rules: those of the table, and the configured patterns.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, OnceLock};

use regex::bytes::{Regex, RegexBuilder, RegexSet, RegexSetBuilder};

use crate::overflow::error_details::ErrorDetails;
use crate::overflow::vocabulary::{Row, WORDINGS, parse, rows};

/// Maximum number of configured patterns. Each one is tried on every classified error.
pub const MAX_PATTERNS: usize = 64;

/// Maximum length of a configured pattern in bytes: several times the longest of the table.
pub const MAX_PATTERN_BYTES: usize = 1024;

/// Maximum compiled size of a configured pattern in bytes. The largest of the table takes a tenth
/// of this; `(\d{1000}){1000}` would take gigabytes.
const MAX_COMPILED_BYTES: usize = 256 * 1024;

/// Group names that a configured pattern may use.
const ALLOWED_GROUPS: [&str; 5] = ["excess", "input", "limit", "output", "total"];

/// Rules for the classification of replies.
#[derive(Clone, Debug)]
pub struct ClassifierRules {
    /// Configured patterns, in addition to the table. A match is an overflow.
    configured: Arc<[Regex]>,
    /// The compiled table, shared by all copies. Compilation waits for the first classified reply,
    /// since most processes never see a refusal.
    compiled: Arc<OnceLock<CompiledRules>>,
}

/// The rows of `wordings.tsv`, by list.
#[derive(Clone, Debug)]
pub(super) struct CompiledRules {
    codes: HashMap<&'static str, Vec<&'static str>>,
    patterns: HashMap<&'static str, RegexSet>,
    /// Patterns that extract counts, in order of precedence.
    counts: Vec<Regex>,
    /// Patterns for the output in an enumeration of parts.
    pub(super) output_parts: Vec<Regex>,
    text_limits: Vec<Regex>,
}

impl ClassifierRules {
    /// Returns the rules of the table, without configured patterns.
    pub fn standard() -> &'static Self {
        static STANDARD: LazyLock<ClassifierRules> = LazyLock::new(|| ClassifierRules {
            configured: Arc::default(),
            compiled: Arc::default(),
        });
        &STANDARD
    }

    /// Creates rules from the table and these patterns, which use the syntax of the `regex` crate
    /// and ignore case.
    ///
    /// A match is an overflow, unless a veto matches too. The groups `limit`, `input`, `output`,
    /// `total` and `excess` state the counts and take precedence over the table.
    ///
    /// # Errors
    /// Error message for too many patterns, or for the first invalid pattern.
    pub fn with_patterns(patterns: &[String]) -> Result<Self, String> {
        let found = patterns.len();
        if found > MAX_PATTERNS {
            return Err(format!("found {found} patterns, expected at most {MAX_PATTERNS}"));
        }
        let compiled = (1..).zip(patterns).map(|(at, text)| {
            compile_configured(text).map_err(|reason| format!("pattern {at}: {reason}"))
        });
        Ok(Self { configured: compiled.collect::<Result<_, _>>()?, ..Self::standard().clone() })
    }

    /// Whether an error of this status, outer or inside a body, is never about the size of a
    /// request.
    pub(super) fn is_vetoed_status(&self, status: u16) -> bool {
        let status = status.to_string();
        self.compiled().codes("status").contains(&&*status)
    }

    pub(super) fn matches(&self, list: &str, text: &[u8]) -> bool {
        let set = self.compiled().patterns.get(list);
        set.is_some_and(|set| set.is_match(text))
    }

    pub(super) fn points_into_message(&self, details: &ErrorDetails) -> bool {
        let mut paths = details.params.iter();
        paths.any(|path| self.matches("message-path", path))
    }

    /// Whether an error names an overflow, in words or by a code.
    ///
    /// Purely numeric codes count only if the status is below 500. After a server failure the same
    /// number may mean something else.
    pub(super) fn names_overflow(&self, status: u16, details: &ErrorDetails) -> bool {
        let mut texts = details.texts.iter();
        texts.any(|text| self.matches("overflow", text)) || self.states_overflow(status, details)
    }

    /// Whether an error has a code of an overflow, or matches a configured pattern, which the operator
    /// vouches for.
    pub(super) fn states_overflow(&self, status: u16, details: &ErrorDetails) -> bool {
        let is_configured = |text: &Vec<u8>| self.configured.iter().any(|own| own.is_match(text));
        let has_code = |list| details.has_code(self.compiled().codes(list));
        has_code("overflow-code")
            || (status < 500 && has_code("overflow-number"))
            || details.texts.iter().any(is_configured)
    }

    /// Whether an error names a byte limit, in words or by a code.
    pub(super) fn names_byte_limit(&self, details: &ErrorDetails) -> bool {
        let mut texts = details.texts.iter();
        details.has_code(self.compiled().codes("byte-code"))
            || texts.any(|text| self.matches("byte-limit", text))
    }

    /// Returns the maximum characters of one text, if a text of an error states that one is longer.
    pub(super) fn text_limit(&self, text: &[u8]) -> Option<u32> {
        let mut patterns = self.compiled().text_limits.iter();
        patterns.find_map(|pattern| parse(pattern.captures(text)?.get(1)?.as_bytes()))
    }

    /// Returns the patterns that extract counts, in order of precedence.
    pub(super) fn count_patterns(&self) -> impl Iterator<Item = &Regex> {
        let own = self.configured.iter();
        own.filter(|own| own.captures_len() > 1).chain(&self.compiled().counts)
    }

    pub(super) fn compiled(&self) -> &CompiledRules {
        let compile = || CompiledRules::from_rows(&rows(WORDINGS).collect::<Vec<_>>());
        self.compiled.get_or_init(compile)
    }
}

#[cfg(test)]
impl ClassifierRules {
    /// Creates rules from other rows.
    pub(super) fn from_rows(rows: &[Row]) -> Self {
        Self {
            configured: Arc::default(),
            compiled: Arc::new(OnceLock::from(CompiledRules::from_rows(rows))),
        }
    }
}

impl CompiledRules {
    fn from_rows(rows: &[Row]) -> Self {
        let list = |name: &'static str| {
            let rows = rows.iter().filter(move |row| row.list == name);
            rows.map(|row| row.pattern)
        };
        let patterns = |name| {
            let compiled = list(name).map(|pattern| pattern_builder(pattern).build());
            compiled.filter_map(move |pattern| {
                debug_assert!(pattern.is_ok(), "{name}: {pattern:?}");
                pattern.ok()
            })
        };
        let set = |name| {
            let set = RegexSetBuilder::new(list(name)).unicode(false).build();
            debug_assert!(set.is_ok(), "{name}: {set:?}");
            set.unwrap_or_default()
        };
        let codes = ["status", "overflow-code", "overflow-number", "byte-code"];
        let sets = ["veto", "malformed", "message-path", "overflow", "byte-limit", "media-limit"];
        Self {
            codes: codes.map(|name| (name, list(name).collect())).into(),
            patterns: sets.map(|name| (name, set(name))).into(),
            counts: patterns("counts").collect(),
            output_parts: patterns("output-part").collect(),
            text_limits: patterns("text-limit").collect(),
        }
    }

    fn codes(&self, list: &str) -> &[&'static str] {
        self.codes.get(list).map(Vec::as_slice).unwrap_or_default()
    }
}

fn compile_configured(pattern: &str) -> Result<Regex, String> {
    let bytes = pattern.len();
    if bytes > MAX_PATTERN_BYTES {
        return Err(format!("found {bytes} bytes, expected at most {MAX_PATTERN_BYTES}"));
    }
    let mut builder = pattern_builder(pattern);
    builder.case_insensitive(true).size_limit(MAX_COMPILED_BYTES);
    let compiled = builder.build().map_err(|error| syntax_reason(&error))?;
    let mut groups = compiled.capture_names().flatten();
    if let Some(group) = groups.find(|name| !ALLOWED_GROUPS.contains(name)) {
        let expected = ALLOWED_GROUPS.join(", ");
        return Err(format!("found the group `{group}`, expected {expected}"));
    }
    // Such a pattern would match every error.
    if compiled.is_match(b"") {
        return Err("matches every text".to_owned());
    }
    Ok(compiled)
}

/// Describes a pattern error in one line, without the multi-line excerpt that the parser prints
/// first.
fn syntax_reason(error: &regex::Error) -> String {
    if let regex::Error::CompiledTooBig(_) = error {
        return format!("the compiled pattern exceeds {MAX_COMPILED_BYTES} bytes");
    }
    let picture = error.to_string();
    let last = picture.lines().last().unwrap_or_default();
    last.strip_prefix("error: ").unwrap_or(last).to_owned()
}

/// Creates a builder for byte patterns without Unicode. Texts are normalised, and an ASCII-only
/// `\d` (ten digits instead of six hundred) makes a far smaller automaton.
fn pattern_builder(pattern: &str) -> RegexBuilder {
    let mut builder = RegexBuilder::new(pattern);
    builder.unicode(false);
    builder
}
