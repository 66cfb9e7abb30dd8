//! Entries of the section with user messages: whole, clipped, or counted.
//!
//! A merge of segments reads the entries back. No other line of a section can begin with a label of
//! an entry: see [`escape_labels`](crate::text::labels::escape_labels).

use super::condense::DividedMessage;
use super::{HEADING, USER_LABEL, rendered_chars};
use crate::text::wording;
use std::collections::HashSet;

/// Label of a message of which parts are left out.
const CLIPPED_LABEL: &str = "User, clipped";
/// Label of the messages that are counted.
const GAP_LABEL: &str = "User, left out";
/// Label of a note on an older rule that a newer one replaces.
const REPLACED_LABEL: &str = "User, replaced";
/// Maximum characters of a message that is shown as one line.
const MAX_LINE_CHARS: usize = 100;
/// Maximum characters shown of the first and of the last message that is only counted.
const MAX_EXCERPT_CHARS: usize = 24;
/// Part of the room, as a divisor, up to which the newest message and the first request are short.
const SHORT_SHARE: usize = 8;
/// Characters that a message may take beyond its rules while other rules need room.
const WHOLE_CHARS: usize = 24;
/// Characters reserved for the count of messages. The value is more than the count needs.
const GAP_CHARS: usize = 130;

/// A user message, or a run of them, in the section.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Entry {
    Whole(String),
    /// Parts of a text.
    Clipped(String),
    /// A note of longhaul's.
    Replaced(String),
    /// Messages that are counted.
    Gap(Gap),
}

/// Messages of which only the number and the first and last beginning are shown.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Gap {
    pub(super) count: usize,
    first: String,
    last: String,
}

impl Gap {
    fn of(text: &str) -> Self {
        // Quotation marks delimit the excerpts.
        let excerpt = wording::one_line(text, MAX_EXCERPT_CHARS).replace('"', "'");
        Self { count: 1, first: excerpt.clone(), last: excerpt }
    }

    fn join(self, later: Self) -> Self {
        Self { count: self.count.saturating_add(later.count), first: self.first, last: later.last }
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
            let rest = rest.split_once("]: ").map_or("", |(label, _)| label);
            matches!(rest, "" | ", clipped" | ", left out" | ", replaced")
        });
        let starts: Vec<usize> = starts.map(|(at, _)| at).collect();
        let ends = starts.iter().skip(1).copied().chain([body.len()]);
        let entry = |(start, end): (usize, usize)| {
            let (label, text) = body.get(start..end)?.split_once("]: ")?;
            match label.trim_start().trim_start_matches('[') {
                CLIPPED_LABEL => Some(Self::Clipped(text.to_owned())),
                REPLACED_LABEL => Some(Self::Replaced(text.to_owned())),
                GAP_LABEL => Gap::parse(text).map(Self::Gap),
                _ => Some(Self::Whole(text.to_owned())),
            }
        };
        starts.iter().copied().zip(ends).filter_map(entry).collect()
    }

    fn render(&self, out: &mut String) {
        let gap;
        let (label, text) = match self {
            Self::Whole(text) => (USER_LABEL, text),
            Self::Clipped(text) => (CLIPPED_LABEL, text),
            Self::Replaced(text) => (REPLACED_LABEL, text),
            Self::Gap(counted) => {
                gap = counted.render();
                (GAP_LABEL, &gap)
            }
        };
        out.extend(["\n\n[", label, "]: ", text]);
    }

    pub(super) fn words(&self) -> Option<&str> {
        match self {
            Self::Whole(text) | Self::Clipped(text) => Some(text),
            Self::Replaced(_) | Self::Gap(_) => None,
        }
    }

    /// Returns the older rule of a note.
    fn replaced_rule(&self) -> Option<&str> {
        let Self::Replaced(note) = self else {
            return None;
        };
        Some(note.strip_prefix('"')?.split_once(super::corrections::IS_REPLACED_BY)?.0)
    }

    fn to_gap(&self) -> Option<Gap> {
        match self {
            Self::Whole(text) | Self::Clipped(text) => Some(Gap::of(text)),
            Self::Gap(gap) => Some(gap.clone()),
            Self::Replaced(_) => None,
        }
    }

    fn chars(&self) -> usize {
        match self {
            Self::Whole(text) => rendered_chars(text, USER_LABEL),
            Self::Clipped(text) => rendered_chars(text, CLIPPED_LABEL),
            Self::Replaced(text) => rendered_chars(text, REPLACED_LABEL),
            Self::Gap(_) => GAP_CHARS,
        }
    }
}

