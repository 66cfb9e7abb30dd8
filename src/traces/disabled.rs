//! Types without values, in place of spans, for builds without the feature `otlp`.

use http::HeaderMap;
use serde_json::Value;

/// A span; cannot exist in this build.
#[derive(Debug)]
pub(super) enum TraceSpan {}

/// Parent context for the spans of upstream calls; cannot exist in this build.
#[derive(Clone, Debug)]
pub(crate) enum ParentContext {}

#[expect(clippy::needless_pass_by_ref_mut, reason = "spans are mutable in a build with `otlp`")]
impl TraceSpan {
    pub(super) fn start_request(_headers: &HeaderMap) -> Option<Self> {
        None
    }

    pub(super) fn start_call(parent: &ParentContext) -> Option<Self> {
        match *parent {}
    }

    pub(super) fn parent(&self) -> Option<ParentContext> {
        match *self {}
    }

    pub(super) fn set_name(&mut self, _name: String) {
        match *self {}
    }

    pub(super) fn set(&mut self, _key: &'static str, _value: impl Into<Value>) {
        match *self {}
    }

    pub(super) fn fail(&mut self) {
        match *self {}
    }
}
