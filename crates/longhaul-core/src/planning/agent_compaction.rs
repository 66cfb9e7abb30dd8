//! Detects an agent's own housekeeping requests: compaction of its conversation, or a title.
//!
//! Such a request needs the history as it is. Adopted records apply and an overflow is recovered
//! from, but nothing new starts. If longhaul made a summary first, the agent's summary would be a
//! summary of a summary.

use crate::conversation::{Conversation, HistoryKeeper, Role};
use crate::text::wording;
use regex::Regex;
use std::sync::LazyLock;

/// Characters of the newest message to examine at each end: agents put the instruction to summarise
/// first or last.
const SCANNED_CHARS: usize = 1_500;

/// Phrases in lower case with which agents ask for their own compaction or a title. From the
/// prompts of OpenCode, pi, Codex, Cline, Roo, aider, goose, gemini-cli, qwen-code, Claude Code,
/// Zed and Kimi Code.
const ORDER_PHRASES: &str = include_str!("order_phrases.txt");
static ANY_ORDER: LazyLock<Option<Regex>> = LazyLock::new(|| wording::any_phrase(ORDER_PHRASES));

/// Whether the newest message is a user message with such an instruction, or the request asks the
/// provider to compact.
pub fn is_agent_compaction(conversation: &Conversation<'_>) -> bool {
    let by_provider = [HistoryKeeper::CompactingProvider, HistoryKeeper::OrderedCompaction];
    if by_provider.contains(&conversation.params().history) {
        return true;
    }
    // Claude Code puts reminders after its order.
    let mut messages = conversation.messages().iter().rev();
    let newest = messages.find(|message| !message.role.is_instruction());
    newest.filter(|message| message.role.is_user()).is_some_and(|message| {
        let text = conversation.text(message);
        if text.len() <= SCANNED_CHARS {
            return contains_order(&text);
        }
        let (start, end) = wording::ends(&text, SCANNED_CHARS, SCANNED_CHARS);
        contains_order(start) || contains_order(end)
    })
}

/// Returns the message up to which a request may start something new. For an agent's own compaction,
/// that is its last reply: results before it may have been cleared in an earlier request. No digest
/// starts for such a request.
pub(super) fn plannable_until(conversation: &Conversation<'_>) -> usize {
    let messages = conversation.messages();
    let history = conversation.params().history;
    if let HistoryKeeper::ClearingProvider | HistoryKeeper::CompactingProvider = history {
        0
    } else if is_agent_compaction(conversation) {
        let reply = messages.iter().rposition(|it| it.role == Role::Assistant);
        reply.unwrap_or_default()
    } else {
        messages.len()
    }
}

