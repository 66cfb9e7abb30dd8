//! Facts that replies show, and how the steps read them. Nothing here plans.

pub(super) mod known_window;
pub(super) mod placement;
pub(super) mod thinking;
pub(super) mod window;
pub(crate) mod window_query;
