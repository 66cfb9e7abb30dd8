//! Files of rules that an agent reads, and its workspace.

use crate::clients;
use crate::conversation::Conversation;
use crate::conversation::tool_arguments::ToolArguments;
use std::cell::OnceCell;

/// Recognises the files of rules of one conversation.
pub(crate) struct RuleFiles<'n> {
    /// Names that a setting adds.
    names: &'n [String],
    /// Root of the workspace as the client states it.
    workspace: OnceCell<Option<String>>,
}

impl<'n> RuleFiles<'n> {
    /// Creates a recogniser of the usual names and of `names`.
    pub(crate) fn new(names: &'n [String]) -> Self {
        Self {
            names,
            workspace: OnceCell::new(),
        }
    }

    /// Returns the path of the file of rules that a call reads, relative to the workspace. `None` for any
    /// other call.
    pub(crate) fn label(
        &self,
        conversation: &Conversation<'_>,
        tool: &str,
        arguments: &ToolArguments,
    ) -> Option<String> {
        let command = arguments.command();
        let path = clients::reads_file(
            tool,
            command.as_deref(),
            arguments.path(),
            arguments.folder(),
        )?;
        let workspace = self.workspace.get_or_init(|| workspace(conversation));
        let label = clients::rule_file(&path, workspace.as_deref(), self.names)?;
        Some(label.to_owned())
    }
}

/// Returns the workspace that the leading instructions or the first messages of the user state.
fn workspace(conversation: &Conversation<'_>) -> Option<String> {
    let messages = conversation.messages().iter();
    let stated = messages.filter(|it| it.role.is_instruction() || it.role.is_user());
    stated.take(MAX_STATING).find_map(|message| {
        let text = conversation.text(message);
        clients::workspace(&text).map(str::to_owned)
    })
}

/// Maximum messages in which a workspace is looked for: clients state it at the start.
const MAX_STATING: usize = 4;
