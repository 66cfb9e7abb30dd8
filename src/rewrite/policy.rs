//! What the settings come to for one request: the numbers that decide, for its window.

#[cfg(test)]
mod tests;

use super::placeholder::Placeholder;
use super::placement::Placement;
use super::prune::Rule;
use super::tokens::Tokens;

/// Below this window, `auto` prunes at the mark only: replayed over real sessions, a rule scaled
/// down to a small window breaks the prompt cache four times as often as pruning at the mark.
const WIDE: Tokens = Tokens::new(100_000);
/// The most that is held back for the reply when the usable window is worked out.
const RESERVE: Tokens = Tokens::new(16_384);
/// The most of a request's own output limit that counts against the window.
const OUTPUT: Tokens = Tokens::new(32_000);
/// Into how many steps a window is divided where counts move its marks.
const COUNTED_STEPS: u32 = 16;
/// The window where neither a setting nor the profile gives one.
const WINDOW: Tokens = Tokens::new(200_000);
/// The window of the `local` profile where none is given.
const LOCAL_WINDOW: Tokens = Tokens::new(10_000);

/// Where the hard mark stands by default, in hundredths of the usable window.
const HARD_PERCENT: u32 = 90;
/// Where the soft mark stands by default, in hundredths of the usable window.
const SOFT_PERCENT: u32 = 85;
/// The soft mark stands so far below a hard mark that is given in tokens, in hundredths of it.
const BELOW_HARD_PERCENT: u32 = 95;

/// A set of numbers to start from.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Profile {
    /// `standard` for wide or unknown windows; pruning at the mark below 100,000.
    #[default]
    Auto,
    /// Prunes under pressure, in shares of the window: the smallest bill.
    Frugal,
    /// Small windows without a price on the prefix: a model on one's own machine.
    Local,
    /// The numbers of OpenCode and tunacode, always.
    Standard,
}

/// When the pruning rule is asked.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum When {
    /// At every request point.
    Always,
    /// Where the request reaches the hard mark, and a record would otherwise be made.
    Mark,
    /// Where the request is above [`Marks::pressure`].
    Pressure,
}

/// Where a mark stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Threshold {
    /// So many hundredths of what the window leaves to the conversation.
    Share(u32),
    /// At so many tokens, however wide the window is; under a small one, the default share holds.
    Tokens(Tokens),
}

impl Threshold {
    /// Where it stands in a window that leaves `usable`.
    fn mark(self, usable: Tokens, default_percent: u32) -> Tokens {
        match self {
            Self::Share(percent) => usable.percent(percent),
            Self::Tokens(tokens) => tokens.min(usable.percent(default_percent)),
        }
    }
}

/// What the operator asks for; what is left open, the profile says.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Wishes {
    /// The set of numbers to start from.
    pub profile: Profile,
    /// Whether to prune at all (`DISABLE_PRUNE` says no).
    pub prune: bool,
    /// Whether to make or adopt summaries before an overflow (`DISABLE_AUTOCOMPACT` says no).
    pub proactive: bool,
    /// Whether to act on an overflow (`DISABLE_COMPACT_ON_OVERFLOW` says no).
    pub recover: bool,
    /// See [`Rule::protect`].
    pub protect: Option<Tokens>,
    /// See [`Rule::minimum`].
    pub minimum: Option<Tokens>,
    /// See [`Rule::user_turns`].
    pub user_turns: Option<u32>,
    /// See [`When`].
    pub when: Option<When>,
    /// See [`Rule::exempt_tools`].
    pub exempt_tools: Vec<String>,
    /// See [`Rule::keep_errors`].
    pub keep_errors: bool,
    /// See [`Rule::placeholder`].
    pub placeholder: Placeholder,
    /// Where a record is adopted.
    pub hard: Threshold,
    /// Where a record is prepared.
    pub soft: Threshold,
    /// What of the newest history a record leaves as it is; a share of the window if not given.
    pub keep_recent: Option<Tokens>,
    /// Where what stands for history goes.
    pub placement: Placement,
}

