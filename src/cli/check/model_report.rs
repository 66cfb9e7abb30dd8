//! One model's window, its sources, and the thresholds and the rule that follow.

use serde::Serialize;

use crate::cli::check::KEY_VARIABLE;
use crate::cli::model_window::ModelWindow;
use crate::config::{ChoiceSetting, Config};
use crate::explanation::cause::{clearing, folding};
use crate::learned::reported_windows::query::{QueryOutcome, WindowAnswer};
use longhaul_console::table::Table;
use longhaul_console::thousands::with_thousands;
use longhaul_core::planning::explanation::{MarkNumbers, RuleNumbers};
use longhaul_core::policy::OutputWindow;
use longhaul_core::units::tokens::Tokens;

/// The page of `longhaul check --model` as one value.
#[derive(Debug, Serialize)]
pub(in crate::cli) struct ModelReport {
    model: String,
    upstream: String,
    window: WindowSection,
    /// Names in the table that resemble an unlisted model's.
    near: Vec<&'static str>,
    /// The row of the table that applies, or why none does.
    table: String,
    /// The upstream's answer, in words.
    asked: String,
    /// Whether a default of the program or the profile stands for the window.
    #[serde(skip)]
    is_guess: bool,
    marks: MarkNumbers,
    rule: String,
}

/// The window, and whether a source names it.
#[derive(Debug, Serialize)]
struct WindowSection {
    tokens: u32,
    source: String,
    /// Whether the output has its own limit.
    separate_output: bool,
    /// Window that the upstream reports, in tokens; `None` if it was not queried or gave none.
    reported: Option<u32>,
    /// Whether a setting, the table or the upstream names the window.
    known: bool,
    /// Whether the upstream gave no usable answer to a query.
    asked_in_vain: bool,
}

impl ModelReport {
    /// Builds the report. `answer` is the upstream's answer and the message of its fault, if queried.
    pub(in crate::cli) fn new(
        config: &Config,
        model: &str,
        answer: Option<(QueryOutcome, Option<String>)>,
    ) -> Self {
        let (outcome, failure) = answer.unzip();
        let (reported, asked_in_vain) = match outcome.map(|outcome| outcome.answer) {
            Some(WindowAnswer::Window(tokens)) => (Some(tokens), false),
            Some(WindowAnswer::Failed | WindowAnswer::Unauthorized) => (None, true),
            Some(WindowAnswer::NoWindow) | None => (None, false),
        };
        let window = ModelWindow::for_model(config, model, reported);
        let policy = window.policy();
        let profile = config.settings_for(model).compaction.profile.name();
        let marks = &policy.thresholds;
        Self {
            model: model.to_owned(),
            upstream: config.upstream.base.to_string(),
            window: WindowSection {
                tokens: policy.prune_thresholds.window.get(),
                source: window.source(),
                separate_output: marks.output == OutputWindow::Separate,
                reported: reported.map(Tokens::get),
                known: !window.is_assumed() || reported.is_some(),
                asked_in_vain,
            },
            near: window.near_names(),
            table: window.table_match(),
            is_guess: window.is_assumed() || window.is_of_profile(),
            asked: describe_answer(config, model, outcome, failure.flatten()),
            marks: marks.into(),
            rule: format!(
                "profile {profile}: {}",
                clearing(RuleNumbers::of_policy(&policy).as_ref())
            ),
        }
    }

    /// Whether a source names the window, and the upstream answered if queried.
    pub(super) fn is_known(&self) -> bool {
        self.window.known && !self.window.asked_in_vain
    }

    /// Whether a source names the window, and the window with its source.
    pub(in crate::cli) fn window(&self) -> (bool, String) {
        let window = &self.window;
        let room = if window.separate_output { " of input; output has its own limit" } else { "" };
        let (tokens, source) = match window.reported {
            Some(reported) if self.is_guess => (reported, "as the upstream answers"),
            _ if window.known => (window.tokens, &*window.source),
            _ => (window.tokens, "assumed: state the window by --window"),
        };
        let [tokens, usable] = [tokens, self.marks.usable.get()].map(with_thousands);
        let text = format!("{tokens} tokens{room} ({source}), of which the reply leaves {usable}");
        (window.known, text)
    }

    /// Renders the report for people, to fit `width` columns.
    pub(super) fn page(&self, width: Option<usize>) -> String {
        let mut table = Table::of_names();
        let mut push = |name: &str, text: String| table.push([name.to_owned(), text]);
        push("model", format!("{} at {}", self.model, self.upstream));
        if !self.near.is_empty() {
            push("", format!("did you mean {}?", self.near.join(", ")));
        }
        push("window", self.window().1);
        push("source", self.table.clone());
        push("asked", self.asked.clone());
        push("history", folding(&self.marks));
        push("results", self.rule.clone());
        table.render(width)
    }
}

/// Describes the upstream's answer and its effect. `failure` is the message of the fault that prevented an
/// answer.
fn describe_answer(
    config: &Config,
    model: &str,
    outcome: Option<QueryOutcome>,
    failure: Option<String>,
) -> String {
    let answer = outcome.map(|outcome| outcome.answer);
    if let (Some(WindowAnswer::Failed), Some(failure)) = (answer, failure) {
        return failure;
    }
    let is_set = config.settings_for(model).configured_window().is_some();
    match answer {
        None if is_set => "not asked: the window is set".into(),
        None if !config.upstream.query_windows => "not asked: upstream.ask is off".into(),
        None => {
            "not asked for the window yet: --ask asks now, the proxy asks at the first chat".into()
        }
        Some(WindowAnswer::Window(tokens)) => {
            let effect = if is_set {
                "; the window that is set takes precedence"
            } else {
                ": used for the thresholds; the rule keeps to the window of the table, or the assumed one"
            };
            format!("{} tokens{effect}", with_thousands(tokens.get()))
        }
        Some(WindowAnswer::NoWindow) => "the upstream does not report a window".into(),
        Some(WindowAnswer::Unauthorized) => {
            format!(
                "the upstream refuses the credentials; {KEY_VARIABLE} goes to upstream.base alone"
            )
        }
        Some(WindowAnswer::Failed) => "the upstream gives no usable answer, or none in time".into(),
    }
}
