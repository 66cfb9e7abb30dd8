//! nc-o-report: the drops of a request on the response object, never as an error.

use serde_json::{Value, json};

use crate::binding::Mismatch;
use crate::record::DroppedReasoning;

/// Returns the word of the API for a mismatch. Only the word for a prefix was seen.
pub(crate) fn reason(mismatch: Mismatch) -> &'static str {
    match mismatch {
        Mismatch::Caller => "organization_mismatch",
        Mismatch::Model => "model_mismatch",
        Mismatch::Gap | Mismatch::Prefix => "prefix_mismatch",
    }
}

/// Returns the value of `input_transformations`; null without a drop.
pub(crate) fn transformations(dropped: &[DroppedReasoning]) -> Value {
    if dropped.is_empty() {
        return Value::Null;
    }
    dropped.iter().map(|it| json!({"id": it.id, "reason": it.reason})).collect()
}
