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
        Self { names, workspace: OnceCell::new() }
    }

    /// Whether arguments, undecoded, may have a usual name of a file of rules, or of a skill. Nearly all have
    /// none.
    pub(crate) fn may_name_usual(arguments: &str) -> bool {
        let mut parts = NAME_PARTS.iter();
        arguments.len() <= MAX_READING_ARGUMENTS && parts.any(|part| arguments.contains(part))
    }

    /// Whether arguments, undecoded, may have a name that the setting adds.
    pub(crate) fn may_name_added(&self, arguments: &str) -> bool {
        let mut names = self.names.iter();
        arguments.len() <= MAX_READING_ARGUMENTS && names.any(|name| arguments.contains(&**name))
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
        let path =
            clients::reads_file(tool, command.as_deref(), arguments.path(), arguments.folder())?;
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

/// Parts of the usual names of files of rules. `every_usual_name_has_a_part` holds them to the list.
const NAME_PARTS: [&str; 3] = [".md", "rules", "hints"];
/// Maximum bytes of the arguments of a call that reads a file.
const MAX_READING_ARGUMENTS: usize = 4_096;
/// Maximum messages in which a workspace is looked for: clients state it at the start.
const MAX_STATING: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_usual_name_has_a_part() {
        let list = include_str!("../clients/rule_files.txt").lines();
        let names = list
            .filter_map(|row| row.strip_prefix("name\t").or_else(|| row.strip_prefix("place\t")));
        let names: Vec<&str> = names.collect();
        assert!(names.len() > 20, "{names:?}");
        for name in names.into_iter().chain(["SKILL.md"]) {
            assert!(RuleFiles::may_name_usual(&format!("{{\"path\":\"{name}\"}}")), "{name}");
        }
    }
}
