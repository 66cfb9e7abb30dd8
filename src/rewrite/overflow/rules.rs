//! The rules, compiled: those of the table, and the patterns that were configured beside them.

use std::sync::{Arc, LazyLock, OnceLock};

use regex::bytes::{Regex, RegexBuilder, RegexSet, RegexSetBuilder};

use super::nodes::ErrorDetails;
use super::table::{self, RuleRow, RuleTable};

/// The most patterns that can be configured. Each is tried on every error that is judged.
pub const MAX_PATTERNS: usize = 64;

/// The longest configured pattern, in bytes: several times the longest of the table.
pub const MAX_PATTERN_BYTES: usize = 1024;

/// What one configured pattern may take when it is compiled, in bytes. The largest of the table
/// takes a tenth of it; `(\d{1000}){1000}` would take gigabytes.
const MAX_COMPILED_BYTES: usize = 256 * 1024;

/// The groups that a configured pattern may name.
const ALLOWED_GROUPS: [&str; 5] = ["excess", "input", "limit", "output", "total"];

/// What a reply is judged by.
#[derive(Clone, Debug)]
pub struct ClassifierRules {
    /// Beside the table: what they match is an overflow.
    configured: Arc<[Regex]>,
    /// Compiled when the first reply is judged, once for all: most processes never see a refusal.
    compiled: Arc<OnceLock<CompiledRules>>,
}

/// The table as automata.
#[derive(Clone, Debug)]
pub(super) struct CompiledRules {
    table: RuleTable,
    vetoes: RegexSet,
    malformed: RegexSet,
    paths: RegexSet,
    overflows: RegexSet,
    bytes: RegexSet,
    numbers: Vec<Regex>,
    pub(super) output_part: Regex,
}

/// Why patterns cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// It matches the empty text, and so every error there is.
    #[error("pattern {position}: it matches every text")]
    MatchesEmpty {
        /// Which pattern, from 1.
        position: usize,
    },
    /// It names a group that has no meaning here.
    #[error("pattern {position}: found the group `{group}`, expected {}", ALLOWED_GROUPS.join(", "))]
    UnknownGroup {
        /// Which pattern, from 1.
        position: usize,
        /// The name of the group.
        group: String,
    },
    /// It is longer than [`PATTERN_BYTES`].
    #[error("pattern {position}: found {bytes} bytes, expected at most {MAX_PATTERN_BYTES}")]
    TooLong {
        /// Which pattern, from 1.
        position: usize,
        /// Its length.
        bytes: usize,
    },
    /// There are more than [`PATTERNS`].
    #[error("found {found} patterns, expected at most {MAX_PATTERNS}")]
    TooMany {
        /// How many there are.
        found: usize,
    },
    /// It is no regular expression, or one that takes too much room.
    #[error("pattern {position}: {reason}")]
    Syntax {
        /// Which pattern, from 1.
        position: usize,
        /// What is wrong with it.
        reason: String,
    },
}

