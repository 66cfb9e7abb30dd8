//! What the settings come to for one request: the numbers that decide, for its window.

#[cfg(test)]
mod tests;

use super::placeholder::Placeholder;
use super::placement::Placement;
use super::prune::PruneRule;
use super::tokens::Tokens;

/// Below this window, `auto` prunes at the mark only: replayed over real sessions, a rule scaled
/// down to a small window breaks the prompt cache four times as often as pruning at the mark.
const WIDE_WINDOW: Tokens = Tokens::new(100_000);
/// The most that is held back for the reply when the usable window is worked out.
const REPLY_RESERVE: Tokens = Tokens::new(16_384);
/// The most of a request's own output limit that counts against the window.
const MAX_OUTPUT: Tokens = Tokens::new(32_000);
/// Into how many steps a window is divided where counts move its marks.
const WINDOW_STEPS: u32 = 16;
/// The window where neither a setting nor the profile gives one.
const DEFAULT_WINDOW: Tokens = Tokens::new(200_000);
/// The window of the `local` profile where none is given.
const LOCAL_WINDOW: Tokens = Tokens::new(10_000);

/// Where the hard mark stands by default, in hundredths of the usable window.
const HARD_PERCENT: u32 = 90;
/// Where the soft mark stands by default, in hundredths of the usable window.
const SOFT_PERCENT: u32 = 85;
/// The soft mark stands so far below a hard mark that is given in tokens, in hundredths of it.
const SOFT_BELOW_HARD_PERCENT: u32 = 95;

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
pub enum PruneTrigger {
    /// At every request point.
    Always,
    /// Where the request reaches the hard mark, and a record would otherwise be made.
    HardMark,
    /// Where the request is above [`Marks::pressure`].
    Pressure,
}

/// Where a mark stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ThresholdSetting {
    /// So many hundredths of what the window leaves to the conversation.
    Percent(u32),
    /// At so many tokens, however wide the window is; under a small one, the default share holds.
    Tokens(Tokens),
}

impl ThresholdSetting {
    /// Where it stands in a window that leaves `usable`.
    fn resolve(self, usable: Tokens, default_percent: u32) -> Tokens {
        match self {
            Self::Percent(percent) => usable.percent(percent),
            Self::Tokens(tokens) => tokens.min(usable.percent(default_percent)),
        }
    }
}

/// What the operator asks for; what is left open, the profile says.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CompactionSettings {
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
    pub prune_trigger: Option<PruneTrigger>,
    /// See [`Rule::exempt_tools`].
    pub exempt_tools: Vec<String>,
    /// See [`Rule::keep_errors`].
    pub keep_errors: bool,
    /// See [`Rule::placeholder`].
    pub placeholder: Placeholder,
    /// Where a record is adopted.
    pub hard: ThresholdSetting,
    /// Where a record is prepared.
    pub soft: ThresholdSetting,
    /// What of the newest history a record leaves as it is; a share of the window if not given.
    pub keep_recent: Option<Tokens>,
    /// Where what stands for history goes.
    pub placement: Placement,
}

impl Default for CompactionSettings {
    fn default() -> Self {
        Self {
            profile: Profile::default(),
            prune: true,
            proactive: true,
            recover: true,
            protect: None,
            minimum: None,
            user_turns: None,
            prune_trigger: None,
            exempt_tools: Vec::new(),
            keep_errors: false,
            placeholder: Placeholder::default(),
            hard: ThresholdSetting::Percent(HARD_PERCENT),
            soft: ThresholdSetting::Percent(SOFT_PERCENT),
            keep_recent: None,
            placement: Placement::default(),
        }
    }
}

/// Where a request's output has its room.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum OutputWindow {
    /// Beside the window, which is a limit on input alone.
    Separate,
    /// In the window, with the input.
    Shared,
}

/// Where a window's marks stand.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Thresholds {
    /// The policy window.
    pub window: Tokens,
    /// What the model holds as far as that is known: the policy window is this rounded down, or
    /// this is the window by how the conversation is counted.
    pub actual_window: Tokens,
    /// What of that the output takes.
    pub output: OutputWindow,
    /// The window without the reserve for the reply.
    pub usable: Tokens,
    /// What a conversation grows to: the usable window, or an absolute hard mark below it. What is
    /// kept and what a summary may hold are shares of it.
    pub capacity: Tokens,
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

impl Thresholds {
    fn new(window: Tokens, wishes: &CompactionSettings) -> Self {
        let usable = window - REPLY_RESERVE.min(window.divided_by(8));
        let hard = wishes.hard.resolve(usable, HARD_PERCENT);
        let room = match wishes.hard {
            ThresholdSetting::Percent(_) => usable,
            ThresholdSetting::Tokens(tokens) => usable.min(tokens),
        };
        let ahead = match (wishes.soft, wishes.hard) {
            (ThresholdSetting::Percent(_), ThresholdSetting::Tokens(_)) => {
                hard.percent(SOFT_BELOW_HARD_PERCENT)
            }
            (ThresholdSetting::Percent(_), ThresholdSetting::Percent(_))
            | (ThresholdSetting::Tokens(_), _) => hard,
        };
        Self {
            window,
            actual_window: window,
            output: OutputWindow::Shared,
            usable,
            capacity: room,
            soft: wishes.soft.resolve(usable, SOFT_PERCENT).min(ahead),
            hard,
            pressure: room.percent(60),
            // The share of the hard mark that 70% is of 90%, rounded up.
            relief: room.percent(70).min(hard.percent(78)),
        }
    }

