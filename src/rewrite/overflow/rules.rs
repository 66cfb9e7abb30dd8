//! The rules, compiled: those of the table, and the patterns that were configured beside them.

use std::sync::{Arc, LazyLock, OnceLock};

use regex::bytes::{Regex, RegexBuilder, RegexSet, RegexSetBuilder};

use super::nodes::Nodes;
use super::table::{self, Row, Table};

/// The most patterns that can be configured. Each is tried on every error that is judged.
pub const PATTERNS: usize = 64;

/// The longest configured pattern, in bytes: several times the longest of the table.
pub const PATTERN_BYTES: usize = 1024;

/// What one configured pattern may take when it is compiled, in bytes. The largest of the table
/// takes a tenth of it; `(\d{1000}){1000}` would take gigabytes.
const COMPILED_BYTES: usize = 256 * 1024;

/// The groups that a configured pattern may name.
const GROUPS: [&str; 5] = ["excess", "input", "limit", "output", "total"];

/// What a reply is judged by.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Beside the table: what they match is an overflow.
    configured: Arc<[Regex]>,
    /// Compiled when the first reply is judged, once for all: most processes never see a refusal.
    compiled: Arc<OnceLock<Compiled>>,
}

/// The table as automata.
#[derive(Clone, Debug)]
pub(super) struct Compiled {
    table: Table,
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
pub enum Refused {
    /// It matches the empty text, and so every error there is.
    #[error("pattern {position}: it matches every text")]
    Everything {
        /// Which pattern, from 1.
        position: usize,
    },
    /// It names a group that has no meaning here.
    #[error("pattern {position}: found the group `{group}`, expected {}", GROUPS.join(", "))]
    Group {
        /// Which pattern, from 1.
        position: usize,
        /// The name of the group.
        group: String,
    },
    /// It is longer than [`PATTERN_BYTES`].
    #[error("pattern {position}: found {bytes} bytes, expected at most {PATTERN_BYTES}")]
    Long {
        /// Which pattern, from 1.
        position: usize,
        /// Its length.
        bytes: usize,
    },
    /// There are more than [`PATTERNS`].
    #[error("found {found} patterns, expected at most {PATTERNS}")]
    Many {
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

impl Rules {
    /// The rules of the table.
    pub fn standard() -> &'static Self {
        static STANDARD: LazyLock<Rules> = LazyLock::new(|| Rules {
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
    pub fn with(patterns: &[String]) -> Result<Self, Refused> {
        if patterns.len() > PATTERNS {
            let found = patterns.len();
            return Err(Refused::Many { found });
        }
        let compiled = (1..).zip(patterns).map(|(at, text)| configured(at, text));
        Ok(Self {
            configured: compiled.collect::<Result<_, _>>()?,
            ..Self::standard().clone()
        })
    }

    /// The rules of another table.
    #[cfg(test)]
    pub(super) fn of(table: Table) -> Self {
        Self {
            configured: Arc::default(),
            compiled: Arc::new(OnceLock::from(Compiled::of(table))),
        }
    }

    /// Whether an error of this status, outer or inside a body, is never about the size of a
    /// request.
    pub(super) fn veto_status(&self, status: u16) -> bool {
        self.compiled().table.vetoed_statuses.contains(&status)
    }

    pub(super) fn veto(&self, text: &[u8]) -> bool {
        self.compiled().vetoes.is_match(text)
    }

    pub(super) fn is_malformed(&self, text: &[u8]) -> bool {
        self.compiled().malformed.is_match(text)
    }

    pub(super) fn is_path(&self, param: &[u8]) -> bool {
        self.compiled().paths.is_match(param)
    }

    /// Whether an error names an overflow, in words or by a code. A bare number means what it means
    /// only where the request was at fault: a server that failed may use the same one for
    /// something else.
    pub(super) fn name_overflow(&self, status: u16, nodes: &Nodes) -> bool {
        let Compiled {
            table, overflows, ..
        } = self.compiled();
        nodes.texts.iter().any(|text| {
            overflows.is_match(text) || self.configured.iter().any(|own| own.is_match(text))
        }) || nodes.has_code(table.overflow_codes)
            || (status < 500 && nodes.has_code(table.overflow_numbers))
    }

    /// Whether an error names a limit on bytes, in words or by a code.
    pub(super) fn name_bytes(&self, nodes: &Nodes) -> bool {
        let Compiled { table, bytes, .. } = self.compiled();
        nodes.has_code(table.byte_codes) || nodes.texts.iter().any(|text| bytes.is_match(text))
    }

    /// Where counts may stand; the first that matches wins.
    pub(super) fn numbers(&self) -> impl Iterator<Item = &Regex> {
        let own = self.configured.iter();
        own.filter(|own| own.captures_len() > 1)
            .chain(&self.compiled().numbers)
    }

    pub(super) fn compiled(&self) -> &Compiled {
        self.compiled.get_or_init(|| Compiled::of(table::TABLE))
    }
}

impl Compiled {
    fn of(table: Table) -> Self {
        Self {
            vetoes: set(table.vetoes),
            malformed: set(table.malformed),
            paths: set(table.paths),
            overflows: set(table.overflows),
            bytes: set(table.bytes),
            numbers: table.numbers.iter().map(|(_, row)| one(row)).collect(),
            output_part: one(table.output_part),
            table,
        }
    }
}

/// One configured pattern, the `position`th.
fn configured(position: usize, pattern: &str) -> Result<Regex, Refused> {
    if pattern.len() > PATTERN_BYTES {
        let bytes = pattern.len();
        return Err(Refused::Long { position, bytes });
    }
    let mut builder = builder(pattern);
    builder.case_insensitive(true).size_limit(COMPILED_BYTES);
    let compiled = builder.build().map_err(|error| Refused::Syntax {
        position,
        reason: reason(&error),
    })?;
    let mut groups = compiled.capture_names().flatten();
    if let Some(group) = groups.find(|name| !GROUPS.contains(name)) {
        let group = group.to_owned();
        return Err(Refused::Group { position, group });
    }
    if compiled.is_match(b"") {
        return Err(Refused::Everything { position });
    }
    Ok(compiled)
}

/// What is wrong with a pattern, in one line: the parser draws a picture above it.
fn reason(error: &regex::Error) -> String {
    if let regex::Error::CompiledTooBig(_) = error {
        return format!("it takes more than {COMPILED_BYTES} bytes when it is compiled");
    }
    let picture = error.to_string();
    let last = picture.lines().last().unwrap_or_default();
    last.strip_prefix("error: ").unwrap_or(last).to_owned()
}

/// Bytes and no Unicode: the text is normalised, and a `\d` that means ten digits and not six
/// hundred makes an automaton of a fraction of the size.
fn builder(pattern: &str) -> RegexBuilder {
    let mut builder = RegexBuilder::new(pattern);
    builder.unicode(false);
    builder
}

#[expect(
    clippy::expect_used,
    reason = "rows are constants, and the tests compile every one"
)]
fn one(pattern: &str) -> Regex {
    builder(pattern).build().expect("a valid pattern")
}

#[expect(
    clippy::expect_used,
    reason = "rows are constants, and the tests compile every one"
)]
fn set(rows: &[Row]) -> RegexSet {
    let patterns = rows.iter().map(|(_, pattern)| pattern);
    let mut builder = RegexSetBuilder::new(patterns);
    builder.unicode(false).build().expect("valid patterns")
}
