//! The figures of an evaluation: a table for a terminal, and JSON.

use std::fmt::Write as _;

use serde::Serialize;

use super::outcomes::{Sample, StepOutcome};
use super::samples::Choice;
use crate::evaluation::agent_step::{AgentStep, StepKind};
use crate::evaluation::likelihood::Likelihood;
use crate::evaluation::paired::{Conclusion, MARGIN, PairedCounts, PairedResult, Share};
use longhaul_console::amounts::short_usd;
use longhaul_console::printable::printable_name;
use longhaul_console::table::Table;
use longhaul_console::terminal::paragraph;
use longhaul_core::units::usd::Usd;

/// The result of a run.
#[derive(Debug, Serialize)]
pub(super) struct EvalReport {
    pub(super) model: String,
    pub(super) upstream: String,
    pub(super) sessions: usize,
    #[serde(flatten)]
    pub(super) choice: Choice,
    /// Calls for summaries that failed in this run, so that a digest replaced the history.
    pub(super) failed_summaries: usize,
    /// Cost of everything in the results file, in billionths of a dollar.
    pub(super) spent: Usd,
    /// Whether the run stopped at its limit of cost.
    pub(super) is_stopped_by_cost: bool,
    pub(super) arms: Vec<ArmReport>,
    pub(super) samples: Vec<Sample>,
}

/// The figures of one arm.
#[derive(Debug, Serialize)]
pub(super) struct ArmReport {
    pub(super) name: String,
    /// Agreement with the original step: the same kind, tools and main arguments.
    pub(super) same_step: Option<PairedResult>,
    /// Agreement of the tools alone.
    pub(super) same_tools: Option<PairedResult>,
    /// Agreement of the files alone.
    pub(super) same_files: Option<PairedResult>,
    /// Questions to the user.
    pub(super) questions: KindCounts,
    /// Refusals to go on.
    pub(super) refusals: KindCounts,
    /// Likelihood of the recorded steps, if they were scored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) likelihood: Option<Likelihood>,
    /// Requests without a pair, by the reason.
    #[serde(flatten)]
    pub(super) unpaired: Unpaired,
    /// The conclusion in words.
    pub(super) conclusion: String,
}

/// Steps of one kind among the pairs, by the history.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub(super) struct KindCounts {
    pub(super) original: u32,
    pub(super) control: u32,
    pub(super) forwarded: u32,
}

/// Requests without a pair of answers.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub(super) struct Unpaired {
    /// Only the history that longhaul forwards fits the model's window.
    pub(super) only_forwarded_fits: u32,
    /// Not even that history fits.
    pub(super) does_not_fit: u32,
    /// The arm does not change the request.
    pub(super) unchanged: u32,
    /// An answer ended before its text or call was complete.
    pub(super) cut_off: u32,
    /// The upstream failed.
    pub(super) failed: u32,
    /// A call was not made, because of the limit of cost.
    pub(super) not_made: u32,
}

impl ArmReport {
    /// Counts the outcomes of arm number `arm`.
    pub(super) fn new(name: &str, arm: usize, samples: &[Sample]) -> Self {
        let mut unpaired = Unpaired::default();
        let (mut steps, mut tools, mut files) =
            (PairedCounts::default(), PairedCounts::default(), PairedCounts::default());
        let (mut questions, mut refusals) = (KindCounts::default(), KindCounts::default());
        for sample in samples {
            let Some([original, control, forwarded]) = unpaired.pair(sample, arm) else {
                continue;
            };
            let treatment = original.compare(forwarded);
            let again = original.compare(control);
            steps.add(treatment.is_same_step(), again.is_same_step());
            tools.add(treatment.same_tools, again.same_tools);
            files.add(treatment.same_files, again.same_files);
            let all = [original, control, forwarded];
            questions.add(all, StepKind::Question);
            refusals.add(all, StepKind::Refusal);
        }
        let same_step = steps.result();
        let scores = samples.iter().filter_map(|sample| {
            let scores = [sample.arms.get(arm)?.step.score()?, sample.original.score()?];
            Some((&*sample.session, scores))
        });
        let likelihood = Likelihood::new(&scores.collect::<Vec<_>>());
        let told = likelihood.as_ref().map(likelihood_told);
        Self {
            name: name.to_owned(),
            conclusion: told.unwrap_or_else(|| conclusion(same_step.as_ref())),
            likelihood,
            same_step,
            same_tools: tools.result(),
            same_files: files.result(),
            questions,
            refusals,
            unpaired,
        }
    }
}

