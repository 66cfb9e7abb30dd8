//! Spans where the program was built without them: types without values.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use http::HeaderMap;

/// A span under way. There is none.
#[derive(Debug)]
pub(super) enum TraceSpan {}

/// A place for what goes with a span as long as a reply streams. It takes no room.
#[derive(Debug)]
pub(super) struct SpanBox<T>(TraceSpan, PhantomData<T>);

impl<T> SpanBox<T> {
    /// None.
    pub(super) fn new(_value: T) -> Option<Self> {
        None
    }
}

impl<T> Deref for SpanBox<T> {
    type Target = T;

    fn deref(&self) -> &T {
        match self.0 {}
    }
}

impl<T> DerefMut for SpanBox<T> {
    fn deref_mut(&mut self) -> &mut T {
        match self.0 {}
    }
}

/// What spans of calls stand under. There is none.
#[derive(Clone, Debug)]
pub(crate) enum ParentContext {}

#[expect(
    clippy::needless_pass_by_ref_mut,
    reason = "the spans of the other build change"
)]
impl TraceSpan {
    /// The span of a request with these headers.
    pub(super) fn start_request(_headers: &HeaderMap) -> Option<Self> {
        None
    }

    /// The span of a call.
    pub(super) fn start_call(parent: &ParentContext) -> Option<Self> {
        match *parent {}
    }

    /// What spans of calls stand under.
    pub(super) fn parent(&self) -> Option<ParentContext> {
        match *self {}
    }

    /// Says what it is of.
    pub(super) fn set_name(&mut self, _name: String) {
        match *self {}
    }

    /// Says something of it.
    pub(super) fn set<'v>(
        &mut self,
        _key: &'static str,
        _value: impl Into<super::AttributeValue<'v>>,
    ) {
        match *self {}
    }

    /// It did not go well.
    pub(super) fn fail(&mut self) {
        match *self {}
    }
}
