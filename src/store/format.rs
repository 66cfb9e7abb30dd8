//! The bytes that records and notes are kept as.
