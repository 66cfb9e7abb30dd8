//! Summaries made only from the transcript in the request.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::options::SummaryBehaviour;
use crate::request::{ChatBody, is_head, role, text};

/// Beginnings of lines in a transcript.
const SPEAKERS: [&str; 4] = ["[User]:", "[Assistant]:", "[Tool Call]:", "[Tool Result]:"];
/// Words that identify a request for a summary.
const WORDS: [&str; 3] = ["summar", "compact", "condense"];
/// The prefix of tokens that count as facts.
const FACT: &str = "FACT-";
/// The maximum number of facts carried over.
const FACTS: usize = 64;
/// The maximum number of steps listed.
const STEPS: usize = 6;
/// The maximum number of files listed.
const FILES: usize = 8;
/// The maximum length of a quoted line, in bytes.
const LINE: usize = 120;

/// Whether a request is for a summary. Such a request has no tools, a transcript in its last user
/// message, and one of [`WORDS`]. A last user message with `instruction`, if given, is sufficient.
pub(crate) fn is_summary_request(chat: &ChatBody, instruction: Option<&str>) -> bool {
    let Some(last) = chat.messages().last().filter(|message| role(message) == "user") else {
        return false;
    };
    let last = text(last);
    if instruction.is_some_and(|words| last.contains(words)) {
        return true;
    }
    let spoken = last.lines().any(|line| SPEAKERS.iter().any(|speaker| line.starts_with(speaker)));
    let wanted = |text: &str| {
        let text = text.to_lowercase();
        WORDS.iter().any(|word| text.contains(word))
    };
    let asked = || {
        let heads = chat.messages().iter().filter(|m| is_head(m));
        let heads = heads.map(text);
        let system = chat.system().as_str().map(str::to_owned);
        heads.chain(system).any(|head| wanted(&head))
    };
    chat.tools().is_empty() && spoken && (asked() || wanted(&last))
}

/// The content that the summariser extracts.
struct SummaryTranscript {
    goal: String,
    steps: Vec<String>,
    facts: BTreeSet<String>,
    files: BTreeSet<String>,
}

impl SummaryTranscript {
    fn from_chat(chat: &ChatBody) -> Self {
        // If the request repeats the live conversation, that conversation is the transcript.
        let all: Vec<String> = chat.turns().iter().map(text).collect();
        let all = all.join("\n");
        // Takes a heading from an earlier summary only: a template has a placeholder under its
        // heading.
        let headed = all.split("## Goal\n").skip(1).filter_map(|behind| behind.lines().next());
        let written = |line: &&str| !line.is_empty() && !line.starts_with(['[', '<', '(', '{']);
        let asked = || all.lines().find_map(|line| line.strip_prefix("[User]:"));
        let goal = headed.into_iter().find(written).or_else(asked).map(clipped);
        let steps = all.lines().filter_map(|line| line.strip_prefix("[Assistant]:")).map(clipped);
        let mut steps: Vec<String> = steps.filter(|step| !step.is_empty()).collect();
        let older = steps.len().saturating_sub(STEPS);
        steps.drain(..older);
        Self {
            goal: goal.unwrap_or_else(|| "Continue the conversation".to_owned()),
            steps,
            facts: facts(&all).take(FACTS).collect(),
            files: files(&all).take(FILES).collect(),
        }
    }
}

/// Writes a summary of at most `bytes` bytes. Steps and files are cut first, facts never.
pub(crate) fn write(chat: &ChatBody, conduct: SummaryBehaviour, bytes: usize) -> String {
    let mut transcript = SummaryTranscript::from_chat(chat);
    if conduct == SummaryBehaviour::Forgetful {
        transcript.facts.clear();
        transcript.steps.clear();
        "Continue".clone_into(&mut transcript.goal);
    }
    if conduct == SummaryBehaviour::None {
        let nothing = SummaryTranscript {
            goal: "(none)".to_owned(),
            steps: Vec::new(),
            facts: BTreeSet::new(),
            files: BTreeSet::new(),
        };
        return fill_template(&nothing, "(none)");
    }
    loop {
        let text = fill_template(&transcript, "1. Go on where the conversation stops");
        if text.len() <= bytes {
            return text;
        }
        if !transcript.steps.is_empty() {
            transcript.steps.remove(0);
        } else if transcript.files.pop_last().is_none() {
            return text;
        }
    }
}

fn fill_template(transcript: &SummaryTranscript, next: &str) -> String {
    let done = lines(&transcript.steps, "- [x] ");
    let read = lines(&transcript.files, "- ");
    let facts = lines(&transcript.facts, "- ");
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = write!(
        text,
        "## Goal\n{}\n\n## Constraints & Preferences\n(none)\n\n## Progress\n### Done\n{done}\n\
         ### In Progress\n(none)\n### Blocked\n(none)\n\n## Key Decisions\n(none)\n\n\
         ## Next Steps\n{next}\n\n## Files Touched\n### Read\n{read}\n### Modified\n(none)\n\n\
         ## Critical Context\n{facts}\n",
        transcript.goal,
    );
    text
}

fn lines<'a>(items: impl IntoIterator<Item = &'a String>, bullet: &str) -> String {
    let lines: Vec<String> = items.into_iter().map(|item| format!("{bullet}{item}")).collect();
    if lines.is_empty() { "(none)".to_owned() } else { lines.join("\n") }
}

fn clipped(line: &str) -> String {
    let line = line.trim();
    line.get(..line.floor_char_boundary(LINE)).unwrap_or(line).to_owned()
}

/// Returns every token that begins with [`FACT`] once, in order of first appearance.
pub(crate) fn facts(text: &str) -> impl Iterator<Item = String> {
    let end = |rest: &str| rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
    let mut known = BTreeSet::new();
    text.split(FACT).skip(1).filter_map(move |rest| {
        let fact = format!("{FACT}{}", rest.get(..end(rest))?);
        (fact.len() > FACT.len() && known.insert(fact.clone())).then_some(fact)
    })
}

/// Returns the paths of tool calls.
fn files(text: &str) -> impl Iterator<Item = String> {
    let calls = text.lines().filter(|line| line.starts_with("[Tool Call]:"));
    let paths = calls.flat_map(|line| line.split("path=\"").skip(1));
    paths.filter_map(|rest| Some(clipped(rest.split_once('"')?.0)))
}

#[cfg(test)]
mod tests;
