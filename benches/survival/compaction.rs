//! Compacts a history with longhaul, at the window that gives the wanted size.
//!
//! The proxy's core is called without any stored record. Past its threshold, a conversation is compacted
//! as on a replica that has never seen it. The result is the same as if every earlier request had
//! gone through, because the replay decides at each of them in turn.

use crate::baselines::size;
use crate::forwarded::forwarded;
use crate::history::{Message, messages};
use crate::sessions::Failure;
use longhaul_core::conversation::Conversation;
use longhaul_core::dialect::Dialect;
use longhaul_core::planning::history_fold::{HardThresholdMode, fold};
use longhaul_core::policy::cut_point::PinnedHead;
use longhaul_core::policy::{CompactionSettings, Policy};
use longhaul_core::units::tokens::Tokens;

/// Ratio between successive windows, in percent.
const STEP_PERCENT: usize = 107;
/// Largest window tried, as a multiple of the budget; the smallest is the one that the budget just
/// fills. A freshly condensed history fills a quarter of its window.
const WIDEST: usize = 5;
/// Minimum size of an acceptable result, in percent of the wanted size.
const NEAR_PERCENT: usize = 90;

/// Returns the history that the proxy forwards in place of `body`, at a window that gives `budget`
/// tokens or slightly less. Returns `None` if it is larger at every window.
///
/// Between two breaks a conversation grows from a quarter of its window to most of it. So more than
/// one window gives the size: some have just condensed it, others are about to. The middle one
/// favours neither, and is used. If no window gives the size, the nearest is used.
pub(crate) fn compacted(
    body: &[u8],
    budget: usize,
    wishes: &CompactionSettings,
) -> Result<Option<Vec<Message>>, Failure> {
    let conversation =
        Dialect::read_any(body).map_err(|why| format!("a body was not read: {why:?}"))?;
    let mut near = Vec::new();
    let mut others = Vec::new();
    let mut window = budget;
    while window <= WIDEST * budget {
        let policy = Policy::new(wishes, Tokens::new(u32::try_from(window)?));
        let size = estimate(&conversation, &policy);
        if (NEAR_PERCENT..=110).contains(&(size * 100 / budget.max(1))) {
            near.push(policy);
        } else if size < budget {
            others.push((size, policy));
        }
        window = window * STEP_PERCENT / 100 + 1;
    }
    let middle = near.len() / 2;
    let mut near: Vec<(usize, Policy)> = near.into_iter().enumerate().collect();
    near.sort_by_key(|(at, _)| at.abs_diff(middle));
    for (_, policy) in near {
        let messages = forwarded_or(&conversation, body, &policy)?;
        let size = size(&messages);
        if size <= budget && size * 100 >= budget * NEAR_PERCENT {
            return Ok(Some(messages));
        } else if size <= budget {
            others.push((size, policy));
        }
    }
    others.sort_by_key(|(size, _)| std::cmp::Reverse(*size));
    for (_, policy) in others {
        let messages = forwarded_or(&conversation, body, &policy)?;
        if size(&messages) <= budget {
            return Ok(Some(messages));
        }
    }
    Ok(None)
}

/// Estimates the size of the result from the replay; a digest has a nominal size there.
fn estimate(conversation: &Conversation<'_>, policy: &Policy) -> usize {
    let kept = PinnedHead::new(conversation, policy, None);
    let standing = fold(conversation, policy, kept, None, HardThresholdMode::Cut);
    standing.size.get() as usize
}

fn forwarded_or(
    conversation: &Conversation<'_>,
    body: &[u8],
    policy: &Policy,
) -> Result<Vec<Message>, Failure> {
    match forwarded(conversation, policy)? {
        Some(messages) => Ok(messages),
        None => Ok(messages(body)?),
    }
}
