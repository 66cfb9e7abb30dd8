//! Spans as OpenTelemetry's SDK records them, under the parent that a request names.

mod parent;

use std::ops::{Deref, DerefMut};
use std::sync::OnceLock;

use http::HeaderMap;
use opentelemetry::trace::{Span as _, SpanKind, Status, TraceContextExt as _, Tracer as _};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::trace::{SdkTracer, Span as SdkSpan};

use super::AttributeValue;

/// Who records this process's spans, if anyone does.
static TRACER: OnceLock<SdkTracer> = OnceLock::new();

/// What a span is called until it is known what it is of.
const UNKNOWN_NAME: &str = "HTTP";

/// Has spans recorded from here on. A second call changes nothing.
pub(crate) fn install_tracer(tracer: SdkTracer) {
    _ = TRACER.set(tracer);
}

/// A span under way; it ends when it is dropped.
#[derive(Debug)]
pub(super) struct TraceSpan(SdkSpan);

/// A place for what goes with a span as long as a reply streams: apart, for it is large, and few
/// requests may be recorded.
#[derive(Debug)]
pub(super) struct SpanBox<T>(Box<T>);

impl<T> SpanBox<T> {
    /// The value in its place.
    #[expect(
        clippy::unnecessary_wraps,
        reason = "there is no place in the other build"
    )]
    pub(super) fn new(value: T) -> Option<Self> {
        Some(Self(Box::new(value)))
    }
}

impl<T> Deref for SpanBox<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for SpanBox<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

/// What spans of calls stand under.
#[derive(Clone, Debug)]
pub(crate) struct ParentContext(Context);

impl TraceSpan {
    /// The span of a request with these headers; none where it is not recorded.
    pub(super) fn start_request(headers: &HeaderMap) -> Option<Self> {
        let tracer = TRACER.get()?;
        let named = parent::from_headers(headers);
        let context = named.map_or_else(Context::new, |parent| {
            Context::new().with_remote_span_context(parent)
        });
        Self::begin(tracer, SpanKind::Server, &context)
    }

    /// The span of a call; none where it is not recorded.
    pub(super) fn start_call(parent: &ParentContext) -> Option<Self> {
        Self::begin(TRACER.get()?, SpanKind::Client, &parent.0)
    }

    fn begin(tracer: &SdkTracer, kind: SpanKind, parent: &Context) -> Option<Self> {
        let builder = tracer.span_builder(UNKNOWN_NAME).with_kind(kind);
        let span = tracer.build_with_context(builder, parent);
        span.is_recording().then(|| Self(span))
    }

    /// What spans of calls stand under.
    #[expect(
        clippy::unnecessary_wraps,
        reason = "a value of it cannot be had in the other build"
    )]
    pub(super) fn parent(&self) -> Option<ParentContext> {
        let own = self.0.span_context().clone();
        Some(ParentContext(Context::new().with_remote_span_context(own)))
    }

    /// Says what it is of.
    pub(super) fn set_name(&mut self, name: String) {
        self.0.update_name(name);
    }

    /// Says something of it. Each thing is said once: the SDK keeps all that it is told.
    pub(super) fn set<'v>(&mut self, key: &'static str, value: impl Into<AttributeValue<'v>>) {
        let attribute = match value.into() {
            AttributeValue::Bool(flag) => KeyValue::new(key, flag),
            AttributeValue::Absent => return,
            AttributeValue::Number(number) => {
                KeyValue::new(key, i64::try_from(number).unwrap_or(i64::MAX))
            }
            AttributeValue::Text(text) => KeyValue::new(key, text.to_owned()),
        };
        self.0.set_attribute(attribute);
    }

    /// It did not go well. Why stands in its attributes: what could be said here in words is not.
    pub(super) fn fail(&mut self) {
        self.0.set_status(Status::error(""));
    }
}
