//! Policy: the numbers that decide about one request, derived from the settings for its window.

mod budgets;
pub mod cache_price;
pub mod cut_point;
pub mod placement;
pub mod record;
pub mod segments;
mod standing_words;
#[cfg(test)]
mod tests;
pub mod thinking_removal;
pub mod thrash;

use crate::pruning::placeholder::Placeholder;
use crate::pruning::rule::{KeptWords, PruneRule};
use crate::recall::RecallLink;
use crate::units::body_limits::BodyLimits;
use crate::units::tokens::Tokens;
pub use budgets::{BreakTarget, SummaryBudgets};
use cache_price::CachePrice;
use placement::Placement;
pub use standing_words::{KeptText, NO_STANDING_WORDS, StandingWords};
use std::sync::Arc;

/// Smallest window for which `auto` clears by the standard rule. In smaller ones, a rule scaled down
/// breaks the prompt cache four times as often in replays of real sessions.
const WIDE_WINDOW: Tokens = Tokens::new(100_000);
/// Newest tool results that clearing leaves alone, as in OpenCode and tunacode.
const PROTECT: Tokens = Tokens::new(40_000);
/// A clearing must free more than this, as in OpenCode and tunacode.
const MINIMUM: Tokens = Tokens::new(20_000);
/// [`PROTECT`] and [`MINIMUM`] of the `local` profile.
const LOCAL_PROTECT: Tokens = Tokens::new(2_000);
const LOCAL_MINIMUM: Tokens = Tokens::new(500);
/// Largest reserve for the reply.
const REPLY_RESERVE: Tokens = Tokens::new(16_384);
/// Largest part of a request's own output limit that counts against the window.
const MAX_OUTPUT: Tokens = Tokens::new(32_000);
/// Number of steps into which a window is divided when token counts move its thresholds.
const WINDOW_STEPS: u32 = 16;
/// Windows assumed if no setting gives one.
const DEFAULT_WINDOW: Tokens = Tokens::new(200_000);
const LOCAL_WINDOW: Tokens = Tokens::new(10_000);

/// Share of the usable window under `frugal`, in percent.
const FRUGAL_PERCENT: u32 = 85;
/// Default thresholds, in percent of the usable window.
const HARD_PERCENT: u32 = 90;
const SOFT_PERCENT: u32 = 85;
/// Upper bound of a soft share below a hard threshold in tokens, in percent of the latter.
const SOFT_BELOW_HARD_PERCENT: u32 = 95;
/// Minimum distance between the thresholds. Of the recorded requests, 95% add fewer tokens, so most
/// conversations reach the soft threshold first, and their summary is ready in time.
const SUMMARY_LEAD: Tokens = Tokens::new(3_000);
/// Upper bound of [`SUMMARY_LEAD`], in percent of the hard threshold.
const SUMMARY_LEAD_PERCENT: u32 = 10;

/// Named set of defaults.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Profile {
    /// `standard` for wide or unknown windows; below 100,000 tokens, clearing only at the hard threshold.
    #[default]
    Auto,
    /// Compacts early, at the size that costs least: see [`CachePrice`].
    Frugal,
    /// Small windows with no price on the prefix: a model on the user's own machine.
    Local,
    /// Always the numbers of OpenCode and tunacode.
    Standard,
}

/// Points at which the clearing rule is applied.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum PruneTrigger {
    /// Every request point.
    Always,
    /// Only at the hard threshold: together with a cut, or alone if a cut saves too little.
    HardThreshold,
}

/// Configured position of a threshold.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ThresholdSetting {
    /// Percentage of the window that is left to the conversation.
    Percent(u32),
    /// Absolute number of tokens, whatever the window. In a small window the default percentage
    /// applies if it is lower.
    Tokens(Tokens),
}

