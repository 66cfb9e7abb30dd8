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

pub(crate) use attempt::{Asks, CallSpan, Errand, NO_ANSWER, Origin};
#[cfg(feature = "otlp")]
pub(crate) use recorded::{Parent, record_by};
pub(crate) use request::Trace;
#[cfg(not(feature = "otlp"))]
pub(crate) use unrecorded::Parent;

#[cfg(feature = "otlp")]
use recorded::{Kept, Span};
#[cfg(not(feature = "otlp"))]
use unrecorded::{Kept, Span};

/// Bytes of a model's name. The client says it, and what is longer than any name there is is none.
const MODEL_BYTES: usize = 128;

/// What an attribute says.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(
    not(feature = "otlp"),
    expect(dead_code, reason = "of what is not recorded nothing is read")
)]
pub(crate) enum Value<'v> {
    /// Yes or no.
    Flag(bool),
    /// It is not known: the attribute is left out.
    Nothing,
    /// How many.
    Number(u64),
    /// A word or a name.
    Text(&'v str),
}

impl From<bool> for Value<'_> {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

impl From<u16> for Value<'_> {
    fn from(number: u16) -> Self {
        Self::Number(number.into())
    }
}

impl From<u32> for Value<'_> {
    fn from(number: u32) -> Self {
        Self::Number(number.into())
    }
}

impl From<u64> for Value<'_> {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<usize> for Value<'_> {
    fn from(number: usize) -> Self {
        Self::Number(number as u64)
    }
}

impl<'v> From<&'v str> for Value<'v> {
    fn from(text: &'v str) -> Self {
        Self::Text(text)
    }
}

impl<V: Into<Self>> From<Option<V>> for Value<'_> {
    fn from(value: Option<V>) -> Self {
        value.map_or(Self::Nothing, Into::into)
    }
}

/// The model's name, if it may be one.
pub(crate) fn named(model: &str) -> Option<&str> {
    (!model.is_empty() && model.len() <= MODEL_BYTES).then_some(model)
}