impl ClassifierRules {
    /// The rules of the table.
    pub fn standard() -> &'static Self {
        static STANDARD: LazyLock<ClassifierRules> = LazyLock::new(|| ClassifierRules {
            configured: Arc::default(),
            compiled: Arc::default(),
        });
        &STANDARD
    }

    /// The rules of the table and these patterns, in the syntax of the `regex` crate and matched
    /// without regard to case. What one matches is an overflow, unless a veto matches too; its
    /// groups `limit`, `input`, `output`, `total` and `excess` say how much, before the table does.
    ///
    /// # Errors
    /// The first pattern that cannot be used.
    pub fn with_patterns(patterns: &[String]) -> Result<Self, PatternError> {
        if patterns.len() > MAX_PATTERNS {
            let found = patterns.len();
            return Err(PatternError::TooMany { found });
        }
        let compiled = (1..)
            .zip(patterns)
            .map(|(at, text)| compile_configured(at, text));
        Ok(Self {
            configured: compiled.collect::<Result<_, _>>()?,
            ..Self::standard().clone()
        })
    }

    /// The rules of another table.
    #[cfg(test)]
    pub(super) fn from_table(table: RuleTable) -> Self {
        Self {
            configured: Arc::default(),
            compiled: Arc::new(OnceLock::from(CompiledRules::from_table(table))),
        }
    }

    /// Whether an error of this status, outer or inside a body, is never about the size of a
    /// request.
    pub(super) fn is_vetoed_status(&self, status: u16) -> bool {
        self.compiled().table.vetoed_statuses.contains(&status)
    }

    pub(super) fn is_vetoed(&self, text: &[u8]) -> bool {
        self.compiled().vetoes.is_match(text)
    }

    pub(super) fn is_malformed(&self, text: &[u8]) -> bool {
        self.compiled().malformed.is_match(text)
    }

    pub(super) fn is_message_path(&self, param: &[u8]) -> bool {
        self.compiled().paths.is_match(param)
    }

    /// Whether an error names an overflow, in words or by a code. A bare number means what it means
    /// only where the request was at fault: a server that failed may use the same one for
    /// something else.
    pub(super) fn names_overflow(&self, status: u16, nodes: &ErrorDetails) -> bool {
        let CompiledRules {
            table, overflows, ..
        } = self.compiled();
        nodes.texts.iter().any(|text| {
            overflows.is_match(text) || self.configured.iter().any(|own| own.is_match(text))
        }) || nodes.has_code(table.overflow_codes)
            || (status < 500 && nodes.has_code(table.overflow_numbers))
    }

    /// Whether an error names a limit on bytes, in words or by a code.
    pub(super) fn names_byte_limit(&self, nodes: &ErrorDetails) -> bool {
        let CompiledRules { table, bytes, .. } = self.compiled();
        nodes.has_code(table.byte_codes) || nodes.texts.iter().any(|text| bytes.is_match(text))
    }

    /// Where counts may stand; the first that matches wins.
    pub(super) fn count_patterns(&self) -> impl Iterator<Item = &Regex> {
        let own = self.configured.iter();
        own.filter(|own| own.captures_len() > 1)
            .chain(&self.compiled().numbers)
    }

    pub(super) fn compiled(&self) -> &CompiledRules {
        self.compiled
            .get_or_init(|| CompiledRules::from_table(table::TABLE))
    }
}

impl CompiledRules {
    fn from_table(table: RuleTable) -> Self {
        Self {
            vetoes: compile_set(table.vetoes),
            malformed: compile_set(table.malformed),
            paths: compile_set(table.paths),
            overflows: compile_set(table.overflows),
            bytes: compile_set(table.bytes),
            numbers: table
                .numbers
                .iter()
                .map(|(_, row)| compile_pattern(row))
                .collect(),
            output_part: compile_pattern(table.output_part),
            table,
        }
    }
}

/// One configured pattern, the `position`th.
fn compile_configured(position: usize, pattern: &str) -> Result<Regex, PatternError> {
    if pattern.len() > MAX_PATTERN_BYTES {
        let bytes = pattern.len();
        return Err(PatternError::TooLong { position, bytes });
    }
    let mut builder = pattern_builder(pattern);
    builder
        .case_insensitive(true)
        .size_limit(MAX_COMPILED_BYTES);
    let compiled = builder.build().map_err(|error| PatternError::Syntax {
        position,
        reason: syntax_reason(&error),
    })?;
    let mut groups = compiled.capture_names().flatten();
    if let Some(group) = groups.find(|name| !ALLOWED_GROUPS.contains(name)) {
        let group = group.to_owned();
        return Err(PatternError::UnknownGroup { position, group });
    }
    if compiled.is_match(b"") {
        return Err(PatternError::MatchesEmpty { position });
    }
    Ok(compiled)
}

/// What is wrong with a pattern, in one line: the parser draws a picture above it.
fn syntax_reason(error: &regex::Error) -> String {
    if let regex::Error::CompiledTooBig(_) = error {
        return format!("it takes more than {MAX_COMPILED_BYTES} bytes when it is compiled");
    }
    let picture = error.to_string();
    let last = picture.lines().last().unwrap_or_default();
    last.strip_prefix("error: ").unwrap_or(last).to_owned()
}

/// Bytes and no Unicode: the text is normalised, and a `\d` that means ten digits and not six
/// hundred makes an automaton of a fraction of the size.
fn pattern_builder(pattern: &str) -> RegexBuilder {
    let mut builder = RegexBuilder::new(pattern);
    builder.unicode(false);
    builder
}

#[expect(
    clippy::expect_used,
    reason = "rows are constants, and the tests compile every one"
)]
fn compile_pattern(pattern: &str) -> Regex {
    pattern_builder(pattern).build().expect("a valid pattern")
}

#[expect(
    clippy::expect_used,
    reason = "rows are constants, and the tests compile every one"
)]
fn compile_set(rows: &[RuleRow]) -> RegexSet {
    let patterns = rows.iter().map(|(_, pattern)| pattern);
    let mut builder = RegexSetBuilder::new(patterns);
    builder.unicode(false).build().expect("valid patterns")
}
