//! What each model has shown of its window: what it refused, the most it has accepted, and what
//! the ends of its replies told.

use crate::rewrite::generations::Generations;
use crate::rewrite::overflow::{Overflow, Parting};
use crate::rewrite::tokens::Tokens;
use crate::rewrite::window::count::{Density, Pair};
use crate::rewrite::window::learn;
use crate::rewrite::window::note::{Counted, Note, Sent};
use crate::rewrite::window::silence::{Heard, Silence};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Models remembered at the least, and twice as many at the most; a proxy serves few, and a client may
/// name any.
const MODELS: usize = 512;

/// A request of so many hundredths of a window is well below it, by whatever the estimate is off.
const WELL_BELOW_PERCENT: u32 = 75;

/// What a model has shown, in the plain estimate's own units.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Shown {
    /// The window, learned from a refusal or from the end of a reply.
    pub(crate) window: Option<Tokens>,
    /// The largest request that it accepted since.
    pub(crate) accepted: Tokens,
    /// That window as the provider counts, where it cuts prompts to it: then it accepts any, and
    /// only a larger count tells that this is not its window.
    pub(crate) cut_to: Option<u32>,
    counted: Counted,
    /// What it counts for the plain estimate, on average.
    pub(crate) density: Option<Density>,
    silence: Silence,
}

impl Shown {
    /// Whether a request of that size is known to fit: one at least as large was accepted, or it
    /// is well below what was learned, or where nothing was, below the operator's word: `set`.
    pub(crate) fn proves(&self, request: Tokens, set: Option<Tokens>) -> bool {
        let window = self.window.or(set);
        request <= self.accepted
            || window.is_some_and(|window| request <= window.percent(WELL_BELOW_PERCENT))
    }

    fn accept(&mut self, request: Tokens) {
        self.silence.answer(request);
        let accepted = self.accepted.max(request);
        match self.window {
            Some(window) if self.cut_to.is_some() => self.accepted = accepted.min(window),
            Some(window) if window < request => {
                self.window = None;
                self.accepted = accepted;
            }
            Some(_) | None => self.accepted = accepted,
        }
    }

    fn learn(&mut self, window: Tokens, cut_to: Option<u32>) {
        self.window = Some(window);
        self.accepted = self.accepted.min(window);
        self.cut_to = cut_to;
    }

    fn note(&mut self, sent: Sent, parting: &Parting) -> Option<Tokens> {
        let usage = parting.usage;
        if let Some(pair) = usage.and_then(|usage| Pair::of(sent.estimate, usage.input)) {
            self.density = Density::average(self.density, pair);
        }
        let note = self.counted.read(sent, parting);
        if self
            .cut_to
            .is_some_and(|cut_to| self.counted.most() > cut_to)
        {
            self.window = None;
            self.cut_to = None;
        }
        let was = self.window;
        match note? {
            Note::Cut { window, counted } => self.learn(window, Some(counted)),
            Note::Stated(window) => self.learn(window, None),
        }
        self.window.filter(|_| self.window != was)
    }
}

/// What the models of one upstream have shown.
pub(crate) struct Windows {
    shown: Mutex<Generations<String, Shown>>,
}

impl Default for Windows {
    fn default() -> Self {
        Self {
            shown: Mutex::new(Generations::new(MODELS)),
        }
    }
}

impl Windows {
    /// What `model` has shown.
    pub(crate) fn of(&self, model: &str) -> Shown {
        self.lock().get(model).unwrap_or_default()
    }

    /// Another process has learned this window of it, with what it counts where it cuts prompts to
    /// it, and this average.
    pub(crate) fn take_over(
        &self,
        model: &str,
        window: Option<Tokens>,
        cut_to: Option<u32>,
        density: Option<Density>,
    ) {
        self.change(model, |shown| {
            shown.density = shown.density.or(density);
            if let Some(window) = window {
                shown.learn(window, cut_to);
            } else {
                (shown.window, shown.cut_to) = (None, None);
            }
        });
    }

    /// It accepted a request of that size. A window that was learned and is smaller was learned
    /// wrongly, or from denser text: it is forgotten.
    pub(crate) fn accepted(&self, model: &str, request: Tokens) {
        self.change(model, |shown| shown.accept(request));
    }

    /// It refused a request of that size; says what its window is taken to be from here on.
    pub(crate) fn refused(&self, model: &str, request: Tokens, overflow: &Overflow) -> Tokens {
        let window = learn(request, overflow);
        self.change(model, |shown| shown.learn(window, None));
        window
    }

    /// The reply to a request has ended, and this is how; says what its window is taken to be from
    /// here on, where that is new.
    pub(crate) fn ended(&self, model: &str, sent: Sent, parting: &Parting) -> Option<Tokens> {
        let mut learned = None;
        self.change(model, |shown| learned = shown.note(sent, parting));
        learned
    }

    /// It met a request of that size with silence.
    pub(crate) fn silent(&self, model: &str, request: Tokens) -> Heard {
        let mut heard = Heard::First;
        self.change(model, |shown| heard = shown.silence.meet(request));
        heard
    }

    /// It met with silence what was sent in place of a request that it had met so.
    pub(crate) fn still_silent(&self, model: &str) {
        self.change(model, |shown| shown.silence.persist());
    }

