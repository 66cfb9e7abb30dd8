//! Images and documents that the API refuses: the retry without old ones.

use crate::chat::attempt::Attempt;
use crate::chat::context::Chat;
use crate::chat::refusal::Retry;
use crate::chat::second_attempt;
use longhaul_core::conversation::images;
use longhaul_core::overflow::Suspicion;

/// Retries with markers in place of the old images and documents. Returns `None` if there are none, or if
/// each such retry was refused within the last hour: the newest ones are at fault then.
pub(super) fn retry_without_old_media(chat: &Chat<'_>, first: &Attempt) -> Option<Attempt> {
    let conversation = chat.request.conversation;
    let first_key = chat.prefix_keys.first_key()?;
    images::droppable_if_refused(conversation).find_map(|before| {
        let suspicion = Suspicion::MediaBefore {
            conversation: first_key,
            message: before,
        };
        if chat.learned.refuted.is_refuted(suspicion) {
            return None;
        }
        let mut view = first.view().clone();
        view.drop_images_before(before);
        // Never resend a refused body.
        let fewer = view.replacements(conversation) != first.view().replacements(conversation);
        let why = Retry::FewerImages { suspicion };
        fewer.then(|| second_attempt::with_view(chat, first, view, why))
    })
}
