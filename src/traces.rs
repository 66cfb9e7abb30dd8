//! Spans: what a request and the calls for it look like to whoever collects traces, by the
//! conventions of OpenTelemetry.
//!
//! Like the log, they are the process's: whoever starts it says where they go, if anywhere. A build
//! without the feature `otlp` has the same code around a span of which there can be none, and the
//! compiler leaves nothing of it.

mod attempt;
mod provider;
#[cfg(feature = "otlp")]
mod recorded;
mod request;
#[cfg(not(feature = "otlp"))]
mod unrecorded;

pub(crate) use attempt::{CallContext, CallPurpose, CallSpan, NO_ANSWER, Operation};
#[cfg(feature = "otlp")]
pub(crate) use recorded::{ParentContext, install_tracer};
pub(crate) use request::RequestTrace;
#[cfg(not(feature = "otlp"))]
pub(crate) use unrecorded::ParentContext;

#[cfg(feature = "otlp")]
use recorded::{SpanBox, TraceSpan};
#[cfg(not(feature = "otlp"))]
use unrecorded::{SpanBox, TraceSpan};

/// Bytes of a model's name. The client says it, and what is longer than any name there is is none.
const MAX_MODEL_BYTES: usize = 128;

/// What an attribute says.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(
    not(feature = "otlp"),
    expect(dead_code, reason = "of what is not recorded nothing is read")
)]
pub(crate) enum AttributeValue<'v> {
    /// Yes or no.
    Bool(bool),
    /// It is not known: the attribute is left out.
    Absent,
    /// How many.
    Number(u64),
    /// A word or a name.
    Text(&'v str),
}

impl From<bool> for AttributeValue<'_> {
    fn from(flag: bool) -> Self {
        Self::Bool(flag)
    }
}

impl From<u16> for AttributeValue<'_> {
    fn from(number: u16) -> Self {
        Self::Number(number.into())
    }
}

impl From<u32> for AttributeValue<'_> {
    fn from(number: u32) -> Self {
        Self::Number(number.into())
    }
}

impl From<u64> for AttributeValue<'_> {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<usize> for AttributeValue<'_> {
    fn from(number: usize) -> Self {
        Self::Number(number as u64)
    }
}

impl<'v> From<&'v str> for AttributeValue<'v> {
    fn from(text: &'v str) -> Self {
        Self::Text(text)
    }
}

impl<V: Into<Self>> From<Option<V>> for AttributeValue<'_> {
    fn from(value: Option<V>) -> Self {
        value.map_or(Self::Absent, Into::into)
    }
}

/// The model's name, if it may be one.
pub(crate) fn valid_model_name(model: &str) -> Option<&str> {
    (!model.is_empty() && model.len() <= MAX_MODEL_BYTES).then_some(model)
}
