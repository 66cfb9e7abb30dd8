//! One integration binary; each module is a theme.

mod model;
mod sessions;
