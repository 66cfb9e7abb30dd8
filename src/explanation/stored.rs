//! Explanation of a request as it is kept for a while: numbers, and text only if it may be shown.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::config::Mode;
use crate::explanation::PlanCause;
use longhaul_core::conversation::Conversation;
use longhaul_core::dialect::bypass::Bypass;
use longhaul_core::planning::explanation::{ExplanationRow, RequestExplanation, call_subject};
use longhaul_core::planning::plan::Replacement;
use longhaul_core::planning::view::ForwardedView;
use longhaul_core::policy::Profile;
use longhaul_core::window::source::SourcedWindow;

/// Maximum rows of one stored explanation. The oldest changes of a longer one are left out.
const MAX_ROWS: usize = 400;
/// Maximum characters of each side of a stored change. Enough to recognise a result.
const MAX_TEXT_CHARS: usize = 2_000;
/// Maximum changes of one explanation that are stored with their text.
const MAX_TEXTS: usize = 50;

/// Settings and facts under which a request was planned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExplanationContext {
    pub(crate) mode: Mode,
    pub(crate) profile: Profile,
    /// Reason for forwarding the request unchanged, if it is.
    pub(crate) untouched: Option<Bypass>,
}

#[derive(Clone, Debug)]
pub(crate) struct StoredExplanation {
    pub(crate) context: ExplanationContext,
    pub(crate) window: SourcedWindow,
    pub(crate) cause: PlanCause,
    pub(crate) numbers: RequestExplanation,
    /// Number of the request that first changed the message, by message.
    pub(crate) since: BTreeMap<usize, u64>,
    /// Text of changed results before and after, by message. Empty unless text may be shown.
    pub(crate) texts: BTreeMap<usize, ChangedText>,
    /// Arguments that identify the calls of a message, by message. Empty unless text may be shown.
    pub(crate) subjects: BTreeMap<usize, Box<str>>,
    /// Beginning of the provider's text that stands for history. `None` unless text may be shown.
    pub(crate) block: Option<Box<str>>,
}

/// Beginning of a result before and after its change.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct ChangedText {
    pub(crate) before: Box<str>,
    pub(crate) after: Box<str>,
}

impl StoredExplanation {
    /// Stores `numbers` in little memory.
    pub(crate) fn new(
        context: ExplanationContext,
        window: SourcedWindow,
        cause: PlanCause,
        numbers: RequestExplanation,
    ) -> Self {
        let numbers = if context.untouched.is_some() { numbers.unchanged() } else { numbers };
        Self {
            context,
            window,
            cause,
            numbers: numbers.folded(true).limited_to(MAX_ROWS),
            since: BTreeMap::new(),
            texts: BTreeMap::new(),
            subjects: BTreeMap::new(),
            block: None,
        }
    }

    /// Adds the text of the newest changed results, which may be shown, and the arguments of calls.
    pub(crate) fn add_texts(&mut self, conversation: &Conversation<'_>, view: &ForwardedView) {
        let rows = self.numbers.rows.iter();
        let single = rows.filter(|row| row.through.is_none());
        self.subjects = single
            .filter_map(|row| Some((row.number, call_subject(conversation, row.number)?)))
            .collect();
        if self.context.untouched.is_some() {
            return;
        }
        let Some(replacements) = view.replacements(conversation) else {
            return;
        };
        self.block = replacements.iter().find_map(|cut| {
            let Replacement::Provider { item, .. } = cut else { return None };
            conversation.dialect().text_in_place(item).map(|text| beginning(&text))
        });
        let results = replacements.as_slice().iter().rev();
        let results = results.filter_map(|cut| match cut {
            Replacement::Result { at, text, .. } => Some((*at, text)),
            Replacement::Arguments { .. }
            | Replacement::History { .. }
            | Replacement::Image { .. }
            | Replacement::Output { .. }
            | Replacement::Provider { .. }
            | Replacement::Thinking { .. }
            | Replacement::Words { .. } => None,
        });
        self.texts = results
            .take(MAX_TEXTS)
            .filter_map(|(at, text)| {
                let message = conversation.message(at)?;
                let changed = ChangedText {
                    before: beginning(&conversation.text(message)),
                    after: beginning(text),
                };
                Some((at, changed))
            })
            .collect();
    }

    /// Notes which changes are new in the request number `number`, and since when the others stand.
    pub(crate) fn date_changes(&mut self, number: u64, previous: Option<&Self>) {
        let since =
            |at: &usize| previous.and_then(|explanation| explanation.since.get(at).copied());
        let changes = self.numbers.changes().map(|row| row.number);
        self.since = changes.map(|at| (at, since(&at).unwrap_or(number))).collect();
        // A change that stands is shown with the request that made it.
        self.texts.retain(|at, _| self.since.get(at) == Some(&number));
    }

    /// Drops all text of the conversation.
    pub(crate) fn forget_content(&mut self) {
        self.texts.clear();
        self.subjects.clear();
        self.block = None;
    }

    /// Returns a measure of the memory that the explanation takes: rows, and texts as rows.
    pub(crate) fn weight(&self) -> usize {
        let texts = self.texts.values();
        let chars: usize = texts.map(|text| text.before.len() + text.after.len()).sum();
        let subjects: usize = self.subjects.values().map(|subject| subject.len()).sum();
        let block = self.block.as_ref().map_or(0, |text| text.len());
        1 + self.numbers.rows.len() + (chars + subjects + block) / size_of::<ExplanationRow>()
    }
}

fn beginning(text: &str) -> Box<str> {
    match text.char_indices().nth(MAX_TEXT_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}
