//! Facts learned about models: windows, token ratios and accepted summary placements.

pub(crate) mod learned_models;
pub(crate) mod model_facts;
pub(crate) mod reported_windows;
pub(crate) mod summary_placements;
pub(crate) mod windows;

/// Models of one caller for each cache generation: at least this many are remembered, at most
/// twice as many. A caller may name any model, and evicts only its own.
const MODELS_PER_CALLER: usize = 32;

/// Conversations of one caller for each cache generation, in each table of facts about single
/// conversations.
const CONVERSATIONS_PER_CALLER: usize = 128;
