//! Folds repeated warnings: the first is logged at once, and the number of the others afterwards.
//!
//! A fault at the upstream would otherwise log the same warning for every request. Warnings count as
//! repeated if they come from the same place in the code and differ in numbers only.

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use super::console::REQUEST;

/// Time for which repetitions of a warning are counted instead of logged.
const FOLD_TIME: Duration = Duration::from_secs(10);
/// Maximum different warnings that are counted at once. Further ones are logged each time.
const MAX_WARNINGS: usize = 256;
/// Field that marks the count of repetitions, which is never folded itself.
const COUNT_FIELD: &str = "repeated";

pub(crate) struct RepeatFilter(Arc<Repeats>);

#[derive(Default)]
struct Repeats {
    warnings: Mutex<HashMap<u64, Warning>>,
    /// Signals the first repetition.
    has_repetition: Condvar,
}

struct Warning {
    message: String,
    logged: Instant,
    repeated: u64,
}

impl RepeatFilter {
    /// Starts the thread that logs the counts. Fails if the thread could not be spawned.
    pub(crate) fn start() -> io::Result<Self> {
        let repeats = Arc::<Repeats>::default();
        let counted = Arc::clone(&repeats);
        let thread = thread::Builder::new().name("log-repeats".into());
        thread.spawn(move || counted.report_loop())?;
        Ok(Self(repeats))
    }
}

impl<S: Subscriber> Layer<S> for RepeatFilter {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        if *event.metadata().level() > Level::WARN {
            return true;
        }
        let mut hash = DefaultHasher::new();
        event.metadata().callsite().hash(&mut hash);
        let mut fields = WarningFields { hash, message: String::new(), is_count: false };
        event.record(&mut fields);
        // Each request has a line of its own.
        fields.is_count || fields.message == REQUEST || self.0.admit(fields, Instant::now())
    }
}

impl Repeats {
    /// Whether to log the warning. Counts it otherwise.
    fn admit(&self, fields: WarningFields, now: Instant) -> bool {
        let mut warnings = self.warnings.lock();
        let is_over = |warning: &Warning| now.duration_since(warning.logged) >= FOLD_TIME;
        let key = fields.hash.finish();
        if let Some(known) = warnings.get_mut(&key) {
            // A repetition that is not reported yet keeps the warning folded.
            if known.repeated > 0 || !is_over(known) {
                known.repeated += 1;
                self.has_repetition.notify_one();
                return false;
            }
            known.logged = now;
            return true;
        }
        if warnings.len() >= MAX_WARNINGS {
            warnings.retain(|_, warning| warning.repeated > 0 || !is_over(warning));
        }
        if warnings.len() < MAX_WARNINGS {
            let warning = Warning { message: fields.message, logged: now, repeated: 0 };
            warnings.insert(key, warning);
        }
        true
    }

    /// Takes the warnings whose time is over, each with its number of repetitions.
    fn take_due(&self, now: Instant) -> Vec<(String, u64)> {
        let mut warnings = self.warnings.lock();
        let due = warnings
            .values_mut()
            .filter(|warning| now.duration_since(warning.logged) >= FOLD_TIME)
            .filter(|warning| warning.repeated > 0);
        due.map(|warning| {
            warning.logged = now;
            (warning.message.clone(), std::mem::take(&mut warning.repeated))
        })
        .collect()
    }

    /// Logs counts for as long as the process lives.
    fn report_loop(&self) {
        loop {
            let mut warnings = self.warnings.lock();
            let nothing = |warnings: &mut HashMap<u64, Warning>| {
                warnings.values().all(|warning| warning.repeated == 0)
            };
            self.has_repetition.wait_while(&mut warnings, nothing);
            let waiting = warnings.values().filter(|warning| warning.repeated > 0);
            let next = waiting.map(|warning| warning.logged + FOLD_TIME).min();
            drop(warnings);
            let wait = next.map(|next| next.saturating_duration_since(Instant::now()));
            thread::sleep(wait.unwrap_or_default());
            for (message, repeated) in self.take_due(Instant::now()) {
                let times = if repeated == 1 { "time" } else { "times" };
                tracing::warn!(repeated, "repeated {repeated} {times}: {message}");
            }
        }
    }
}

/// The part of a warning that repetitions share: its place, and its fields without numbers.
struct WarningFields {
    hash: DefaultHasher,
    message: String,
    is_count: bool,
}

impl Visit for WarningFields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let text = format!("{value:?}");
        self.record_str(field, &text);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        // Every request has its own identifier.
        if field.name() == "request_id" {
            return;
        }
        field.name().hash(&mut self.hash);
        value.hash(&mut self.hash);
        if field.name() == "message" {
            value.clone_into(&mut self.message);
        }
    }

    fn record_u64(&mut self, field: &Field, _: u64) {
        self.is_count |= field.name() == COUNT_FIELD;
    }

    fn record_i64(&mut self, _: &Field, _: i64) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(of: u8) -> WarningFields {
        let mut hash = DefaultHasher::new();
        of.hash(&mut hash);
        WarningFields { hash, message: format!("warning {of}"), is_count: false }
    }

    #[test]
    fn the_first_is_logged_and_the_others_are_counted() {
        let repeats = Repeats::default();
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        assert!(repeats.admit(fields(1), start));
        assert!(repeats.admit(fields(2), start));
        for _ in 0..83 {
            assert!(!repeats.admit(fields(1), after(1)));
        }
        assert_eq!(repeats.take_due(after(9)), []);
        let counts = repeats.take_due(after(10));
        assert_eq!(counts, [("warning 1".to_owned(), 83)]);
        assert!(!repeats.admit(fields(1), after(19)), "still the same fault");
        assert!(repeats.admit(fields(2), after(19)), "logged once in a while");
        assert_eq!(repeats.take_due(after(20)).len(), 1);
        assert!(repeats.admit(fields(1), after(30)));
    }

    #[test]
    fn more_warnings_than_are_counted_are_logged() {
        let repeats = Repeats::default();
        let now = Instant::now();
        for of in 0..=u8::MAX {
            assert!(repeats.admit(fields(of), now));
        }
        let mut other = fields(0);
        7_u64.hash(&mut other.hash);
        assert!(repeats.admit(other, now));
    }
}
