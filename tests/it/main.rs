//! One integration binary; each module is a theme.

mod oracle;
mod properties;
mod recorded;
mod script;
mod subject;
