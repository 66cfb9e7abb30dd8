//! Input and output of the commands of longhaul: input files, amounts, tables, text safe for a terminal,
//! and replies of servers on this machine.

#![forbid(unsafe_code)]

pub mod amounts;
pub mod input;
pub mod json;
pub mod loopback_client;
pub mod paragraphs;
pub mod printable;
pub mod table;
pub mod terminal;
pub mod thousands;
pub mod word;