    /// What a request that asks for `output` may measure and still fit.
    pub fn max_input(&self, output: Option<Tokens>) -> Tokens {
        match self.output {
            OutputWindow::Separate => self.actual_window,
            OutputWindow::Shared => {
                let output = output.unwrap_or_default();
                self.actual_window - output.min(MAX_OUTPUT).min(self.window.divided_by(2))
            }
        }
    }

    /// What recovery from an overflow aims at: well inside the window, and clear of the output.
    pub fn recovery_target(&self, output: Option<Tokens>) -> Tokens {
        self.window
            .percent(60)
            .min(self.max_input(output) - self.window.percent(5))
    }

    /// What the first request and the newest may take together, beside so much that stands anyway:
    /// of what is left below the hard mark most stays for what comes next, so that large requests
    /// bring about no more compactions than they are worth.
    pub fn requests_budget(&self, taken: Tokens) -> Tokens {
        (self.hard - taken)
            .divided_by(4)
            .min(self.capacity.divided_by(5))
    }
}

/// How much of each part a summary may hold.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SummaryBudgets {
    /// The model's own text, or a digest's steps: 4% of the room, 250 to 1,500.
    pub prose: Tokens,
    /// Files and commands: 3% of the room, at most 2,000.
    pub file_activity: Tokens,
    /// Identifiers: 10% of the room, 5% in wide windows; see [`Policy::budgets_for`].
    pub identifiers: Tokens,
    /// What the user said: a quarter of what is kept as it is.
    pub user_messages: Tokens,
    /// Beside it, the first request and the newest: none before a history is known, see
    /// [`digest::budgets`](super::digest::budgets).
    pub requests: Tokens,
}

impl SummaryBudgets {
    fn new(marks: &Thresholds, keep_recent: Tokens) -> Self {
        let room = marks.capacity;
        Self {
            prose: room.percent(4).clamp(Tokens::new(250), Tokens::new(1_500)),
            file_activity: room.percent(3).min(Tokens::new(2_000)),
            identifiers: room.percent(if marks.window < WIDE_WINDOW { 10 } else { 5 }),
            user_messages: keep_recent.divided_by(4),
            requests: Tokens::ZERO,
        }
    }

    /// What a summary is taken to measure where the marks are replayed.
    pub fn nominal(&self) -> Tokens {
        self.prose + self.file_activity + self.identifiers + self.user_messages + self.requests
    }
}

/// Below [`WIDE`] the index of a history of so many rooms and more has so many hundredths of its plain
/// budget, the last that holds: a longer history has more to know of. At a quarter of the tokens that
/// doubles what is still known of what is far back (see `bench/COMPACTION.md`).
const INDEX_GROWTH: [(u32, u32); 3] = [(0, 100), (2, 130), (4, 150)];

/// The policy for one request.
#[derive(Clone, Debug)]
pub struct Policy {
    /// The pruning rule and when it is asked; none where it is switched off.
    pub prune: Option<(PruneTrigger, PruneRule)>,
    /// How much of the newest results recovery from an overflow leaves when it clears the others,
    /// whatever the rule's turn gate and minimum: as much as the rule, and where that does not do,
    /// less. None where nothing is cleared.
    pub recovery_protect: Option<[Tokens; 2]>,
    /// Whether records are made or adopted before an overflow.
    pub proactive: bool,
    /// Whether an overflow is acted upon.
    pub recover: bool,
    /// Where the marks stand: when records are made and adopted, and what fits.
    pub thresholds: Thresholds,
    /// Where the pruning rule's own marks stand. They are those of the policy window, whatever an
    /// upstream says when it is asked: replicas ask at different times, and a rule that moved with
    /// the answer would clear the same conversation differently on each.
    pub prune_thresholds: Thresholds,
    /// What a summary is taken to measure where the rule's own marks are replayed.
    pub prune_summary_size: Tokens,
    /// What of the newest history a record leaves as it is.
    pub keep_recent: Tokens,
    /// The first user message is kept verbatim if it is no larger.
    pub max_pinned_first: Tokens,
    /// How much of each part a summary may hold.
    pub budgets: SummaryBudgets,
    /// Where what stands for history goes.
    pub placement: Placement,
}

