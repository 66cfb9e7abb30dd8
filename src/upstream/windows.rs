//! What each model has shown of its window: what it refused, the most it has accepted, and what
//! the ends of its replies told.

use crate::lock::Mutex;
use crate::rewrite::generations::Generations;
use crate::rewrite::overflow::{Overflow, Parting};
use crate::rewrite::tokens::Tokens;
use crate::rewrite::window::count::{Density, Pair};
use crate::rewrite::window::lesson::{Holds, Lesson};
use crate::rewrite::window::note::{Counted, Sent};
use crate::rewrite::window::silence::{Heard, Silence};
use crate::wall_clock;

/// Models remembered at the least, and twice as many at the most; a proxy serves few, and a client may
/// name any.
const MODELS: usize = 512;

/// A request of so many hundredths of a window is well below it, by whatever the estimate is off.
const WELL_BELOW_PERCENT: u32 = 75;

/// How long a refusal is believed, in milliseconds: a day. A server may be started anew with more room,
/// and one more refusal, which is mended, says that it was not.
const BELIEVED_FOR: u64 = 24 * 60 * 60 * 1_000;

/// What a model has shown, in the plain estimate's own units.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Shown {
    /// The window, learned from a refusal or from the end of a reply, or that it was learned wrongly.
    /// Where the provider cuts prompts to it, it accepts any, and only a larger count tells that this
    /// is not its window.
    pub(crate) learned: Option<Lesson<Option<Holds>>>,
    /// The largest request that it accepted since.
    pub(crate) accepted: Tokens,
    counted: Counted,
    /// What it counts for the plain estimate, on average.
    pub(crate) density: Option<Density>,
    /// That average for others: it moves with every reply, and is told again where it has moved by a
    /// sixteenth.
    pub(crate) told: Option<Lesson<Density>>,
    silence: Silence,
}

impl Shown {
    /// Whether a request of that size is known to fit: one at least as large was accepted, or it
    /// is well below what was learned, or where nothing was, below the operator's word: `set`.
    pub(crate) fn proves(&self, request: Tokens, set: Option<Tokens>) -> bool {
        let window = self.window().or(set);
        request <= self.accepted
            || window.is_some_and(|window| request <= window.percent(WELL_BELOW_PERCENT))
    }

    /// The window that was learned, if any.
    pub(crate) fn window(&self) -> Option<Tokens> {
        self.holds().map(|holds| holds.window)
    }

    /// The same with what it says to other conversations than the one that was refused.
    pub(crate) fn holds(&self) -> Option<Holds> {
        self.learned?.what
    }

    /// A refusal that is too old says nothing any more. A window that prompts are cut to stays: to learn
    /// it again would cost somebody's words. Nothing stays of a clock that ran ahead, by which it would
    /// be new until that date.
    fn expire(&mut self) {
        let now = wall_clock::millis();
        self.learned = self.learned.filter(|lesson| {
            let refused = lesson.what.is_some_and(|holds| holds.cut_to.is_none());
            let is_old = refused && !lesson.is_since(now.saturating_sub(BELIEVED_FOR));
            !is_old && !lesson.is_ahead_of(now)
        });
    }

    fn accept(&mut self, request: Tokens) {
        self.silence.answer(request);
        let accepted = self.accepted.max(request);
        match self.holds() {
            Some(Holds {
                window,
                cut_to: Some(_),
                ..
            }) => self.accepted = accepted.min(window),
            Some(holds) if holds.is_disproved_by(request) => {
                self.learn(None);
                self.accepted = accepted;
            }
            Some(_) | None => self.accepted = accepted,
        }
    }

    /// It refused a request, which may be for any reason but its size, whatever the error says: it
    /// may quote somebody's words. What was accepted counts for more.
    fn refuse(&mut self, holds: Holds) {
        if !holds.is_disproved_by(self.accepted) {
            self.learn(Some(holds));
        }
    }

    /// It holds that much, or what was learned is wrong. The same again is no news to others.
    fn learn(&mut self, holds: Option<Holds>) {
        if self.holds() != holds {
            self.learned = Some(Lesson::over(self.learned, wall_clock::millis(), holds));
        }
        self.bound();
    }

    /// What was accepted beyond what is taken to be the window proves nothing.
    fn bound(&mut self) {
        if let Some(window) = self.window() {
            self.accepted = self.accepted.min(window);
        }
    }

    /// Another request was counted.
    fn count(&mut self, pair: Pair) {
        self.density = Density::average(self.density, pair);
        let Some(density) = self.density else {
            return;
        };
        if self.told.is_none_or(|told| density.is_far_from(told.what)) {
            self.told = Some(Lesson::over(self.told, wall_clock::millis(), density));
        }
    }

