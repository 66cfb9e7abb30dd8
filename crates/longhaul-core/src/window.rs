//! Context windows: their sources in order of trust, and learning them from replies in estimated
//! tokens.
//!
//! Providers count with their own tokenizers. A limit learned in estimated tokens corrects every
//! threshold for a denser tokenizer, while the estimate itself stays unchanged.

pub mod credible_limit;
pub mod empty_reply;
pub mod learned_window;
pub mod reply_signals;
pub mod script_ratio;
pub mod source;
pub mod token_ratio;
use crate::conversation::Conversation;
use crate::dialect::compress_api::SentPart;
use crate::overflow::Overflow;
use crate::policy::{CompactionSettings, OutputWindow, Policy};
use crate::units::tokens::Tokens;
use source::{SourcedWindow, WindowSource};
use token_ratio::{TokenCalibration, TokenRatio};

/// A conversation counts as equally dense as the refused one if it exceeds the refused window by at
/// most 1/`DENSITY_TOLERANCE`.
const DENSITY_TOLERANCE: u32 = 8;

/// Largest room that instructions and tools are expected to take. Those of Claude Code take 12,300 to 21,700
/// tokens.
const UNSEEN: Tokens = Tokens::new(22_000);

/// Share of the capacity below which no default threshold lies, in percent. A request that cannot
/// reach this size at any token ratio keeps its window.
const CALIBRATED_PERCENT: u32 = 60;

/// Below this size, most tokens belong to the prompt template, so a count reveals nothing about the
/// text's token ratio.
const SHORT_REQUEST: Tokens = Tokens::new(1_000);

/// Computes the window, in estimated tokens, from a refusal of a request of `estimate` tokens.
///
/// - With both numbers: the limit, scaled by longhaul's estimate over the upstream's count. If the
///   request was short and was refused because of the requested output: the limit itself.
/// - With the limit only: the limit, but at most nine tenths of the refused request, since nothing
///   can be scaled.
/// - Without a limit: nine tenths of the refused request.
pub fn window_from_refusal(estimate: Tokens, overflow: &Overflow) -> Tokens {
    let refused = estimate.percent(90);
    let limit = overflow.limit.map(Tokens::new);
    match (limit, overflow.prompt_size()) {
        (Some(limit), Some(used)) if estimate < SHORT_REQUEST && Tokens::new(used) <= limit => {
            limit
        }
        (Some(limit), Some(used)) if used > 0 => limit.scaled(estimate, Tokens::new(used)),
        (Some(limit), _) => limit.min(refused),
        (None, _) => refused,
    }
}

/// Like [`window_from_refusal`], but at most the `known` window if the refusal states no limit.
pub fn window_from_repeated_refusal(
    estimate: Tokens,
    overflow: &Overflow,
    known: Option<Tokens>,
) -> Tokens {
    let learned = window_from_refusal(estimate, overflow);
    let known = known.filter(|_| overflow.limit.is_none());
    known.map_or(learned, |known| known.min(learned))
}

/// Rounds a learned window down to two significant digits. Replicas that learned from different
/// requests then mostly agree, and small differences move no threshold.
pub fn to_two_digits(learned: Tokens) -> Tokens {
    let mut step = 1;
    while learned.get() / step >= 100 {
        step *= 10;
    }
    Tokens::new(learned.get() / step * step)
}

/// The windows of one model that the different sources state.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct WindowSources {
    /// The operator's setting.
    pub setting: Option<Tokens>,
    /// A refusal: the window for which the conversation's record was made, or else the window
    /// learned last.
    pub refusal: Option<RefusalWindow>,
    /// The upstream's model listing. Never part of the policy window.
    pub reported: Option<Tokens>,
    /// The built-in table of models.
    pub table: Option<TableWindow>,
    /// The window assumed if no source states one.
    pub default: Tokens,
}

/// The window that a refusal reveals, as a policy window.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RefusalWindow {
    /// In provider tokens. The corresponding number of estimated tokens depends on the
    /// conversation.
    Stated {
        /// The limit that the upstream stated.
        stated: Tokens,
        /// The limit in estimated tokens, for the text that was refused.
        refused: Tokens,
    },
    /// In estimated tokens.
    Estimated(Tokens),
}

