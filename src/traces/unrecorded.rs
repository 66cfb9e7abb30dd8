//! Spans where the program was built without them: types without values.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use http::HeaderMap;

/// A span under way. There is none.
#[derive(Debug)]
pub(super) enum Span {}

/// A place for what goes with a span as long as a reply streams. It takes no room.
#[derive(Debug)]
pub(super) struct Kept<T>(Span, PhantomData<T>);

impl<T> Kept<T> {
    /// None.
    pub(super) fn new(_value: T) -> Option<Self> {
        None
    }
}

impl<T> Deref for Kept<T> {
    type Target = T;

    fn deref(&self) -> &T {
        match self.0 {}
    }
}

impl<T> DerefMut for Kept<T> {
    fn deref_mut(&mut self) -> &mut T {
        match self.0 {}
    }
}

/// What spans of calls stand under. There is none.
#[derive(Clone, Debug)]
pub(crate) enum Parent {}

#[expect(
    clippy::needless_pass_by_ref_mut,
    reason = "the spans of the other build change"
)]
impl Span {
    /// The span of a request with these headers.
    pub(super) fn of_request(_headers: &HeaderMap) -> Option<Self> {
        None
    }

    /// The span of a call.
    pub(super) fn of_call(parent: &Parent) -> Option<Self> {
        match *parent {}
    }

    /// What spans of calls stand under.
    pub(super) fn parent(&self) -> Option<Parent> {
        match *self {}
    }

    /// Says what it is of.
    pub(super) fn name(&mut self, _name: String) {
        match *self {}
    }

    /// Says something of it.
    pub(super) fn set<'v>(&mut self, _key: &'static str, _value: impl Into<super::Value<'v>>) {
        match *self {}
    }

    /// It did not go well.
    pub(super) fn fail(&mut self) {
        match *self {}
    }
}
