//! The reasoning and the compactions that a provider issued, and the judgement on those in a request.

use std::collections::HashMap;

use super::learned::Views;
use super::{BindingRules, JudgedPrompt, Mismatch, Part, Prefix, Prompt, link};

/// The maximum number of items of reasoning in a book. Beyond it, the book starts anew.
const BOUND: usize = 1 << 18;

/// The binding of an item of reasoning.
#[derive(Clone, Debug)]
pub(super) struct Bound {
    pub(super) prefix: u64,
    pub(super) predecessor: Option<String>,
    pub(super) caller: u64,
    pub(super) model: String,
}

/// The prefix that a compaction stands for.
#[derive(Clone, Debug)]
pub(super) struct Covered {
    pub(super) start: u64,
    #[cfg_attr(not(feature = "validity"), expect(dead_code, reason = "a rule of validity"))]
    pub(super) caller: u64,
    /// The hashes of the covered prefix, in each way to read it.
    pub(super) ways: Vec<u64>,
    pub(super) last_role: String,
    /// Whether a request that was accepted held the compaction.
    pub(super) is_used: bool,
}

/// The reasoning and the compactions that a provider issued, or met for the first time in a request.
#[derive(Debug, Default)]
pub(crate) struct ReasoningBook {
    bound: HashMap<String, Bound>,
    covers: HashMap<String, Covered>,
    pub(super) views: Views,
}

impl ReasoningBook {
    /// Judges all reasoning of a prompt.
    pub(crate) fn judge(&self, prompt: &Prompt, rules: &BindingRules) -> JudgedPrompt {
        let mut judged =
            JudgedPrompt { prefix: Prefix::new(prompt.start), ..JudgedPrompt::default() };
        let mut before: Option<String> = None;
        let mut has_failed = false;
        for (at, unit) in prompt.units.iter().enumerate() {
            judged.exacts.push(judged.prefix.exact());
            match &unit.part {
                Part::Other => judged.prefix.add(unit.hash),
                Part::Compaction(name) => {
                    let covered = self.covered(prompt, at, name.as_deref(), rules, &mut judged);
                    judged.prefix.restart(link(prompt.start, unit.hash), covered);
                    before = None;
                }
                Part::Reasoning(key) => {
                    let known = self.bound.get(key).cloned();
                    let bound = known.unwrap_or_else(|| {
                        let bound = self.learn(prompt, at, rules, &judged, before.clone());
                        judged.bound.push((key.clone(), bound.clone()));
                        bound
                    });
                    let mismatch = bound.mismatch(prompt, rules, &judged.prefix, before.as_deref());
                    let is_read = !matches!(mismatch, Some(Mismatch::Caller | Mismatch::Model));
                    if is_read {
                        before = Some(key.clone());
                    }
                    let later = has_failed.then_some(Mismatch::Prefix);
                    if let Some(mismatch) = mismatch.or(later) {
                        judged.breaches.push((unit.clone(), mismatch));
                        has_failed |= rules.takes_all_later && is_read;
                        if rules.reads_failing && is_read {
                            judged.newest = Some(key.clone());
                        }
                    } else {
                        judged.newest = Some(key.clone());
                        if rules.counts_reasoning {
                            judged.prefix.add(unit.hash);
                        }
                    }
                }
            }
        }
        judged
    }

    /// Returns the ways to read the prefix that the compaction at `at` stands for. Without a cover, the ways of what stands
    /// before a compaction of another provider count.
    fn covered(
        &self,
        prompt: &Prompt,
        at: usize,
        name: Option<&str>,
        rules: &BindingRules,
        judged: &mut JudgedPrompt,
    ) -> Vec<u64> {
        let Some(name) = name else {
            return Vec::new();
        };
        let Some(covered) = self.covers.get(name) else {
            let ways = judged.prefix.ways();
            let last_role = at.checked_sub(1).and_then(|at| prompt.units.get(at));
            let last_role = last_role.map(|unit| unit.role.clone()).unwrap_or_default();
            let (start, caller) = (prompt.start, prompt.caller);
            let learned = Covered { start, caller, ways: ways.clone(), last_role, is_used: false };
            judged.covers.push((name.to_owned(), learned));
            return ways;
        };
        let next = prompt.units.get(at + 1).map(|unit| unit.role.as_str());
        let is_joined = next.is_some_and(|role| role == "system" || role == covered.last_role);
        if covered.start != prompt.start || (rules.is_chained && is_joined) {
            return Vec::new();
        }
        covered.ways.clone()
    }

