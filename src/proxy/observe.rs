//! Looks at a chat's reply while it passes, and tells at its end what it shows of the window.

use std::sync::Arc;

use http::Response;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::coding::Decoder;
use super::lessons::Lessons;
use crate::metrics::Metrics;
use crate::rewrite::chain::RecordKey;
use crate::rewrite::overflow::{Rules, Tail};
use crate::rewrite::tokens::Tokens;
use crate::rewrite::window::count::Pair;
use crate::rewrite::window::note::Sent;
use crate::store::{Counted, Store};
use crate::upstream::Windows;

/// Compressed replies that are looked at at once. A decoder keeps tens of kilobytes for as long as
/// its reply streams; those beyond these pass unread.
const INFLATING: usize = 64;

/// What observers share.
pub(super) struct Observatory {
    rules: Rules,
    store: Arc<Store>,
    windows: Arc<Windows>,
    lessons: Arc<Lessons>,
    metrics: Arc<Metrics>,
    inflating: Arc<Semaphore>,
}

/// Looks at one reply. It keeps the end of it, and neither delays nor changes a byte.
pub(crate) struct Observer {
    model: String,
    sent: Sent,
    /// The prefix that the request was, as it came.
    prefix: Option<RecordKey>,
    rules: Rules,
    store: Arc<Store>,
    windows: Arc<Windows>,
    lessons: Arc<Lessons>,
    metrics: Arc<Metrics>,
    decoder: Decoder,
    tail: Tail,
    /// The place among [`INFLATING`].
    _inflating: Option<OwnedSemaphorePermit>,
}

impl Observatory {
    pub(super) fn new(
        rules: &Rules,
        store: Arc<Store>,
        lessons: Arc<Lessons>,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self {
            rules: rules.clone(),
            store,
            windows: Arc::clone(&lessons.windows),
            lessons,
            metrics,
            inflating: Arc::new(Semaphore::new(INFLATING)),
        }
    }

    /// The same under other rules, for the models that `lessons` are of; what both may hold at once
    /// is counted together.
    pub(super) fn under(&self, rules: &Rules, lessons: &Arc<Lessons>) -> Self {
        Self {
            rules: rules.clone(),
            store: Arc::clone(&self.store),
            windows: Arc::clone(&lessons.windows),
            lessons: Arc::clone(lessons),
            metrics: Arc::clone(&self.metrics),
            inflating: Arc::clone(&self.inflating),
        }
    }

    /// Whoever looks at this reply; `None` where it is no answer or cannot be read.
    pub(super) fn observe<B>(
        &self,
        reply: &Response<B>,
        model: &str,
        sent: Sent,
        prefix: Option<RecordKey>,
    ) -> Option<Box<Observer>> {
        if reply.status() != http::StatusCode::OK {
            return None;
        }
        let decoder = Decoder::of(reply.headers())?;
        let inflating = if decoder.is_identity() {
            None
        } else {
            Some(Arc::clone(&self.inflating).try_acquire_owned().ok()?)
        };
        Some(Box::new(Observer {
            model: model.to_owned(),
            sent,
            prefix,
            rules: self.rules.clone(),
            store: Arc::clone(&self.store),
            windows: Arc::clone(&self.windows),
            lessons: Arc::clone(&self.lessons),
            metrics: Arc::clone(&self.metrics),
            decoder,
            tail: Tail::default(),
            _inflating: inflating,
        }))
    }
}

impl Observer {
    /// A chunk passes. Says whether the next one is to be looked at: not where this one could not
    /// be read.
    #[must_use]
    pub(super) fn pass(&mut self, chunk: &[u8]) -> bool {
        let plain = self.decoder.next(chunk);
        plain.is_some_and(|plain| {
            self.tail.push(&plain);
            true
        })
    }

    /// The reply has passed whole.
    pub(super) fn end(self) {
        let parting = self.tail.end(&self.rules);
        if let Some(usage) = &parting.usage {
            self.metrics.counted.add(usage);
        }
        let pair = parting
            .usage
            .and_then(|usage| Pair::of(self.sent.estimate, usage.input));
        tell(self.windows.ended(&self.model, self.sent, &parting));
        if let (Some(key), Some(pair)) = (self.prefix, pair) {
            let density = self.windows.of(&self.model).density;
            let counted = Counted { pair, density };
            self.store.count(key, &self.model, counted);
        }
        self.lessons.tell(&self.model);
    }

    /// The reply broke off. What was counted until then, and how it ended, is not known; an error
    /// in it is, and may be why.
    pub(super) fn break_off(self) {
        let error = self.tail.end(&self.rules).error_alone();
        tell(self.windows.ended(&self.model, self.sent, &error));
        self.lessons.tell(&self.model);
    }
}

/// Tells the operator of a window that a reply was relayed with.
fn tell(learned: Option<Tokens>) {
    if let Some(window) = learned {
        tracing::info!(
            window = window.get(),
            "the end of a reply shows what the model holds; its next request is held to that"
        );
    }
}
