//! Conversion of items to messages. The items of one step of the model become one message. No cut falls
//! where the provider would refuse the rest.
//!
//! The provider ties items together:
//!
//! - A call and its output share a `call_id`, whatever stands between them.
//! - Reasoning and the item after it need each other, if the provider stores their ids.
//! - A compaction stands for everything before it.
//! - A call may need the definitions of tools that an item before it holds.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use super::keys::ItemKey;
use crate::conversation::cut_rules::{self, Ties};
use crate::conversation::parse_cache::CacheEntry;
use crate::conversation::{
    Content, ContentPart, CutRules, Message, NeighbourLink, PartKind, Pieces, Role,
};
use crate::dialect::bypass::Bypass;
use crate::dialect::request_values::{SeenKeys, string_or_null};
use crate::json::scanner::{Literal, Scanner, elements, members, values_after};

/// Maximum calls of one message whose ids are compared one by one.
const MAX_PAIRWISE_CALLS: usize = 8;

/// Joins the items of `body` to messages, and finds where history must not be cut.
pub(super) fn messages(body: &str, mut items: Pieces) -> (Pieces, CutRules) {
    pair_by_item_id(body, &mut items);
    let is_compaction = |it: &Message| it.binding == NeighbourLink::Compaction;
    let pinned = items.messages.iter().rposition(is_compaction);
    let pinned = pinned.map_or(0, |at| at + 1);
    let mut steps = Steps {
        parts: Vec::with_capacity(items.parts.len()),
        messages: Vec::with_capacity(items.messages.len()),
        ties: Vec::with_capacity(items.messages.len()),
        source: items,
    };
    for at in 0..pinned {
        steps.push_pinned(at);
    }
    let mut at = pinned;
    while at < steps.source.messages.len() {
        let end = steps.step_end(at);
        if end > at + 1 {
            steps.push_step(at, end);
        } else {
            steps.push_alone(at);
        }
        at = end;
    }
    let joined = steps.joined(body, pinned);
    let Steps { source, messages, parts, .. } = steps;
    let rules = CutRules { pinned, joined };
    let pieces = Pieces { messages, parts, ..source };
    (pieces, rules)
}

/// Ties of the items that became one message.
#[derive(Clone, Copy, Debug)]
struct Tie {
    /// The tie of the first item.
    first: NeighbourLink,
    /// Whether an item is tied to items whose extent the request does not show.
    is_bound: bool,
    /// Whether an item is a reference.
    has_reference: bool,
}

struct Steps {
    source: Pieces,
    messages: Vec<Message>,
    parts: Vec<ContentPart>,
    ties: Vec<Tie>,
}

impl Steps {
    /// Returns the end of the step that begins with the item at `at`. A step is a run of items that the
    /// model made. Instructions that a client inserted between a call and its output belong to it.
    fn step_end(&self, at: usize) -> usize {
        let items = &self.source.messages;
        let role = |at: usize| items.get(at).map(|item| item.role);
        let (mut end, mut has_calls) = (at, false);
        loop {
            while let Some(item) = items.get(end).filter(|it| it.role == Role::Assistant) {
                has_calls |= !item.calls.is_empty();
                end += 1;
            }
            let mut behind = end;
            while has_calls && role(behind).is_some_and(Role::is_instruction) {
                behind += 1;
            }
            if behind == end || role(behind) != Some(Role::Tool) {
                return end.max(at + 1);
            }
            end = behind;
        }
    }

    /// Adds an item that no rewrite touches. Nothing before a compaction is cleared or matched.
    fn push_pinned(&mut self, at: usize) {
        self.push_alone(at);
        let Some(message) = self.messages.last_mut() else {
            return;
        };
        let parts = self.parts.get_mut(message.parts.clone());
        for part in parts.unwrap_or_default() {
            if matches!(part.kind, PartKind::Image | PartKind::Screenshot) {
                part.kind = PartKind::Other;
                message.cached = None;
            }
        }
        if message.role == Role::Tool || !message.calls.is_empty() {
            message.calls = 0..0;
            message.role = Role::Other;
            // The cache holds what follows from the role.
            message.cached = None;
        }
    }