impl RefusalWindow {
    /// Returns the window in its own unit.
    pub fn tokens(self) -> Tokens {
        match self {
            Self::Stated { stated: tokens, .. } | Self::Estimated(tokens) => tokens,
        }
    }
}

/// The window that the table of models states.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TableWindow {
    /// A limit on input alone; the output does not count towards it.
    Input(Tokens),
    /// A limit on input and output together.
    Total(Tokens),
}

impl TableWindow {
    /// Returns the limit.
    pub fn tokens(self) -> Tokens {
        match self {
            Self::Input(tokens) | Self::Total(tokens) => tokens,
        }
    }
}

impl WindowSources {
    /// Returns the sources of the window for messages that come without instructions and tools: `budget`, or
    /// what the policy window is expected to leave.
    #[must_use]
    pub fn for_sent_part(self, budget: Option<Tokens>, part: SentPart) -> Self {
        let (window, source) = self.policy_window();
        // Models with small windows have small agents.
        let left = window - UNSEEN.min(window.divided_by(8));
        let left = match part {
            SentPart::Messages => left,
            // Results are two thirds of the recorded conversations, and the other third stays whole.
            SentPart::Results => left.divided_by(2),
        };
        let sources = Self { refusal: None, reported: None, table: None, ..self };
        match budget {
            None if source == WindowSource::Assumed => Self { default: left, ..sources },
            budget => Self { setting: Some(budget.unwrap_or(left)), ..sources },
        }
    }

    /// Returns the policy window and its source. The order of trust is: the setting, a refusal, the
    /// table, the default. A refusal overrides a setting that is larger than the refused window.
    pub fn policy_window(&self) -> (Tokens, WindowSource) {
        let refused = self.refusal.map(|refusal| match refusal {
            RefusalWindow::Stated { stated, .. } => (stated, WindowSource::Refusal),
            RefusalWindow::Estimated(tokens) => (tokens, WindowSource::RefusedSize),
        });
        match (self.setting, refused, self.table) {
            (Some(setting), Some(refused), _) if refused.0 < setting => refused,
            (Some(setting), _, _) => (setting, WindowSource::Setting),
            (None, Some(refused), _) => refused,
            (None, None, Some(table)) => (table.tokens(), WindowSource::Table),
            (None, None, None) => (self.default, WindowSource::Assumed),
        }
    }

    /// Returns the window in force as its source states it. `stated` is the limit that the model's
    /// last refusal stated.
    pub fn window_in_force(&self, stated: Option<Tokens>) -> SourcedWindow {
        let (tokens, source) = self.policy_window();
        let refused = matches!(source, WindowSource::Refusal | WindowSource::RefusedSize);
        let (tokens, source) = match (refused, stated, self.trusted_report()) {
            (true, Some(stated), _) => (stated, WindowSource::Refusal),
            (true, None, _) => (tokens, WindowSource::RefusedSize),
            (false, _, Some(reported)) => (reported, WindowSource::Upstream),
            (false, _, None) => (tokens, source),
        };
        SourcedWindow { tokens, source }
    }

    /// Applies the window that this conversation alone learned from a second refusal, if it is
    /// smaller than the refused window.
    #[must_use]
    pub fn with_conversation_window(self, own: Option<Tokens>) -> Self {
        let refused = self.refusal.map(RefusalWindow::tokens);
        let smaller = own.filter(|own| refused.is_none_or(|refused| *own < refused));
        Self { refusal: smaller.map(RefusalWindow::Estimated).or(self.refusal), ..self }
    }

    /// Returns the window from the upstream's model listing if that source prevails. The listing
    /// ranks above the table, but below the setting and below a refusal, which is the upstream's
    /// own last word.
    pub(crate) fn trusted_report(&self) -> Option<Tokens> {
        match self.policy_window().1 {
            WindowSource::Assumed | WindowSource::Table | WindowSource::Upstream => self.reported,
            WindowSource::Refusal | WindowSource::RefusedSize | WindowSource::Setting => None,
        }
    }

