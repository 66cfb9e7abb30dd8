//! What the upstream says that its models hold, asked behind the back of the chats that want to
//! know.
//!
//! A question is put once a chat was answered: then the credentials are good, and a server that
//! loads models when they are asked for has loaded this one. What is said counts for every caller,
//! for what a model holds is no secret and does not hang on who asks. Only a refusal of the
//! credentials does: another caller asks anew, and where that one is refused too, nobody for a while.

mod forms;
mod question;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

pub(crate) use question::{Answer, Outcome, Question};

use super::Upstream;
use crate::lock::Mutex;
use crate::rewrite::chain::Scope;
use crate::rewrite::generations::Generations;
use crate::rewrite::tokens::Tokens;
use crate::rewrite::window::lesson::Lesson;
use crate::wall_clock;

/// Models whose answers are remembered at the least, and twice as many at the most; a client may name
/// any.
const MODELS: usize = 512;
/// Questions under way at once, each for another model.
const AT_ONCE: usize = 4;
/// After an answer: a local server may have been started anew with another window.
const REPEAT: Duration = Duration::from_hours(1);
/// After none.
const RETRY: Duration = Duration::from_mins(10);

/// What the models of one upstream are said to hold.
#[derive(Clone)]
pub(crate) struct Asked {
    said: Arc<Mutex<Generations<String, Said>>>,
    /// The models that are being asked about.
    open: Arc<Mutex<HashSet<String>>>,
}

/// The last that was said of a model, and how the last question went.
#[derive(Clone, Copy, Debug)]
struct Said {
    /// None until something is.
    window: Option<Lesson<Option<Tokens>>>,
    last: Last,
    at: Instant,
}

/// How a question went.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Last {
    /// It was answered, with a window or without one.
    Answered,
    /// It was not, or for none of two callers.
    Failed,
    /// Not for this caller.
    Refused(Scope),
}

impl Last {
    /// What `scope` was refused, behind what was before. After a second caller none asks anew at once:
    /// two in turn would ask without end.
    fn refused(before: Option<Self>, scope: Scope) -> Self {
        match before {
            Some(Self::Refused(other)) if other != scope => Self::Failed,
            Some(Self::Answered | Self::Failed | Self::Refused(_)) | None => Self::Refused(scope),
        }
    }
}

impl Default for Asked {
    fn default() -> Self {
        Self {
            said: Arc::new(Mutex::new(Generations::new(MODELS))),
            open: Arc::default(),
        }
    }
}

impl Asked {
    /// What `model` is said to hold.
    pub(crate) fn of(&self, model: &str) -> Option<Tokens> {
        self.lesson(model)?.what
    }

    /// The same with when it was said, for other processes.
    pub(crate) fn lesson(&self, model: &str) -> Option<Lesson<Option<Tokens>>> {
        self.said.lock().get(model)?.window
    }

    /// Another process was told this of `model`, if anything. It is asked here in its turn.
    pub(crate) fn take_over(&self, model: &str, window: Option<Lesson<Option<Tokens>>>) {
        let mut all = self.said.lock();
        let before = all.get(model);
        if window <= before.and_then(|said| said.window) {
            return;
        }
        let (last, at) = before.map_or_else(
            || (Last::Failed, Instant::now()),
            |said| (said.last, said.at),
        );
        all.insert(model.to_owned(), Said { window, last, at });
    }

    /// Whether a question about `model` is due that `scope` could put.
    pub(crate) fn is_due(&self, model: &str, scope: Scope) -> bool {
        self.said.lock().get(model).is_none_or(|said| {
            let since = said.at.elapsed();
            match said.last {
                Last::Answered => since >= REPEAT,
                Last::Failed => since >= RETRY,
                Last::Refused(other) => other != scope || since >= RETRY,
            }
        })
    }

    /// Puts a question in the background, unless one about that model or too many are under way.
    pub(crate) fn put(&self, question: Question, scope: Scope, upstream: &Arc<Upstream>) {
        let Some(open) = Open::begin(&self.open, &question.model) else {
            return;
        };
        let (said, upstream) = (Arc::clone(&self.said), Arc::clone(upstream));
        tokio::spawn(async move {
            let asked = question.put(&upstream).await;
            tracing::info!(
                host = question.host(),
                models = asked.models,
                outcome = asked.answer.label(),
                "asked the upstream what its models hold"
            );
            hear(&mut said.lock(), question.model, asked.answer, scope);
            // Only now may the next one begin.
            drop(open);
        });
    }
}