    fn push_alone(&mut self, at: usize) {
        let Some(item) = self.source.messages.get_mut(at) else {
            return;
        };
        // Moved: another reference would have to be counted.
        let cached = item.cached.take();
        let start = self.parts.len();
        let parts = self.source.parts.get(item.parts.clone());
        self.parts.extend_from_slice(parts.unwrap_or_default());
        self.messages.push(Message { parts: start..self.parts.len(), cached, ..item.clone() });
        self.ties.push(Tie {
            first: item.binding,
            is_bound: is_bound(item.binding),
            has_reference: item.binding == NeighbourLink::Reference,
        });
    }

    /// Adds the items from `at` up to `end` as one message of the model.
    fn push_step(&mut self, at: usize, end: usize) {
        let items = self.source.messages.get(at..end).unwrap_or_default();
        let ([first, ..], [.., last]) = (items, items) else {
            return;
        };
        let start = self.parts.len();
        for item in items {
            let parts = self.source.parts.get(item.parts.clone());
            match item.content {
                // The operator inserted this item; the model did not write it.
                _ if item.role != Role::Assistant => {
                    self.parts.push(ContentPart::opaque(item.span, item.tokens));
                }
                Content::Text(text) => self.parts.push(ContentPart::from_text(text)),
                Content::Absent => {}
                Content::Parts(_) => self.parts.extend_from_slice(parts.unwrap_or_default()),
            }
        }
        let span = first.span.extended_to(last.span);
        let parts = start..self.parts.len();
        let model = || items.iter().filter(|item| item.role == Role::Assistant);
        self.messages.push(Message {
            content: if parts.is_empty() { Content::Absent } else { Content::Parts(span) },
            has_reasoning: items.iter().any(|item| item.has_reasoning),
            binding: first.binding,
            text_tokens: model().map(|item| item.text_tokens).sum(),
            tokens: items.iter().map(|item| item.tokens).sum(),
            parts,
            calls: first.calls.start..last.calls.end,
            cached: CacheEntry::of_joined(items.iter().map(|item| item.cached.as_ref())),
            ..Message::empty(span, Role::Assistant)
        });
        self.ties.push(Tie {
            first: first.binding,
            is_bound: items.iter().any(|item| is_bound(item.binding)),
            has_reference: items.iter().any(|item| item.binding == NeighbourLink::Reference),
        });
    }

    /// Returns, for each message, whether history must not be cut before it.
    fn joined(&self, body: &str, pinned: usize) -> Vec<bool> {
        let mut ties = Ties::default();
        let mut join = |first, last| ties.join(first, last);
        self.join_calls(body, pinned, &mut join);
        let leading = self.messages.iter().take_while(|it| it.role.is_instruction());
        self.join_tools(body, leading.count().max(pinned), &mut join);
        let mut joined = self.joined_by_reasoning(pinned);
        let tied = ties.joined(joined.len());
        for (it, tied) in joined.iter_mut().zip(tied) {
            *it |= tied;
        }
        joined
    }

    /// Joins each call with its last output, and with the program that made the call. The call of an output
    /// may be an item that only the provider has, after the newest reference.
    fn join_calls(&self, body: &str, pinned: usize, join: &mut impl FnMut(usize, usize)) {
        let mut callers = Callers::new(self, body, pinned);
        let (mut newest, mut reference) = (None, None);
        let mut calls = self.source.calls.iter().filter_map(|call| call.name);
        let has_programs = calls.any(|name| name.raw(body) == PROGRAM);
        for (at, message) in self.messages.iter().enumerate().skip(pinned) {
            if !message.calls.is_empty() {
                newest = Some(at);
                let calls = message.span.slice(body);
                let programs = cut_rules::callers(if has_programs { calls } else { "" });
                let first = programs.filter_map(|id| callers.of_id(at, id)).min();
                if let Some(first) = first {
                    join(first, at);
                }
            }
            if let Some(id) = message.tool_call_id {
                let caller = newest.and_then(|newest| callers.caller(newest, at, id));
                if let Some(caller) = caller.or(reference).filter(|caller| *caller < at) {
                    join(caller, at);
                }
            }
            if self.ties.get(at).is_some_and(|tie| tie.has_reference) {
                reference = Some(at);
            }
        }
    }

