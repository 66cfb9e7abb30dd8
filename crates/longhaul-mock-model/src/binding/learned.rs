//! Reasoning that the model did not issue: a recorded session carries it.
//!
//! A request shows such reasoning for the first time in or behind the reply that made it. What stood before it
//! then is the request before, and the reply up to it.

use std::collections::VecDeque;

use super::book::Bound;
use super::{BindingRules, JudgedPrompt, Part, Prefix, Prompt, ReasoningBook, Unit};

/// The maximum number of requests remembered. Beyond it, the oldest are forgotten.
const VIEWS: usize = 1_024;

/// An accepted request.
#[derive(Clone, Debug)]
struct View {
    conversation: u64,
    /// The hash of all of the request.
    exact: u64,
    /// The hash of the last unit.
    last: u64,
    /// The newest reasoning in the request.
    newest: Option<String>,
}

/// The accepted requests, the newest first.
#[derive(Debug, Default)]
pub(super) struct Views(VecDeque<View>);

impl Views {
    pub(super) fn push(&mut self, prompt: &Prompt, exact: u64, newest: Option<String>) {
        let last = prompt.units.last().map_or(0, |unit| unit.hash);
        self.0.push_front(View { conversation: prompt.conversation(), exact, last, newest });
        self.0.truncate(VIEWS);
    }

    /// Returns the newest request of a conversation that ended with `last`, or else its newest request.
    fn newest(&self, conversation: u64, last: Option<u64>) -> Option<&View> {
        let mut own = self.0.iter().filter(|view| view.conversation == conversation);
        let ended = own.clone().find(|view| Some(view.last) == last);
        ended.or_else(|| own.next())
    }

    fn has(&self, exact: u64) -> bool {
        self.0.iter().any(|view| view.exact == exact)
    }
}

impl ReasoningBook {
    /// Returns what the unknown reasoning at `at` is bound to. `before` is the reasoning before it in the prompt.
    pub(super) fn learn(
        &self,
        prompt: &Prompt,
        at: usize,
        rules: &BindingRules,
        judged: &JudgedPrompt,
        before: Option<String>,
    ) -> Bound {
        let made = |prefix: &Prefix, predecessor| Bound {
            prefix: prefix.exact(),
            predecessor,
            caller: prompt.caller,
            model: prompt.model.clone(),
        };
        let units = prompt.units.get(..at).unwrap_or_default();
        let reply = units.iter().rposition(|unit| !unit.is_made).map_or(0, |last| last + 1);
        let asked = reply.checked_sub(1).and_then(|last| units.get(last));
        let exact = |at: usize| judged.exacts.get(at).copied();
        let is_continued = exact(reply).is_some_and(|exact| self.views.has(exact));
        let view = self.views.newest(prompt.conversation(), asked.map(|unit| unit.hash));
        let Some(view) = view.filter(|view| !is_continued && !judged.exacts.contains(&view.exact))
        else {
            // Everything that stands there was there when the model made the reasoning.
            return made(&judged.prefix, before);
        };
        let ended = units.iter().rposition(|unit| unit.hash == view.last);
        let own = units.get(ended.map_or(reply, |ended| ended + 1)..).unwrap_or_default();
        let mut prefix = Prefix::new(view.exact);
        for unit in own {
            add(&mut prefix, unit, prompt, rules);
        }
        let mut names = own.iter().filter_map(|unit| match &unit.part {
            Part::Reasoning(key) => Some(key.clone()),
            Part::Compaction(_) | Part::Other => None,
        });
        made(&prefix, names.next_back().or_else(|| view.newest.clone()))
    }
}

/// Adds a unit of a reply.
fn add(prefix: &mut Prefix, unit: &Unit, prompt: &Prompt, rules: &BindingRules) {
    match unit.part {
        Part::Compaction(_) => prefix.restart(super::link(prompt.start, unit.hash), Vec::new()),
        Part::Reasoning(_) if !rules.counts_reasoning => {}
        Part::Other | Part::Reasoning(_) => prefix.add(unit.hash),
    }
}