    /// Whether no source states a window, not even the upstream's listing.
    pub fn is_assumed(&self) -> bool {
        self.reported.is_none() && self.policy_window().1 == WindowSource::Assumed
    }

    /// Builds the policy of `settings` for this model.
    pub fn policy(&self, settings: &CompactionSettings) -> Policy {
        let (window, believed) = self.policy_window();
        let mut policy = Policy::new(settings, window);
        if let Some(window) = self.trusted_report() {
            return policy.with_window(window);
        }
        let is_input = matches!(self.table, Some(TableWindow::Input(_)));
        if is_input && believed == WindowSource::Table {
            policy.thresholds.output = OutputWindow::Separate;
        }
        policy
    }

    /// Returns the windows that the operator, the upstream and the table state, in this order.
    pub fn stated(&self) -> impl Iterator<Item = Tokens> {
        let table = self.table.map(TableWindow::tokens);
        [self.setting, self.reported, table].into_iter().flatten()
    }

    /// Builds the policy of `settings` for one conversation, with its window converted by `counts`. A
    /// window from a refusal of the same conversation is in estimated tokens already.
    pub fn calibrated_policy(
        &self,
        settings: &CompactionSettings,
        conversation: &Conversation<'_>,
        counts: impl FnOnce() -> TokenCalibration,
    ) -> Policy {
        let policy = self.policy(settings);
        // Most requests are far below every threshold at any token ratio.
        let lowest = policy.thresholds.capacity.percent(CALIBRATED_PERCENT);
        if !TokenRatio::may_reach(conversation.tokens(), lowest) {
            return policy;
        }
        let source = self.policy_window().1;
        if source == WindowSource::RefusedSize {
            return policy;
        }
        let refusal = self.refusal.filter(|_| source == WindowSource::Refusal);
        let Some(RefusalWindow::Stated { stated, refused }) = refusal else {
            let estimated = counts().estimated_window(policy.thresholds.window);
            return policy.with_counted_window(estimated);
        };
        let estimated = counts().estimated_window(stated);
        // The text is about as dense as the refused text, whose window is more accurate than any
        // ratio.
        if estimated <= refused + refused.divided_by(DENSITY_TOLERANCE) {
            policy.with_window(to_two_digits(refused))
        } else {
            policy.with_counted_window(estimated)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::chat_completions::read;
    use crate::overflow::Evidence;
    use crate::policy::OutputWindow;
    use std::cell::Cell;
    use token_ratio::CountSample;

    const NOTHING: WindowSources = WindowSources {
        setting: None,
        refusal: None,
        reported: None,
        table: None,
        default: Tokens::new(200_000),
    };

    const fn k(thousands: u32) -> Tokens {
        Tokens::new(thousands * 1_000)
    }

    /// Checks the policy window, its source, and the window that the thresholds follow.
    fn check(sources: WindowSources, window: u32, believed: WindowSource, marks: u32) {
        let policy = sources.policy(&CompactionSettings::default());
        let window = k(window);
        assert_eq!(sources.policy_window(), (window, believed), "{sources:?}");
        assert_eq!(policy.prune_thresholds.window, window, "{sources:?}");
        assert_eq!(policy.thresholds.window, k(marks), "{sources:?}");
    }

    #[test]
    fn messages_alone_leave_room_for_what_they_lack() {
        let table = |window| WindowSources { table: Some(TableWindow::Total(window)), ..NOTHING };
        let left = |sources: WindowSources, budget, part| {
            let (window, source) = sources.for_sent_part(budget, part).policy_window();
            (window.get(), source)
        };
        let (all, set) = (SentPart::Messages, WindowSource::Setting);
        assert_eq!(left(table(k(200)), None, all), (178_000, set));
        assert_eq!(left(table(k(32)), None, all), (28_000, set));
        assert_eq!(left(table(k(32)), None, SentPart::Results), (14_000, set));
        assert_eq!(left(table(k(32)), Some(k(50)), SentPart::Results), (50_000, set));
        assert_eq!(left(NOTHING, None, all), (178_000, WindowSource::Assumed));
        let refused = RefusalWindow::Estimated(k(16));
        let refused = WindowSources { refusal: Some(refused), ..table(k(32)) };
        assert_eq!(left(refused, None, all), (14_000, set));
    }

    #[test]
    fn window_sources_have_a_fixed_precedence() {
        let mut sources = NOTHING;
        check(sources, 200, WindowSource::Assumed, 200);
        sources.table = Some(TableWindow::Total(Tokens::new(128_000)));
        check(sources, 128, WindowSource::Table, 128);
        sources.reported = Some(k(32));
        check(sources, 128, WindowSource::Table, 32);
        sources.refusal = Some(RefusalWindow::Estimated(k(24)));
        check(sources, 24, WindowSource::RefusedSize, 24);
        sources.setting = Some(k(16));
        check(sources, 16, WindowSource::Setting, 16);
    }

    #[test]
    fn a_lower_stated_refusal_overrides_the_setting() {
        let sources = WindowSources {
            setting: Some(k(64)),
            refusal: Some(RefusalWindow::Stated { stated: k(32), refused: k(9) }),
            reported: Some(k(128)),
            ..NOTHING
        };
        check(sources, 32, WindowSource::Refusal, 32);
    }

    #[test]
    fn reported_window_may_exceed_the_assumed_default() {
        let sources = WindowSources { reported: Some(k(1_000)), ..NOTHING };
        check(sources, 200, WindowSource::Assumed, 1_000);
        assert!(NOTHING.is_assumed() && !sources.is_assumed());
    }

    #[test]
    fn output_is_separate_only_if_the_tables_input_limit_applies() {
        let mut sources =
            WindowSources { table: Some(TableWindow::Input(Tokens::new(272_000))), ..NOTHING };
        let output = |sources: WindowSources| {
            sources.policy(&CompactionSettings::default()).thresholds.output
        };
        assert_eq!(output(sources), OutputWindow::Separate);
        sources.reported = Some(k(400));
        assert_eq!(output(sources), OutputWindow::Shared);
        sources.setting = Some(k(100));
        assert_eq!(output(sources), OutputWindow::Shared);
    }

    /// Builds a conversation with `text` as its only message.
    fn one_message(text: &str) -> String {
        format!(r#"{{"messages":[{{"role":"user","content":"{text}"}}]}}"#)
    }

    #[test]
    fn a_setting_confirmed_by_a_refusal_stays_the_source() {
        let sources = WindowSources {
            setting: Some(k(32)),
            refusal: Some(RefusalWindow::Stated { stated: k(32), refused: k(9) }),
            ..NOTHING
        };
        check(sources, 32, WindowSource::Setting, 32);
    }

    #[test]
    fn refusal_window_is_converted_to_estimated_tokens() {
        let learned = |limit, used, excess| {
            let overflow = Overflow { excess, limit, used, ..Overflow::from_empty_reply() };
            window_from_refusal(Tokens::new(9_000), &overflow).get()
        };
        // The provider counts ten tokens for nine estimated ones.
        assert_eq!(learned(Some(8_000), Some(10_000), None), 7_200);
        assert_eq!(learned(Some(8_000), None, Some(2_000)), 7_200);
        assert_eq!(learned(Some(1), Some(1), None), 9_000);
        // Without a count: the limit, at most nine tenths of the refused request.
        assert_eq!(learned(Some(8_000), None, None), 8_000);
        assert_eq!(learned(Some(8_192), None, None), 8_100);
        assert_eq!(learned(Some(8_192), Some(0), None), 8_100);
        assert_eq!(learned(None, None, None), 8_100);
        assert_eq!(learned(None, Some(10_000), Some(2_000)), 8_100);
    }

    #[test]
    fn a_known_smaller_window_counts_beside_an_unnumbered_refusal() {
        let learned = |limit, known| {
            let overflow = Overflow { limit, ..Overflow::from_empty_reply() };
            window_from_repeated_refusal(k(10), &overflow, known)
        };
        assert_eq!(learned(None, None), k(9));
        assert_eq!(learned(None, Some(k(10))), k(9));
        assert_eq!(learned(None, Some(k(4))), k(4));
        assert_eq!(learned(Some(8_000), Some(k(4))), k(8));
    }

    #[test]
    fn a_conversations_own_window_applies_if_it_is_smaller() {
        let refused = |sources: WindowSources, own| {
            sources.with_conversation_window(own).refusal.map(RefusalWindow::tokens)
        };
        assert_eq!(refused(NOTHING, None), None);
        assert_eq!(refused(NOTHING, Some(k(8))), Some(k(8)));
        let sources = WindowSources {
            refusal: Some(RefusalWindow::Stated { stated: k(32), refused: k(9) }),
            ..NOTHING
        };
        assert_eq!(refused(sources, Some(k(31))), Some(k(31)));
        assert_eq!(sources.with_conversation_window(Some(k(32))), sources);
        assert_eq!(sources.with_conversation_window(None), sources);
    }

    #[test]
    fn a_short_request_teaches_the_limit_but_no_token_ratio() {
        let learned = |estimate, limit, used| {
            let overflow = Overflow {
                evidence: Evidence::Stated,
                kind: crate::overflow::LimitKind::Window,
                excess: None,
                limit: Some(limit),
                output: None,
                used: Some(used),
            };
            window_from_refusal(Tokens::new(estimate), &overflow).get()
        };
        assert_eq!(learned(7, 32_768, 4), 32_768);
        assert_eq!(learned(999, 500, 666), 750);
        assert_eq!(learned(1_000, 32_000, 800), 40_000);
    }

    #[test]
    fn a_learned_window_is_rounded_down_to_two_digits() {
        let rounded = |learned| to_two_digits(Tokens::new(learned)).get();
        let exact = [0, 9, 99, 100, 8_100, 24_000, 200_000, 1_000_000];
        assert_eq!(exact.map(rounded), exact);
        assert_eq!(rounded(109), 100);
        assert_eq!(rounded(31_814), 31_000);
        assert_eq!(rounded(127_260), 120_000);
        assert_eq!(rounded(u32::MAX), 4_200_000_000);
    }

    #[test]
    fn calibration_applies_near_the_thresholds_except_to_estimated_windows() {
        let sources = WindowSources { default: k(8), ..NOTHING };
        // 7,000 of 8,000 tokens are usable, and the first threshold is at 4,200. At the highest
        // ratio, a provider may count that much for a quarter as many estimated tokens.
        let holds = |sources: WindowSources, tokens: u32| {
            let was_read = Cell::new(false);
            let counts = || {
                was_read.set(true);
                let last = CountSample::new(Tokens::new(1_000), 2_000);
                TokenCalibration { last_sample: last, ..TokenCalibration::default() }
            };
            let body = one_message(&"a".repeat(Tokens::new(tokens - 4).to_chars()));
            let conversation = read(body.as_bytes()).unwrap();
            assert_eq!(conversation.tokens(), Tokens::new(tokens));
            let policy =
                sources.calibrated_policy(&CompactionSettings::default(), &conversation, counts);
            (policy.thresholds.actual_window.get(), was_read.get())
        };
        assert_eq!(holds(sources, 1_049), (8_000, false));
        assert_eq!(holds(sources, 1_050), (7_000, true));
        let set = WindowSources { setting: Some(k(8)), ..sources };
        assert_eq!(holds(set, 1_050), (7_000, true));
        let refused = |refused| WindowSources { refusal: Some(refused), ..sources };
        let estimated = refused(RefusalWindow::Estimated(k(8)));
        assert_eq!(holds(estimated, 1_050), (8_000, false));
        // 7,000 fit: a sixth more than the refused window is less dense, an eighth is not.
        for (refused_at, expect) in [(6_000, 7_000), (6_224, 6_200)] {
            let counted =
                refused(RefusalWindow::Stated { stated: k(8), refused: Tokens::new(refused_at) });
            assert_eq!(holds(counted, 1_050), (expect, true));
        }
    }
}