impl KindCounts {
    fn add(&mut self, [original, control, forwarded]: [&AgentStep; 3], kind: StepKind) {
        self.original += u32::from(original.kind == kind);
        self.control += u32::from(control.kind == kind);
        self.forwarded += u32::from(forwarded.kind == kind);
    }
}

impl EvalReport {
    /// Returns the reason why a call failed, if no call had an answer.
    pub(super) fn failure(&self) -> Option<&str> {
        let arms = self.samples.iter().flat_map(|sample| &sample.arms).map(|arm| &arm.step);
        let own = self.samples.iter().flat_map(|sample| [&sample.original, &sample.control]);
        let all: Vec<&StepOutcome> = own.chain(arms).collect();
        let failure = all.iter().find_map(|outcome| {
            if let StepOutcome::Failed { reason } = outcome { Some(&**reason) } else { None }
        });
        let is_answer = |it: &&StepOutcome| it.step().is_some() || it.score().is_some();
        failure.filter(|_| !all.iter().any(is_answer))
    }
}

impl Unpaired {
    /// Returns the three steps to compare, or counts the reason why some are missing.
    fn pair<'s>(&mut self, sample: &'s Sample, arm: usize) -> Option<[&'s AgentStep; 3]> {
        let forwarded = &sample.arms.get(arm)?.step;
        let all = [&sample.original, &sample.control, forwarded];
        let is = |test: fn(&StepOutcome) -> bool| all.iter().any(|outcome| test(outcome));
        let counter = if matches!(forwarded, StepOutcome::Unchanged) {
            &mut self.unchanged
        } else if is(|outcome| matches!(outcome, StepOutcome::NotSent)) {
            &mut self.not_made
        } else if is(|outcome| matches!(outcome, StepOutcome::Failed { .. })) {
            &mut self.failed
        } else if matches!(forwarded, StepOutcome::DoesNotFit) {
            &mut self.does_not_fit
        } else if is(|outcome| matches!(outcome, StepOutcome::DoesNotFit)) {
            &mut self.only_forwarded_fits
        } else {
            let steps = all.map(StepOutcome::step);
            let [Some(original), Some(control), Some(forwarded)] = steps else {
                return None;
            };
            let steps = [original, control, forwarded];
            if steps.iter().all(|step| step.kind != StepKind::CutOff) {
                return Some(steps);
            }
            &mut self.cut_off
        };
        *counter += 1;
        None
    }
}

/// Words the conclusion from the agreement of the steps.
fn conclusion(result: Option<&PairedResult>) -> String {
    let Some(result) = result else {
        return "no request has all its answers, so nothing can be said".to_owned();
    };
    let (difference, interval) = (points(result.difference.share), interval(result.difference));
    let margin = points(MARGIN);
    let margin = margin.trim_start_matches('+');
    match result.conclusion {
        Conclusion::Loss => format!(
            "the forwarded history changes the next step more often than asking twice does: \
             {difference} points, 95% interval {interval}"
        ),
        Conclusion::NoLargeLoss => format!(
            "a loss of {margin} points or more is excluded: {difference} points, 95% interval {interval}"
        ),
        Conclusion::TooFew { pairs_needed } => format!(
            "too few requests to say anything: {} pairs allow any difference from {interval} points; \
             about {pairs_needed} may be enough",
            result.pairs
        ),
    }
}

/// Words the likelihood of the recorded steps.
fn likelihood_told(found: &Likelihood) -> String {
    let signed = |nats| signed(nats, 3);
    let interval = found.interval.map_or_else(
        || "no interval for one session".to_owned(),
        |[low, high]| format!("95% interval {} to {}", signed(low), signed(high)),
    );
    let shown = found.tokens * 100 / found.whole_tokens.max(1);
    format!(
        "{} nats a token above the whole history, {interval}; {} recorded steps, {shown}% of the tokens",
        signed(found.loss),
        found.steps
    )
}

/// Formats a difference in percentage points, with its sign.
fn points(share: f64) -> String {
    signed((share * 100.0).round(), 0)
}

/// Formats a number with its sign. Zero is positive.
fn signed(number: f64, digits: usize) -> String {
    format!("{:+.digits$}", number + 0.0).replace('-', "−")
}

