//! What to replace, in the words of conversations.

use super::bypass::Bypass;
use super::conversation::Conversation;
use super::policy::Policy;
use super::prune::Fold;
use super::tokens::Tokens;
use std::borrow::Cow;

/// One replacement.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Cut {
    /// The content of the result at `at` becomes `text`, in the shape that it had.
    Result {
        /// The message.
        at: usize,
        /// What stands in place of its content.
        text: Cow<'static, str>,
    },
}

impl Cut {
    /// The first message that it changes.
    pub fn at(&self) -> usize {
        match self {
            Self::Result { at, .. } => *at,
        }
    }
}

/// All replacements of one request.
///
/// Invariant: the cuts ascend and do not overlap.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Plan {
    cuts: Vec<Cut>,
    /// The plain estimate of what they save.
    pub saved: Tokens,
}

impl Plan {
    /// The cuts, in the order of the messages.
    pub fn cuts(&self) -> &[Cut] {
        &self.cuts
    }
}

/// Whether to act on a request, and how.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Decision {
    /// It goes on as it came.
    Leave(Bypass),
    /// It goes on with these replacements.
    Rewrite(Plan),
}

/// Decides what a request is forwarded as.
pub fn plan(conversation: &Conversation<'_>, policy: &Policy) -> Decision {
    let Some((_, rule)) = &policy.prune else {
        return Decision::Leave(Bypass::Disabled);
    };
    let fold = Fold::replay(conversation, rule);
    let cuts: Vec<Cut> = fold
        .cleared()
        .map(|result| Cut::Result {
            at: result.message,
            text: result.placeholder.clone(),
        })
        .collect();
    if cuts.is_empty() {
        return Decision::Leave(Bypass::Nothing);
    }
    Decision::Rewrite(Plan {
        cuts,
        saved: fold.freed(),
    })
}
