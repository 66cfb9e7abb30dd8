//! Having summaries written: what the summariser is sent, by whom it is paid, and what ends it.

mod ahead;
mod asked;
mod busy;
mod late;
mod leaving;
mod slow;
mod told;

use longhaul::demo::{Kind, Model, Seen};

/// The calls for summaries that a model has seen.
fn calls(model: &Model) -> Vec<Seen> {
    let mut seen = model.seen();
    seen.retain(|seen| seen.kind == Kind::Summary);
    seen
}
