//! Summary calls: their requests, the keys they use, and the conditions that end them.

mod ahead;
mod asked;
mod busy;
mod late;
mod leaving;
mod operator_reports;
mod slow;

use longhaul_mock_model::{Model, RequestKind, SeenRequest};

/// Returns the summary calls that a model has received.
fn calls(model: &Model) -> Vec<SeenRequest> {
    let mut seen = model.seen();
    seen.retain(|seen| seen.kind == RequestKind::Summary);
    seen
}
