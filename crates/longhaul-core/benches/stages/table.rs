//! The figures of a body as a Markdown table, ratios first.

use crate::bodies::Body;
use crate::stage::Stage;
use std::fmt::Write as _;
use std::time::Duration;

/// Measurements of a stage.
pub(crate) struct Row {
    pub(crate) stage: Stage,
    pub(crate) time: Duration,
    pub(crate) instructions: Option<u64>,
}

/// Renders the table; every figure is relative to that of `serde_json`.
pub(crate) fn render(body: &Body, rows: &[Row]) -> String {
    let yardstick = rows.iter().find(|row| row.stage == Stage::RawValues);
    let mut text = format!(
        "{} ({} bytes, {} messages)\n\n\
         | stage | × serde instructions | × serde time | instructions | a byte | µs | MB/s |\n\
         |---|--:|--:|--:|--:|--:|--:|\n",
        body.name,
        body.bytes.len(),
        body.messages,
    );
    for row in rows {
        _ = writeln!(text, "{}", line(body, row, yardstick));
    }
    text
}

#[expect(clippy::cast_precision_loss, reason = "figures are shown with three digits")]
fn line(body: &Body, row: &Row, yardstick: Option<&Row>) -> String {
    let bytes = body.bytes.len() as f64;
    let seconds = row.time.as_secs_f64();
    let count = row.instructions.map(|count| count as f64);
    let serde_count = yardstick.and_then(|serde| serde.instructions);
    let ratio = count.zip(serde_count).map(|(ours, serde)| ours / serde as f64);
    let time = yardstick.map(|serde| seconds / serde.time.as_secs_f64());
    let or_dash = |figure: Option<f64>, digits: usize| {
        figure.map_or_else(|| "–".to_owned(), |figure| format!("{figure:.digits$}"))
    };
    format!(
        "| {} | {} | {} | {} | {} | {:.1} | {:.0} |",
        row.stage.name(),
        or_dash(ratio, 2),
        or_dash(time, 2),
        or_dash(count, 0),
        or_dash(count.map(|count| count / bytes), 2),
        seconds * 1e6,
        bytes / seconds / 1e6,
    )
}
