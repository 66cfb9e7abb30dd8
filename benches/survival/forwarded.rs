//! Messages that longhaul forwards in place of a history, planned by the core without a record.

use crate::history::{Message, messages};
use crate::sessions::Failure;
use longhaul_core::conversation::Conversation;
use longhaul_core::planning::plan::{SummarySource, plan};
use longhaul_core::planning::splice::Splice;
use longhaul_core::policy::Policy;
use longhaul_core::policy::record::PriorRecords;

/// Returns the messages that longhaul forwards, or `None` if it changes nothing.
pub(crate) fn forwarded(
    conversation: &Conversation<'_>,
    policy: &Policy,
) -> Result<Option<Vec<Message>>, Failure> {
    let outlook = plan(
        conversation,
        policy,
        &PriorRecords::default(),
        SummarySource::Digest,
    );
    let Some(plan) = outlook.view.replacements(conversation) else {
        return Ok(None);
    };
    let splice = Splice::new(conversation, &plan).ok_or("a rewrite is not sound")?;
    Ok(Some(messages(&splice.apply())?))
}
