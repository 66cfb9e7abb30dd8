//! Titles that models gave to conversations, and when the next one is due. Each title is a paid
//! call, so this cache outlives the dashboard's entries.

use std::sync::Arc;

use crate::summaries::RollingHour;
use longhaul_core::collections::two_generation_cache::LockedCache;
use longhaul_core::summary::title::Title;
use longhaul_core::units::scope::RecordKey;
use parking_lot::Mutex;

/// Conversations kept in memory: at least this many, at most twice as many.
const CONVERSATIONS: usize = 2_048;
/// Factor by which the number of messages must grow before a title is requested again: a few times
/// even in the longest conversation.
const GROWTH_FACTOR: usize = 4;
/// Maximum title calls per hour and process: one every fifteen seconds. Beyond it, the dashboard
/// shows the users' own words.
const PER_HOUR: usize = 240;

/// Titles of recent conversations.
#[derive(Default)]
pub(crate) struct Titles {
    requests: LockedCache<RecordKey, TitleRequest, CONVERSATIONS>,
    times: RollingHour,
    /// Model whose failure was logged, until one of its calls succeeds.
    failing: Mutex<Option<String>>,
}

/// Title request of one conversation.
#[derive(Clone)]
struct TitleRequest {
    /// Number of messages at the last title request.
    messages: usize,
    /// The title. `None` until a model has returned one.
    title: Option<Arc<Title>>,
}

impl Titles {
    pub(crate) fn title(&self, conversation: RecordKey) -> Option<Arc<Title>> {
        self.requests.lock().get(&conversation)?.title
    }

    /// Whether to request a title for a conversation of this many messages.
    pub(crate) fn needs_title(&self, conversation: RecordKey, messages: usize) -> bool {
        let before = self.requests.lock().get(&conversation);
        self.is_due(before.as_ref(), messages)
    }

    /// Like [`needs_title`](Self::needs_title), and records the request if one is due.
    pub(crate) fn begin(&self, conversation: RecordKey, messages: usize) -> bool {
        let mut all = self.requests.lock();
        let before = all.get(&conversation);
        if !self.is_due(before.as_ref(), messages) {
            return false;
        }
        self.times.record_now();
        let title = before.and_then(|asked| asked.title);
        all.insert(conversation, TitleRequest { messages, title });
        true
    }

    /// Stores the title that the model returned.
    pub(crate) fn set_title(&self, conversation: RecordKey, title: Arc<Title>) {
        let mut all = self.requests.lock();
        if let Some(asked) = all.get(&conversation) {
            let title = Some(title);
            all.insert(conversation, TitleRequest { title, ..asked });
        }
    }

    /// Records whether a call to `model` failed. Returns whether to log the failure: once until the
    /// model succeeds.
    pub(crate) fn should_log_failure(&self, model: &str, fails: bool) -> bool {
        let mut failing = self.failing.lock();
        let is_told = failing.as_deref() == Some(model);
        if fails != is_told {
            *failing = fails.then(|| model.to_owned());
        }
        fails && !is_told
    }

    fn is_due(&self, before: Option<&TitleRequest>, messages: usize) -> bool {
        before.is_none_or(|asked| messages >= asked.messages.saturating_mul(GROWTH_FACTOR))
            && self.times.count() < PER_HOUR
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use longhaul_core::units::scope::Scope;

    fn conversation(number: usize) -> RecordKey {
        Scope::new(&[0; 32], &[]).named_key(&number.to_string())
    }

    #[tokio::test(start_paused = true)]
    async fn title_is_due_again_at_four_times_the_messages() {
        let titles = Titles::default();
        for (messages, expect) in [(2, true), (2, false), (7, false), (8, true), (31, false)] {
            assert_eq!(titles.needs_title(conversation(1), messages), expect);
            assert_eq!(titles.begin(conversation(1), messages), expect);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn requests_one_title_per_conversation_even_among_many() {
        let titles = Titles::default();
        let round = || {
            (0..200)
                .filter(|at| titles.begin(conversation(*at), 1))
                .count()
        };
        assert_eq!([round(), round(), round()], [200, 0, 0]);
    }

    #[test]
    fn logs_a_models_title_failure_once_until_it_succeeds() {
        let titles = Titles::default();
        let told = [
            ("one", true, true),
            ("one", true, false),
            ("two", false, false),
            ("one", true, false),
            ("two", true, true),
            ("two", false, false),
            ("two", true, true),
        ];
        for (model, fails, expect) in told {
            assert_eq!(titles.should_log_failure(model, fails), expect, "{model}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn titles_are_limited_per_hour() {
        let titles = Titles::default();
        let begun = |from: usize| {
            let conversations = from..from + 2 * PER_HOUR;
            conversations
                .filter(|at| titles.begin(conversation(*at), 1))
                .count()
        };
        assert_eq!(begun(0), PER_HOUR);
        assert!(!titles.needs_title(conversation(9_999), 1));
        tokio::time::advance(Duration::from_hours(1)).await;
        assert_eq!(begun(10_000), PER_HOUR);
    }

    #[tokio::test(start_paused = true)]
    async fn title_stays_until_it_is_replaced() {
        let titles = Titles::default();
        let title = |text: &str| {
            Arc::new(Title {
                title: text.into(),
                body: String::new(),
            })
        };
        let says = || titles.title(conversation(1)).map(|said| said.title.clone());
        assert!(titles.begin(conversation(1), 1));
        assert_eq!(says(), None);
        titles.set_title(conversation(1), title("one"));
        assert!(titles.begin(conversation(1), 4));
        assert_eq!(says().as_deref(), Some("one"));
        titles.set_title(conversation(1), title("two"));
        assert_eq!(says().as_deref(), Some("two"));
    }
}