impl ThresholdSetting {
    /// Resolves to tokens for a window that leaves `usable` to the conversation.
    fn resolve(self, usable: Tokens, default_percent: u32) -> Tokens {
        match self {
            Self::Percent(percent) => usable.percent(percent),
            Self::Tokens(tokens) => tokens.min(usable.percent(default_percent)),
        }
    }
}

/// Compaction settings of the operator. `None` leaves a number to the profile.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CompactionSettings {
    /// Profile that provides the defaults.
    pub profile: Profile,
    /// Whether to clear at all (off with `DISABLE_PRUNE`).
    pub prune: bool,
    /// Whether to make or adopt summaries before an overflow (off with `DISABLE_AUTOCOMPACT`).
    pub proactive: bool,
    /// Whether to act on an overflow (off with `DISABLE_COMPACT_ON_OVERFLOW`).
    pub recover: bool,
    /// Whether to remove bound thinking after an edit (off with `DISABLE_THINKING_REMOVAL`).
    pub remove_thinking: bool,
    /// Whether to add a cache mark if the client sends marks (off with `DISABLE_CACHE_MARK`).
    pub adds_cache_mark: bool,
    /// See [`PruneRule::protect`].
    pub protect: Option<Tokens>,
    /// See [`PruneRule::minimum`].
    pub minimum: Option<Tokens>,
    /// See [`PruneRule::user_turns`].
    pub user_turns: Option<u32>,
    /// See [`PruneTrigger`].
    pub prune_trigger: Option<PruneTrigger>,
    /// See [`PruneRule::exempt_tools`].
    pub exempt_tools: Vec<String>,
    /// See [`StandingWords`].
    pub words: Arc<StandingWords>,
    /// See [`PruneRule::keep_errors`].
    pub keep_errors: bool,
    /// See [`PruneRule::placeholder`].
    pub placeholder: Option<Placeholder>,
    /// Whether the provider writes the summaries. Its item costs no reasoning, so a request that fits waits for one.
    pub by_provider: bool,
    /// Size above which a result is clipped before its first send, and from then on: the only cut that costs
    /// neither cached tokens nor reasoning. `None`: results arrive whole.
    pub clip_above: Option<Tokens>,
    /// Hard threshold: records are adopted from here on.
    pub hard: ThresholdSetting,
    /// Soft threshold: records are prepared from here on.
    pub soft: ThresholdSetting,
    /// Tokens of recent history that compaction keeps verbatim. Defaults to a share of the window.
    pub keep_recent: Option<Tokens>,
    /// Price of the provider's cache, by which `frugal` chooses its thresholds. `None` if unknown.
    pub cache_price: Option<CachePrice>,
    /// Placement of the replacement text.
    pub placement: Placement,
    /// Link of the lines by which an agent reads originals. `None` if recall is off, or before a
    /// conversation is known.
    pub recall: Option<Arc<RecallLink>>,
}

impl Default for CompactionSettings {
    fn default() -> Self {
        Self {
            profile: Profile::default(),
            prune: true,
            proactive: true,
            recover: true,
            remove_thinking: true,
            adds_cache_mark: true,
            protect: None,
            minimum: None,
            user_turns: None,
            prune_trigger: None,
            exempt_tools: Vec::new(),
            words: Arc::default(),
            keep_errors: false,
            placeholder: None,
            by_provider: false,
            clip_above: None,
            hard: ThresholdSetting::Percent(HARD_PERCENT),
            soft: ThresholdSetting::Percent(SOFT_PERCENT),
            keep_recent: None,
            cache_price: None,
            placement: Placement::default(),
            recall: None,
        }
    }
}

/// Whether output tokens share the window with the input.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum OutputWindow {
    /// The window limits the input alone.
    Separate,
    /// Input and output share the window.
    Shared,
}

