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
use std::collections::HashSet;

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

    /// Reads the text of [`Gap::render`]. Returns `None` for any other text.
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
/// - Half of the room for whole messages belongs to the newest. A message that would take more than half
///   of what is left is passed over.
/// - The other half belongs to the shortest, whatever their age, so that as many as possible are whole.
/// - The others are one line each, from the newest.
/// - One count stands for the messages that get no line.
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
    // Without the newest message, older ones are of little use.
    let kept = if newest.is_some() {
        select(older, room.chars_left, fits_all)
    } else {
        select(older, 0, false)
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
fn select(older: &[Entry], mut left: usize, fits_all: bool) -> Vec<Entry> {
    if older.is_empty() {
        return Vec::new();
    }
    let mut chosen: Vec<Option<Entry>> = vec![None; older.len()];
    let everything: usize = older.iter().map(Entry::chars).sum();
    if fits_all && everything <= left {
        return older.to_vec();
    }
    left = left.saturating_sub(GAP_CHARS - OVERHEAD_CHARS);
    let for_lines = left * LINES_PERCENT / 100;
    let mut for_whole = left - for_lines;
    let mut for_newest = for_whole / 2;
    // Of messages such as "yes", the newest stands for all.
    let mut seen = HashSet::new();
    let newest_first = older.iter().enumerate().rev();
    let distinct: Vec<(usize, &Entry)> = newest_first
        .filter(|(_, entry)| !matches!(entry, Entry::Whole(text) if !seen.insert(text.trim())))
        .collect();
    // The newest first, whatever their length, then the shortest of all.
    let whole = distinct
        .iter()
        .filter(|(_, entry)| matches!(entry, Entry::Whole(_)));
    let mut rest = Vec::new();
    for &(at, entry) in whole {
        let chars = entry.chars();
        if chars <= (for_newest / 2).max(MIN_CLIPPED_CHARS).min(for_newest) {
            for_newest -= chars;
            for_whole -= chars;
            keep(&mut chosen, at, entry.clone());
        } else {
            rest.push((chars, at, entry));
        }
    }
    rest.sort_by_key(|(chars, _, _)| *chars);
    for (chars, at, entry) in rest {
        if chars > for_whole {
            break;
        }
        for_whole -= chars;
        keep(&mut chosen, at, entry.clone());
    }
    left = for_whole + for_lines;
    for (at, entry) in distinct {
        let is_kept = chosen.get(at).is_some_and(Option::is_some);
        if is_kept || matches!(entry, Entry::Gap(_)) {
            continue;
        }
        let line = entry.to_line();
        if line.chars() > left {
            break;
        }
        left -= line.chars();
        keep(&mut chosen, at, line);
    }
    with_gap(older, chosen)
}

/// Share of the room for messages that are one line each, in percent.
const LINES_PERCENT: usize = 30;

fn keep(chosen: &mut [Option<Entry>], at: usize, entry: Entry) {
    if let Some(chosen) = chosen.get_mut(at) {
        *chosen = Some(entry);
    }
}

/// Returns the chosen entries, in order. One count stands for all others, at the place of the first.
fn with_gap(entries: &[Entry], chosen: Vec<Option<Entry>>) -> Vec<Entry> {
    let counted = || entries.iter().zip(&chosen).filter(|(_, it)| it.is_none());
    let gap = counted().map(|(entry, _)| entry.to_gap()).reduce(Gap::join);
    let mut gap = gap.map(Entry::Gap);
    let entries = chosen.into_iter();
    entries
        .filter_map(|chosen| chosen.or_else(|| gap.take()))
        .collect()
}