impl Default for Wishes {
    fn default() -> Self {
        Self {
            profile: Profile::default(),
            prune: true,
            proactive: true,
            recover: true,
            protect: None,
            minimum: None,
            user_turns: None,
            when: None,
            exempt_tools: Vec::new(),
            keep_errors: false,
            placeholder: Placeholder::default(),
            hard: Threshold::Share(HARD_PERCENT),
            soft: Threshold::Share(SOFT_PERCENT),
            keep_recent: None,
            placement: Placement::default(),
        }
    }
}

/// Where a request's output has its room.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Output {
    /// Beside the window, which is a limit on input alone.
    Apart,
    /// In the window, with the input.
    Shared,
}

/// Where a window's marks stand.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Marks {
    /// The policy window.
    pub window: Tokens,
    /// What the model holds as far as that is known: the policy window is this rounded down, or
    /// this is the window by how the conversation is counted.
    pub holds: Tokens,
    /// What of that the output takes.
    pub output: Output,
    /// The window without the reserve for the reply.
    pub usable: Tokens,
    /// What a conversation grows to: the usable window, or an absolute hard mark below it. What is
    /// kept and what a summary may hold are shares of it.
    pub room: Tokens,
    /// A record is prepared from here on.
    pub soft: Tokens,
    /// A record is adopted from here on.
    pub hard: Tokens,
    /// `frugal` prunes above this: 60% of the room.
    pub pressure: Tokens,
    /// Pruning at the mark stands alone if it comes down to this: 70% of the room, and clear of
    /// the hard mark.
    pub relief: Tokens,
}

impl Marks {
    fn new(window: Tokens, wishes: &Wishes) -> Self {
        let usable = window - RESERVE.min(window.over(8));
        let hard = wishes.hard.mark(usable, HARD_PERCENT);
        let room = match wishes.hard {
            Threshold::Share(_) => usable,
            Threshold::Tokens(tokens) => usable.min(tokens),
        };
        let ahead = match (wishes.soft, wishes.hard) {
            (Threshold::Share(_), Threshold::Tokens(_)) => hard.percent(BELOW_HARD_PERCENT),
            (Threshold::Share(_), Threshold::Share(_)) | (Threshold::Tokens(_), _) => hard,
        };
        Self {
            window,
            holds: window,
            output: Output::Shared,
            usable,
            room,
            soft: wishes.soft.mark(usable, SOFT_PERCENT).min(ahead),
            hard,
            pressure: room.percent(60),
            // The share of the hard mark that 70% is of 90%, rounded up.
            relief: room.percent(70).min(hard.percent(78)),
        }
    }

    /// What a request that asks for `output` may measure and still fit.
    pub fn fit(&self, output: Option<Tokens>) -> Tokens {
        match self.output {
            Output::Apart => self.holds,
            Output::Shared => {
                let output = output.unwrap_or_default();
                self.holds - output.min(OUTPUT).min(self.window.over(2))
            }
        }
    }

    /// What recovery from an overflow aims at: well inside the window, and clear of the output.
    pub fn target(&self, output: Option<Tokens>) -> Tokens {
        self.window
            .percent(60)
            .min(self.fit(output) - self.window.percent(5))
    }

    /// What the first request and the newest may take together, beside so much that stands anyway:
    /// of what is left below the hard mark most stays for what comes next, so that large requests
    /// bring about no more compactions than they are worth.
    pub fn requests_beside(&self, taken: Tokens) -> Tokens {
        (self.hard - taken).over(4).min(self.room.over(5))
    }
}