/// Entries in order, each in the form that is chosen for it so far.
struct Selection<'e> {
    entries: &'e [Entry],
    divided: Vec<Option<DividedMessage<'e>>>,
    chosen: Vec<Option<Entry>>,
    /// Remaining characters.
    left: usize,
}

/// Renders `entries`, in order, within `room` characters. `has_first` says whether the first entry is the
/// first request.
///
/// If all entries fit, all are whole. Otherwise room is given in this order:
///
/// 1. the newest message and the first request, if short;
/// 2. notes on replaced rules; then sentences with marks of a rule: of the newest message, the first request,
///    and the others from the newest. A message gets half of what is left, and the rest in a second pass;
/// 3. more of the newest message and of the first request;
/// 4. the others without fenced and pasted material: the newest, then the shortest;
/// 5. the others as one line each;
/// 6. the material of the newest.
///
/// One count stands for the messages that get nothing.
pub(super) fn render(entries: &[Entry], room: usize, has_first: bool) -> String {
    let everything: usize = entries.iter().map(Entry::chars).sum();
    let Some(left) = room.checked_sub(HEADING.len()) else {
        return String::new();
    };
    let chosen = if everything <= left {
        entries.to_vec()
    } else {
        select(entries, left.saturating_sub(GAP_CHARS), has_first)
    };
    if chosen.iter().all(|entry| matches!(entry, Entry::Gap(_))) {
        return String::new();
    }
    let mut out = String::from(HEADING);
    for entry in &chosen {
        entry.render(&mut out);
    }
    out
}

fn select(entries: &[Entry], left: usize, has_first: bool) -> Vec<Entry> {
    let divided = entries.iter();
    let divided = divided.map(|entry| entry.words().map(DividedMessage::new));
    let mut selection =
        Selection { divided: divided.collect(), chosen: vec![None; entries.len()], entries, left };
    // Of messages such as "yes", the newest stands for all.
    let mut seen = HashSet::new();
    let newest_first = entries.iter().enumerate().rev();
    let distinct = newest_first.filter(|(_, entry)| match entry {
        Entry::Whole(text) | Entry::Clipped(text) | Entry::Replaced(text) => {
            seen.insert(text.trim())
        }
        Entry::Gap(_) => false,
    });
    let is_note = |at: &usize| matches!(entries.get(*at), Some(Entry::Replaced(_)));
    let distinct = distinct.map(|(at, _)| at);
    let (notes, distinct): (Vec<usize>, Vec<usize>) = distinct.partition(is_note);
    // A note quotes the rule that is replaced.
    let replaced = notes.iter().filter_map(|at| entries.get(*at)?.replaced_rule());
    let mut met: HashSet<&str> = replaced.collect();
    for &at in &distinct {
        if let Some(Some(divided)) = selection.divided.get_mut(at) {
            divided.unmark_repeated(&mut met);
        }
    }
    let newest = distinct.first().copied();
    let first =
        has_first.then_some(0).filter(|first| Some(*first) != newest && distinct.contains(first));
    for at in newest.into_iter().chain(first) {
        selection.give_said(at, left / SHORT_SHARE);
    }
    for at in notes {
        selection.give_whole(at, selection.left / 2);
    }
    for at in newest.into_iter().chain(first).chain(distinct.iter().copied()) {
        selection.give_rules(at, selection.left / 2);
    }
    for &at in &distinct {
        selection.give_rules(at, selection.left);
    }
    // A short message takes little more than its rules.
    for &at in &distinct {
        if selection.chars(at) > 0 {
            selection.give_whole(at, GAP_CHARS);
        }
    }
    if let Some(newest) = newest {
        let needs = first.and_then(|first| entries.get(first)).map_or(0, Entry::chars);
        let left = selection.left;
        selection.give_most(newest, (left / 2).max(left.saturating_sub(needs)));
    }
    if let Some(first) = first {
        selection.give_most(first, selection.left);
    }
    // A message that takes more than half of what is left is passed over.
    for &at in &distinct {
        selection.give_said(at, selection.left / 2);
    }
    let mut shortest = distinct.clone();
    shortest.sort_by_key(|at| entries.get(*at).map_or(0, Entry::chars));
    for at in shortest {
        selection.give_said(at, selection.left);
    }
    for &at in &distinct {
        selection.give_line(at);
    }
    for &at in &distinct {
        selection.give_whole(at, selection.left);
    }
    if let Some(newest) = newest {
        selection.give_most(newest, selection.left);
    }
    selection.with_gap()
}

