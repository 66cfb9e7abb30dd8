//! One line of a table of goals.

/// A goal that a figure has to reach, or not to pass.
#[derive(Clone, Copy)]
pub(crate) enum Goal {
    AtLeast(u64),
    AtMost(u64),
}

impl Goal {
    /// One line: what was found, what was aimed at, and whether it is met or by how much missed.
    pub(crate) fn line(self, what: &str, found: u64, shown: fn(u64) -> String) -> String {
        let (sign, aim, missed) = match self {
            Self::AtLeast(aim) => ("≥", aim, aim.saturating_sub(found)),
            Self::AtMost(aim) => ("≤", aim, found.saturating_sub(aim)),
        };
        let verdict = if missed == 0 {
            "met".to_owned()
        } else {
            format!("**missed by {}**", shown(missed))
        };
        format!(
            "| {what} | {} | {sign} {} | {verdict} |",
            shown(found),
            shown(aim)
        )
    }
}

/// The heading of a table of goals.
pub(crate) const HEADING: &str = "| goal | found | aim | |\n|---|--:|--:|---|";