fn contains_order(text: &str) -> bool {
    ANY_ORDER.as_ref().is_some_and(|orders| orders.is_match(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::chat_completions::read;
    use crate::planning::plan::{SummarySource, plan};
    use crate::policy::record::PriorRecords;
    use crate::policy::{CompactionSettings, Policy};
    use crate::units::tokens::Tokens;

    fn check(role: &str, text: &str, expect: bool) {
        let body = format!(r#"{{"messages":[{{"role":"{role}","content":"{text}"}}]}}"#);
        let conversation = read(body.as_bytes()).unwrap();
        assert_eq!(is_agent_compaction(&conversation), expect, "{text}");
    }

    #[test]
    fn recognises_agent_compaction_orders_at_either_end_of_a_message() {
        let long = "work ".repeat(2_000);
        check("user", "Provide a detailed prompt for continuing our conversation above.", true);
        check("user", "You are performing a CONTEXT CHECKPOINT COMPACTION.", true);
        check("user", &format!("{long} Now summarize the conversation."), true);
        check("user", &format!("Generate a title. {long}"), true);
        for order in [
            "Create a new anchored summary from the conversation history above.",
            "Update the anchored summary below using the conversation history above.",
            "Summarize the older portion of the preceding conversation. This is a task.",
            "Your task is to create a detailed summary of the RECENT portion of the conversation.",
            "You are compacting this conversation into a handoff for another agent.",
            "You are now given a task to compact this conversation context.",
        ] {
            check("user", order, true);
        }
    }

    #[test]
    fn searches_a_limited_number_of_characters_at_each_end() {
        // The middle of a long text is pasted content.
        let check_between = |before: &str, chars_before, chars_after, expect| {
            let (before, after) = (before.repeat(chars_before), "z".repeat(chars_after));
            let text = format!("{before}generate a title{after}");
            check("user", &text, expect);
        };
        let order = "generate a title".len();
        for letter in ["x", "金"] {
            check_between(letter, SCANNED_CHARS - order, 9_000, true);
            check_between(letter, SCANNED_CHARS - order + 1, 9_000, false);
            check_between(letter, 9_000, SCANNED_CHARS - order, true);
            check_between(letter, 9_000, SCANNED_CHARS - order + 1, false);
        }
        // A text hardly longer than the limit, in characters, has no middle.
        check_between("金", SCANNED_CHARS - order, 0, true);
        check_between("x", SCANNED_CHARS, SCANNED_CHARS, false);
    }

    /// Whether longhaul changes a conversation that its last reply, or `after` after it, takes
    /// past the threshold.
    fn is_changed(after: &str) -> bool {
        let long = "word ".repeat(6_000);
        let body = format!(
            r#"{{"messages":[{{"role":"user","content":"a"}},{{"role":"assistant","content":"{long}"}},{{"role":"user","content":"b"}},{after}]}}"#
        );
        let conversation = read(body.as_bytes()).unwrap();
        let policy = Policy::new(&CompactionSettings::default(), Tokens::new(16_000));
        let plan = plan(&conversation, &policy, &PriorRecords::default(), SummarySource::Digest);
        plan.view.is_condensed() || plan.view.is_pruned()
    }

    fn message(role: &str, text: &str) -> String {
        format!(r#"{{"role":"{role}","content":"{text}"}}"#)
    }

    #[test]
    fn an_agent_compaction_request_is_not_changed() {
        let reply = message("assistant", &"word ".repeat(6_000));
        let order = message("user", "Summarize the conversation so far.");
        assert!(is_changed(&format!("{reply},{}", message("user", "go on"))));
        assert!(!is_changed(&format!("{reply},{order}")));
    }

    #[test]
    fn an_agent_compaction_request_within_a_turn_is_not_changed() {
        let result = "word ".repeat(6_000);
        let step = format!(
            r#"{{"role":"assistant","content":null,"tool_calls":[{{"id":"c","type":"function","function":{{"name":"read","arguments":"{{}}"}}}}]}},{{"role":"tool","tool_call_id":"c","content":"{result}"}}"#
        );
        let order = message("user", "Summarize the conversation so far.");
        assert!(is_changed(&step));
        assert!(!is_changed(&format!("{step},{order}")));
    }

    #[test]
    fn recognises_an_order_before_trailing_reminders() {
        let order = "Your task is to create a detailed summary of the conversation so far.";
        let reminder = "<system-reminder>rules</system-reminder>";
        for (texts, expect) in [
            ([order, reminder], true),
            (["go on", reminder], false),
            ([order, "and then go on"], true),
        ] {
            let blocks = texts.map(|text| format!(r#"{{"type":"text","text":"{text}"}}"#));
            let result = r#"{"type":"tool_result","tool_use_id":"a","content":"x"}"#;
            let blocks = [&[result.to_owned()], &blocks[..]].concat().join(",");
            let body = format!(
                r#"{{"system":"s","messages":[{{"role":"assistant","content":[{{"type":"tool_use","id":"a","name":"f","input":{{}}}}]}},{{"role":"user","content":[{blocks}]}}]}}"#
            );
            let conversation = crate::dialect::messages::read(body.as_bytes()).unwrap();
            assert_eq!(is_agent_compaction(&conversation), expect, "{texts:?}");
        }
    }

    #[test]
    fn a_users_own_request_is_not_taken_for_a_compaction_order() {
        check("user", "summarize the README and fix the title of the page", false);
        check("user", "why does the conversation hang?", false);
        // Beginning of an agent's first message after its own compaction.
        check("user", "The summary below covers the earlier portion of the conversation.", false);
        check("assistant", "Here is a summary of the conversation", false);
    }
}
