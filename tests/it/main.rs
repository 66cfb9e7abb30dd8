//! One integration binary; each module is a theme.