    /// Changes what is known of `model`. Many replies end at once, and nothing that one of them
    /// tells is lost.
    fn change(&self, model: &str, change: impl FnOnce(&mut Shown)) {
        let mut all = self.lock();
        let before = all.get(model);
        let mut shown = before.unwrap_or_default();
        change(&mut shown);
        if before != Some(shown) {
            all.insert(model.to_owned(), shown);
        }
    }

    /// What it holds is whole after every statement, so a panic elsewhere does not spoil it.
    fn lock(&self) -> MutexGuard<'_, Generations<String, Shown>> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rewrite::overflow::{Reply, Rules, Verdict, classify};
    use crate::rewrite::sse::Finish;
    use crate::rewrite::usage::Usage;

    const REFUSED: &[u8] = br#"{"error":{"code":"context_length_exceeded","message":"This model's maximum context length is 32000 tokens. However, your messages resulted in 40000 tokens."}}"#;

    fn overflow() -> Overflow {
        let verdict = classify(
            Reply::Body {
                status: 400,
                bytes: REFUSED,
            },
            Rules::standard(),
        );
        let Verdict::Overflow(overflow) = verdict else {
            panic!("{verdict:?}")
        };
        overflow
    }

    #[test]
    fn a_refusal_teaches_the_window_in_our_own_units() {
        let windows = Windows::default();
        let learned = windows.refused("m", Tokens::new(30_000), &overflow());
        assert_eq!(learned, Tokens::new(24_000));
        assert_eq!(windows.of("m").window, Some(learned));
        assert_eq!(windows.of("other"), Shown::default());
    }

    #[test]
    fn only_what_was_accepted_or_is_well_below_the_window_is_proven() {
        let windows = Windows::default();
        assert!(!windows.of("m").proves(Tokens::new(1), None));
        windows.accepted("m", Tokens::new(100));
        assert!(windows.of("m").proves(Tokens::new(100), None));
        assert!(!windows.of("m").proves(Tokens::new(101), None));
        _ = windows.refused("m", Tokens::new(30_000), &overflow());
        assert!(windows.of("m").proves(Tokens::new(18_000), None));
        assert!(!windows.of("m").proves(Tokens::new(18_001), None));
    }

    #[test]
    fn a_set_window_proves_what_is_well_below_it_until_another_is_learned() {
        let windows = Windows::default();
        let set = Some(Tokens::new(40_000));
        let proves = |request| windows.of("m").proves(Tokens::new(request), set);
        assert!(proves(30_000));
        assert!(!proves(30_001));
        _ = windows.refused("m", Tokens::new(30_000), &overflow());
        assert!(proves(18_000));
        assert!(!proves(18_001));
    }

    #[test]
    fn a_window_that_a_larger_request_disproves_is_forgotten() {
        let windows = Windows::default();
        _ = windows.refused("m", Tokens::new(30_000), &overflow());
        windows.accepted("m", Tokens::new(24_001));
        assert_eq!(windows.of("m").window, None);
    }

    fn parting(input: u32, output: u32, finish: Finish) -> Parting {
        Parting {
            usage: Some(Usage {
                input,
                output: Some(output),
                cached: None,
                ..Usage::default()
            }),
            finish: Some(finish),
            said: output > 0,
            verdict: Verdict::Fine,
        }
    }

    fn sent(estimate: u32) -> Sent {
        Sent {
            estimate: Tokens::new(estimate),
            output: None,
        }
    }

    #[test]
    fn a_window_that_prompts_are_cut_to_stays_whatever_is_accepted() {
        let windows = Windows::default();
        let stop = |input| parting(input, 5, Finish::Stop);
        for (estimate, input, learned) in [(10_000, 4_000, None), (12_000, 3_900, Some(4_096))] {
            windows.accepted("m", Tokens::new(estimate));
            let ended = windows.ended("m", sent(estimate), &stop(input));
            assert_eq!(ended.map(Tokens::get), learned);
        }
        windows.accepted("m", Tokens::new(20_000));
        let shown = windows.of("m");
        assert_eq!(shown.window, Some(Tokens::new(4_096)));
        assert!(!shown.proves(Tokens::new(4_097), None));
        assert_eq!(windows.ended("m", sent(5_000), &stop(4_500)), None);
        assert_eq!(windows.of("m").window, None);
    }

    #[test]
    fn what_the_end_of_a_reply_shows_is_not_undone_by_its_head() {
        let windows = Windows::default();
        windows.accepted("m", Tokens::new(10_000));
        let full = parting(10_000, 2_000, Finish::WindowFull);
        let learned = windows.ended("m", sent(10_000), &full);
        assert_eq!(learned, Some(Tokens::new(12_000)));
        assert_eq!(windows.of("m").window, learned);
        assert_eq!(windows.ended("m", sent(10_000), &full), None);
    }

    #[test]
    fn a_suspicion_changes_nothing() {
        let windows = Windows::default();
        windows.accepted("m", Tokens::new(10_000));
        let ended = windows.ended("m", sent(10_000), &parting(4_000, 5, Finish::Stop));
        assert_eq!((ended, windows.of("m").window), (None, None));
        assert!(windows.of("m").proves(Tokens::new(10_000), None));
    }
}
