//! What is known of a window: what replies teach, in the plain estimate's own units, and which of
//! those who say something is believed.
//!
//! Providers count by their own tokenizers. A limit learned in our units makes every mark come
//! right for a denser tokenizer while the estimate itself stays as it is.

pub mod count;
#[cfg(feature = "exact-tokens")]
pub mod exact;
pub mod lesson;
pub mod note;
pub mod script;
pub mod silence;

use super::conversation::Conversation;
use super::overflow::Overflow;
use super::policy::{CompactionSettings, Policy};
use super::tokens::Tokens;
use count::{TokenCalibration, TokenRatio};

/// How much more of a conversation than of the refused one may fill a window for it to count as no
/// less dense: a part of the refused one.
const DENSITY_TOLERANCE: u32 = 8;

/// Of fewer tokens most are the template's, and how many are counted says nothing of how dense text is.
const SHORT_REQUEST: Tokens = Tokens::new(1_000);

/// What to expect of a provider that has counted nothing of this conversation yet.
pub fn expected_ratio(conversation: &Conversation<'_>) -> TokenRatio {
    #[cfg(feature = "exact-tokens")]
    if let Some(exact) = exact::measure(conversation) {
        return exact;
    }
    script::predict(conversation)
}

/// The window that a refusal of a request of `estimate` tokens shows.
///
/// With both numbers it is the limit, scaled by our count over the upstream's, unless the request was
/// short and refused for the output that it asked for. Without the upstream's count nothing can be
/// scaled: then it is the limit, but never more than nine tenths of what was just refused.
pub fn window_from_refusal(estimate: Tokens, overflow: &Overflow) -> Tokens {
    let refused = estimate.percent(90);
    let limit = overflow.limit.map(Tokens::new);
    let used = overflow
        .used
        .or_else(|| Some(overflow.limit?.saturating_add(overflow.excess?)));
    match (limit, used) {
        (Some(limit), Some(used)) if estimate < SHORT_REQUEST && Tokens::new(used) <= limit => {
            limit
        }
        (Some(limit), Some(used)) if used > 0 => limit.scaled(estimate, Tokens::new(used)),
        (Some(limit), _) => limit.min(refused),
        (None, _) => refused,
    }
}

/// The same beside what was `known` before: a refusal without a number does not make a window larger
/// again than the last one showed it.
pub fn window_from_repeated_refusal(
    estimate: Tokens,
    overflow: &Overflow,
    known: Option<Tokens>,
) -> Tokens {
    let learned = window_from_refusal(estimate, overflow);
    let known = known.filter(|_| overflow.limit.is_none());
    known.map_or(learned, |known| known.min(learned))
}

/// A learned window as the policy takes it: rounded down to two digits, so that replicas that learned
/// from different requests mostly agree, and small differences move no mark.
pub fn to_two_digits(learned: Tokens) -> Tokens {
    let mut step = 1;
    while learned.get() / step >= 100 {
        step *= 10;
    }
    Tokens::new(learned.get() / step * step)
}

/// What is known of one model's window, by who says so.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct WindowSources {
    /// The operator.
    pub setting: Option<Tokens>,
    /// A refusal: the window that the conversation's record was made for, or else what was learned
    /// last.
    pub refusal: Option<RefusalWindow>,
    /// The upstream, asked. No part of the policy window.
    pub reported: Option<Tokens>,
    /// The table of models.
    pub table: Option<TableWindow>,
    /// The number that is assumed where nobody says anything.
    pub default: Tokens,
}

/// What a refusal says of a window, as a policy window.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RefusalWindow {
    /// As the provider counts: how much of the estimate that is hangs on the conversation.
    Stated {
        /// The limit that was stated.
        stated: Tokens,
        /// What that came to, in the estimate's own units, for the text that was refused.
        refused: Tokens,
    },
    /// In the estimate's own units.
    Estimated(Tokens),
}

impl RefusalWindow {
    /// How much it is, by whoever counts.
    pub fn tokens(self) -> Tokens {
        match self {
            Self::Stated { stated: tokens, .. } | Self::Estimated(tokens) => tokens,
        }
    }
}

