//! The integration tests, as a single binary with one module per theme.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that meets what it does not expect fails; its own functions are tests too"
)]

mod abuse;
mod admin;
mod arrived;
mod bad_input;
mod bound;
mod caller;
mod cli;
mod compaction_properties;
mod completions;
mod counts;
mod dashboard;
mod demo;
#[cfg(target_os = "linux")]
mod descriptors;
mod encoded;
mod explain;
mod fair_share;
mod faults;
mod fold;
mod forks;
mod going_back;
mod harness;
mod instructions;
mod journey;
mod kept;
mod key_paths;
mod keys;
mod listener;
mod load;
mod long_sessions;
mod manual;
mod model;
mod models;
mod mounts;
mod multiplexed;
mod noted;
mod oracle;
#[cfg(feature = "otlp")]
mod otlp;
mod ownership;
mod passage;
mod placeholders;
mod program;
mod promises;
mod properties;
mod recorded;
mod recovery;
#[allow(dead_code, reason = "the unit tests use the rest")]
mod redis_server;
mod refused;
mod reload;
mod replayed;
mod replicas;
mod replies;
mod run;
mod script;
mod sdk;
mod secrets;
mod sessions;
mod subject;
mod summaries;
mod switches;
mod thrash;
mod tidy;
mod tls;
mod transparency;
mod traps;
#[cfg(not(feature = "otlp"))]
mod untraced;
mod validity;
mod way;
mod windows;
mod words;