/// Takes in what `scope` was answered.
fn hear(all: &mut Generations<String, Said>, model: String, answer: Answer, scope: Scope) {
    let before = all.get(&model);
    let known = before.and_then(|said| said.window);
    let says = |what| Some(Lesson::over(known, wall_clock::millis(), what));
    let (window, last) = match answer {
        Answer::Holds(tokens) => (says(Some(tokens)), Last::Answered),
        Answer::Silent => (says(None), Last::Answered),
        // What was said once stands until something else is said.
        Answer::Failed => (known, Last::Failed),
        Answer::Refused => (known, Last::refused(before.map(|said| said.last), scope)),
    };
    let at = Instant::now();
    all.insert(model, Said { window, last, at });
}

/// A question under way; over when dropped.
struct Open {
    all: Arc<Mutex<HashSet<String>>>,
    model: String,
}

impl Open {
    fn begin(all: &Arc<Mutex<HashSet<String>>>, model: &str) -> Option<Self> {
        let mut open = all.lock();
        let free = open.len() < AT_ONCE && !open.contains(model);
        free.then(|| {
            open.insert(model.to_owned());
            Self {
                all: Arc::clone(all),
                model: model.to_owned(),
            }
        })
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.all.lock().remove(&self.model);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(name: &str) -> Scope {
        Scope::new(&[0; 32], &[name.as_bytes()])
    }

    async fn check(last: Last, same: Option<Duration>, other: Option<Duration>) {
        for (caller, due) in [(scope("one"), same), (scope("other"), other)] {
            let asked = Asked::default();
            assert!(asked.is_due("m", caller));
            let at = Instant::now();
            let window = None;
            asked
                .said
                .lock()
                .insert("m".into(), Said { window, last, at });
            if let Some(due) = due {
                tokio::time::advance(due.checked_sub(Duration::from_secs(1)).unwrap()).await;
                assert!(!asked.is_due("m", caller), "{last:?}");
                tokio::time::advance(Duration::from_secs(1)).await;
            }
            assert!(asked.is_due("m", caller), "{last:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_is_repeated_after_an_hour_and_after_a_failure_sooner() {
        check(Last::Answered, Some(REPEAT), Some(REPEAT)).await;
        check(Last::Failed, Some(RETRY), Some(RETRY)).await;
        check(Last::Refused(scope("one")), Some(RETRY), None).await;
    }

    #[tokio::test(start_paused = true)]
    async fn callers_who_are_refused_in_turn_do_not_ask_without_end() {
        let asked = Asked::default();
        let callers = [scope("one"), scope("other")];
        for _ in 0..2 {
            for caller in callers {
                assert!(asked.is_due("m", caller));
                hear(&mut asked.said.lock(), "m".into(), Answer::Refused, caller);
            }
            assert_eq!(callers.map(|caller| asked.is_due("m", caller)), [false; 2]);
            tokio::time::advance(RETRY).await;
        }
    }

    #[tokio::test]
    async fn of_what_two_were_told_the_later_counts_for_both() {
        let (one, other) = (Asked::default(), Asked::default());
        let said = |at, window| Some(Lesson::over(None, at, Some(Tokens::new(window))));
        one.take_over("m", said(1, 8_000));
        other.take_over("m", said(2, 4_000));
        let (ones, others) = (one.lesson("m"), other.lesson("m"));
        one.take_over("m", others);
        other.take_over("m", ones);
        other.take_over("m", None);
        assert_eq!(one.of("m"), Some(Tokens::new(4_000)));
        assert_eq!(other.of("m"), Some(Tokens::new(4_000)));
    }

    #[test]
    fn only_so_many_questions_are_under_way_and_one_for_each_model() {
        let all = Arc::default();
        let first = Open::begin(&all, "0").unwrap();
        assert!(Open::begin(&all, "0").is_none());
        let rest: Vec<Open> = (1..AT_ONCE)
            .map(|at| Open::begin(&all, &at.to_string()).unwrap())
            .collect();
        assert!(Open::begin(&all, "more").is_none());
        drop(first);
        assert!(Open::begin(&all, "more").is_some());
        drop(rest);
    }
}
