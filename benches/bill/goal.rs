//! Rows of a table of goals.

/// A lower or upper bound for a figure.
#[derive(Clone, Copy)]
pub(crate) enum Goal {
    AtLeast(u64),
    AtMost(u64),
}

impl Goal {
    /// Formats a row: the figure, the aim, and whether it is reached or by how much it is missed.
    pub(crate) fn line(self, what: &str, found: u64, shown: fn(u64) -> String) -> String {
        let (sign, aim, missed) = match self {
            Self::AtLeast(aim) => ("≥", aim, aim.saturating_sub(found)),
            Self::AtMost(aim) => ("≤", aim, found.saturating_sub(aim)),
        };
        let verdict =
            if missed == 0 { "met".to_owned() } else { format!("**missed by {}**", shown(missed)) };
        format!("| {what} | {} | {sign} {} | {verdict} |", shown(found), shown(aim))
    }
}

/// The heading of a table of goals.
pub(crate) const HEADING: &str = "| goal | found | aim | |\n|---|--:|--:|---|";
