//! Count of a proxy's running summary jobs, read from its debug log.

use std::fmt::{Debug, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tracing::field::{Field, Visit};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt as _};

use crate::time_limit::bounded;

/// Pauses in which the thread polls a new job for the first time.
const PAUSES: usize = 12;

/// Jobs of the proxies that run on this thread. Stops counting when dropped.
pub(super) struct RunningJobs {
    running: Arc<AtomicUsize>,
    _subscribed: DefaultGuard,
}

impl RunningJobs {
    pub(super) fn watch() -> Self {
        let running = Arc::<AtomicUsize>::default();
        let log = tracing_subscriber::registry().with(JobLog(Arc::clone(&running)));
        Self { running, _subscribed: tracing::subscriber::set_default(log) }
    }

    /// Waits until no job runs. A slow disk delays a job before its request to the model, so the
    /// model's requests do not show that a job runs.
    pub(super) async fn wait_until_none(&self) {
        let pause = || tokio::time::sleep(Duration::from_millis(1));
        for _ in 0..PAUSES {
            pause().await;
        }
        bounded(async {
            while self.running.load(Ordering::Relaxed) > 0 {
                pause().await;
            }
        })
        .await;
    }
}

/// Layer that counts the events at the start and the end of jobs.
struct JobLog(Arc<AtomicUsize>);

impl<S: Subscriber> Layer<S> for JobLog {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut message = Message::default();
        event.record(&mut message);
        match message.0.as_str() {
            "summary job started" => _ = self.0.fetch_add(1, Ordering::Relaxed),
            "summary job ended" => _ = self.0.fetch_sub(1, Ordering::Relaxed),
            _ => {}
        }
    }
}

/// Message of an event.
#[derive(Default)]
struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            _ = write!(self.0, "{value:?}");
        }
    }
}
