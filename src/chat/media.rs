//! Images and documents that the API refuses: the retry without old ones.

use crate::chat::attempt::Attempt;
use crate::chat::context::Chat;
use crate::chat::refusal::Retry;
use crate::chat::thinking;
use longhaul_core::conversation::images;
use longhaul_core::overflow::Verdict;

/// Retries with markers in place of the old images and documents. Returns `None` if there are none, or if
/// each such retry was refused within the last hour: the newest ones are at fault then.
pub(super) fn retry_without_old_media(chat: &Chat<'_>, first: &Attempt) -> Option<Attempt> {
    let conversation = chat.request.conversation;
    images::droppable_if_refused(conversation).find_map(|before| {
        let statement = statement(chat, before)?;
        if chat.knowledge.refuted.is_refuted(statement) {
            return None;
        }
        let mut view = first.view().clone();
        view.drop_images_before(before);
        // Never resend a refused body.
        let fewer = view.replacements(conversation) != first.view().replacements(conversation);
        let why = Retry::FewerImages { statement };
        fewer.then(|| thinking::retry_with_view(chat, first, view, why))
    })
}

/// Returns the suspicion that the reply to a retry without old images refutes, if any.
pub(super) fn refuted_statement(retry: Option<Retry>, verdict: Verdict) -> Option<u64> {
    let Some(Retry::FewerImages { statement }) = retry else {
        return None;
    };
    match verdict {
        Verdict::Malformed
        | Verdict::StaleThinking
        | Verdict::TooMuchMedia
        | Verdict::Unexplained => Some(statement),
        // The client learns more from the second reply.
        Verdict::Failed
        | Verdict::Fine
        | Verdict::OutputTooLarge { .. }
        | Verdict::Overflow(_)
        | Verdict::TextTooLong { .. }
        | Verdict::TooManyBytes => None,
    }
}

/// Returns the fingerprint of the suspicion that images before a message of this conversation are refused.
fn statement(chat: &Chat<'_>, before: usize) -> Option<u64> {
    let key = chat.prefix_keys.first_key()?.to_bytes();
    let (word, _) = key.get(8..)?.split_first_chunk()?;
    Some(u64::from_le_bytes(*word) ^ before as u64)
}
