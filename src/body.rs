//! Body types of both sides, content codings and the budget of buffered bytes.

pub(crate) mod budget;
pub(crate) mod chunked_bytes;
pub(crate) mod client_body;
pub(crate) mod coding;
pub(crate) mod peeked_body;
pub(crate) mod request_body;
pub(crate) mod slow_bodies;
pub(crate) mod stream_with_hooks;
