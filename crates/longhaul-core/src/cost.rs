//! Prices, and what a rewrite saves or costs.

pub mod comparison;
pub mod pricing;
pub mod refetches;
