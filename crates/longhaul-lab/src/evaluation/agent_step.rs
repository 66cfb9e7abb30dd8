//! The step that a model takes next, and the comparison of two steps.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::step_request::read_step;
use longhaul_core::conversation::tool_arguments::ToolArguments;
use longhaul_core::conversation::{Conversation, ToolCall};
use longhaul_core::dialect::Dialect;
use longhaul_core::dialect::reply::FinishReason;
use longhaul_core::summary::file_activity::for_each_modified;

/// Kind of a step.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum StepKind {
    /// The model calls tools.
    Calls,
    /// The output limit ended the reply before any text or call was complete.
    CutOff,
    /// The model asks the user a question.
    Question,
    /// The model declines to go on.
    Refusal,
    /// The model answers with another text.
    Text,
}

/// One tool call of a step.
#[derive(Clone, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub(crate) struct StepCall {
    /// The tool's name.
    pub(crate) tool: String,
    /// The argument that best identifies the call: a path, a command, a query. Empty if there is none.
    pub(crate) main_argument: String,
}

/// The step that a model takes in one reply.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct AgentStep {
    /// Kind of the step.
    pub(crate) kind: StepKind,
    /// Tool calls, in order.
    pub(crate) calls: Vec<StepCall>,
    /// Files that the calls name, in alphabetical order.
    pub(crate) files: BTreeSet<String>,
    /// The model's text, without its reasoning.
    pub(crate) text: String,
}

/// Properties that two steps share.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub(crate) struct StepComparison {
    /// Both are of one kind.
    pub(crate) same_kind: bool,
    /// Both call the same tools.
    pub(crate) same_tools: bool,
    /// Both call the same tools with the same main arguments.
    pub(crate) same_arguments: bool,
    /// Both name the same files.
    pub(crate) same_files: bool,
}

impl AgentStep {
    /// Reads the step of a whole reply. Returns `None` if the reply is not an answer.
    pub(crate) fn read(dialect: Dialect, reply: &[u8]) -> Option<Self> {
        let reply = read_step(dialect, reply)?;
        let conversation = dialect.read(reply.history.as_bytes()).ok()?;
        let messages = conversation.messages();
        let calls: Vec<&ToolCall> =
            messages.iter().flat_map(|message| conversation.calls(message)).collect();
        let texts = messages.iter().map(|message| conversation.text(message));
        let texts: Vec<_> = texts.filter(|text| !text.is_empty()).collect();
        let text = reply.refusal.clone().unwrap_or_else(|| texts.join("\n"));
        let is_cut = reply.finish == Some(FinishReason::Length);
        let kind = if reply.refusal.is_some() {
            StepKind::Refusal
        } else if is_cut && calls.last().is_some_and(|call| !is_complete(&conversation, call)) {
            StepKind::CutOff
        } else if !calls.is_empty() {
            StepKind::Calls
        } else if text.trim().is_empty() {
            StepKind::CutOff
        } else {
            kind_of_text(&text)
        };
        let mut files = BTreeSet::new();
        for_each_modified(&conversation, 0..messages.len(), |path| {
            files.insert(normalised(&path));
        });
        let calls = calls.into_iter().map(|call| StepCall::new(&conversation, call, &mut files));
        let step = Self { kind, calls: calls.collect(), text, files: BTreeSet::new() };
        Some(Self { files, ..step })
    }

    /// Compares the step with another one.
    ///
    /// Several calls are compared without their order: a model that reads two files may name either
    /// first. Words of texts are not compared.
    pub(crate) fn compare(&self, other: &Self) -> StepComparison {
        let tools = |step: &Self| -> BTreeSet<String> {
            let names = step.calls.iter().map(|call| call.tool.clone());
            names.collect()
        };
        let calls = |step: &Self| step.calls.iter().cloned().collect::<BTreeSet<_>>();
        StepComparison {
            same_kind: self.kind == other.kind,
            same_tools: tools(self) == tools(other),
            same_arguments: calls(self) == calls(other),
            same_files: self.files == other.files,
        }
    }
}

impl StepComparison {
    /// Whether both are the same step: of one kind, with the same tools and main arguments.
    pub(crate) fn is_same_step(self) -> bool {
        self.same_kind && self.same_arguments
    }
}