/// Token thresholds for a window: `soft` ≤ `hard` ≤ `capacity` ≤ `usable` ≤ `window`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Thresholds {
    /// Policy window.
    pub window: Tokens,
    /// Actual window of the model as far as it is known. Either `window` is this rounded down, or
    /// this is the window scaled by the conversation's token ratio.
    pub actual_window: Tokens,
    /// Whether the output takes part of the window.
    pub output: OutputWindow,
    /// Window without the reserve for the reply.
    pub usable: Tokens,
    /// Size that a conversation may grow to: the usable window, an absolute hard threshold below it, or
    /// the size limit of `frugal`. Kept history and the budgets of the replacement text are shares of it.
    pub capacity: Tokens,
    /// Hard threshold derived from the window alone. Below it, breaking the prompt cache is optional.
    pub window_hard_threshold: Tokens,
    /// Soft threshold: a record is prepared from here on.
    pub soft: Tokens,
    /// Hard threshold: a record is adopted from here on.
    pub hard: Tokens,
    /// Clearing at the threshold is enough if it reaches this size: 70% of the capacity, and well below the
    /// hard threshold.
    pub prune_target: Tokens,
}

impl Thresholds {
    fn new(window: Tokens, settings: &CompactionSettings) -> Self {
        let usable = window - REPLY_RESERVE.min(window.divided_by(8));
        let size_limit = match settings.profile {
            Profile::Frugal => usable
                .percent(FRUGAL_PERCENT)
                .min(settings.cache_price.unwrap_or_default().size_limit()),
            Profile::Auto | Profile::Local | Profile::Standard => usable,
        };
        let (hard, window_hard_threshold, capacity, room) = match settings.hard {
            ThresholdSetting::Percent(percent) => {
                (size_limit.percent(percent), usable.percent(percent), size_limit, size_limit)
            }
            ThresholdSetting::Tokens(tokens) => {
                let hard = settings.hard.resolve(usable, HARD_PERCENT);
                (hard, hard, usable.min(tokens), usable)
            }
        };
        let latest_soft = hard - SUMMARY_LEAD.min(hard.percent(SUMMARY_LEAD_PERCENT));
        let max_soft = match (settings.soft, settings.hard) {
            (ThresholdSetting::Percent(_), ThresholdSetting::Tokens(_)) => {
                latest_soft.min(hard.percent(SOFT_BELOW_HARD_PERCENT))
            }
            (ThresholdSetting::Percent(_), ThresholdSetting::Percent(_))
            | (ThresholdSetting::Tokens(_), _) => latest_soft,
        };
        Self {
            window,
            actual_window: window,
            output: OutputWindow::Shared,
            usable,
            capacity,
            window_hard_threshold,
            soft: settings.soft.resolve(room, SOFT_PERCENT).min(max_soft),
            hard,
            // 78 is 70% as a share of the 90% hard threshold, rounded up.
            prune_target: capacity.percent(70).min(hard.percent(78)),
        }
    }

    /// Returns the largest input that fits together with the requested `output`.
    pub fn max_input(&self, output: Option<Tokens>) -> Tokens {
        match self.output {
            OutputWindow::Separate => self.actual_window,
            OutputWindow::Shared => {
                let output = output.unwrap_or_default();
                self.actual_window - output.min(MAX_OUTPUT).min(self.window.divided_by(2))
            }
        }
    }

    /// Returns the size that recovery from an overflow aims at: well inside the window, and clear
    /// of the output.
    pub(crate) fn recovery_target(&self, output: Option<Tokens>) -> Tokens {
        self.window.percent(60).min(self.max_input(output) - self.window.percent(5))
    }

    /// Returns the budget for the first and the newest user request together, given `fixed` tokens
    /// that cannot be removed. Most of the space below the hard threshold is left for later messages. Otherwise
    /// large requests would cause more compactions than they are worth.
    pub fn requests_budget(&self, fixed: Tokens) -> Tokens {
        (self.hard - fixed).divided_by(4).min(self.capacity.divided_by(5))
    }
}

