//! Numbers and client-chosen text, formatted for people.

pub(crate) mod amounts;
pub(crate) mod printable;
pub(crate) mod table;
pub(crate) mod terminal;
pub(crate) mod thousands;
