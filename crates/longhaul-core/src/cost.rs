//! Prices, and what a rewrite saves or costs.

pub mod comparison;
pub mod inferred_prices;
pub mod pricing;
pub mod rereads;
