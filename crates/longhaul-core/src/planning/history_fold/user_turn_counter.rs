//! Number of user messages up to a point of the fold.

use crate::conversation::Conversation;

/// Counts user messages while the fold advances.
#[derive(Default)]
pub(super) struct UserTurnCounter {
    counted_until: usize,
    pub(super) count: u32,
}

impl UserTurnCounter {
    pub(super) fn count_up_to(&mut self, conversation: &Conversation<'_>, point: usize) {
        let new = conversation
            .messages()
            .get(self.counted_until..point)
            .unwrap_or_default();
        let users = new.iter().filter(|message| message.role.is_user()).count();
        self.count = self
            .count
            .saturating_add(u32::try_from(users).unwrap_or(u32::MAX));
        self.counted_until = point;
    }
}