/// What a table says of a window.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TableWindow {
    /// So much for input, and room beside it for output.
    Input(Tokens),
    /// So much for both.
    Total(Tokens),
}

/// Who said what a window is taken to be.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SelectedSource {
    /// Nobody: it is assumed.
    Default,
    /// A refusal.
    Refusal,
    /// The operator.
    Setting,
    /// The table.
    Table,
}

impl WindowSources {
    /// The policy window, and who is believed for it: the operator, unless a refusal has shown that
    /// it is too large; then a refusal, then the table.
    pub fn policy_window(&self) -> (Tokens, SelectedSource) {
        match (
            self.setting,
            self.refusal.map(RefusalWindow::tokens),
            self.table,
        ) {
            (Some(setting), Some(refused), _) if refused < setting => {
                (refused, SelectedSource::Refusal)
            }
            (Some(setting), _, _) => (setting, SelectedSource::Setting),
            (None, Some(refused), _) => (refused, SelectedSource::Refusal),
            (None, None, Some(TableWindow::Input(tokens) | TableWindow::Total(tokens))) => {
                (tokens, SelectedSource::Table)
            }
            (None, None, None) => (self.default, SelectedSource::Default),
        }
    }

    /// The same for a conversation that was refused at its second send, too, and shown a window by that
    /// for itself alone.
    #[must_use]
    pub fn with_conversation_window(self, own: Option<Tokens>) -> Self {
        let refused = self.refusal.map(RefusalWindow::tokens);
        let smaller = own.filter(|own| refused.is_none_or(|refused| *own < refused));
        Self {
            refusal: smaller.map(RefusalWindow::Estimated).or(self.refusal),
            ..self
        }
    }

    /// What the upstream said, where it is believed: above the table, below the operator and below a
    /// refusal, which is the upstream's own last word.
    pub fn trusted_report(&self) -> Option<Tokens> {
        match self.policy_window().1 {
            SelectedSource::Default | SelectedSource::Table => self.reported,
            SelectedSource::Refusal | SelectedSource::Setting => None,
        }
    }

    /// Whether nobody said anything, the upstream neither.
    pub fn is_assumed(&self) -> bool {
        self.reported.is_none() && self.policy_window().1 == SelectedSource::Default
    }

    /// What `wishes` come to for such a model.
    pub fn policy(&self, wishes: &CompactionSettings) -> Policy {
        let (window, believed) = self.policy_window();
        let policy = Policy::new(wishes, window);
        match (self.trusted_report(), self.table) {
            (Some(asked), _) => policy.with_window(wishes, asked),
            (None, Some(TableWindow::Input(_))) if believed == SelectedSource::Table => {
                policy.with_separate_output()
            }
            (None, _) => policy,
        }
    }

