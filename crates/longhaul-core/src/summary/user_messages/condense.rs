//! Shortening of one user message: sentences with marks of a rule stay whole, wherever they stand.

use crate::text::labels::clip_escaped;
use crate::user_words::{Piece, has_rule_mark, pieces, sentences};
use std::collections::HashSet;
use std::ops::Range;

/// Minimum characters of a message that is clipped without sentences.
const MIN_CLIPPED_CHARS: usize = 120;
/// Characters of the longest note between two sentences.
const NOTE_CHARS: usize = " [… 4294967295 lines left out …] ".len();

/// Characters between two sentences of a message without shown material.
const ELLIPSIS_CHARS: usize = 8;

/// A message, divided into sentences and material that the user shows.
pub(super) struct DividedMessage<'t> {
    text: &'t str,
    units: Vec<Unit>,
}

/// A sentence, or a run of shown material.
struct Unit {
    /// Bytes of the message.
    at: Range<usize>,
    chars: usize,
    kind: UnitKind,
}

#[derive(Clone, Copy, Eq, PartialEq)]
enum UnitKind {
    /// A sentence with a mark of a rule.
    Rule,
    /// Any other sentence.
    Sentence,
    /// Fenced or pasted material. Nothing in it makes a rule.
    Shown,
}

impl<'t> DividedMessage<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        let mut units = Vec::new();
        let mut add = |part: &'t str, kind| {
            let start = part.as_ptr().addr() - text.as_ptr().addr();
            units.push(Unit { at: start..start + part.len(), chars: part.chars().count(), kind });
        };
        for piece in pieces(text) {
            match piece {
                Piece::Shown(shown) => add(shown, UnitKind::Shown),
                Piece::Said(said) => {
                    for sentence in sentences(said) {
                        let is_rule = has_rule_mark(sentence);
                        let kind = if is_rule { UnitKind::Rule } else { UnitKind::Sentence };
                        add(sentence, kind);
                    }
                }
            }
        }
        Self { text, units }
    }

    /// Takes the mark of each rule that is among `met`, and adds the others. Agents repeat their prompts.
    pub(super) fn unmark_repeated(&mut self, met: &mut HashSet<&'t str>) {
        let rules = self.units.iter_mut();
        for unit in rules.filter(|unit| unit.kind == UnitKind::Rule) {
            let rule = self.text.get(unit.at.clone()).unwrap_or_default();
            if !met.insert(rule.trim()) {
                unit.kind = UnitKind::Sentence;
            }
        }
    }

    /// Returns the sentences with marks of a rule alone. `None` without one, or if none fits `room`
    /// characters.
    pub(super) fn rules_within(&self, room: usize) -> Option<String> {
        self.render(&self.chosen(room, 0))
    }

    /// Returns everything but the shown material. `None` without such material.
    pub(super) fn without_shown(&self) -> Option<String> {
        let is_said = |unit: &Unit| unit.kind != UnitKind::Shown;
        let said: Vec<bool> = self.units.iter().map(is_said).collect();
        said.contains(&false).then(|| self.render(&said)).flatten()
    }

    /// Returns the rules, the beginning and the end of the message, in at most `room` characters.
    pub(super) fn within(&self, room: usize) -> Option<String> {
        let units = self.render(&self.chosen(room, room));
        units.or_else(|| {
            let room = room.checked_sub(NOTE_CHARS * 2)?;
            let clipped = || clip_escaped(self.text, room * 2 / 3, room / 3).into_owned();
            (room >= MIN_CLIPPED_CHARS).then(clipped)
        })
    }

    /// Chooses units within `room`: the rules, then others, at most `others` characters of them. Two thirds
    /// of each kind stand at the beginning.
    fn chosen(&self, room: usize, others: usize) -> Vec<bool> {
        let mut chosen = vec![false; self.units.len()];
        let note = match self.units.as_slice() {
            [_] => 0,
            all if all.iter().all(|it| it.kind != UnitKind::Shown) => ELLIPSIS_CHARS,
            _ => NOTE_CHARS,
        };
        let mut left = room;
        for (kind, most) in [(UnitKind::Rule, room), (UnitKind::Sentence, others)] {
            let mut head = most.min(left) * 2 / 3;
            let mut tail = most;
            let mut take = |at: usize, unit: &Unit, most: &mut usize| {
                let cost = unit.chars + note;
                let fits = cost <= left.min(*most);
                if let (true, Some(chosen)) = (fits, chosen.get_mut(at)) {
                    *chosen = true;
                    left -= cost;
                    *most -= cost;
                }
                fits
            };
            let units = self.units.iter().enumerate().filter(|(_, unit)| unit.kind == kind);
            let units: Vec<(usize, &Unit)> = units.collect();
            let taken = units.iter().take_while(|(at, unit)| take(*at, unit, &mut head)).count();
            // Any rule may fit; the other sentences of an end stay together.
            let is_rule = kind == UnitKind::Rule;
            let rest = units.iter().skip(taken).rev();
            let _ends = rest.take_while(|(at, unit)| take(*at, unit, &mut tail) || is_rule).count();
        }
        chosen
    }

    /// Joins the chosen units; a note stands for each run that is left out. `None` if no unit is chosen.
    fn render(&self, chosen: &[bool]) -> Option<String> {
        let mut out = String::new();
        let (mut last, mut skipped, mut lines) = (0, false, 0);
        for (unit, is_chosen) in self.units.iter().zip(chosen) {
            if !is_chosen {
                skipped = true;
                if unit.kind == UnitKind::Shown {
                    lines += self.text.get(unit.at.clone())?.trim().lines().count();
                }
                continue;
            }
            if skipped {
                out.push_str(&note(lines));
            } else {
                out.push_str(self.text.get(last..unit.at.start)?);
            }
            out.push_str(self.text.get(unit.at.clone())?);
            (last, skipped, lines) = (unit.at.end, false, 0);
        }
        if skipped {
            out.push_str(&note(lines));
        }
        chosen.contains(&true).then(|| out.trim().to_owned())
    }
}

/// Returns the note for what is left out between two sentences. On one line: what follows cannot pass for
/// a line of longhaul's.
fn note(lines: usize) -> String {
    if lines == 0 { " … ".to_owned() } else { format!(" [… {lines} lines left out …] ") }
}
