//! The version of the program, and what its build contains.

use std::sync::LazyLock;

/// The version alone, as `longhaul -V` prints it.
pub(super) const SHORT: &str = env!("CARGO_PKG_VERSION");

/// Optional features with whether this build has them.
const FEATURES: [(&str, bool); 2] =
    [("mcp", cfg!(feature = "mcp")), ("otlp", cfg!(feature = "otlp"))];

/// The version, the commit with its date, and the features, one per line.
pub(super) static LONG: LazyLock<String> =
    LazyLock::new(|| format!("{SHORT}\ncommit: {}\nfeatures: {}", commit(), features()));

/// Returns version and commit on one line.
pub(super) fn one_line() -> String {
    format!("{SHORT}, commit {}, features {}", commit(), features())
}

/// Returns the commit and its date, or the reason why the build names none.
fn commit() -> String {
    match (env!("LONGHAUL_COMMIT"), env!("LONGHAUL_COMMIT_DATE")) {
        ("", _) if cfg!(debug_assertions) => "not recorded in a debug build".to_owned(),
        ("", _) => "unknown".to_owned(),
        (commit, "") => commit.to_owned(),
        (commit, date) => format!("{commit} ({date})"),
    }
}

fn features() -> String {
    let named = FEATURES.iter().filter_map(|(name, has)| has.then_some(*name));
    let named: Vec<&str> = named.collect();
    if named.is_empty() { "none".to_owned() } else { named.join(", ") }
}