fn interval(share: Share) -> String {
    format!("{} to {}", points(share.low), points(share.high))
}

fn percent(share: f64) -> String {
    format!("{:.0}", (share * 100.0).round())
}

/// The headings of [`ArmReport::cells`].
pub(super) const HEADINGS: [&str; 9] = [
    "history",
    "pairs",
    "same step",
    "control",
    "difference",
    "95% interval",
    "same tools",
    "same files",
    "asks back",
];

/// The reasons that [`Unpaired`] counts, in its order.
const REASONS: &str = include_str!("unpaired.txt");

const LEGEND: &str = include_str!("legend.txt");

const SCORED_LEGEND: &str = include_str!("scored_legend.txt");

impl EvalReport {
    /// Renders the figures as a table, with the conclusions below, to fit `width` columns.
    pub(super) fn table(&self, width: Option<usize>) -> String {
        let mut page = self.head();
        page.push('\n');
        let mut table = Table::of_numbers(HEADINGS);
        for arm in &self.arms {
            table.push(arm.cells());
        }
        let is_scored = self.arms.iter().any(|arm| arm.likelihood.is_some());
        if !is_scored {
            page.push_str(&table.render(width));
            page.push('\n');
        }
        for arm in &self.arms {
            let told = format!("{}: {}", arm.name, arm.conclusion);
            page.push_str(&paragraph(&told, width));
            for note in arm.unpaired.notes() {
                page.push_str(&paragraph(&format!("{}: {note}", arm.name), width));
            }
        }
        page.push('\n');
        page.push_str(&paragraph(if is_scored { SCORED_LEGEND } else { LEGEND }, width));
        page
    }

    /// Returns the lines above the table.
    pub(super) fn head(&self) -> String {
        let mut head = format!(
            "{} at {}\nsessions {}, requests {}, changed by longhaul {}, evaluated {}",
            printable_name(&self.model),
            self.upstream,
            self.sessions,
            self.choice.requests,
            self.choice.changed,
            self.samples.len(),
        );
        // Writing to a String cannot fail.
        if self.choice.too_large > 0 {
            _ = write!(
                head,
                "\n{} of the changed requests do not fit the model's window as they came",
                self.choice.too_large
            );
        }
        if self.failed_summaries > 0 {
            _ = write!(
                head,
                "\n{} calls for summaries failed, and digests stand in",
                self.failed_summaries
            );
        }
        if self.spent > Usd::ZERO {
            _ = write!(head, "\ncost so far {}", short_usd(self.spent));
        }
        head.push('\n');
        if self.is_stopped_by_cost {
            head.push_str(
                "stopped: the next call might have exceeded --max-cost; run the command again with a \
                 higher limit to go on\n",
            );
        }
        head
    }
}

impl ArmReport {
    /// Returns the cells of the table.
    pub(super) fn cells(&self) -> [String; HEADINGS.len()] {
        let dash = || "–".to_owned();
        let both = |result: &Option<PairedResult>| {
            result.map_or_else(dash, |result| {
                let shares = [result.treatment.share, result.control.share].map(percent);
                format!("{}/{}%", shares[0], shares[1])
            })
        };
        let of_step =
            |cell: fn(&PairedResult) -> String| self.same_step.as_ref().map_or_else(dash, cell);
        [
            self.name.clone(),
            self.same_step.map_or_else(|| "0".to_owned(), |result| result.pairs.to_string()),
            of_step(|result| format!("{}%", percent(result.treatment.share))),
            of_step(|result| format!("{}%", percent(result.control.share))),
            of_step(|result| points(result.difference.share)),
            of_step(|result| interval(result.difference)),
            both(&self.same_tools),
            both(&self.same_files),
            format!("{}/{}", self.questions.forwarded, self.questions.control),
        ]
    }
}

impl Unpaired {
    /// Returns a note for each reason that occurred.
    pub(super) fn notes(self) -> Vec<String> {
        let counts = [
            self.only_forwarded_fits,
            self.does_not_fit,
            self.unchanged,
            self.cut_off,
            self.failed,
            self.not_made,
        ];
        let found = counts.into_iter().zip(REASONS.lines()).filter(|(count, _)| *count > 0);
        let noun = |count| if count == 1 { "request" } else { "requests" };
        found.map(|(count, why)| format!("{count} {}: {why}", noun(count))).collect()
    }
}

#[cfg(test)]
mod tests;