    /// Joins definitions of tools with the last call that uses one. Those in the head stay anyway.
    fn join_tools(&self, body: &str, head: usize, join: &mut impl FnMut(usize, usize)) {
        let items = self.source.messages.iter();
        let mut definitions = items.filter(|item| item.binding == NeighbourLink::Tools).peekable();
        if definitions.peek().is_none() {
            return;
        }
        let mut last_uses = HashMap::new();
        for (at, message) in self.messages.iter().enumerate().skip(head) {
            let calls = self.source.calls.get(message.calls.clone());
            for name in calls.unwrap_or_default().iter().filter_map(|call| call.name) {
                last_uses.insert(name.raw(body), at);
            }
        }
        for item in definitions {
            let starts_before = |it: &Message| it.span.start() <= item.span.start();
            let behind = self.messages.partition_point(starts_before);
            let uses = tool_names(item.span.slice(body)).filter_map(|name| last_uses.get(name));
            let last = uses.max().copied();
            let at = behind.checked_sub(1).filter(|at| *at >= head);
            if let Some((at, last)) = at.zip(last).filter(|(at, last)| last > at) {
                join(at, last);
            }
        }
    }

    /// Returns, for each message, whether a step that reasoning may be tied to begins there, or is the
    /// first to follow.
    fn joined_by_reasoning(&self, pinned: usize) -> Vec<bool> {
        let (mut is_bound_turn, mut begins_turn) = (false, false);
        let mut joined = vec![false; self.messages.len()];
        let messages = || self.messages.iter().zip(&self.ties).enumerate();
        for (at, (message, tie)) in messages().skip(pinned) {
            if message.role.is_user() {
                is_bound_turn = false;
            } else if message.role == Role::Assistant {
                // No item of the model is tied to a user's message.
                let is_reasoning = tie.first == NeighbourLink::Reasoning;
                let is_free = if tie.first == NeighbourLink::Reference {
                    begins_turn
                } else {
                    is_reasoning || !(is_bound(tie.first) || is_bound_turn)
                };
                let is_joined = !is_free;
                if let Some(joined) = joined.get_mut(at) {
                    *joined = is_joined;
                }
            }
            is_bound_turn |= tie.is_bound;
            begins_turn = message.role.is_user();
        }
        let mut is_next_joined = false;
        for (joined, message) in joined.iter_mut().zip(&self.messages).rev() {
            match message.role {
                Role::Assistant => is_next_joined = *joined,
                Role::User => is_next_joined = false,
                Role::Developer | Role::Function | Role::Other | Role::System | Role::Tool => {
                    *joined = is_next_joined;
                }
            }
        }
        joined
    }
}

/// Finds the message with the call of an output.
struct Callers<'s> {
    steps: &'s Steps,
    body: &'s str,
    /// The newest message with each id, among those before `until`. Nearly all outputs follow their
    /// calls directly, so the map mostly stays empty.
    by_id: HashMap<Cow<'s, str>, usize>,
    until: usize,
}

impl<'s> Callers<'s> {
    fn new(steps: &'s Steps, body: &'s str, pinned: usize) -> Self {
        Self { steps, body, by_id: HashMap::new(), until: pinned }
    }

    /// Returns the newest message up to `at` that has a call with this id. `newest` is the newest with any
    /// call.
    fn caller(&mut self, newest: usize, at: usize, id: Literal) -> Option<usize> {
        let id = id.decode(self.body);
        let calls = self.steps.messages.get(newest).map(|it| it.calls.len());
        if calls? <= MAX_PAIRWISE_CALLS && self.ids(newest).any(|known| known == id) {
            return Some(newest);
        }
        self.of_id(at, &id)
    }

    /// Returns the newest message up to `at` that has a call with this id.
    fn of_id(&mut self, at: usize, id: &str) -> Option<usize> {
        for message in self.until..=at {
            let ids = self.ids(message).map(|id| (id, message));
            self.by_id.extend(ids);
        }
        self.until = at + 1;
        self.by_id.get(id).copied()
    }

