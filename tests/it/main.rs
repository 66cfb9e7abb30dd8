//! One integration binary; each module is a theme.

mod fold;
mod oracle;
mod properties;
mod recorded;
mod script;
mod subject;
mod traps;
