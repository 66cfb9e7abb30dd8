//! OpenTelemetry spans of requests and of the upstream calls made for them, following the semantic
//! conventions.
//!
//! Like the log, traces belong to the process, and the operator configures the exporter, if any.
//! Without the feature `otlp`, the span type has no values, so no request has a trace.

pub(crate) mod call_span;
#[cfg(not(feature = "otlp"))]
mod disabled;
#[cfg(feature = "otlp")]
mod enabled;
pub(crate) mod request_trace;

pub(crate) use call_span::{CallContext, CallSpan, NO_ANSWER, Operation};
#[cfg(not(feature = "otlp"))]
pub(crate) use disabled::ParentContext;
#[cfg(feature = "otlp")]
pub(crate) use enabled::{ParentContext, install_tracer};
pub(crate) use request_trace::RequestTrace;

#[cfg(not(feature = "otlp"))]
use disabled::TraceSpan;
#[cfg(feature = "otlp")]
use enabled::TraceSpan;

/// Maximum bytes of a model's name. Clients choose the name, and no real name is longer.
const MAX_MODEL_BYTES: usize = 128;

/// Returns the model's name, if it is plausible.
pub(crate) fn valid_model_name(model: &str) -> Option<&str> {
    (!model.is_empty() && model.len() <= MAX_MODEL_BYTES).then_some(model)
}
