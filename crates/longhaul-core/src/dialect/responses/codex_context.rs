//! Messages of the user role in which Codex describes the workspace. No person wrote them.

/// Beginnings of the texts, from Codex 0.118 to 0.169.
const BEGINNINGS: [&str; 7] = [
    "# AGENTS.md instructions",
    "<environment_context>",
    "<recommended_plugins>",
    "<skill>",
    "<subagent_notification>",
    "<turn_aborted>",
    "<user_instructions>",
];

/// Whether all of `texts`, undecoded, describe the workspace, and there is at least one.
pub(super) fn is_context<'t>(texts: impl IntoIterator<Item = &'t str>) -> bool {
    let mut texts = texts.into_iter().peekable();
    texts.peek().is_some() && texts.all(begins_as_context)
}

fn begins_as_context(raw: &str) -> bool {
    let text = raw.trim_start_matches("\\n").trim_start();
    BEGINNINGS
        .iter()
        .any(|beginning| text.starts_with(beginning))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_context_only_if_all_its_parts_are() {
        let context = "<environment_context>\\n  <cwd>/home/user</cwd>";
        let agents = "# AGENTS.md instructions for /home/user";
        assert!(is_context([context]));
        assert!(is_context(["\\n<user_instructions>x", agents]));
        assert!(!is_context([agents, "fix the build"]));
        assert!(!is_context(["why does <environment_context> repeat?"]));
        assert!(!is_context([]));
    }
}