/// Compaction policy for one request.
#[derive(Clone, Debug)]
pub struct Policy {
    /// The settings.
    pub settings: CompactionSettings,
    /// Clearing rule and its trigger; `None` if clearing is switched off.
    pub prune: Option<(PruneTrigger, PruneRule)>,
    /// Whether the rule clears below the hard threshold only if that is likely to pay. So it is under
    /// `auto` and `frugal`, unless the operator set when or how much to clear.
    pub weighs_clearing: bool,
    /// Tokens of the newest results that recovery protects while it clears all others: as many as the
    /// rule first, then fewer. `None` if it clears nothing.
    pub recovery_protect: Option<[Tokens; 2]>,
    /// Thresholds that decide when records are made and adopted, and which size fits.
    pub thresholds: Thresholds,
    /// Thresholds of the clearing rule, always those of the policy window. Replicas query an upstream at
    /// different times, so its answer never moves them.
    pub prune_thresholds: Thresholds,
    /// Size assumed for a replacement text when the fold applies the clearing rule's own thresholds.
    pub prune_summary_size: Tokens,
    /// Tokens of recent history that compaction keeps verbatim.
    pub keep_recent: Tokens,
    /// Size that clearing alone may leave at the hard threshold.
    pub clear_target: BreakTarget,
    /// Size that a cut aims at.
    pub cut_target: BreakTarget,
    /// Size that either aims at in a conversation with bound reasoning.
    pub bound_target: BreakTarget,
    /// Largest first user message, in tokens, that is kept verbatim.
    pub max_pinned_first: Tokens,
    /// Largest summary of the agent's own, as the first user message, that is kept verbatim.
    pub max_pinned_summary: Tokens,
    /// Token budgets for the parts of a replacement text.
    pub budgets: SummaryBudgets,
    /// Whether the window is more than a guess from the size of a refused request.
    pub is_window_stated: bool,
    /// Limits of the upstream on the body.
    pub body: BodyLimits,
}

impl Policy {
    /// Derives the policy from `settings` for a model with a window of `window` tokens.
    pub fn new(settings: &CompactionSettings, window: Tokens) -> Self {
        let thresholds = Thresholds::new(window, settings);
        let wide = window >= WIDE_WINDOW;
        // `frugal` may leave a conversation less than the window.
        let share = match settings.profile {
            Profile::Frugal => thresholds.capacity.divided_by(9).min(window.divided_by(10)),
            Profile::Auto | Profile::Local | Profile::Standard => window.divided_by(10),
        };
        // A model continues more surely from more of its own steps than from more of their results.
        let newest_results = share.divided_by(2);
        let (when, protect, minimum, user_turns) = match settings.profile {
            Profile::Auto if !wide => {
                (PruneTrigger::HardThreshold, newest_results, Tokens::ZERO, 0)
            }
            Profile::Auto | Profile::Standard => (PruneTrigger::Always, PROTECT, MINIMUM, 2),
            Profile::Frugal => (PruneTrigger::HardThreshold, newest_results, Tokens::ZERO, 0),
            Profile::Local => (PruneTrigger::Always, LOCAL_PROTECT, LOCAL_MINIMUM, 2),
        };
        let budgets = SummaryBudgets::new(&thresholds);
        let rule = PruneRule {
            protect: settings.protect.unwrap_or(protect),
            minimum: settings.minimum.unwrap_or(minimum),
            user_turns: settings.user_turns.unwrap_or(user_turns),
            exempt_tools: settings.exempt_tools.clone(),
            keep_errors: settings.keep_errors,
            kept_words: (settings.profile != Profile::Standard).then(|| KeptWords {
                instructions: budgets.agreements,
                rule_files: settings.words.rule_files.clone(),
            }),
            clips_calls: settings.profile != Profile::Standard,
            placeholder: settings.placeholder.unwrap_or(Placeholder::Fixed),
            recall: settings.recall.clone(),
        };
        let clearing = [rule.protect, rule.protect.min(share)];
        let keep_recent = keep_recent(settings, &thresholds);
        Self {
            prune: settings.prune.then(|| (settings.prune_trigger.unwrap_or(when), rule)),
            weighs_clearing: matches!(settings.profile, Profile::Auto | Profile::Frugal)
                && settings.prune_trigger.is_none()
                && settings.protect.is_none()
                && settings.minimum.is_none(),
            recovery_protect: (settings.prune && settings.recover).then_some(clearing),
            keep_recent,
            clear_target: BreakTarget::CLEARED,
            cut_target: BreakTarget::CUT,
            bound_target: BreakTarget::BOUND,
            max_pinned_first: Tokens::new(2_000).min(share),
            max_pinned_summary: share,
            prune_summary_size: budgets.usual(),
            prune_thresholds: thresholds,
            budgets,
            is_window_stated: true,
            body: BodyLimits::UNKNOWN,
            settings: settings.clone(),
            thresholds,
        }
    }

