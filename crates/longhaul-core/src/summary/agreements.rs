//! Section of decisions that the user approved, rules in files of the workspace, and reasons of rejected
//! calls.

use crate::clients::{self, ResultWords};
use crate::conversation::rule_files::RuleFiles;
use crate::conversation::tool_arguments::{DecodedCalls, ToolArguments};
use crate::conversation::{Conversation, Message, Role, ToolCall};
use crate::policy::{KeptText, StandingWords};
use crate::summary::steps::StepRenderer;
use crate::summary::user_messages::{self, rendered_chars, user_text};
use crate::text::labels::escape_labels;
use crate::text::wording;
use crate::units::tokens::Tokens;
use crate::user_words::{approves, has_rule_mark, proposal, sentences};
use std::borrow::Cow;
use std::collections::HashSet;

/// The section's heading.
pub(crate) const HEADING: &str = "## Agreements, Rules and Rejections";

/// Label of a proposal or a plan that the user approved.
const AGREED: &str = "Agreed";
/// Label of the rules of a file, before the file's path.
const RULES: &str = "Rules, ";
/// Label of the rules of a skill, before the skill's name.
const SKILL: &str = "Skill";
/// Label of a call that the user rejected.
const REJECTED: &str = "Rejected call";
/// Labels of a text that a person, or the agent, wants to stay.
const KEPT: &str = "Kept";
const KEPT_BY_AGENT: &str = "Kept, by the agent's wish";
/// Label of the entries that are left out.
const LEFT_OUT: &str = "Agreed, left out";
/// Characters reserved for the count of entries that are left out.
const LEFT_OUT_CHARS: usize = 48;
/// Rank of the entries that get room last.
const LAST_RANK: usize = 3;
/// Part of the budget, as a divisor, that the rules of skills may fill. The agent can load a skill again.
const SKILLS_SHARE: usize = 3;
/// Maximum characters of a rule of a file.
const MAX_RULE_CHARS: usize = 600;
/// Maximum bytes of the mark of a list item, with its indentation.
const MAX_MARK_BYTES: usize = 16;
/// Maximum characters of a call's argument.
const MAX_ARGUMENT_CHARS: usize = 100;
/// Maximum characters of the words by which the user approved.
const MAX_APPROVAL_CHARS: usize = 100;

/// An entry of the section.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Agreement {
    label: String,
    text: String,
}

/// Renders the section for the messages of `calls`, at most `budget` tokens. Sentences that stand in
/// `present` are not repeated. Empty without entries.
pub(crate) fn render_agreements(
    calls: &DecodedCalls<'_, '_>,
    words: &StandingWords,
    present: &str,
    budget: Tokens,
) -> String {
    let conversation = calls.conversation;
    let files = &RuleFiles::new(&words.rule_files);
    let of = conversation.messages().get(calls.messages.clone());
    let mut entries: Vec<Agreement> = words.kept.iter().map(kept_entry).collect();
    for (message, at) in of.unwrap_or_default().iter().zip(calls.messages.clone()) {
        if message.role.is_user() {
            entries.extend(approved_proposal(conversation, at, message));
            let text = conversation.text(message);
            let skill = clients::loaded_skill(&text);
            entries.extend(skill.and_then(|skill| rules(SKILL.to_owned(), skill)));
        }
        for (number, (call, arguments)) in calls.of(message).enumerate() {
            let result = conversation.result_of(at, number);
            entries
                .extend(result.and_then(|result| of_call(calls, files, call, &arguments, result)));
        }
    }
    render(entries, present, budget)
}

/// Merges rendered sections, oldest first, each without its heading. A text that was kept stays if it is
/// still among `kept`.
pub(crate) fn merge_agreements(sections: &[&str], kept: &[KeptText], budget: Tokens) -> String {
    let kept: HashSet<String> = kept.iter().map(|kept| kept_entry(kept).text).collect();
    let entries = sections.iter().flat_map(|section| {
        let entries = section.split("\n\n[").skip(1);
        entries.filter_map(|entry| entry.split_once("]: "))
    });
    let entries = entries.filter(|(label, text)| match *label {
        KEPT | KEPT_BY_AGENT => kept.contains(*text),
        label => label != LEFT_OUT,
    });
    let entries =
        entries.map(|(label, text)| Agreement { label: label.to_owned(), text: text.to_owned() });
    render(entries.collect(), "", budget)
}

/// Counts the entries that the sections of a replacement text leave out.
pub(crate) fn left_out_agreements(text: &str) -> usize {
    let start = ["\n\n[", LEFT_OUT, "]: "].concat();
    let counts = text.split(&*start).skip(1);
    let counts = counts.filter_map(|rest| rest.split(' ').next()?.parse::<usize>().ok());
    counts.fold(0, usize::saturating_add)
}

