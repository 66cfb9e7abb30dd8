//! What survives a compaction.
fn main() {}
