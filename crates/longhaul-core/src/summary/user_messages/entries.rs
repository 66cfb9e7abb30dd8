//! Entries of the section with user messages: whole, as one line each, or counted.
//!
//! A merge of segments reads the entries back. No other line of a section can begin with a label of
//! an entry: see [`escape_labels`](crate::text::labels::escape_labels).

use super::{
    HEADING, MIN_CLIPPED_CHARS, OVERHEAD_CHARS, RemainingRoom, ReservedChars, USER_LABEL,
    rendered_chars,
};
use crate::text::wording;
use crate::units::tokens::Tokens;

/// Label of a message that is shown as one line.
const LINE_LABEL: &str = "User, clipped";
/// Label of the messages that are counted.
const GAP_LABEL: &str = "User, left out";
/// Maximum characters of a message that is shown as one line.
const MAX_LINE_CHARS: usize = 100;
/// Maximum characters shown of the first and of the last message that is only counted.
const MAX_EXCERPT_CHARS: usize = 24;
/// Characters reserved for the count of messages. The value is more than the count needs.
const GAP_CHARS: usize = 130;

/// A user message, or a run of them, in the section.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Entry {
    /// The whole text, or a text clipped in the middle.
    Whole(String),
    /// The beginning of a text, on one line.
    Line(String),
    /// Messages that are counted.
    Gap(Gap),
}

/// Messages of which only the number and the first and last beginning are shown.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Gap {
    count: usize,
    first: String,
    last: String,
}

impl Gap {
    fn of(text: &str) -> Self {
        // Quotation marks delimit the excerpts.
        let excerpt = wording::one_line(text, MAX_EXCERPT_CHARS).replace('"', "'");
        Self {
            count: 1,
            first: excerpt.clone(),
            last: excerpt,
        }
    }

    fn join(self, later: Self) -> Self {
        Self {
            count: self.count.saturating_add(later.count),
            first: self.first,
            last: later.last,
        }
    }

    fn render(&self) -> String {
        let Self { count, first, last } = self;
        if *count == 1 {
            return format!("1 message, \"{first}\"");
        }
        format!("{count} messages, from \"{first}\" to \"{last}\"")
    }

    /// Reads what [`Gap::render`] wrote. Returns `None` for any other text.
    fn parse(text: &str) -> Option<Self> {
        let (count, rest) = text.split_once(' ')?;
        let mut quoted = rest.split('"').skip(1).step_by(2);
        let first = quoted.next()?.to_owned();
        Some(Self {
            count: count.parse().ok()?,
            last: quoted.next().map_or_else(|| first.clone(), str::to_owned),
            first,
        })
    }
}

impl Entry {
    /// Reads the entries of a rendered section, without its heading.
    pub(super) fn parse_section(body: &str) -> Vec<Self> {
        let start = ["\n\n[", USER_LABEL].concat();
        let starts = body.match_indices(&start).filter(|(at, found)| {
            let rest = body.get(at + found.len()..).unwrap_or_default();
            rest.starts_with("]: ")
                || rest.starts_with(", clipped]: ")
                || rest.starts_with(", left out]: ")
        });
        let starts: Vec<usize> = starts.map(|(at, _)| at).collect();
        let ends = starts.iter().skip(1).copied().chain([body.len()]);
        let entry = |(start, end): (usize, usize)| {
            let (label, text) = body.get(start..end)?.split_once("]: ")?;
            match label.trim_start().trim_start_matches('[') {
                LINE_LABEL => Some(Self::Line(text.to_owned())),
                GAP_LABEL => Gap::parse(text).map(Self::Gap),
                _ => Some(Self::Whole(text.to_owned())),
            }
        };
        starts.iter().copied().zip(ends).filter_map(entry).collect()
    }

    fn render(&self, out: &mut String) {
        match self {
            Self::Whole(text) => out.extend(["\n\n[", USER_LABEL, "]: ", text]),
            Self::Line(text) => out.extend(["\n\n[", LINE_LABEL, "]: ", text]),
            Self::Gap(gap) => out.extend(["\n\n[", GAP_LABEL, "]: ", &gap.render()]),
        }
    }

