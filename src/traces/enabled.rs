//! Spans recorded by OpenTelemetry's SDK, under the parent that a request names.

use std::sync::OnceLock;

use http::HeaderMap;
use opentelemetry::propagation::TextMapPropagator as _;
use opentelemetry::trace::{Span as _, SpanKind, Status, TraceContextExt as _, Tracer as _};
use opentelemetry::{Context, KeyValue};
use opentelemetry_http::HeaderExtractor;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{SdkTracer, Span as SdkSpan};
use serde_json::Value;

static TRACER: OnceLock<SdkTracer> = OnceLock::new();

/// Name of a span until its operation is known.
const UNKNOWN_NAME: &str = "HTTP";

/// Starts recording spans. A second call has no effect.
pub(crate) fn install_tracer(tracer: SdkTracer) {
    _ = TRACER.set(tracer);
}

/// A span in progress; ends on drop.
#[derive(Debug)]
pub(super) struct TraceSpan(SdkSpan);

/// Parent context for the spans of upstream calls.
#[derive(Clone, Debug)]
pub(crate) struct ParentContext(Context);

impl TraceSpan {
    /// Begins the span of a request with these headers; `None` if it is not recorded. An invalid parent in
    /// `traceparent` is ignored, and the request begins a new trace.
    pub(super) fn start_request(headers: &HeaderMap) -> Option<Self> {
        let tracer = TRACER.get()?;
        let parent = TraceContextPropagator::new()
            .extract_with_context(&Context::new(), &HeaderExtractor(headers));
        Self::begin(tracer, SpanKind::Server, &parent)
    }

    /// Begins the span of a call; `None` if it is not recorded.
    pub(super) fn start_call(parent: &ParentContext) -> Option<Self> {
        Self::begin(TRACER.get()?, SpanKind::Client, &parent.0)
    }

    fn begin(tracer: &SdkTracer, kind: SpanKind, parent: &Context) -> Option<Self> {
        let builder = tracer.span_builder(UNKNOWN_NAME).with_kind(kind);
        let span = tracer.build_with_context(builder, parent);
        span.is_recording().then(|| Self(span))
    }

    #[expect(clippy::unnecessary_wraps, reason = "no value exists in a build without `otlp`")]
    pub(super) fn parent(&self) -> Option<ParentContext> {
        let own = self.0.span_context().clone();
        Some(ParentContext(Context::new().with_remote_span_context(own)))
    }

    pub(super) fn set_name(&mut self, name: String) {
        self.0.update_name(name);
    }

    /// Sets an attribute, unless its value is null. Each key must be set at most once: the SDK keeps duplicates.
    pub(super) fn set(&mut self, key: &'static str, value: impl Into<Value>) {
        let value: opentelemetry::Value = match value.into() {
            Value::Bool(flag) => flag.into(),
            Value::Number(number) => number.as_i64().unwrap_or(i64::MAX).into(),
            Value::String(text) => text.into(),
            Value::Null | Value::Array(_) | Value::Object(_) => return,
        };
        self.0.set_attribute(KeyValue::new(key, value));
    }

    /// Marks the span as failed. The reason is in the attributes, so the status has no description.
    pub(super) fn fail(&mut self) {
        self.0.set_status(Status::error(""));
    }
}