/// How much of each part a summary may hold.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Budgets {
    /// The model's own text, or a digest's steps: 4% of the room, 250 to 1,500.
    pub prose: Tokens,
    /// Files and commands: 3% of the room, at most 2,000.
    pub ledger: Tokens,
    /// Identifiers: 10% of the room, 5% in wide windows; see [`Policy::budgets_for`].
    pub index: Tokens,
    /// What the user said: a quarter of what is kept as it is.
    pub said: Tokens,
    /// Beside it, the first request and the newest: none before a history is known, see
    /// [`digest::budgets`](super::digest::budgets).
    pub requests: Tokens,
}

impl Budgets {
    fn new(marks: &Marks, keep_recent: Tokens) -> Self {
        let room = marks.room;
        Self {
            prose: room.percent(4).clamp(Tokens::new(250), Tokens::new(1_500)),
            ledger: room.percent(3).min(Tokens::new(2_000)),
            index: room.percent(if marks.window < WIDE { 10 } else { 5 }),
            said: keep_recent.over(4),
            requests: Tokens::ZERO,
        }
    }

    /// What a summary is taken to measure where the marks are replayed.
    pub fn nominal(&self) -> Tokens {
        self.prose + self.ledger + self.index + self.said + self.requests
    }
}

/// Below [`WIDE`] the index of a history of so many rooms and more has so many hundredths of its plain
/// budget, the last that holds: a longer history has more to know of. At a quarter of the tokens that
/// doubles what is still known of what is far back (see `bench/COMPACTION.md`).
const INDEX_GROWS: [(u32, u32); 3] = [(0, 100), (2, 130), (4, 150)];

/// The policy for one request.
#[derive(Clone, Debug)]
pub struct Policy {
    /// The pruning rule and when it is asked; none where it is switched off.
    pub prune: Option<(When, Rule)>,
    /// How much of the newest results recovery from an overflow leaves when it clears the others,
    /// whatever the rule's turn gate and minimum: as much as the rule, and where that does not do,
    /// less. None where nothing is cleared.
    pub clearing: Option<[Tokens; 2]>,
    /// Whether records are made or adopted before an overflow.
    pub proactive: bool,
    /// Whether an overflow is acted upon.
    pub recover: bool,
    /// Where the marks stand: when records are made and adopted, and what fits.
    pub marks: Marks,
    /// Where the pruning rule's own marks stand. They are those of the policy window, whatever an
    /// upstream says when it is asked: replicas ask at different times, and a rule that moved with
    /// the answer would clear the same conversation differently on each.
    pub rule_marks: Marks,
    /// What a summary is taken to measure where the rule's own marks are replayed.
    pub rule_summary: Tokens,
    /// What of the newest history a record leaves as it is.
    pub keep_recent: Tokens,
    /// The first user message is kept verbatim if it is no larger.
    pub keep_first: Tokens,
    /// How much of each part a summary may hold.
    pub budgets: Budgets,
    /// Where what stands for history goes.
    pub placement: Placement,
}

impl Policy {
    /// What `wishes` come to for a model that holds `window` tokens.
    pub fn new(wishes: &Wishes, window: Tokens) -> Self {
        let marks = Marks::new(window, wishes);
        let wide = window >= WIDE;
        let share = window.over(10);
        let (when, protect, minimum, user_turns) = match wishes.profile {
            Profile::Auto if !wide => (When::Mark, share, Tokens::ZERO, 0),
            Profile::Auto | Profile::Standard => {
                (When::Always, Tokens::new(40_000), Tokens::new(20_000), 2)
            }
            Profile::Frugal => (When::Pressure, share, share, 0),
            Profile::Local => (When::Always, Tokens::new(2_000), Tokens::new(500), 2),
        };
        let rule = Rule {
            protect: wishes.protect.unwrap_or(protect),
            minimum: wishes.minimum.unwrap_or(minimum),
            user_turns: wishes.user_turns.unwrap_or(user_turns),
            exempt_tools: wishes.exempt_tools.clone(),
            keep_errors: wishes.keep_errors,
            placeholder: wishes.placeholder,
        };
        let clearing = [rule.protect, rule.protect.min(share)];
        let keep_recent = keep_recent(wishes, &marks);
        let budgets = Budgets::new(&marks, keep_recent);
        Self {
            prune: wishes.prune.then(|| (wishes.when.unwrap_or(when), rule)),
            clearing: (wishes.prune && wishes.recover).then_some(clearing),
            proactive: wishes.proactive,
            recover: wishes.recover,
            keep_recent,
            keep_first: Tokens::new(2_000).min(share),
            rule_summary: budgets.nominal(),
            rule_marks: marks,
            budgets,
            placement: wishes.placement,
            marks,
        }
    }

