//! Facts learned about models: windows, token ratios and accepted summary placements.

pub(crate) mod binding_models;
pub(crate) mod counted_outputs;
pub(crate) mod model_facts;
pub(crate) mod model_facts_cache;
pub(crate) mod model_knowledge;
pub(crate) mod refuted_suspicions;
pub(crate) mod reported_windows;
pub(crate) mod summary_placements;
pub(crate) mod windows;