impl Policy {
    /// What `wishes` come to for a model that holds `window` tokens.
    pub fn new(wishes: &CompactionSettings, window: Tokens) -> Self {
        let marks = Thresholds::new(window, wishes);
        let wide = window >= WIDE_WINDOW;
        let share = window.divided_by(10);
        let (when, protect, minimum, user_turns) = match wishes.profile {
            Profile::Auto if !wide => (PruneTrigger::HardMark, share, Tokens::ZERO, 0),
            Profile::Auto | Profile::Standard => (
                PruneTrigger::Always,
                Tokens::new(40_000),
                Tokens::new(20_000),
                2,
            ),
            Profile::Frugal => (PruneTrigger::Pressure, share, share, 0),
            Profile::Local => (
                PruneTrigger::Always,
                Tokens::new(2_000),
                Tokens::new(500),
                2,
            ),
        };
        let rule = PruneRule {
            protect: wishes.protect.unwrap_or(protect),
            minimum: wishes.minimum.unwrap_or(minimum),
            user_turns: wishes.user_turns.unwrap_or(user_turns),
            exempt_tools: wishes.exempt_tools.clone(),
            keep_errors: wishes.keep_errors,
            placeholder: wishes.placeholder,
        };
        let clearing = [rule.protect, rule.protect.min(share)];
        let keep_recent = keep_recent(wishes, &marks);
        let budgets = SummaryBudgets::new(&marks, keep_recent);
        Self {
            prune: wishes
                .prune
                .then(|| (wishes.prune_trigger.unwrap_or(when), rule)),
            recovery_protect: (wishes.prune && wishes.recover).then_some(clearing),
            proactive: wishes.proactive,
            recover: wishes.recover,
            keep_recent,
            max_pinned_first: Tokens::new(2_000).min(share),
            prune_summary_size: budgets.nominal(),
            prune_thresholds: marks,
            budgets,
            placement: wishes.placement,
            thresholds: marks,
        }
    }

    /// Whether the rule clears results between two cuts of the history.
    pub(super) fn prunes_between_cuts(&self) -> bool {
        match &self.prune {
            Some((PruneTrigger::Always | PruneTrigger::Pressure, _)) => true,
            Some((PruneTrigger::HardMark, _)) | None => false,
        }
    }

    /// How much of each part what stands for `history` may hold: a longer one has a longer index.
    pub fn budgets_for(&self, history: Tokens) -> SummaryBudgets {
        if self.thresholds.window >= WIDE_WINDOW {
            return self.budgets;
        }
        let rooms = history.get() / self.thresholds.capacity.get().max(1);
        let reached = INDEX_GROWTH.iter().rev().find(|(from, _)| rooms >= *from);
        let percent = reached.map_or(100, |(_, percent)| *percent);
        SummaryBudgets {
            identifiers: self.budgets.identifiers.percent(percent),
            ..self.budgets
        }
    }

    /// The same where compacting alone has not helped: half as much is left as it is.
    #[must_use]
    pub(super) fn tightened(&self) -> Self {
        Self {
            keep_recent: self.keep_recent.divided_by(2),
            ..self.clone()
        }
    }

    /// The same where the upstream was asked, and says that the model holds `tokens`. That decides
    /// when records are made and how large they are, and what fits. It never decides what the
    /// pruning rule clears, nor whether the first user message is kept.
    #[must_use]
    pub fn with_window(mut self, wishes: &CompactionSettings, tokens: Tokens) -> Self {
        self.thresholds = Thresholds::new(tokens, wishes);
        self.keep_recent = keep_recent(wishes, &self.thresholds);
        self.budgets = SummaryBudgets::new(&self.thresholds, self.keep_recent);
        self
    }

    /// The same where the conversation, by how it is counted, fills the window at `holds`.
    ///
    /// That is what fits. The marks stay as long as a request at the hard one fits: they leave so
    /// much room, and replicas that have seen different counts then agree. Else they are those of
    /// `holds`, rounded down to a sixteenth of the window, so that small differences move nothing.
    #[must_use]
    pub fn with_counted_window(mut self, wishes: &CompactionSettings, holds: Tokens) -> Self {
        let Thresholds { window, output, .. } = self.thresholds;
        if holds < self.thresholds.hard {
            let step = window.divided_by(WINDOW_STEPS).get().max(1);
            self = self.with_window(wishes, Tokens::new(holds.get() / step * step));
            self.thresholds.output = output;
        }
        self.thresholds.actual_window = holds;
        self
    }

    /// The same where the window is a limit on input alone.
    #[must_use]
    pub fn with_separate_output(mut self) -> Self {
        self.thresholds.output = OutputWindow::Separate;
        self
    }

    /// The same where the model is known to hold `tokens`, of which the window is a round number.
    #[must_use]
    pub fn with_actual_window(mut self, tokens: Tokens) -> Self {
        self.thresholds.actual_window = tokens.max(self.thresholds.window);
        self
    }

    /// The window to assume where nothing is known.
    pub fn default_window(profile: Profile) -> Tokens {
        if profile == Profile::Local {
            LOCAL_WINDOW
        } else {
            DEFAULT_WINDOW
        }
    }
}

/// What of the newest history a record leaves as it is: of a wish no more than leaves room for what
/// stands for the rest and for what comes next.
fn keep_recent(wishes: &CompactionSettings, marks: &Thresholds) -> Tokens {
    wishes.keep_recent.map_or_else(
        || Tokens::new(20_000).min(marks.capacity.percent(11)),
        |wish| wish.min(marks.capacity.divided_by(2)),
    )
}
