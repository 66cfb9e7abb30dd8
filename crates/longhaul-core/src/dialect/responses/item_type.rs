//! Types of the items of an input.

use crate::conversation::NeighbourLink;

/// The reading of an item's type.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum ItemType {
    /// Definitions of further tools, in the words of the operator.
    AdditionalTools,
    /// A call that another item answers.
    Call,
    /// The provider's summary of everything before it.
    Compaction,
    /// The order to compact, as the last item.
    CompactionTrigger,
    /// A call that the provider itself made and answered.
    Hosted,
    /// A message of any role.
    Message,
    /// A result whose output is text, or parts with text.
    Output(OutputShape),
    /// The model's reasoning.
    Reasoning,
    /// A reference to a stored item.
    Reference,
    /// Definitions of tools that the model has searched for.
    ToolSearchOutput,
    /// A type that longhaul does not read.
    Unknown,
}

/// The shape of a result's output.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum OutputShape {
    /// Chunks, each with the output and the errors of one command.
    Chunks,
    /// Anything else: counted, and never changed.
    Opaque,
    /// A string, or an array of parts.
    Text,
}

impl ItemType {
    /// Returns the reading of the type `name`. An unknown type pairs by the end of its name, as all
    /// types do that exist so far.
    pub(super) fn from_name(name: &str, has_call_id: bool) -> Self {
        match name {
            "additional_tools" => Self::AdditionalTools,
            "code_interpreter_call"
            | "file_search_call"
            | "image_generation_call"
            | "mcp_call"
            | "mcp_list_tools"
            | "web_search_call" => Self::Hosted,
            "compaction" | "compaction_summary" | "context_compaction" => Self::Compaction,
            "compaction_trigger" => Self::CompactionTrigger,
            "custom_tool_call_output" | "function_call_output" => Self::Output(OutputShape::Text),
            "item_reference" => Self::Reference,
            "message" => Self::Message,
            "program" if has_call_id => Self::Call,
            "reasoning" => Self::Reasoning,
            "shell_call_output" => Self::Output(OutputShape::Chunks),
            "tool_search_output" => Self::ToolSearchOutput,
            // The schema lists no `call_id` among the properties of this type.
            "local_shell_call" | "mcp_approval_request" => Self::Call,
            "local_shell_call_output" | "mcp_approval_response" => {
                Self::Output(OutputShape::Opaque)
            }
            _ if has_call_id && name.ends_with("_call") => Self::Call,
            _ if has_call_id && name.ends_with("_output") => Self::Output(OutputShape::Opaque),
            _ => Self::Unknown,
        }
    }

    /// Returns the tie of an item to its neighbours.
    pub(super) fn binding(self) -> NeighbourLink {
        match self {
            Self::AdditionalTools | Self::ToolSearchOutput => NeighbourLink::Tools,
            Self::Compaction => NeighbourLink::Compaction,
            Self::CompactionTrigger => NeighbourLink::CompactionOrder,
            Self::Reasoning => NeighbourLink::Reasoning,
            Self::Reference => NeighbourLink::Reference,
            Self::Unknown => NeighbourLink::Unknown,
            Self::Call | Self::Hosted | Self::Message | Self::Output(_) => NeighbourLink::Free,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_item_types_are_classified_by_suffix() {
        for (name, has_call_id, expect) in [
            ("function_call", true, ItemType::Call),
            ("dream_call", true, ItemType::Call),
            ("dream_call", false, ItemType::Unknown),
            (
                "dream_call_output",
                true,
                ItemType::Output(OutputShape::Opaque),
            ),
            ("dream_call_output", false, ItemType::Unknown),
            ("item_reference", false, ItemType::Reference),
            ("web_search_call", false, ItemType::Hosted),
            ("mcp_call", false, ItemType::Hosted),
            ("", true, ItemType::Unknown),
        ] {
            assert_eq!(ItemType::from_name(name, has_call_id), expect, "{name}");
        }
    }
}
