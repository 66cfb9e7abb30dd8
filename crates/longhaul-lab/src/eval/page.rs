//! The page of disagreements: the requests, the steps that followed, and the changes by longhaul.
//!
//! The page is one file without scripts. Its policy allows nothing but its own style, and every text of a
//! session is escaped.

use std::fmt::Write as _;

use super::outcomes::{ArmOutcome, Sample, StepOutcome};
use super::report::{EvalReport, HEADINGS};
use crate::evaluation::agent_step::{AgentStep, StepKind};
use longhaul_console::printable::is_printable;

/// Maximum disagreements on a page.
const MAX_SHOWN: usize = 200;

/// The page's style.
const STYLE: &str = include_str!("page.css");
/// SHA-256 of [`STYLE`] in Base64, for the policy.
const STYLE_HASH: &str = "sT5yrzZySfL+xFEQsBXXTKcN29DOL5hpu22Ldi1BPaw=";

pub(super) fn render(report: &EvalReport) -> String {
    let (mut table, mut sections) = (String::new(), String::new());
    write_table(&mut table, report);
    let differing = report.samples.iter().filter(|sample| has_disagreement(sample));
    let all = differing.clone().count();
    for sample in differing.take(MAX_SHOWN) {
        write_sample(&mut sections, report, sample);
    }
    if all > MAX_SHOWN {
        _ = writeln!(sections, "<p>{} more are left out.</p>", all - MAX_SHOWN);
    }
    format!(
        include_str!("page.html"),
        hash = STYLE_HASH,
        style = STYLE,
        head = escaped(&report.head()),
        table = table,
        all = all,
        sections = sections
    )
}

