//! What calls of ours cost, whoever uses what they answered.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use crate::metrics::{AuxiliaryPurpose, Metrics};
use crate::rewrite::money::{Cost, InputPrices, Usd};
use crate::rewrite::usage::Usage;

/// Adds up what the calls for one text cost.
pub(crate) struct CostMeter {
    metrics: Arc<Metrics>,
    purpose: AuxiliaryPurpose,
    /// Of the model that is asked, where they are known.
    prices: Option<InputPrices>,
    /// In billionths of a dollar.
    paid_nanos: AtomicI64,
    unknown_calls: AtomicU64,
    any_accepted: AtomicBool,
}

impl CostMeter {
    /// Nothing yet, for calls of this purpose to a model of these prices.
    pub(crate) fn new(
        metrics: &Arc<Metrics>,
        purpose: AuxiliaryPurpose,
        prices: Option<InputPrices>,
    ) -> Self {
        Self {
            metrics: Arc::clone(metrics),
            purpose,
            prices,
            paid_nanos: AtomicI64::new(0),
            unknown_calls: AtomicU64::new(0),
            any_accepted: AtomicBool::new(false),
        }
    }

    /// What is known to have been paid, and how many calls cost nobody knows what.
    pub(crate) fn total(&self) -> (Usd, u64) {
        let paid = Usd::from_nanos(self.paid_nanos.load(Ordering::Relaxed));
        (paid, self.unknown_calls.load(Ordering::Relaxed))
    }

    /// Whether any call was taken: its reply began as an answer does, and was none that refuses.
    pub(super) fn any_call_accepted(&self) -> bool {
        self.any_accepted.load(Ordering::Relaxed)
    }

    /// Whether any call was charged for, or may have been.
    pub(super) fn any_call_charged(&self) -> bool {
        self.any_call_accepted() || self.unknown_calls.load(Ordering::Relaxed) > 0
    }

    /// A call is made. Until something else is said, what it costs is not known: so it is where it
    /// is cut short.
    pub(super) fn start_call(&self) -> MeteredCall<'_> {
        MeteredCall {
            meter: self,
            cost: Some(Cost::NotCounted),
            is_accepted: false,
        }
    }
}

/// One call; counted when dropped.
pub(super) struct MeteredCall<'t> {
    meter: &'t CostMeter,
    /// None if it is free.
    cost: Option<Cost>,
    is_accepted: bool,
}

impl MeteredCall<'_> {
    /// Its reply begins as an answer does.
    pub(super) fn mark_accepted(&mut self) {
        self.is_accepted = true;
    }

    /// Whether its reply began so.
    pub(super) fn is_accepted(&self) -> bool {
        self.is_accepted
    }

    /// It was refused, under whatever status, or reached nobody: nobody charges for that.
    pub(super) fn finish_free(mut self) {
        self.cost = None;
        self.is_accepted = false;
    }

    /// It was answered, and counted so.
    pub(super) fn finish_answered(mut self, usage: Option<&Usage>) {
        self.cost = Some(Cost::from_usage(usage, self.meter.prices.as_ref()));
    }
}

impl Drop for MeteredCall<'_> {
    fn drop(&mut self) {
        if self.is_accepted {
            self.meter.any_accepted.store(true, Ordering::Relaxed);
        }
        let Some(cost) = self.cost else { return };
        self.meter
            .metrics
            .costs
            .record_auxiliary(self.meter.purpose, cost);
        match cost.amount() {
            Some(usd) => {
                _ = self
                    .meter
                    .paid_nanos
                    .fetch_add(usd.as_nanos(), Ordering::Relaxed)
            }
            None => _ = self.meter.unknown_calls.fetch_add(1, Ordering::Relaxed),
        }
    }
}
