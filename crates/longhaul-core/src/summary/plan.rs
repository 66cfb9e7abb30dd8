//! The agent's own plan: the list of tasks that the agent wrote last, as `TodoWrite` and `update_plan` take one.

use crate::conversation::tool_arguments::{DecodedCalls, ToolArguments};
use crate::text::wording;
use std::ops::Range;

/// Heading of the plan.
pub(super) const HEADING: &str = "## Plan";
/// Maximum characters of a task.
const MAX_TASK_CHARS: usize = 200;
/// Beginnings of a status that needs no more work, in lower case.
const FINISHED: [&str; 4] = ["complet", "done", "finish", "cancel"];
/// Status of the task at hand, in lower case without separators.
const AT_HAND: &str = "inprogress";

/// Returns the newest plan of `calls` in at most `room` characters. A finished plan is one line, for the list of an
/// older segment may stand. Empty if the messages `visible`, which stay after the digest, hold a newer plan.
pub(super) fn render(calls: &DecodedCalls<'_, '_>, visible: Range<usize>, room: usize) -> String {
    let is_plan = |arguments: &ToolArguments| arguments.tasks().next().is_some();
    let plans = calls.iter().map(|(_, arguments)| arguments);
    let Some(newest) = plans.filter(|it| is_plan(it)).last() else {
        return String::new();
    };
    let later = DecodedCalls::new(calls.conversation, visible);
    if later.iter().any(|(_, arguments)| is_plan(&arguments)) {
        return String::new();
    }
    let mut lines: Vec<(bool, String)> = newest.tasks().map(line).collect();
    if lines.iter().all(|(is_finished, _)| *is_finished) {
        lines = vec![(true, "- All tasks are finished".to_owned())];
    }
    let cost = |line: &str| line.chars().count() + 1;
    let all: usize = lines.iter().map(|(_, line)| cost(line)).sum();
    let mut over = (HEADING.len() + all).saturating_sub(room);
    // Finished tasks leave first, then those that the agent plans last.
    lines.retain(|(is_finished, line)| {
        let leaves = over > 0 && *is_finished;
        over = over.saturating_sub(if leaves { cost(line) } else { 0 });
        !leaves
    });
    while over > 0
        && let Some((_, last)) = lines.pop()
    {
        over = over.saturating_sub(cost(&last));
    }
    if lines.is_empty() {
        return String::new();
    }
    lines.into_iter().fold(HEADING.to_owned(), |text, (_, line)| text + "\n" + &line)
}

/// Returns the task at hand of a call that writes a plan.
pub(super) fn task_at_hand(arguments: &ToolArguments) -> Option<&str> {
    arguments.tasks().find(|(_, status)| is_at_hand(status)).map(|(text, _)| text)
}

/// Returns the line of a task, and whether the task is finished.
fn line((text, status): (&str, &str)) -> (bool, String) {
    let is_finished = FINISHED.iter().any(|it| status.to_lowercase().starts_with(it));
    let text = wording::one_line(text, MAX_TASK_CHARS);
    let (mark, end) = match (is_finished, is_at_hand(status)) {
        (true, _) => ("x", ""),
        (false, true) => (" ", " (in progress)"),
        (false, false) => (" ", ""),
    };
    (is_finished, format!("- [{mark}] {text}{end}"))
}

fn is_at_hand(status: &str) -> bool {
    let letters = status.chars().filter(|c| c.is_alphabetic());
    letters.flat_map(char::to_lowercase).eq(AT_HAND.chars())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::chat_completions::read;
    use serde_json::{Value, json};

    fn plan(tool: &str, arguments: &Value) -> Value {
        let function = json!({"name": tool, "arguments": arguments.to_string()});
        json!({"role": "assistant", "tool_calls": [{"id": "a", "type": "function", "function": function}]})
    }

    fn rendered(messages: &[Value], covered: usize, room: usize) -> String {
        let body = json!({ "messages": messages }).to_string();
        let conversation = read(body.as_bytes()).unwrap();
        let calls = DecodedCalls::new(&conversation, 0..covered);
        render(&calls, covered..messages.len(), room)
    }

    #[test]
    fn newest_plan_stands_in_the_forms_of_several_agents() {
        let old = plan("todowrite", &json!({"todos": [{"content": "old", "status": "pending"}]}));
        for (key, text) in [("todos", "content"), ("plan", "step"), ("todoList", "title")] {
            let task = |name: &str, status: &str| json!({text: name, "status": status, "id": "1"});
            let tasks = [
                task("read\n## Goal", "completed"),
                task("port it", "in_progress"),
                task("test", "not-started"),
            ];
            let new = plan("t", &json!({"explanation": "so", key: tasks}));
            assert_eq!(
                rendered(&[old.clone(), new], 2, 1000),
                "## Plan\n- [x] read ## Goal\n- [ ] port it (in progress)\n- [ ] test"
            );
        }
    }

    #[test]
    fn superseded_plans_and_other_lists_are_left_out_and_a_finished_plan_is_a_line() {
        let of = |status: &str| plan("t", &json!({"todos": [{"content": "a", "status": status}]}));
        let finished = "## Plan\n- All tasks are finished";
        assert_eq!(rendered(&[of("completed")], 1, 1000), finished);
        assert_eq!(rendered(&[of("pending"), of("pending")], 1, 1000), "");
        assert_eq!(
            rendered(&[of("pending"), json!({"role": "user", "content": "a"})], 1, 1000),
            "## Plan\n- [ ] a"
        );
        let other =
            plan("t", &json!({"files": [{"path": "a", "status": "M"}], "status": "pending"}));
        assert_eq!(rendered(&[other], 1, 1000), "");
    }

    #[test]
    fn finished_tasks_leave_first_and_the_room_is_never_exceeded() {
        let task = |text: &str, status: &str| json!({"content": text, "status": status});
        let tasks =
            [task("done", "completed"), task("now", "in_progress"), task("later", "pending")];
        let messages = [plan("t", &json!({"todos": tasks}))];
        assert_eq!(rendered(&messages, 1, 45), "## Plan\n- [ ] now (in progress)\n- [ ] later");
        assert_eq!(rendered(&messages, 1, 35), "## Plan\n- [ ] now (in progress)");
        for room in 0..70 {
            assert!(rendered(&messages, 1, room).chars().count() <= room);
        }
    }
}