    /// Stores an accepted request, and the names of the reasoning of its reply.
    pub(crate) fn commit(&mut self, prompt: &Prompt, judged: JudgedPrompt, issued: Vec<String>) {
        if self.bound.len() > BOUND {
            *self = Self::default();
        }
        for unit in &prompt.units {
            if let Part::Compaction(Some(name)) = &unit.part
                && let Some(covered) = self.covers.get_mut(name)
            {
                covered.is_used = true;
            }
        }
        self.bound.extend(judged.bound);
        self.covers.extend(judged.covers);
        self.views.push(prompt, judged.prefix.exact(), judged.newest.clone());
        for key in issued {
            let bound = Bound {
                prefix: judged.prefix.exact(),
                predecessor: judged.newest.clone(),
                caller: prompt.caller,
                model: prompt.model.clone(),
            };
            self.bound.insert(key, bound);
        }
    }

    /// Stores a compaction of everything in a judged prompt. Reasoning behind the compaction holds as if the
    /// prompt stood there, unless the compaction `keeps` none.
    pub(crate) fn cover(
        &mut self,
        prompt: &Prompt,
        judged: &JudgedPrompt,
        name: &str,
        keeps: bool,
    ) {
        let ways = if keeps { judged.prefix.ways() } else { Vec::new() };
        let last_role = prompt.units.last().map(|unit| unit.role.clone()).unwrap_or_default();
        let (start, caller) = (prompt.start, prompt.caller);
        let covered = Covered { start, caller, ways, last_role, is_used: false };
        self.covers.insert(name.to_owned(), covered);
    }

    /// Returns the caller that received a compaction.
    #[cfg(feature = "validity")]
    pub(crate) fn receiver(&self, name: &str) -> Option<u64> {
        self.covers.get(name).map(|covered| covered.caller)
    }

    /// Whether what a compaction of the prompt stands for also stands behind the compaction.
    pub(crate) fn repeats_covered(&self, prompt: &Prompt) -> bool {
        prompt.units.iter().enumerate().any(|(at, unit)| {
            let Part::Compaction(Some(name)) = &unit.part else {
                return false;
            };
            let Some(covered) = self.covers.get(name) else {
                return false;
            };
            let mut behind = Prefix::new(prompt.start);
            prompt.units.iter().skip(at + 1).any(|unit| {
                if unit.part == Part::Other {
                    behind.add(unit.hash);
                }
                covered.ways.contains(&behind.exact())
            })
        })
    }

    /// Whether a prompt holds what a compaction in use stands for, and no compaction.
    pub(crate) fn lacks_compaction(&self, prompt: &Prompt, judged: &JudgedPrompt) -> bool {
        let has_none = !prompt.units.iter().any(|unit| matches!(unit.part, Part::Compaction(_)));
        let mut used = self.covers.values().filter(|covered| covered.is_used);
        has_none
            && used.any(|covered| {
                let mut exacts = judged.exacts.iter().copied().chain([judged.prefix.exact()]);
                exacts.any(|exact| covered.ways.contains(&exact))
            })
    }
}

impl Bound {
    fn mismatch(
        &self,
        prompt: &Prompt,
        rules: &BindingRules,
        prefix: &Prefix,
        before: Option<&str>,
    ) -> Option<Mismatch> {
        if rules.is_bound_to_caller && self.caller != prompt.caller {
            return Some(Mismatch::Caller);
        }
        if !(rules.reads)(&self.model, &prompt.model) {
            return Some(Mismatch::Model);
        }
        if rules.is_chained && before.is_some() && before != self.predecessor.as_deref() {
            return Some(Mismatch::Gap);
        }
        (!prefix.fits(self.prefix)).then_some(Mismatch::Prefix)
    }
}