impl StepCall {
    /// Reads a call. Adds the file that it names to `files`.
    fn new(conversation: &Conversation<'_>, call: &ToolCall, files: &mut BTreeSet<String>) -> Self {
        let tool = call.name.map(|name| name.decode(conversation.body()).into_owned());
        let arguments = ToolArguments::decode(conversation, call);
        let command = arguments.command().unwrap_or_default();
        let printed = printed_files(&command).filter(|_| arguments.path().is_none());
        files.extend(arguments.path().into_iter().chain(printed).map(normalised));
        let main = arguments
            .path()
            .map(str::to_owned)
            .or_else(|| arguments.command().map(Cow::into_owned))
            .or_else(|| arguments.primary().map(str::to_owned));
        let main = main.unwrap_or_else(|| {
            let mut pairs: Vec<String> =
                arguments.pairs().map(|(name, value)| format!("{name}={value}")).collect();
            pairs.sort_unstable();
            let raw = call.arguments.map(|raw| raw.decode(conversation.body()));
            match raw {
                // The text of a tool without parameters is its argument, such as a patch.
                Some(raw) if pairs.is_empty() && raw.trim() != "{}" => raw.into_owned(),
                Some(_) | None => pairs.join(" "),
            }
        });
        Self { tool: tool.unwrap_or_default(), main_argument: normalised(&main) }
    }
}

/// Returns the files that the steps of a shell command print: words with an extension.
fn printed_files(command: &str) -> impl Iterator<Item = &str> {
    const PRINTERS: [&str; 7] = ["bat", "cat", "head", "less", "nl", "sed", "tail"];
    let steps = command.split(['|', ';', '&', '\n', '"', '\'']);
    steps.flat_map(|step| {
        let mut words = step.split_whitespace();
        let prints = words.next().is_some_and(|verb| PRINTERS.contains(&verb));
        let words = words.take_while(|word| !word.contains(['<', '>']));
        words.filter(move |word| {
            let ending = word.rsplit_once('.').map_or("", |(_, ending)| ending);
            let is_plain = !word.starts_with('-') && !word.contains(['*', '$', '(', '{', '=', ',']);
            let is_ending = |byte: u8| byte.is_ascii_alphanumeric();
            let has_ending = !ending.is_empty() && ending.bytes().all(is_ending);
            prints && is_plain && has_ending && word.contains(|c: char| c.is_ascii_alphabetic())
        })
    })
}

/// Whether the arguments of a call are whole. A cut-off reply ends within them.
fn is_complete(conversation: &Conversation<'_>, call: &ToolCall) -> bool {
    let Some(raw) = call.arguments else {
        return false;
    };
    let raw = raw.decode(conversation.body());
    serde_json::from_str::<serde::de::IgnoredAny>(&raw).is_ok()
}

/// Writes white space as single spaces, and paths without `./` at their start or `/` at their end.
fn normalised(argument: &str) -> String {
    let words: Vec<&str> = argument.split_whitespace().collect();
    let line = words.join(" ");
    let short = line.strip_prefix("./").unwrap_or(&line);
    let short = short.strip_suffix('/').unwrap_or(short);
    if short.is_empty() { line } else { short.to_owned() }
}

/// Beginnings of texts in which models decline, in lower case: English, German, Spanish, French,
/// Portuguese, Russian, Chinese, Japanese and Korean. The APIs' own marks of a refusal need no words.
const REFUSALS: &str = include_str!("agent_step/refusals.txt");

/// Marks that end a question: ASCII, Arabic, Armenian, Chinese and Japanese, Greek.
const QUESTION_MARKS: [char; 5] = ['?', '؟', '՞', '？', '\u{37e}'];

fn kind_of_text(text: &str) -> StepKind {
    let begin: String = text.trim_start().chars().take(40).collect();
    let begin = begin.to_lowercase().replace('’', "'");
    if REFUSALS.lines().any(|words| begin.starts_with(words)) {
        return StepKind::Refusal;
    }
    // Marks of emphasis and quotation may follow the question mark.
    let end = text.trim_end_matches(|letter: char| {
        letter.is_whitespace() || matches!(letter, '*' | '_' | '"' | ')' | '`' | '”')
    });
    if end.ends_with(QUESTION_MARKS) { StepKind::Question } else { StepKind::Text }
}