    /// Whether the rule clears results between two cuts of the history.
    pub(super) fn prunes_between_cuts(&self) -> bool {
        matches!(self.prune, Some((PruneTrigger::Always, _)))
    }

    /// Returns the budgets for a replacement text next to `fixed` tokens that no compaction removes. A large
    /// head leaves a smaller text: otherwise the conversation would fill up again at once. A quarter always
    /// stays for what the user said.
    pub(crate) fn budgets_excluding(&self, fixed: Tokens) -> SummaryBudgets {
        let hard = self.thresholds.hard;
        let room = (hard - fixed).max(hard.divided_by(4));
        // Agreements and rules keep their budget as far as a quarter of the room holds them.
        let agreements = self.budgets.agreements.min(room.divided_by(4));
        SummaryBudgets { agreements, ..self.budgets.scaled(room, hard) }
    }

    /// Applies a window of `tokens` reported by the upstream. This decides when records are made,
    /// how large they are, and which size fits. It never changes what the clearing rule clears, nor
    /// whether the first user message is kept.
    #[must_use]
    pub fn with_window(mut self, tokens: Tokens) -> Self {
        self.thresholds = Thresholds::new(tokens, &self.settings);
        self.keep_recent = keep_recent(&self.settings, &self.thresholds);
        self.budgets = SummaryBudgets::new(&self.thresholds);
        self
    }

    /// Applies `counted_window`, the size at which this conversation fills the window by the
    /// upstream's token counts.
    ///
    /// `counted_window` limits which size fits. The thresholds stay unless a request at the hard
    /// threshold would not fit: their reserve covers small differences, and replicas with different
    /// counts then agree. Otherwise they are those of `counted_window`, rounded down to a sixteenth
    /// of the window so that small differences have no effect.
    #[must_use]
    pub fn with_counted_window(mut self, counted_window: Tokens) -> Self {
        let Thresholds { window, output, .. } = self.thresholds;
        if counted_window < self.thresholds.hard {
            let step = window.divided_by(WINDOW_STEPS).get().max(1);
            self = self.with_window(Tokens::new(counted_window.get() / step * step));
            self.thresholds.output = output;
        }
        self.thresholds.actual_window = counted_window;
        self
    }

    /// Returns the window to assume if none is known.
    pub fn default_window(profile: Profile) -> Tokens {
        match profile {
            Profile::Local => LOCAL_WINDOW,
            Profile::Auto | Profile::Frugal | Profile::Standard => DEFAULT_WINDOW,
        }
    }
}

/// Returns the tokens of recent history to keep verbatim. A configured value is limited to half of
/// the capacity, which leaves room for the replacement text and for later messages.
fn keep_recent(settings: &CompactionSettings, thresholds: &Thresholds) -> Tokens {
    settings.keep_recent.map_or_else(
        || Tokens::new(20_000).min(thresholds.capacity.percent(7)),
        |tokens| tokens.min(thresholds.capacity.divided_by(2)),
    )
}
