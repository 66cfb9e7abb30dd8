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
mod bad_input;
mod browser;
mod caller;
mod caps;
mod check_errors;
mod clearing;
mod cli;
mod commands;
mod compaction_properties;
mod completions;
mod connect;
mod connections;
mod counts;
mod dashboard;
mod dashboard_page;
mod demo;
#[cfg(target_os = "linux")]
mod descriptors;
mod doctor;
mod encoded;
mod eval;
mod explain;
mod explain_live;
mod fair_share;
mod faults;
mod forks;
mod forward_proxies;
mod gateways;
mod generated;
mod going_back;
mod harness;
mod history;
mod instructions;
mod journey;
mod keep;
mod key_paths;
mod keys;
mod listener;
mod load;
mod logins;
mod long_sessions;
mod manual;
mod messages;
mod model;
mod models;
mod mounts;
mod multiplexed;
mod odd_bodies;
mod oracle;
#[cfg(feature = "otlp")]
mod otlp;
mod ownership;
mod passage;
mod placeholders;
mod program;
mod promises;
mod properties;
mod provider;
mod providers;
mod recall;
mod received_reply;
mod recorded;
mod recorded_digests;
mod recovery;
#[allow(dead_code, reason = "the unit tests use the rest")]
mod redis_server;
mod reload;
mod replayed;
mod replicas;
mod replies;
mod reply_signals;
mod reports;
mod responses;
mod restarts;
mod run;
mod script;
mod sdk;
mod secrets;
mod sessions;
mod shared_state;
mod stored_records;
mod subject;
mod summaries;
mod suspicions;
mod switches;
mod thinking;
mod thrash;
mod tidy;
mod time_limit;
mod tls;
mod transparency;
mod validity;
mod windows;
#[cfg(not(feature = "otlp"))]
mod without_tracing;
mod wrapped;
