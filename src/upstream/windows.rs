//! What each model has shown of its window: what it refused, the most it has accepted, and what
//! the ends of its replies told.
//!
//! An error is believed as far as it can do no harm to others. One that what was accepted speaks
//! against teaches the model nothing, and only has replies held from that size on; a conversation
//! that was refused twice in a turn is shown by that what it holds itself. All of that is forgotten
//! after a day.

mod own;

use crate::lock::Mutex;
use crate::rewrite::chain::Chains;
use crate::rewrite::generations::Generations;
use crate::rewrite::overflow::{Overflow, Parting};
use crate::rewrite::tokens::Tokens;
use crate::rewrite::window::count::{Density, Pair};
use crate::rewrite::window::lesson::{Holds, Lesson};
use crate::rewrite::window::note::{Counted, Sent};
use crate::rewrite::window::silence::{Heard, Silence};
use crate::rewrite::window::{learn_beside, to_two_digits};
use crate::wall_clock;
use own::Own;

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
    /// The size from which a reply is looked at whatever was accepted: a refusal spoke against that. For
    /// text as dense as what was refused it may be right.
    doubted: Option<Lesson<Tokens>>,
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
    /// is well below what was learned, or where nothing was, below the operator's word: `set`. None is
    /// of a size that is doubted.
    pub(crate) fn proves(&self, request: Tokens, set: Option<Tokens>) -> bool {
        let window = self.window().or(set);
        let doubted = self.doubted.is_some_and(|doubted| request >= doubted.what);
        let fits = request <= self.accepted
            || window.is_some_and(|window| request <= window.percent(WELL_BELOW_PERCENT));
        fits && !doubted
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
        let since = now.saturating_sub(BELIEVED_FOR);
        self.learned = self.learned.filter(|lesson| {
            let refused = lesson.what.is_some_and(|holds| holds.cut_to.is_none());
            let is_old = refused && !lesson.is_since(since);
            !is_old && !lesson.is_ahead_of(now)
        });
        self.doubted = self
            .doubted
            .filter(|doubted| doubted.is_since(since) && !doubted.is_ahead_of(now));
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
    /// may quote somebody's words. What was accepted counts for more, and only what is held follows
    /// the error all the same.
    fn refuse(&mut self, request: Tokens, holds: Holds) {
        let holds = if request > self.accepted {
            holds.beside(self.accepted)
        } else {
            holds
        };
        if holds.is_disproved_by(self.accepted) {
            self.doubt(request.min(holds.window));
        } else {
            self.learn(Some(holds));
        }
    }

    /// Requests from that size on are held until they are seen to be answered.
    fn doubt(&mut self, from: Tokens) {
        let before = self.doubted;
        let from = before.map_or(from, |before| from.min(before.what));
        self.doubted = Some(Lesson::over(before, wall_clock::millis(), from));
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
            self.refuse(sent.estimate, holds);
        }
        self.window().filter(|&window| was != Some(window))
    }
}

/// What the models of one upstream have shown.
pub(crate) struct Windows {
    shown: Mutex<Generations<String, Shown>>,
    /// What conversations were shown for themselves.
    own: Own,
}

impl Default for Windows {
    fn default() -> Self {
        Self {
            shown: Mutex::new(Generations::new(MODELS)),
            own: Own::default(),
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
        self.change(model, |shown| shown.refuse(request, holds));
    }

    /// The policy window that a conversation was shown for itself alone.
    pub(crate) fn own(&self, chains: &Chains) -> Option<Tokens> {
        self.own.of(chains)
    }

    /// What was sent of a conversation in place of a request that was refused was refused, too, at that
    /// size: for this conversation that is its window, whatever else was accepted.
    pub(crate) fn refused_again(&self, chains: &Chains, request: Tokens, overflow: &Overflow) {
        let window = to_two_digits(learn_beside(request, overflow, self.own(chains)));
        self.own.refused(chains, window);
    }

    /// A request of that size was accepted of a conversation.
    pub(crate) fn accepted_own(&self, chains: &Chains, request: Tokens) {
        self.own.accepted(chains, request);
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
mod tests;