/// Returns the proposal before a message by which the user approves it.
fn approved_proposal(
    conversation: &Conversation<'_>,
    at: usize,
    message: &Message,
) -> Option<Agreement> {
    let words = user_text(conversation, message).filter(|words| approves(words))?;
    let before = conversation.message(at.checked_sub(1)?)?;
    if before.role != Role::Assistant {
        return None;
    }
    let text = conversation.text(before);
    let proposed = proposal(&text);
    let words = wording::one_line(&words, MAX_APPROVAL_CHARS);
    let text = format!("{} (The user: \"{}\")", proposed.join("\n"), words.replace('"', "'"));
    (!proposed.is_empty()).then(|| entry(AGREED, &text))
}

/// Returns what the result of a call adds: an approved plan, the rules of a file, or a rejection.
fn of_call(
    calls: &DecodedCalls<'_, '_>,
    files: &RuleFiles<'_>,
    call: &ToolCall,
    arguments: &ToolArguments,
    result: &Message,
) -> Option<Agreement> {
    let conversation = calls.conversation;
    let tool = call.decoded_name(conversation);
    let skill = || {
        let name = arguments.primary();
        let name = name.map(|name| wording::one_line(name, MAX_ARGUMENT_CHARS));
        let name = name.filter(|_| clients::loads_skill(&tool, arguments.path()))?;
        Some(format!("{SKILL}, {name}"))
    };
    let raw = call.arguments.map(|it| it.raw(conversation.body()));
    let may_read =
        raw.is_some_and(|raw| RuleFiles::may_name_usual(raw) || files.may_name_added(raw));
    let file = || files.label(conversation, &tool, arguments);
    let file = may_read.then(file).flatten();
    let file = file.map(|file| [RULES, &file].concat());
    if let Some(label) = file.or_else(skill) {
        let text = conversation.text(result);
        return rules(label, &clients::file_text(&text));
    }
    let speaks = clients::answers_user(&tool);
    if !speaks && !conversation.may_be_rejected(result) {
        return None;
    }
    let text = conversation.text(result);
    let plan = arguments.plan();
    match clients::in_result(&tool, plan, &text)? {
        ResultWords::Approved(edited) => {
            Some(entry(AGREED, &edited.or_else(|| plan.map(Cow::Borrowed))?))
        }
        ResultWords::Rejected(reason) if !speaks => {
            let renderer = StepRenderer::without_root(calls);
            let call = renderer.call(call, arguments, MAX_ARGUMENT_CHARS);
            Some(entry(REJECTED, &format!("{call}: \"{reason}\"")))
        }
        ResultWords::Answer(_) | ResultWords::Rejected(_) => None,
    }
}

/// Returns an entry whose text reads as no line of longhaul's.
fn entry(label: &str, text: &str) -> Agreement {
    Agreement { label: label.to_owned(), text: escape_labels(text.trim().into()).into_owned() }
}

/// Returns the entry of a text that stays. No line of the text begins like an entry.
fn kept_entry(kept: &KeptText) -> Agreement {
    let lines: Vec<&str> = kept.text.trim().lines().collect();
    let text = lines.join("\n").replace("\n[", "\n  [");
    entry(if kept.by_agent { KEPT_BY_AGENT } else { KEPT }, &text)
}

/// Returns the sentences of a file with marks of a rule, a line each. Items of a list, and rows of a
/// table, are rules in a file of rules; in a skill, they are steps as often.
fn rules(label: String, text: &str) -> Option<Agreement> {
    let all = sentences(text);
    let lists_rules = !label.starts_with(SKILL);
    let is_rule = |sentence: &&&str| {
        let is_heading = sentence.starts_with('#') || line_before(text, sentence).starts_with('#');
        let is_row = sentence.starts_with('|') && !lists_rules;
        let is_item = || lists_rules && is_list_item(text, sentence);
        !is_heading && !is_row && (has_rule_mark(sentence) || is_item())
    };
    let lines = all.iter().filter(is_rule);
    let lines = lines.map(|rule| wording::one_line(rule, MAX_RULE_CHARS));
    let lines: Vec<String> = lines.collect();
    (!lines.is_empty()).then(|| Agreement { label, text: ["\n- ", &lines.join("\n- ")].concat() })
}

/// Returns the part of its line in `text` that stands before a sentence.
fn line_before<'t>(text: &'t str, sentence: &str) -> &'t str {
    let start = sentence.as_ptr().addr() - text.as_ptr().addr();
    let before = text.get(..start).unwrap_or_default();
    before.rsplit('\n').next().unwrap_or_default().trim_start()
}

