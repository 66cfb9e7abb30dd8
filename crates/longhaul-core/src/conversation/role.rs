//! The authors of messages.

/// The author of a message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Role {
    /// The model.
    Assistant,
    /// The operator of the agent, in the newer spelling.
    Developer,
    /// The result of a legacy `function_call`.
    Function,
    /// An unknown role: forwarded, never rewritten.
    Other,
    /// The operator of the agent.
    System,
    /// The result of a tool call.
    Tool,
    /// The user, or the agent on the user's behalf.
    User,
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

    /// Returns the name of the role in logs.
    pub fn label(self) -> &'static str {
        match self {
            Self::Assistant => "assistant",
            Self::Developer => "developer",
            Self::Function => "function result",
            Self::Other => "other",
            Self::System => "system",
            Self::Tool => "tool result",
            Self::User => "user",
        }
    }

    /// Whether this is the result of a tool call or of a legacy function call.
    pub fn is_tool_result(self) -> bool {
        matches!(self, Self::Function | Self::Tool)
    }
}
