//! Having summaries written: what the summariser is sent, by whom it is paid, and what ends it.

mod ahead;
mod asked;
mod busy;
mod late;
mod leaving;
mod slow;
mod told;

use longhaul::demo::{Model, RequestKind, SeenRequest};

/// The calls for summaries that a model has seen.
fn calls(model: &Model) -> Vec<SeenRequest> {
    let mut seen = model.seen();
    seen.retain(|seen| seen.kind == RequestKind::Summary);
    seen
}