    fn ids(&self, message: usize) -> impl Iterator<Item = Cow<'s, str>> + use<'s> {
        let (steps, body) = (self.steps, self.body);
        let calls = steps.messages.get(message).map(|it| it.calls.clone());
        let calls = calls.and_then(|calls| steps.source.calls.get(calls));
        let ids = calls.unwrap_or_default().iter().filter_map(|call| call.id);
        ids.map(|id| id.decode(body))
    }
}

/// Whether an item is tied to items whose extent the request does not show.
fn is_bound(binding: NeighbourLink) -> bool {
    use NeighbourLink::{Reasoning, Reference, Unknown};
    matches!(binding, Reasoning | Reference | Unknown)
}

/// Type of the items that call tools by themselves.
const PROGRAM: &str = "program";
/// Type of the calls.
const CALL: &str = "local_shell_call";

/// Gives each output that names its call by the item `id` alone the `call_id` of the newest such call before
/// it. Leaves every other output as it is.
fn pair_by_item_id(body: &str, items: &mut Pieces) {
    let is_by_item_id = |it: &Message| {
        it.role == Role::Tool && it.tool_call_id.is_some_and(|id| is_item_id(body, id))
    };
    let Some(last) = items.messages.iter().rposition(is_by_item_id) else {
        return;
    };
    let mut call_ids = HashSet::new();
    let mut by_item_id = HashMap::new();
    for at in 0..=last {
        let Some(message) = items.messages.get_mut(at) else {
            return;
        };
        let calls = items.calls.get(message.calls.clone()).unwrap_or_default();
        for call in calls {
            // A call without a name is called by its type.
            let is_local = call.name.is_some_and(|name| name.raw(body) == CALL);
            let item_id = is_local.then(|| item_id(body, message)).flatten();
            if let Some(id) = call.id {
                call_ids.insert(id.decode(body));
                by_item_id.extend(item_id.map(|item_id| (item_id.decode(body), id)));
            }
        }
        let named = message.tool_call_id.filter(|_| is_by_item_id(message));
        let Some(named) = named.map(|id| id.decode(body)) else {
            continue;
        };
        if !call_ids.contains(&named)
            && let Some(&call_id) = by_item_id.get(&named)
        {
            message.tool_call_id = Some(call_id);
        }
    }
}

/// Whether `id` is the value of the key `id`.
fn is_item_id(body: &str, id: Literal) -> bool {
    let before = body.get(..id.span().start()).unwrap_or_default();
    let key = before.trim_end().strip_suffix(':').map(str::trim_end);
    key.is_some_and(|key| key.ends_with(r#""id""#))
}

/// Returns the item `id` of a call; `None` if it has none.
fn item_id(body: &str, call: &Message) -> Option<Literal> {
    let mut scanner = Scanner::new(body);
    scanner.advance(call.span.start()).ok()?;
    let mut seen = SeenKeys::default();
    let mut found = None;
    let read = scanner.object(|scanner, key| {
        match seen.next(scanner, key)? {
            Some(ItemKey::Id) => found = string_or_null(scanner)?,
            Some(_) | None => scanner.skip()?,
        }
        Ok::<(), Bypass>(())
    });
    read.ok()?;
    found
}

/// Counts the items of reasoning among the items of a step.
pub(in crate::dialect) fn reasoning_items(items: &str) -> usize {
    let items = ["[", items, "]"].concat();
    let has_type = |(key, value): (Cow<'_, str>, &str)| key == "type" && value == r#""reasoning""#;
    elements(&items).filter(|item| members(item).any(has_type)).count()
}

/// Returns every name below `item`, undecoded, at any depth. A parameter of a tool that is called
/// `name` adds none.
fn tool_names(item: &str) -> impl Iterator<Item = &str> {
    let values = values_after(item, "\"name\"");
    values.filter_map(|value| Some(value.strip_prefix('"')?.split_once('"')?.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_namespaces_and_their_tools() {
        let item = r#"{"tools":[{"type":"namespace","name" : "app","tools":[{"name":"update",
            "parameters":{"properties":{"name":{"type":"string"}}}}]}]}"#;
        assert_eq!(tool_names(item).collect::<Vec<_>>(), ["app", "update"]);
    }
}