/// Whether a sentence of `text` begins an item of a list.
fn is_list_item(text: &str, sentence: &str) -> bool {
    let before = line_before(text, sentence);
    let line = if before.is_empty() { sentence } else { before };
    let number = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let is_numbered = number.len() < line.len() && number.starts_with(['.', ')']);
    // Only the first sentence of an item follows the mark directly.
    before.len() <= MAX_MARK_BYTES && (is_numbered || line.starts_with(['-', '*', '+', '•']))
}

impl Agreement {
    fn chars(&self) -> usize {
        rendered_chars(&self.text, &self.label)
    }

    /// Returns the order in which entries get room: rules of the workspace before what a skill adds.
    fn rank(&self) -> usize {
        match &*self.label {
            KEPT | KEPT_BY_AGENT | REJECTED => 0,
            AGREED => 2,
            label if label.starts_with(SKILL) => LAST_RANK,
            _ => 1,
        }
    }

    /// Returns the part of the entry that fits `room` characters: of rules those with marks first, of
    /// an agreement its rules and its ends. A kept text and a rejection stay whole.
    fn within(self, room: usize) -> Option<Self> {
        if self.chars() <= room {
            return Some(self);
        }
        let room = room.checked_sub(rendered_chars("", &self.label))?;
        let text = match self.rank() {
            0 => None,
            2 => user_messages::within(&self.text, room),
            _ => lines_within(&self.text, room),
        };
        Some(Self { text: text?, ..self })
    }
}

/// Returns the lines that fit `room` characters, in order: those with marks of a rule first.
fn lines_within(text: &str, mut room: usize) -> Option<String> {
    let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
    let mut kept = vec![false; lines.len()];
    for marked in [true, false] {
        for (line, kept) in lines.iter().zip(&mut kept) {
            let chars = line.chars().count() + 1;
            if has_rule_mark(line) == marked && chars <= room {
                (*kept, room) = (true, room - chars);
            }
        }
    }
    let lines = lines.iter().zip(kept).filter(|(_, kept)| *kept);
    let text: String = lines.flat_map(|(line, _)| ["\n", line]).collect();
    (!text.is_empty()).then_some(text)
}

/// Renders `entries`, in order, within `budget`. Lines that stand in `present` or in an earlier entry are not
/// repeated. One count stands for the entries that do not fit.
fn render(entries: Vec<Agreement>, present: &str, budget: Tokens) -> String {
    let mut met: HashSet<String> = HashSet::new();
    let fresh = entries.into_iter().filter_map(|entry| {
        if let KEPT | KEPT_BY_AGENT = &*entry.label {
            // The same words of another speaker may leave.
            let rendered = ["[", &entry.label, "]: ", &entry.text].concat();
            return (!present.contains(&rendered)).then_some(entry);
        }
        let lines = entry.text.lines();
        let fresh = lines.filter(|line| {
            let is_rule = line.starts_with("- ");
            !is_rule || !present.contains(*line) && met.insert((*line).to_owned())
        });
        let text = fresh.collect::<Vec<_>>().join("\n");
        let is_new = !text.trim().is_empty() && !present.contains(text.trim());
        is_new.then_some(Agreement { text, ..entry })
    });
    let mut fresh: Vec<Option<Agreement>> = fresh.map(Some).collect();
    let mut of_skills = budget.to_chars() / SKILLS_SHARE;
    for slot in fresh.iter_mut().rev() {
        if slot.as_ref().is_some_and(|entry| entry.rank() == LAST_RANK) {
            *slot = slot.take().and_then(|entry| entry.within(of_skills));
            of_skills -= slot.as_ref().map_or(0, Agreement::chars);
        }
    }
    let everything: usize = fresh.iter().flatten().map(Agreement::chars).sum();
    let Some(mut left) = budget.to_chars().checked_sub(HEADING.len()) else {
        return String::new();
    };
    let count = fresh.len();
    if everything > left {
        left = left.saturating_sub(LEFT_OUT_CHARS);
        for rank in 0..=LAST_RANK {
            for slot in fresh.iter_mut().rev() {
                if slot.as_ref().is_some_and(|entry| entry.rank() == rank) {
                    *slot = slot.take().and_then(|entry| entry.within(left));
                    left -= slot.as_ref().map_or(0, Agreement::chars);
                }
            }
        }
    }
    let kept: Vec<&Agreement> = fresh.iter().flatten().collect();
    if kept.is_empty() {
        return String::new();
    }
    let mut out = String::from(HEADING);
    if kept.len() < count {
        let left_out = (count - kept.len()).to_string();
        out.extend(["\n\n[", LEFT_OUT, "]: ", &left_out, " of this list"]);
    }
    for Agreement { label, text } in kept {
        out.extend(["\n\n[", label, "]: ", text]);
    }
    out
}

#[cfg(test)]
mod tests;
