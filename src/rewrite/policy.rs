//! What the settings come to for one request: the numbers that decide, for its window.

use super::prune::{Placeholder, Rule};
use super::tokens::Tokens;

/// A set of numbers to start from.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Profile {
    /// Chosen by the window.
    #[default]
    Auto,
    /// Small windows without a price on the prefix: a model on one's own machine.
    Local,
    /// The numbers of `OpenCode` and tunacode.
    Standard,
}

/// What the operator asks of pruning; what is left open, the profile says.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct PruneWishes {
    /// Whether to prune at all.
    pub off: bool,
    /// See [`Rule::protect`].
    pub protect: Option<Tokens>,
    /// See [`Rule::minimum`].
    pub minimum: Option<Tokens>,
    /// See [`Rule::user_turns`].
    pub user_turns: Option<u32>,
    /// See [`Rule::exempt_tools`].
    pub exempt_tools: Vec<String>,
    /// See [`Rule::keep_errors`].
    pub keep_errors: bool,
    /// See [`Rule::placeholder`].
    pub placeholder: Placeholder,
}

/// The policy for one request.
#[derive(Clone, Debug)]
pub struct Policy {
    /// The pruning rule; none where it is switched off.
    pub prune: Option<Rule>,
}

impl Policy {
    /// What `wishes` come to under `profile`.
    pub fn new(profile: Profile, wishes: &PruneWishes) -> Self {
        let (protect, minimum, user_turns) = match profile {
            Profile::Auto | Profile::Standard => (40_000, 20_000, 2),
            Profile::Local => (2_000, 500, 2),
        };
        let rule = Rule {
            protect: wishes.protect.unwrap_or_else(|| Tokens::new(protect)),
            minimum: wishes.minimum.unwrap_or_else(|| Tokens::new(minimum)),
            user_turns: wishes.user_turns.unwrap_or(user_turns),
            exempt_tools: wishes.exempt_tools.clone(),
            keep_errors: wishes.keep_errors,
            placeholder: wishes.placeholder,
        };
        Self {
            prune: (!wishes.off).then_some(rule),
        }
    }
}