    fn note(&mut self, sent: Sent, parting: &Parting) -> Option<Tokens> {
        let usage = parting.usage;
        // What a picture or a file is counted at says nothing of anybody's text.
        if sent.text_alone
            && let Some(pair) = usage.and_then(|usage| Pair::of(sent.estimate, usage.input))
        {
            self.count(pair);
        }
        let note = self.counted.read(sent, parting);
        let cut_to = self.holds().and_then(|holds| holds.cut_to);
        if cut_to.is_some_and(|cut_to| self.counted.most() > cut_to) {
            self.learn(None);
        }
        let was = self.window();
        let holds = note?;
        // Nothing larger was accepted: what was may be this very request, whose reply began well.
        if self.accepted <= sent.estimate {
            self.learn(Some(holds));
        } else {
            self.refuse(holds);
        }
        self.window().filter(|&window| was != Some(window))
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
        let mut shown = self.shown.lock().get(model).unwrap_or_default();
        shown.expire();
        shown
    }

    /// Another process has learned this of its window, and tells this average: each if anything. The
    /// window counts where that was later; where more was accepted here, it is wrong for all.
    pub(crate) fn take_over(
        &self,
        model: &str,
        learned: Option<Lesson<Option<Holds>>>,
        told: Option<Lesson<Density>>,
    ) {
        self.change(model, |shown| {
            if learned > shown.learned {
                let accepted = shown.accepted;
                shown.learned = learned;
                shown.bound();
                shown.accept(accepted);
            }
            if shown.density.is_none() {
                shown.density = told.map(|told| told.what);
                shown.told = told;
            }
        });
    }

    /// It accepted a request of that size. A window that was learned and is smaller was learned
    /// wrongly, or from denser text: it is forgotten.
    pub(crate) fn accepted(&self, model: &str, request: Tokens) {
        self.change(model, |shown| shown.accept(request));
    }