    fn to_line(&self) -> Self {
        match self {
            Self::Whole(text) | Self::Line(text) => {
                Self::Line(wording::one_line(text, MAX_LINE_CHARS))
            }
            Self::Gap(gap) => Self::Gap(gap.clone()),
        }
    }

    fn to_gap(&self) -> Gap {
        match self {
            Self::Whole(text) | Self::Line(text) => Gap::of(text),
            Self::Gap(gap) => gap.clone(),
        }
    }

    fn chars(&self) -> usize {
        match self {
            Self::Whole(text) => rendered_chars(text, USER_LABEL),
            Self::Line(text) => rendered_chars(text, LINE_LABEL),
            Self::Gap(_) => GAP_CHARS,
        }
    }
}

/// Renders `entries`, in order, within `budget`. `own` is reserved for the first and the newest.
///
/// - Beginning with the newest, messages are kept whole while they fit. A message that would take more
///   than half of what is left is passed over.
/// - The others are one line each, again from the newest.
/// - Once a line does not fit, all older messages but the first are counted.
pub(super) fn render(entries: &[Entry], budget: Tokens, own: ReservedChars) -> String {
    let everything: usize = entries.iter().map(Entry::chars).sum();
    let fits_all = everything <= budget.to_chars();
    let mut room = RemainingRoom {
        label: USER_LABEL,
        fits_all,
        chars_left: budget
            .to_chars()
            .saturating_sub(HEADING.len() + OVERHEAD_CHARS),
    };
    let Some((newest, older)) = entries.split_last() else {
        return String::new();
    };
    let newest = fit(newest, &mut room, own.newest);
    let (first, older) = match older.split_first() {
        Some((first, others)) if own.first > 0 => (fit(first, &mut room, own.first), others),
        Some(_) | None => (None, older),
    };
    if first.is_none() && newest.is_none() {
        return String::new();
    }
    // Without the newest message, older ones say little.
    let kept = if newest.is_some() {
        select(older, &mut room.chars_left, fits_all)
    } else {
        select(older, &mut 0, false)
    };
    let mut out = String::from(HEADING);
    for entry in first.iter().chain(&kept).chain(&newest) {
        entry.render(&mut out);
    }
    out
}

/// Fits one of the two entries with room of their own.
fn fit(entry: &Entry, room: &mut RemainingRoom<'_>, own: usize) -> Option<Entry> {
    match entry {
        Entry::Whole(text) => Some(Entry::Whole(room.fit(text, own)?.into_owned())),
        Entry::Line(_) | Entry::Gap(_) => {
            room.chars_left = room.chars_left.checked_sub(entry.chars())?;
            Some(entry.clone())
        }
    }
}

/// Chooses the form of each of `older`, in order, within `left` characters.
fn select(older: &[Entry], left: &mut usize, fits_all: bool) -> Vec<Entry> {
    if older.is_empty() {
        return Vec::new();
    }
    if !fits_all {
        *left = left.saturating_sub(GAP_CHARS - OVERHEAD_CHARS);
    }
    let mut chosen: Vec<Option<Entry>> = vec![None; older.len()];
    for (entry, chosen) in older.iter().zip(&mut chosen).rev() {
        let chars = entry.chars();
        let is_large = chars > (*left / 2).max(MIN_CLIPPED_CHARS);
        let is_whole = matches!(entry, Entry::Whole(_));
        if is_whole && chars <= *left && (fits_all || !is_large) {
            *left -= chars;
            *chosen = Some(entry.clone());
        }
    }
    let mut gap_end = 0;
    for (at, (entry, chosen)) in older.iter().zip(&mut chosen).enumerate().rev() {
        if chosen.is_some() {
            continue;
        }
        let line = entry.to_line();
        if matches!(line, Entry::Gap(_)) && at == 0 {
            gap_end = 1;
        } else if line.chars() <= *left {
            *left -= line.chars();
            *chosen = Some(line);
        } else {
            gap_end = at + 1;
            break;
        }
    }
    let (counted, rest) = older.split_at(gap_end);
    let gap = counted.iter().map(Entry::to_gap).reduce(Gap::join);
    let rest = chosen.into_iter().skip(gap_end).take(rest.len());
    gap.map(Entry::Gap)
        .into_iter()
        .chain(rest.flatten())
        .collect()
}
