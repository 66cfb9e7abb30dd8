//! Cost of summary calls, whether or not a request uses their result.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use crate::costs::spending::{Payer, Spending};
use crate::metrics::Metrics;
use longhaul_core::cost::caps::Caps;
use longhaul_core::cost::pricing::{Cost, TokenPrices};
use longhaul_core::dialect::usage::Usage;
use longhaul_core::units::usd::Usd;

/// Adds up the cost of the calls made for one text.
pub(crate) struct CostMeter {
    metrics: Arc<Metrics>,
    /// Prices of the called model, if known.
    prices: Option<TokenPrices>,
    /// Billionths of a dollar.
    paid_nanos: AtomicI64,
    unknown_calls: AtomicU64,
    any_accepted: AtomicBool,
    /// Sums to which the calls count, with their caps; `None` if no cap is set.
    spending: Option<(Arc<Spending>, Caps, Payer)>,
}

impl CostMeter {
    /// Creates a meter at zero for calls to a model with these prices.
    pub(crate) fn new(metrics: &Arc<Metrics>, prices: Option<TokenPrices>) -> Self {
        Self {
            metrics: Arc::clone(metrics),
            prices,
            paid_nanos: AtomicI64::new(0),
            unknown_calls: AtomicU64::new(0),
            any_accepted: AtomicBool::new(false),
            spending: None,
        }
    }

    /// Adds the calls to what `payer` has spent.
    pub(crate) fn paid_by(
        self,
        spending: &Arc<Spending>,
        caps: Caps,
        payer: Option<Payer>,
    ) -> Self {
        Self { spending: payer.map(|payer| (Arc::clone(spending), caps, payer)), ..self }
    }

    /// Returns the known cost, and the number of calls of unknown cost.
    pub(crate) fn total(&self) -> (Usd, u64) {
        let paid = Usd::from_nanos(self.paid_nanos.load(Ordering::Relaxed));
        (paid, self.unknown_calls.load(Ordering::Relaxed))
    }

    /// Whether the upstream accepted any call: the status was a success and the body was not a
    /// refusal.
    pub(crate) fn any_call_accepted(&self) -> bool {
        self.any_accepted.load(Ordering::Relaxed)
    }

    /// Whether any call was charged, or may have been.
    pub(crate) fn any_call_charged(&self) -> bool {
        self.any_call_accepted() || self.unknown_calls.load(Ordering::Relaxed) > 0
    }

    /// Starts a call with an input of about `tokens`. Its cost is unknown until it is set, and stays unknown
    /// if the call is cut short.
    pub(crate) fn start_call(&self, tokens: u64) -> MeteredCall<'_> {
        MeteredCall { meter: self, cost: Some(Cost::NotCounted), tokens, is_accepted: false }
    }
}

/// A single call, counted on drop.
pub(crate) struct MeteredCall<'t> {
    meter: &'t CostMeter,
    /// `None` if the call is free.
    cost: Option<Cost>,
    /// Tokens of input and output; an estimate of the input until the reply states them.
    tokens: u64,
    is_accepted: bool,
}

impl MeteredCall<'_> {
    /// Marks the call as accepted: its reply has a success status.
    pub(crate) fn mark_accepted(&mut self) {
        self.is_accepted = true;
    }

    /// Finishes a call that was refused or never arrived. Upstreams do not charge for either.
    pub(crate) fn finish_free(mut self) {
        self.cost = None;
        self.is_accepted = false;
    }

    /// Finishes a call that was answered, with the usage that the upstream reported.
    pub(crate) fn finish_answered(mut self, usage: Option<&Usage>) {
        self.cost = Some(Cost::from_usage(usage, self.meter.prices.as_ref()));
        self.tokens = usage.map_or(self.tokens, Usage::total);
    }
}

impl Drop for MeteredCall<'_> {
    fn drop(&mut self) {
        if self.is_accepted {
            self.meter.any_accepted.store(true, Ordering::Relaxed);
        }
        let Some(cost) = self.cost else { return };
        self.meter.metrics.costs.record_summary_call(cost);
        if let Some((spending, caps, payer)) = &self.meter.spending {
            spending.add(*caps, *payer, cost.amount(), self.tokens);
        }
        match cost.amount() {
            Some(usd) => {
                _ = self.meter.paid_nanos.fetch_add(usd.as_nanos(), Ordering::Relaxed);
            }
            None => _ = self.meter.unknown_calls.fetch_add(1, Ordering::Relaxed),
        }
    }
}