    /// It refused a request of that size, which shows its window unless more was accepted.
    pub(crate) fn refused(&self, model: &str, request: Tokens, overflow: &Overflow) {
        let holds = Holds::refused(request, overflow);
        self.change(model, |shown| shown.refuse(holds));
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
        let mut all = self.shown.lock();
        let before = all.get(model).unwrap_or_default();
        let mut shown = before;
        shown.expire();
        change(&mut shown);
        // A model of which nothing is known takes nobody's place.
        if before != shown {
            all.insert(model.to_owned(), shown);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rewrite::overflow::{Reading, Rules, Step, Verdict};
    use crate::rewrite::sse::Finish;
    use crate::rewrite::window::note::tests::{parting, sent};

    const REFUSED: &[u8] = br#"{"error":{"code":"context_length_exceeded","message":"This model's maximum context length is 32000 tokens. However, your messages resulted in 40000 tokens."}}"#;

    fn overflow() -> Overflow {
        let mut reading = Reading::new(400, Rules::standard()).unwrap();
        assert_eq!(reading.push(REFUSED), Step::Hold);
        let verdict = reading.end();
        let Verdict::Overflow(overflow) = verdict else {
            panic!("{verdict:?}")
        };
        overflow
    }

    #[test]
    fn a_refusal_teaches_the_window_in_our_own_units() {
        let windows = Windows::default();
        windows.refused("m", Tokens::new(30_000), &overflow());
        assert_eq!(windows.of("m").window(), Some(Tokens::new(24_000)));
        assert_eq!(windows.of("other"), Shown::default());
    }

    #[test]
    fn only_what_was_accepted_or_is_well_below_the_window_is_proven() {
        let windows = Windows::default();
        assert!(!windows.of("m").proves(Tokens::new(1), None));
        windows.accepted("m", Tokens::new(100));
        assert!(windows.of("m").proves(Tokens::new(100), None));
        assert!(!windows.of("m").proves(Tokens::new(101), None));
        windows.refused("m", Tokens::new(30_000), &overflow());
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
        windows.refused("m", Tokens::new(30_000), &overflow());
        assert!(proves(18_000));
        assert!(!proves(18_001));
    }

    #[test]
    fn a_window_that_a_larger_request_disproves_is_forgotten() {
        let windows = Windows::default();
        windows.refused("m", Tokens::new(30_000), &overflow());
        // Where the text is less dense, as much as the upstream said may well fit.
        windows.accepted("m", Tokens::new(32_000));
        assert_eq!(windows.of("m").window(), Some(Tokens::new(24_000)));
        windows.accepted("m", Tokens::new(32_001));
        assert_eq!(windows.of("m").window(), None);
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
        assert_eq!(shown.window(), Some(Tokens::new(4_096)));
        assert!(!shown.proves(Tokens::new(4_097), None));
        assert_eq!(windows.ended("m", sent(5_000), &stop(4_500)), None);
        assert_eq!(windows.of("m").window(), None);
    }

    #[test]
    fn what_the_end_of_a_reply_shows_is_not_undone_by_its_head() {
        let windows = Windows::default();
        windows.accepted("m", Tokens::new(10_000));
        let full = parting(10_000, 2_000, Finish::WindowFull);
        let learned = windows.ended("m", sent(10_000), &full);
        assert_eq!(learned, Some(Tokens::new(12_000)));
        assert_eq!(windows.of("m").window(), learned);
        assert_eq!(windows.ended("m", sent(10_000), &full), None);
    }

    /// Of two processes, what each knows when both have told the other.
    fn exchanged(one: &Windows, other: &Windows) -> [Option<Tokens>; 2] {
        let (ones, others) = (one.of("m"), other.of("m"));
        one.take_over("m", others.learned, others.told);
        other.take_over("m", ones.learned, ones.told);
        [one, other].map(|windows| windows.of("m").window())
    }

    #[test]
    fn what_another_process_never_learned_erases_nothing_here() {
        let (one, other) = (Windows::default(), Windows::default());
        one.refused("m", Tokens::new(30_000), &overflow());
        let learned = Some(Tokens::new(24_000));
        _ = other.ended("m", sent(10_000), &parting(12_000, 5, Finish::Stop));
        assert!(other.of("m").density.is_some());
        assert_eq!(exchanged(&one, &other), [learned; 2]);
        assert_eq!(one.of("m").density, other.of("m").density);
    }

    #[test]
    fn a_window_disproved_in_one_process_is_forgotten_in_all() {
        let (one, other) = (Windows::default(), Windows::default());
        one.refused("m", Tokens::new(30_000), &overflow());
        let learned = Some(Tokens::new(24_000));
        assert_eq!(exchanged(&one, &other), [learned; 2]);
        other.accepted("m", Tokens::new(32_001));
        assert_eq!(exchanged(&one, &other), [None; 2]);
        // And when another learns it that has accepted less.
        one.refused("m", Tokens::new(30_000), &overflow());
        assert_eq!(exchanged(&one, &other), [learned, None]);
        assert_eq!(exchanged(&one, &other), [None; 2]);
    }

    #[test]
    fn what_was_accepted_counts_for_more_than_what_an_error_states() {
        let windows = Windows::default();
        windows.accepted("m", Tokens::new(32_001));
        windows.refused("m", Tokens::new(40_000), &overflow());
        assert_eq!(windows.of("m").window(), None);
        assert_eq!(windows.of("m").accepted, Tokens::new(32_001));
    }

    #[test]
    fn a_refusal_is_believed_for_a_day_and_a_window_that_is_cut_to_for_good() {
        let taken_over = |ago: u64, holds| {
            let windows = Windows::default();
            let lesson = Lesson::over(None, wall_clock::millis() - ago, Some(holds));
            windows.take_over("m", Some(lesson), None);
            windows.of("m").window()
        };
        let window = Tokens::new(8_000);
        let refused = Holds::at_most(window);
        assert_eq!(taken_over(BELIEVED_FOR - 60_000, refused), Some(window));
        assert_eq!(taken_over(BELIEVED_FOR + 1, refused), None);
        let cut = Holds::cutting(window, 8_192);
        assert_eq!(taken_over(BELIEVED_FOR + 1, cut), Some(window));
    }

    #[test]
    fn what_was_learned_under_a_clock_that_ran_ahead_is_not_believed_and_gives_way() {
        const YEAR: u64 = 365 * BELIEVED_FOR;
        for holds in [Some(Holds::at_most(Tokens::new(8_000))), None] {
            let windows = Windows::default();
            let lesson = Lesson::over(None, wall_clock::millis() + YEAR, holds);
            windows.take_over("m", Some(lesson), None);
            assert_eq!(windows.of("m").learned, None);
            let (tokens, refused) = (Tokens::new(30_000), overflow());
            windows.refused("m", tokens, &refused);
            assert_eq!(
                windows.of("m").window(),
                Some(crate::rewrite::window::learn(tokens, &refused))
            );
        }
    }

    #[test]
    fn what_pictures_and_files_are_counted_at_says_nothing_of_text() {
        let windows = Windows::default();
        let file = Sent {
            text_alone: false,
            ..sent(10_000)
        };
        _ = windows.ended("m", file, &parting(50_000, 5, Finish::Stop));
        assert_eq!(windows.of("m").density, None);
    }

    #[test]
    fn an_average_is_told_again_where_it_has_moved_by_a_sixteenth() {
        let windows = Windows::default();
        let mut told = Vec::new();
        for input in [10_000, 10_100, 10_200, 20_000, 20_000] {
            _ = windows.ended("m", sent(10_000), &parting(input, 5, Finish::Stop));
            told.push(windows.of("m").told);
        }
        assert!(told[0].is_some());
        assert_eq!((told[1], told[2]), (told[0], told[0]));
        assert!(told[3] > told[0] && told[4] > told[3], "{told:?}");
    }

    #[test]
    fn a_suspicion_changes_nothing() {
        let windows = Windows::default();
        windows.accepted("m", Tokens::new(10_000));
        let ended = windows.ended("m", sent(10_000), &parting(4_000, 5, Finish::Stop));
        assert_eq!((ended, windows.of("m").window()), (None, None));
        assert!(windows.of("m").proves(Tokens::new(10_000), None));
    }
}