impl<'e> Selection<'e> {
    /// Chooses `form` if the form takes at most `most` characters more than the one chosen so far.
    fn give(&mut self, at: usize, form: Entry, most: usize) -> bool {
        let Some(chosen) = self.chosen.get_mut(at) else {
            return false;
        };
        let before = chosen.as_ref().map_or(0, Entry::chars);
        let more = form.chars().saturating_sub(before);
        let fits = more <= most.min(self.left);
        if fits && form.chars() >= before {
            self.left -= more;
            *chosen = Some(form);
        }
        fits
    }

    fn divided(&self, at: usize) -> Option<&DividedMessage<'e>> {
        self.divided.get(at)?.as_ref()
    }

    /// Gives the rules of a message, at most `most` further characters.
    fn give_rules(&mut self, at: usize, most: usize) {
        let has = self.chars(at);
        let rules = self.divided(at).and_then(|it| it.rules_within(has + most));
        if let Some(rules) = rules.map(Entry::Clipped) {
            let all = (rules.chars() + WHOLE_CHARS).saturating_sub(has);
            if !self.give_whole(at, all) {
                self.give(at, rules, most);
            }
        }
    }

    /// Returns the characters that are chosen of a message so far.
    fn chars(&self, at: usize) -> usize {
        self.chosen.get(at).and_then(Option::as_ref).map_or(0, Entry::chars)
    }

    fn give_whole(&mut self, at: usize, most: usize) -> bool {
        let whole = self.entries.get(at).cloned();
        whole.is_some_and(|whole| self.give(at, whole, most))
    }

    /// Gives the message itself, or else what the user says in it.
    fn give_said(&mut self, at: usize, most: usize) -> bool {
        let said = self.divided(at).and_then(DividedMessage::without_shown);
        match said {
            Some(said) => self.give(at, Entry::Clipped(said), most),
            None => self.give_whole(at, most),
        }
    }

    /// Gives as much of a message as fits `most` further characters.
    fn give_most(&mut self, at: usize, most: usize) {
        if self.give_whole(at, most) || self.give_said(at, most) {
            return;
        }
        let room = (self.chars(at) + most).saturating_sub(rendered_chars("", CLIPPED_LABEL));
        if let Some(clipped) = self.divided(at).and_then(|it| it.within(room)) {
            self.give(at, Entry::Clipped(clipped), most);
        }
    }

    fn give_line(&mut self, at: usize) {
        let is_open = self.chosen.get(at).is_some_and(Option::is_none);
        let words = self.entries.get(at).and_then(Entry::words);
        if let Some(words) = words.filter(|_| is_open) {
            let line = wording::one_line(words, MAX_LINE_CHARS);
            self.give(at, Entry::Clipped(line), self.left);
        }
    }

    /// Returns the chosen entries, in order. One count stands for all others, at the place of the first.
    fn with_gap(self) -> Vec<Entry> {
        let counted = self.entries.iter().zip(&self.chosen);
        let counted = counted.filter(|(_, chosen)| chosen.is_none());
        let gap = counted.filter_map(|(entry, _)| entry.to_gap()).reduce(Gap::join);
        let mut gap = gap.map(Entry::Gap);
        let chosen = self.chosen.into_iter();
        chosen.filter_map(|chosen| chosen.or_else(|| gap.take())).collect()
    }
}
