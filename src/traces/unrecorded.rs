//! Spans where the program was built without them: types without values.

use http::HeaderMap;

/// A span under way. There is none.
#[derive(Debug)]
pub(super) enum Span {}

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
