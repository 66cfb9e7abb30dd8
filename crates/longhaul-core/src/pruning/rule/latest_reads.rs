//! Full reads of files and resources, to which later results may refer.

use crate::conversation::tool_arguments::ToolArguments;
use crate::conversation::{Batch, Content, Conversation, Message};
use crate::text::wording;
use std::collections::HashMap;

/// Latest full read of each file or resource. Filled only if some result refers to an earlier one.
pub(super) struct LatestReads {
    pointers: Vec<usize>,
    latest: HashMap<(String, String), usize>,
}

impl LatestReads {
    pub(super) fn new(conversation: &Conversation<'_>) -> Self {
        let results = conversation
            .batches()
            .iter()
            .flat_map(|batch| batch.results.clone());
        let pointers = results.filter(|&at| is_pointer(conversation, at)).collect();
        Self {
            pointers,
            latest: HashMap::new(),
        }
    }

    /// Adds result number `index`, at message `at`. Returns the result that it refers to, if any.
    pub(super) fn observe(
        &mut self,
        conversation: &Conversation<'_>,
        batch: &Batch,
        at: usize,
        index: usize,
    ) -> Option<usize> {
        if self.pointers.is_empty() {
            return None;
        }
        let call = conversation.call_for_result(batch, at)?;
        let tool = call.name?.decode(conversation.body()).into_owned();
        let arguments = ToolArguments::decode(conversation, call);
        let thing = arguments.primary()?.to_owned();
        if self.pointers.binary_search(&at).is_ok() {
            return self.latest.get(&(tool, thing)).copied();
        }
        self.latest.insert((tool, thing), index);
        None
    }
}

/// Whether a result only refers to an earlier one; cached in the message's notes.
fn is_pointer(conversation: &Conversation<'_>, at: usize) -> bool {
    conversation.message(at).is_some_and(|message| {
        let look = || points_at_earlier_read(conversation, message);
        let notes = message.memo();
        notes.map_or_else(look, |notes| *notes.is_reference.get_or_init(look))
    })
}

fn points_at_earlier_read(conversation: &Conversation<'_>, message: &Message) -> bool {
    let may = match message.content {
        Content::Absent | Content::Null => false,
        Content::Parts(_) => true,
        Content::Text(text) => wording::may_point_at_earlier_read(message.text_tokens, || {
            text.raw(conversation.body())
        }),
    };
    may && wording::points_at_earlier_read(message.text_tokens, || conversation.text(message))
}
