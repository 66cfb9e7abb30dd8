//! Summaries by the provider's own compaction (`summary.model = provider`).

use crate::chat::context::ChatRequest;
use crate::config::SummaryModel;
use longhaul_core::policy::record::PriorRecords;
use longhaul_core::prefix::keys::PrefixKeys;

/// Whether the provider writes the summaries of a conversation.
pub(super) fn writes_summaries(request: &ChatRequest<'_>) -> bool {
    let model = &request.state.config.summary.model;
    *model == SummaryModel::Provider
        && request.from_gateway.is_none()
        && request.conversation.is_compacted_by_provider()
}

/// Looks up the records of a conversation. Where no item of the provider may stand, the digests beside the items do.
pub(super) fn prior_records(request: &ChatRequest<'_>, prefix_keys: &PrefixKeys) -> PriorRecords {
    let writes = writes_summaries(request);
    let records = request.state.store.prior_records(prefix_keys);
    records.with_items_that(|found| {
        writes && {
            let until = found.record.compacted_message_count;
            request.conversation.takes_provider_item(until)
        }
    })
}
