//! Prices, and the savings and costs of a rewrite.

pub mod caps;
pub mod comparison;
pub mod inferred_prices;
pub mod pricing;
pub mod rereads;
