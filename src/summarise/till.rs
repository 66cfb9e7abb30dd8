//! What calls of ours cost, whoever uses what they answered.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use crate::metrics::{Metrics, Purpose};
use crate::rewrite::money::{Cost, Prices, Usd};
use crate::rewrite::usage::Usage;

/// Adds up what the calls for one text cost.
pub(crate) struct Till {
    metrics: Arc<Metrics>,
    purpose: Purpose,
    /// Of the model that is asked, where they are known.
    prices: Option<Prices>,
    /// In billionths of a dollar.
    paid: AtomicI64,
    unknown: AtomicU64,
    answered: AtomicBool,
}

impl Till {
    /// Nothing yet, for calls of this purpose to a model of these prices.
    pub(crate) fn new(metrics: &Arc<Metrics>, purpose: Purpose, prices: Option<Prices>) -> Self {
        Self {
            metrics: Arc::clone(metrics),
            purpose,
            prices,
            paid: AtomicI64::new(0),
            unknown: AtomicU64::new(0),
            answered: AtomicBool::new(false),
        }
    }

    /// What is known to have been paid, and how many calls cost nobody knows what.
    pub(crate) fn total(&self) -> (Usd, u64) {
        let paid = Usd::of_nanos(self.paid.load(Ordering::Relaxed));
        (paid, self.unknown.load(Ordering::Relaxed))
    }

    /// Whether any call was taken: its reply began as an answer does, and was none that refuses.
    pub(super) fn was_answered(&self) -> bool {
        self.answered.load(Ordering::Relaxed)
    }

    /// Whether any call was charged for, or may have been.
    pub(super) fn was_charged(&self) -> bool {
        self.was_answered() || self.unknown.load(Ordering::Relaxed) > 0
    }

    /// A call is made. Until something else is said, what it costs is not known: so it is where it
    /// is cut short.
    pub(super) fn call(&self) -> Call<'_> {
        Call {
            till: self,
            cost: Some(Cost::NotCounted),
            is_taken: false,
        }
    }
}

/// One call; counted when dropped.
pub(super) struct Call<'t> {
    till: &'t Till,
    /// None if it is free.
    cost: Option<Cost>,
    is_taken: bool,
}

impl Call<'_> {
    /// Its reply begins as an answer does.
    pub(super) fn taken(&mut self) {
        self.is_taken = true;
    }

    /// Whether its reply began so.
    pub(super) fn is_taken(&self) -> bool {
        self.is_taken
    }

    /// It was refused, under whatever status, or reached nobody: nobody charges for that.
    pub(super) fn free(mut self) {
        self.cost = None;
        self.is_taken = false;
    }

    /// It was answered, and counted so.
    pub(super) fn answered(mut self, usage: Option<&Usage>) {
        self.cost = Some(Cost::of(usage, self.till.prices.as_ref()));
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        if self.is_taken {
            self.till.answered.store(true, Ordering::Relaxed);
        }
        let Some(cost) = self.cost else { return };
        self.till.metrics.money.aside(self.till.purpose, cost);
        match cost.known() {
            Some(usd) => _ = self.till.paid.fetch_add(usd.nanos(), Ordering::Relaxed),
            None => _ = self.till.unknown.fetch_add(1, Ordering::Relaxed),
        }
    }
}
