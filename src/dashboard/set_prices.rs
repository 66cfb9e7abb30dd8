//! Prices that a person sets on the page. They count for models without a price in the settings and the list.

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::dashboard::days::MAX_MODEL_CHARS;
use longhaul_core::cost::pricing::{Price, PriceOrigin, TokenPrices};

/// Maximum models with a price; the oldest price makes room.
const MAX_PRICES: usize = 64;

/// The price of a model in dollars per million tokens.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SetPrice {
    pub(crate) model: String,
    input: f64,
    cached: Option<f64>,
    output: Option<f64>,
}

impl SetPrice {
    /// Returns the prices; `None` if one is not valid.
    fn prices(&self) -> Option<TokenPrices> {
        let price =
            |dollars: Option<f64>| dollars.map_or(Some(None), |it| Price::nearest(it).map(Some));
        let input = Price::nearest(self.input)?;
        Some(TokenPrices {
            origin: PriceOrigin::Setting,
            input,
            // A provider without a cheaper cache charges the plain price.
            cached: price(self.cached)?.or(Some(input)),
            written: None,
            output: price(self.output)?,
        })
    }
}

/// The prices set so far, the newest first.
#[derive(Default)]
pub(crate) struct SetPrices(Mutex<Vec<SetPrice>>);

impl SetPrices {
    /// Sets the price of a model from its next reply on. Returns whether the price is valid.
    pub(crate) fn set(&self, price: SetPrice) -> bool {
        let chars = price.model.chars().count();
        if price.prices().is_none() || chars == 0 || chars > MAX_MODEL_CHARS {
            return false;
        }
        let mut all = self.0.lock();
        all.retain(|known| known.model != price.model);
        all.insert(0, price);
        all.truncate(MAX_PRICES);
        true
    }

    pub(crate) fn of(&self, model: &str) -> Option<TokenPrices> {
        let all = self.0.lock();
        all.iter().find(|price| price.model == model)?.prices()
    }

    pub(crate) fn all(&self) -> Vec<SetPrice> {
        self.0.lock().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn price(model: &str, input: f64) -> SetPrice {
        SetPrice { model: model.into(), input, cached: None, output: Some(10.0) }
    }

    #[test]
    fn the_newest_price_of_a_model_counts_and_what_is_no_price_is_refused() {
        let prices = SetPrices::default();
        for (model, input) in [("", 1.0), ("m", -1.0), ("m", f64::NAN), ("m", f64::INFINITY)] {
            assert!(!prices.set(price(model, input)), "{model:?} {input}");
        }
        assert!(!prices.set(price(&"m".repeat(MAX_MODEL_CHARS + 1), 1.0)));
        assert!(prices.of("m").is_none());
        assert!(prices.set(price("m", 1.0)) && prices.set(price("m", 2.5)));
        let found = prices.of("m").unwrap();
        assert_eq!(
            (found.input, found.cached),
            (Price::stated("2.5").unwrap(), Price::stated("2.5"))
        );
        for at in 0..MAX_PRICES {
            assert!(prices.set(price(&at.to_string(), 0.0)));
        }
        assert!(prices.of("m").is_none() && prices.of("0").is_some());
        assert_eq!(prices.all().len(), MAX_PRICES);
    }
}
