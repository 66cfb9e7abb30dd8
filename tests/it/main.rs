//! One integration binary; each module is a theme.

mod words;