    /// The same for one conversation, with what is known of how it is counted. A window that a
    /// refusal of the same conversation has shown is in the estimate's own units already.
    pub fn calibrated_policy(
        &self,
        wishes: &CompactionSettings,
        conversation: &Conversation<'_>,
        counts: impl FnOnce() -> TokenCalibration,
    ) -> Policy {
        let policy = self.policy(wishes);
        // Most requests are far from any mark however they are counted.
        if !TokenRatio::may_reach(conversation.tokens(), policy.thresholds.pressure) {
            return policy;
        }
        match (self.policy_window().1, self.refusal) {
            (SelectedSource::Refusal, Some(RefusalWindow::Estimated(_))) => policy,
            (SelectedSource::Refusal, Some(RefusalWindow::Stated { stated, refused })) => {
                let holds = counts().estimated_window(stated);
                // About as dense as what was refused: that says more than a ratio does.
                if holds <= refused + refused.divided_by(DENSITY_TOLERANCE) {
                    policy.with_window(wishes, to_two_digits(refused))
                } else {
                    policy.with_counted_window(wishes, holds)
                }
            }
            (SelectedSource::Default | SelectedSource::Setting | SelectedSource::Table, _)
            | (SelectedSource::Refusal, None) => {
                let holds = counts().estimated_window(policy.thresholds.window);
                policy.with_counted_window(wishes, holds)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rewrite::chat_completions::read;
    use crate::rewrite::overflow::Evidence;
    use crate::rewrite::policy::OutputWindow;
    use count::CountSample;
    use std::cell::Cell;

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

    /// The policy window, who is believed for it, and the window that the marks follow.
    fn check(sayings: WindowSources, window: u32, believed: SelectedSource, marks: u32) {
        let policy = sayings.policy(&CompactionSettings::default());
        let window = k(window);
        assert_eq!(sayings.policy_window(), (window, believed), "{sayings:?}");
        assert_eq!(policy.prune_thresholds.window, window, "{sayings:?}");
        assert_eq!(policy.thresholds.window, k(marks), "{sayings:?}");
    }

    #[test]
    fn each_is_believed_before_the_next() {
        let mut sayings = NOTHING;
        check(sayings, 200, SelectedSource::Default, 200);
        sayings.table = Some(TableWindow::Total(Tokens::new(128_000)));
        check(sayings, 128, SelectedSource::Table, 128);
        sayings.reported = Some(k(32));
        check(sayings, 128, SelectedSource::Table, 32);
        sayings.refusal = Some(RefusalWindow::Estimated(k(24)));
        check(sayings, 24, SelectedSource::Refusal, 24);
        sayings.setting = Some(k(16));
        check(sayings, 16, SelectedSource::Setting, 16);
    }

    #[test]
    fn a_setting_that_a_refusal_disproves_gives_way() {
        let sayings = WindowSources {
            setting: Some(k(64)),
            refusal: Some(RefusalWindow::Stated {
                stated: k(32),
                refused: k(9),
            }),
            reported: Some(k(128)),
            ..NOTHING
        };
        check(sayings, 32, SelectedSource::Refusal, 32);
    }

    #[test]
    fn what_is_asked_may_be_more_than_what_is_assumed() {
        let sayings = WindowSources {
            reported: Some(k(1_000)),
            ..NOTHING
        };
        check(sayings, 200, SelectedSource::Default, 1_000);
        assert!(NOTHING.is_assumed() && !sayings.is_assumed());
    }

    #[test]
    fn a_limit_on_input_leaves_the_output_its_own_room_where_the_table_is_believed() {
        let mut sayings = WindowSources {
            table: Some(TableWindow::Input(Tokens::new(272_000))),
            ..NOTHING
        };
        let output = |sayings: WindowSources| {
            sayings
                .policy(&CompactionSettings::default())
                .thresholds
                .output
        };
        assert_eq!(output(sayings), OutputWindow::Separate);
        sayings.reported = Some(k(400));
        assert_eq!(output(sayings), OutputWindow::Shared);
        sayings.setting = Some(k(100));
        assert_eq!(output(sayings), OutputWindow::Shared);
    }

    /// A conversation whose one message is `text`.
    fn one_message(text: &str) -> String {
        format!(r#"{{"messages":[{{"role":"user","content":"{text}"}}]}}"#)
    }

    #[test]
    fn a_setting_that_a_refusal_confirms_stays_the_operators() {
        let sayings = WindowSources {
            setting: Some(k(32)),
            refusal: Some(RefusalWindow::Stated {
                stated: k(32),
                refused: k(9),
            }),
            ..NOTHING
        };
        check(sayings, 32, SelectedSource::Setting, 32);
    }

    #[test]
    fn what_is_expected_of_a_provider_hangs_on_what_the_conversation_is_written_in() {
        let expected = |text: &str| {
            let body = one_message(text);
            expected_ratio(&read(body.as_bytes()).unwrap())
        };
        assert_eq!(expected(&"word ".repeat(200)), TokenRatio::default());
        assert!(expected(&"界".repeat(200)) > TokenRatio::default());
    }

    #[test]
    fn a_refusal_shows_the_window_in_the_units_of_the_estimate() {
        let learned = |limit, used, excess| {
            let overflow = Overflow {
                excess,
                limit,
                used,
                ..Overflow::from_empty_reply()
            };
            window_from_refusal(Tokens::new(9_000), &overflow).get()
        };
        // Ten are counted where the estimate has nine.
        assert_eq!(learned(Some(8_000), Some(10_000), None), 7_200);
        assert_eq!(learned(Some(8_000), None, Some(2_000)), 7_200);
        assert_eq!(learned(Some(1), Some(1), None), 9_000);
        // Without a count, the limit, below nine tenths of what was refused.
        assert_eq!(learned(Some(8_000), None, None), 8_000);
        assert_eq!(learned(Some(8_192), None, None), 8_100);
        assert_eq!(learned(Some(8_192), Some(0), None), 8_100);
        assert_eq!(learned(None, None, None), 8_100);
        assert_eq!(learned(None, Some(10_000), Some(2_000)), 8_100);
    }

    #[test]
    fn what_was_known_counts_beside_a_refusal_without_a_number() {
        let learned = |limit, known| {
            let overflow = Overflow {
                limit,
                ..Overflow::from_empty_reply()
            };
            window_from_repeated_refusal(k(10), &overflow, known)
        };
        assert_eq!(learned(None, None), k(9));
        assert_eq!(learned(None, Some(k(10))), k(9));
        assert_eq!(learned(None, Some(k(4))), k(4));
        assert_eq!(learned(Some(8_000), Some(k(4))), k(8));
    }

    #[test]
    fn what_a_conversation_was_shown_for_itself_counts_where_it_is_less() {
        let refused = |sayings: WindowSources, own| {
            sayings
                .with_conversation_window(own)
                .refusal
                .map(RefusalWindow::tokens)
        };
        assert_eq!(refused(NOTHING, None), None);
        assert_eq!(refused(NOTHING, Some(k(8))), Some(k(8)));
        let sayings = WindowSources {
            refusal: Some(RefusalWindow::Stated {
                stated: k(32),
                refused: k(9),
            }),
            ..NOTHING
        };
        assert_eq!(refused(sayings, Some(k(31))), Some(k(31)));
        assert_eq!(sayings.with_conversation_window(Some(k(32))), sayings);
        assert_eq!(sayings.with_conversation_window(None), sayings);
    }

    #[test]
    fn a_short_request_that_asks_for_much_output_shows_the_limit_and_no_density() {
        let learned = |estimate, limit, used| {
            let overflow = Overflow {
                evidence: Evidence::Stated,
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
    fn a_conversation_near_its_marks_is_asked_how_it_is_counted_unless_a_refusal_said_so() {
        let sayings = WindowSources {
            default: k(8),
            ..NOTHING
        };
        // Of 8,000 tokens 7,000 are usable, and 4,200 are the first mark. At the densest, a quarter
        // of that may be counted as much.
        let holds = |sayings: WindowSources, tokens: u32| {
            let asked = Cell::new(false);
            let counts = || {
                asked.set(true);
                let last = CountSample::new(Tokens::new(1_000), 2_000);
                TokenCalibration {
                    last_sample: last,
                    ..TokenCalibration::default()
                }
            };
            let body = one_message(&"a".repeat(Tokens::new(tokens - 4).to_chars()));
            let conversation = read(body.as_bytes()).unwrap();
            assert_eq!(conversation.tokens(), Tokens::new(tokens));
            let policy =
                sayings.calibrated_policy(&CompactionSettings::default(), &conversation, counts);
            (policy.thresholds.actual_window.get(), asked.get())
        };
        assert_eq!(holds(sayings, 1_049), (8_000, false));
        assert_eq!(holds(sayings, 1_050), (7_000, true));
        let set = WindowSources {
            setting: Some(k(8)),
            ..sayings
        };
        assert_eq!(holds(set, 1_050), (7_000, true));
        let refused = |refused| WindowSources {
            refusal: Some(refused),
            ..sayings
        };
        let estimated = refused(RefusalWindow::Estimated(k(8)));
        assert_eq!(holds(estimated, 1_050), (8_000, false));
        // Of 7,000 that fit: a sixth more than what was refused is less dense, an eighth is not.
        for (refused_at, expect) in [(6_000, 7_000), (6_224, 6_200)] {
            let counted = refused(RefusalWindow::Stated {
                stated: k(8),
                refused: Tokens::new(refused_at),
            });
            assert_eq!(holds(counted, 1_050), (expect, true));
        }
    }
}
