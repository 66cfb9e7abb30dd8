//! The authors of messages.

use serde::{Deserialize, Serialize};

crate::labels! {
    /// The author of a message.
    #[derive(Default, Deserialize, Serialize)]
    #[serde(rename_all = "lowercase")]
    Role {
        /// The model.
        Assistant = "assistant",
        /// The operator of the agent, in the newer spelling.
        Developer = "developer",
        /// The result of a legacy `function_call`.
        Function = "function result",
        /// An unknown role: forwarded, never rewritten.
        #[default]
        Other = "other",
        /// The operator of the agent.
        System = "system",
        /// The result of a tool call.
        Tool = "tool result",
        /// The user, or the agent on the user's behalf.
        User = "user",
    }
}

impl Role {
    /// Whether this is a system or developer role. Such messages are never rewritten at the head.
    pub(crate) fn is_instruction(self) -> bool {
        matches!(self, Self::Developer | Self::System)
    }

    /// Whether this is the user role.
    pub fn is_user(self) -> bool {
        self == Self::User
    }

    /// Whether this is the result of a tool call or of a legacy function call.
    pub fn is_tool_result(self) -> bool {
        matches!(self, Self::Function | Self::Tool)
    }
}