fn write_table(page: &mut String, report: &EvalReport) {
    page.push_str("<table>\n<tr>");
    for heading in HEADINGS {
        _ = write!(page, "<th>{}</th>", escaped(heading));
    }
    page.push_str("</tr>\n");
    for arm in &report.arms {
        page.push_str("<tr>");
        for cell in arm.cells() {
            _ = write!(page, "<td>{}</td>", escaped(&cell));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</table>\n");
    for arm in &report.arms {
        let (name, told) = (escaped(&arm.name), escaped(&arm.conclusion));
        _ = writeln!(page, "<p><b>{name}</b>: {told}.</p>");
        for note in arm.unpaired.notes() {
            _ = writeln!(page, "<p><b>{name}</b>: {}.</p>", escaped(&note));
        }
    }
}

/// Whether the step of an arm differs from the original one.
fn has_disagreement(sample: &Sample) -> bool {
    sample.arms.iter().any(|arm| differs(sample, arm))
}

fn differs(sample: &Sample, arm: &ArmOutcome) -> bool {
    let steps = sample.original.step().zip(arm.step.step());
    steps.is_some_and(|(original, forwarded)| !original.compare(forwarded).is_same_step())
}

fn write_sample(page: &mut String, report: &EvalReport, sample: &Sample) {
    _ = writeln!(
        page,
        "<section>\n<h3>{}, request {}</h3>\n<details><summary>the last messages of the request</summary>",
        escaped(&sample.session),
        sample.request
    );
    for (role, text) in &sample.asked {
        _ = writeln!(
            page,
            "<p class=\"author\">{}</p>\n<pre>{}</pre>",
            escaped(role),
            escaped(text)
        );
    }
    page.push_str("</details>\n");
    write_step(page, "as it came", &sample.original, None);
    write_step(page, "control", &sample.control, sample.original.step());
    for (arm, outcome) in report.arms.iter().zip(&sample.arms) {
        write_step(page, &arm.name, &outcome.step, sample.original.step());
        if differs(sample, outcome) {
            write_changes(page, outcome);
        }
    }
    page.push_str("</section>\n");
}

fn write_step(page: &mut String, name: &str, outcome: &StepOutcome, original: Option<&AgentStep>) {
    let agreement = match (outcome.step(), original) {
        (Some(step), Some(original)) => agreement(original, step),
        (Some(_) | None, _) => "",
    };
    _ = writeln!(
        page,
        "<h4>{}{agreement}</h4>\n<pre>{}</pre>",
        escaped(name),
        escaped(&step_text(outcome))
    );
}

/// Names the differences, the most telling first.
fn agreement(original: &AgentStep, step: &AgentStep) -> &'static str {
    let shared = original.compare(step);
    if shared.is_same_step() {
        ": same step"
    } else if !shared.same_kind {
        ": <em>another kind of step</em>"
    } else if !shared.same_tools {
        ": <em>another tool</em>"
    } else if !shared.same_files {
        ": <em>another file</em>"
    } else {
        ": <em>another argument</em>"
    }
}

fn step_text(outcome: &StepOutcome) -> String {
    let step = match outcome {
        StepOutcome::Step(step) => step,
        StepOutcome::DoesNotFit => return "(does not fit the model's window)".to_owned(),
        StepOutcome::Failed { reason } => return format!("(failed: {reason})"),
        StepOutcome::NotSent => return "(not asked)".to_owned(),
        StepOutcome::Scored(_) => return "(scored)".to_owned(),
        StepOutcome::Unchanged => return "(forwarded as it came)".to_owned(),
    };
    let kind = match step.kind {
        StepKind::Calls => "",
        StepKind::CutOff => "(cut off)\n",
        StepKind::Question => "(asks the user)\n",
        StepKind::Refusal => "(refuses)\n",
        StepKind::Text => "(answers)\n",
    };
    let mut text = format!("{kind}{}", step.text);
    for call in &step.calls {
        if !text.is_empty() {
            text.push('\n');
        }
        _ = write!(text, "→ {} {}", call.tool, call.main_argument);
    }
    text
}

fn write_changes(page: &mut String, outcome: &ArmOutcome) {
    _ = writeln!(
        page,
        "<details><summary>messages that longhaul had changed: {}</summary>",
        outcome.changes
    );
    for change in &outcome.shown_changes {
        let place = match change.messages {
            0 => format!("before message {}", change.first),
            1 => format!("message {}, {}", change.first, change.role),
            count => format!("messages {} to {}", change.first, change.first + count - 1),
        };
        _ = writeln!(
            page,
            "<p class=\"author\">{}: about {} tokens became {}</p>\n<pre>{}</pre>",
            escaped(&place),
            change.tokens_before,
            change.tokens_after,
            escaped(&change.text)
        );
    }
    page.push_str("</details>\n");
}

/// Escapes a text for HTML. Control characters and characters that change the direction of text become
/// U+FFFD, so that no text can hide or reorder another.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len() + text.len() / 16);
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            '\n' | '\t' => safe.push(letter),
            _ if is_printable(letter) => safe.push(letter),
            _ => safe.push('\u{fffd}'),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_becomes_markup() {
        let hostile = "</pre><script>alert(1)</script>\u{202e}\u{1b}[2J&lt;'\"";
        assert_eq!(
            escaped(hostile),
            "&lt;/pre&gt;&lt;script&gt;alert(1)&lt;/script&gt;\u{fffd}\u{fffd}[2J&amp;lt;&#39;&quot;"
        );
    }

    #[test]
    fn the_policy_names_the_hash_of_the_style() {
        const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let digest = ring::digest::digest(&ring::digest::SHA256, STYLE.as_bytes());
        let encoded: String = digest
            .as_ref()
            .chunks(3)
            .map(|chunk| {
                let byte = |at: usize| chunk.get(at).copied().unwrap_or_default();
                let bits = u32::from_be_bytes([0, byte(0), byte(1), byte(2)]);
                (0..4)
                    .map(|place| {
                        if place > chunk.len() {
                            return '=';
                        }
                        char::from(LETTERS[(bits >> (18 - 6 * place)) as usize & 63])
                    })
                    .collect::<String>()
            })
            .collect();
        assert_eq!(encoded, STYLE_HASH);
    }
}