    /// Whether the rule clears results between two cuts of the history.
    pub(super) fn clears_by_itself(&self) -> bool {
        match &self.prune {
            Some((When::Always | When::Pressure, _)) => true,
            Some((When::Mark, _)) | None => false,
        }
    }

    /// How much of each part what stands for `history` may hold: a longer one has a longer index.
    pub fn budgets_for(&self, history: Tokens) -> Budgets {
        if self.marks.window >= WIDE {
            return self.budgets;
        }
        let rooms = history.get() / self.marks.room.get().max(1);
        let reached = INDEX_GROWS.iter().rev().find(|(from, _)| rooms >= *from);
        let percent = reached.map_or(100, |(_, percent)| *percent);
        Budgets {
            index: self.budgets.index.percent(percent),
            ..self.budgets
        }
    }

    /// The same where compacting alone has not helped: half as much is left as it is.
    #[must_use]
    pub(super) fn tightened(&self) -> Self {
        Self {
            keep_recent: self.keep_recent.over(2),
            ..self.clone()
        }
    }

    /// The same where the upstream was asked, and says that the model holds `tokens`. That decides
    /// when records are made and how large they are, and what fits. It never decides what the
    /// pruning rule clears, nor whether the first user message is kept.
    #[must_use]
    pub fn asked(mut self, wishes: &Wishes, tokens: Tokens) -> Self {
        self.marks = Marks::new(tokens, wishes);
        self.keep_recent = keep_recent(wishes, &self.marks);
        self.budgets = Budgets::new(&self.marks, self.keep_recent);
        self
    }

    /// The same where the conversation, by how it is counted, fills the window at `holds`.
    ///
    /// That is what fits. The marks stay as long as a request at the hard one fits: they leave so
    /// much room, and replicas that have seen different counts then agree. Else they are those of
    /// `holds`, rounded down to a sixteenth of the window, so that small differences move nothing.
    #[must_use]
    pub fn counted(mut self, wishes: &Wishes, holds: Tokens) -> Self {
        let Marks { window, output, .. } = self.marks;
        if holds < self.marks.hard {
            let step = window.over(COUNTED_STEPS).get().max(1);
            self = self.asked(wishes, Tokens::new(holds.get() / step * step));
            self.marks.output = output;
        }
        self.marks.holds = holds;
        self
    }

    /// The same where the window is a limit on input alone.
    #[must_use]
    pub fn with_output_apart(mut self) -> Self {
        self.marks.output = Output::Apart;
        self
    }

    /// The same where the model is known to hold `tokens`, of which the window is a round number.
    #[must_use]
    pub fn holding(mut self, tokens: Tokens) -> Self {
        self.marks.holds = tokens.max(self.marks.window);
        self
    }

    /// The window to assume where nothing is known.
    pub fn default_window(profile: Profile) -> Tokens {
        if profile == Profile::Local {
            LOCAL_WINDOW
        } else {
            WINDOW
        }
    }
}

/// What of the newest history a record leaves as it is: of a wish no more than leaves room for what
/// stands for the rest and for what comes next.
fn keep_recent(wishes: &Wishes, marks: &Marks) -> Tokens {
    wishes.keep_recent.map_or_else(
        || Tokens::new(20_000).min(marks.room.percent(11)),
        |wish| wish.min(marks.room.over(2)),
    )
}
