//! Digest of history, computed without calling a model. The digest is a pure function of the
//! history.

use crate::conversation::tool_arguments::DecodedCalls;
use crate::conversation::{Conversation, Message, Role};
use crate::identifiers::index_messages;
use crate::policy::cut_point::open_turn;
use crate::policy::segments::SegmentPlace;
use crate::policy::{NO_STANDING_WORDS, Policy, SummaryBudgets};
use crate::summary::agreements::render_agreements;
use crate::summary::file_activity::FileActivity;
use crate::summary::instructions::render_instructions;
use crate::summary::plan;
use crate::summary::steps::{StepDetail, StepRenderer};
use crate::summary::user_messages::{
    RulesAround, UserRequestSizes, includes_first_request, render_user_messages, user_text,
};
use crate::text::labels::escape_label;
use crate::text::prose::escape_prose;
use crate::text::wording;
use crate::units::tokens::Tokens;
use std::borrow::Cow;
use std::ops::Range;

/// Percentage of the space for steps that the newest steps may fill at full length.
const FULL_LENGTH_PERCENT: usize = 60;
/// Largest share of the space for steps that the agent's own plan may take, in percent.
const PLAN_PERCENT: usize = 33;
/// Maximum characters of the first request in the goal section.
const MAX_GOAL_CHARS: usize = 160;
/// Tokens for the empty line between sections; each section pays for one from its own budget.
pub(crate) const SECTION_GAP: Tokens = Tokens::new(1);

/// Returns the budget of each section of the replacement text for the messages `covered`. The budgets
/// do not depend on later messages, so they stay the same from turn to turn.
pub fn summary_budgets(
    conversation: &Conversation<'_>,
    policy: &Policy,
    covered: Range<usize>,
) -> SummaryBudgets {
    let requests = UserRequestSizes::default().measure(conversation, covered.clone());
    summary_budgets_with_requests(conversation, policy, covered, requests)
}

/// Like [`summary_budgets`], for callers that have the size of the first and the newest request.
pub(crate) fn summary_budgets_with_requests(
    conversation: &Conversation<'_>,
    policy: &Policy,
    covered: Range<usize>,
    requests: Tokens,
) -> SummaryBudgets {
    let fixed = conversation.fixed_tokens_before(covered.start);
    let budgets = policy.budgets_excluding(fixed);
    let taken = fixed + budgets.nominal();
    let room = policy.thresholds.requests_budget(taken);
    SummaryBudgets { requests: requests.min(room), ..budgets }
}

/// Returns the digest of the messages `covered`: the goal, the steps, the user messages, the files
/// and the identifiers. The estimate never exceeds [`SummaryBudgets::nominal`].
pub fn digest(
    conversation: &Conversation<'_>,
    covered: Range<usize>,
    budgets: &SummaryBudgets,
) -> String {
    let (retained, said_until) = (covered.end..covered.end, covered.end);
    let words = &NO_STANDING_WORDS;
    let place = SegmentPlace { earlier: None, covered, retained, said_until, words };
    segment_text(&DecodedCalls::new(conversation, place.part()), None, &place, budgets)
}

/// Returns the text of a segment: the model's `prose`, or the goal and the steps, and the generated sections.
/// These are system instructions, user messages, agreements, file activity and identifiers. Identifiers and
/// rules that stay visible at `place` are not repeated.
pub(crate) fn segment_text(
    calls: &DecodedCalls<'_, '_>,
    prose: Option<&str>,
    place: &SegmentPlace<'_>,
    budgets: &SummaryBudgets,
) -> String {
    let (conversation, covered) = (calls.conversation, calls.messages.clone());
    let earlier = place.earlier.map_or("", |(text, _)| text);
    let mut text = prose.map_or_else(
        || goal_and_steps(calls, place.retained.clone(), budgets.steps - SECTION_GAP),
        |prose| escape_prose(prose).into_owned(),
    );
    let mut room = budgets.user_messages - SECTION_GAP;
    let instructions = render_instructions(conversation, covered, room.divided_by(2));
    if !instructions.is_empty() {
        // The estimate rounds down, so charge one more token for the remainder.
        room -= Tokens::estimate_text(&instructions) + SECTION_GAP + SECTION_GAP;
    }
    append_section(&mut text, &instructions);
    let said_in = |messages: Range<usize>| -> Vec<String> {
        let messages = conversation.messages().get(messages).unwrap_or_default().iter();
        let said = messages.filter_map(|message| user_text(conversation, message));
        said.map(Cow::into_owned).collect()
    };
    // Results may be cleared before and behind the retained messages. Words of the user never are.
    let later = said_in(place.covered.end..place.said_until);
    let rules = RulesAround { head: said_in(0..place.covered.start), earlier, later };
    let user_messages = render_user_messages(calls, &rules, room, budgets.requests);
    append_section(&mut text, &user_messages);
    let room = budgets.agreements - SECTION_GAP;
    let agreements = render_agreements(calls, place.words, earlier, room);
    append_section(&mut text, &agreements);
    let activity = FileActivity::from_calls(calls).render(budgets.file_activity - SECTION_GAP);
    append_section(&mut text, &activity);
    let visible = (conversation.head_len()..place.covered.start).chain(place.retained.clone());
    let room = budgets.identifiers - SECTION_GAP;
    let index = index_messages(calls, visible, [&text, earlier], room);
    append_section(&mut text, &index);
    text
}

/// Appends a section after an empty line.
pub(crate) fn append_section(text: &mut String, section: &str) {
    if !text.is_empty() && !section.is_empty() {
        text.push_str("\n\n");
    }
    text.push_str(section);
}

/// Returns the goal, the agent's plan unless the messages `retained` hold a newer one, and one line per step of
/// the model. If a turn is still open after the history, its steps get a heading of their own.
fn goal_and_steps(calls: &DecodedCalls<'_, '_>, retained: Range<usize>, budget: Tokens) -> String {
    let (conversation, covered) = (calls.conversation, calls.messages.clone());
    let messages = conversation.messages().get(covered.clone()).unwrap_or_default();
    let mut goal = goal_section(conversation, &covered, messages);
    let plan = plan::render(calls, retained, budget.to_chars() * PLAN_PERCENT / 100);
    if !plan.is_empty() {
        goal.extend([&plan, "\n\n"]);
    }
    let open_from = open_turn(conversation, covered.end);
    let mut headings = STEPS_HEADING.len();
    if open_from.is_some() {
        headings += OPEN_TURN_HEADING.len() + "\n\n\n".len();
    }
    let room = budget.to_chars().saturating_sub(goal.chars().count() + headings);
    let renderer = StepRenderer::new(calls);
    let root = renderer.root_line();
    let room = room.saturating_sub(root.chars().count());
    let all = messages.iter().zip(covered);
    let all = all.filter(|(message, _)| message.role == Role::Assistant);
    let (lines, left_out) = fit_steps(&renderer, &all.collect::<Vec<_>>(), room);
    if lines.is_empty() {
        let fits = goal.chars().count() <= budget.to_chars();
        return if fits { goal.trim_end() } else { "" }.to_owned();
    }
    let left_out = (left_out > 0).then(|| format!("- [{left_out} older steps left out]"));
    let is_open = |(_, at): &&(String, usize)| open_from.is_some_and(|request| *at > request);
    let in_turn = lines.iter().take_while(is_open).count();
    let older = left_out.iter().map(String::as_str);
    let closed = lines.iter().skip(in_turn).rev();
    let closed: Vec<&str> = older.chain(closed.map(|(line, _)| line.as_str())).collect();
    let mut text = goal;
    if lines.len() > in_turn {
        text.extend(["## Progress\n### Steps\n", &root, &closed.join("\n")]);
    }
    if in_turn > 0 {
        if lines.len() > in_turn {
            text.extend(["\n\n", OPEN_TURN_HEADING]);
        } else {
            text.extend([OPEN_TURN_HEADING, "\n", root.trim_end()]);
            text.truncate(text.trim_end().len());
        }
        for (line, _) in lines.iter().take(in_turn).rev() {
            text.extend(["\n", line]);
        }
    }
    text
}

/// Headings above the steps, with the longest possible count of omitted steps.
const STEPS_HEADING: &str = "## Progress\n### Steps\n- [4294967295 older steps left out]\n";
/// Heading above the steps of a turn that is still open.
pub(crate) const OPEN_TURN_HEADING: &str = "## Turn So Far";

/// Returns the goal section, built from the first request. Empty if `covered` does not include the
/// first request, which is then still forwarded before the digest.
fn goal_section(
    conversation: &Conversation<'_>,
    covered: &Range<usize>,
    messages: &[Message],
) -> String {
    if !includes_first_request(conversation, covered) {
        return String::new();
    }
    let mut requests = messages.iter().filter(|message| message.role.is_user());
    let first = requests.find_map(|message| {
        user_text(conversation, message).filter(|_| !conversation.is_agent_summary(message))
    });
    first.map_or_else(String::new, |first| {
        let first = escape_label(wording::one_line(&first, MAX_GOAL_CHARS));
        format!("## Goal\n{first}\n\n")
    })
}

/// Renders the newest steps in full up to their share, then older ones in short form, evenly
/// sampled to fit `room`. A step that repeats the one after it is left out. Returns the lines, newest
/// first, with the indices of their messages, and the number of omitted steps.
fn fit_steps(
    renderer: &StepRenderer<'_, '_>,
    all: &[(&Message, usize)],
    room: usize,
) -> (Vec<(String, usize)>, usize) {
    let cost = |(line, _): &(String, usize)| line.chars().count() + 1;
    let render = |(message, at): &(&Message, usize), detail| {
        let line = renderer.line(*at, message, detail);
        (line, *at)
    };
    let mut lines: Vec<(String, usize)> = Vec::new();
    let mut left = room;
    let mut full_length = 0;
    for step in all.iter().rev() {
        let line = render(step, StepDetail::FULL);
        let is_repeated = lines.last().is_some_and(|(last, _)| *last == line.0);
        if !line.0.is_empty() && !is_repeated {
            if cost(&line) > left.saturating_sub(room * (100 - FULL_LENGTH_PERCENT) / 100) {
                break;
            }
            left -= cost(&line);
            lines.push(line);
        }
        full_length += 1;
    }
    let older = all.iter().rev().skip(full_length);
    let older = older.map(|step| render(step, StepDetail::SHORT));
    let mut older: Vec<_> = older.filter(|(line, _)| !line.is_empty()).collect();
    older.dedup_by(|next, line| next.0 == line.0);
    let total: usize = older.iter().map(cost).sum();
    // Every `stride`-th step fits on average; the loop below enforces the bound.
    let stride = total.div_ceil(left.max(1)).max(1);
    let (before, count) = (lines.len(), older.len());
    for line in older.into_iter().step_by(stride) {
        if cost(&line) <= left {
            left -= cost(&line);
            lines.push(line);
        }
    }
    let listed = lines.len() - before;
    (lines, count - listed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::chat_completions::read;
    use crate::policy::{CompactionSettings, Policy};

    const BODY: &str = r#"{"messages":[
        {"role":"user","content":"fix the build"},
        {"role":"assistant","content":"fixed"},
        {"role":"user","content":"now port it"},
        {"role":"assistant","content":"looking","tool_calls":[{"id":"a","function":{"name":"read","arguments":"{\"path\":\"a.rs\"}"}}]},
        {"role":"tool","tool_call_id":"a","content":"text"},
        {"role":"assistant","content":"ported"},
        {"role":"user","content":"thanks"}]}"#;

    fn check(covered: Range<usize>, expect: &str) {
        let conversation = read(BODY.as_bytes()).unwrap();
        let budgets = Policy::new(&CompactionSettings::default(), Tokens::new(32_000)).budgets;
        let digest = digest(&conversation, covered, &budgets);
        let (prose, _) = digest.split_once("\n\n## What the User Said").unwrap();
        assert_eq!(prose, expect);
    }

    #[test]
    fn between_two_turns_all_steps_are_progress() {
        check(
            0..6,
            "## Goal\nfix the build\n\n## Progress\n### Steps\n- fixed\n- looking → read(a.rs)\n- ported",
        );
    }

    #[test]
    fn within_a_turn_its_steps_are_listed_separately() {
        check(
            0..5,
            "## Goal\nfix the build\n\n## Progress\n### Steps\n- fixed\n\n## Turn So Far\n- looking → read(a.rs)",
        );
        check(2..5, "## Turn So Far\n- looking → read(a.rs)");
        check(0..3, "## Goal\nfix the build\n\n## Progress\n### Steps\n- fixed");
    }

    #[test]
    fn the_goal_is_the_first_thing_that_the_user_asked() {
        let texts = [
            " ",
            &wording::wrap_summary("x"),
            "This session is being continued from a previous conversation that ran out of context.",
            "fix the build",
            "now port it",
        ];
        let users = texts.map(|text| serde_json::json!({"role": "user", "content": text}));
        let body = serde_json::json!({"messages": users}).to_string();
        let conversation = read(body.as_bytes()).unwrap();
        let goal = "## Goal\nfix the build";
        let calls = DecodedCalls::new(&conversation, 0..5);
        assert_eq!(goal_and_steps(&calls, 0..0, Tokens::new(100)), goal);
        assert_eq!(goal_and_steps(&calls, 0..0, Tokens::new(1)), "");
    }

    #[test]
    fn system_messages_share_the_budget_of_user_messages() {
        let message = |role: &str, text: String| serde_json::json!({"role": role, "content": text});
        let mut messages = vec![
            message("user", "help me".to_owned()),
            message("developer", "Never run a delete.".to_owned()),
        ];
        for at in 0..30 {
            messages.push(message("assistant", format!("step {at}: {}", "word ".repeat(50))));
            messages.push(message("system", format!("{at} {}", "rule ".repeat(50))));
            messages.push(message("user", format!("{at} {}", "more ".repeat(50))));
        }
        let body = serde_json::json!({"messages": messages}).to_string();
        let conversation = read(body.as_bytes()).unwrap();
        for window in [4_000, 8_000, 32_000, 64_000, 200_000] {
            let budgets = Policy::new(&CompactionSettings::default(), Tokens::new(window)).budgets;
            let digest = digest(&conversation, 0..messages.len(), &budgets);
            assert!(Tokens::estimate_text(&digest) <= budgets.nominal(), "{window}");
            assert!(digest.contains("[User]: 29 more"), "{window}");
            assert!(digest.contains("[System]: 29 rule"), "{window}");
            let all = window >= 64_000;
            assert_eq!(digest.contains("[System]: Never run a delete."), all, "{window}");
        }
    }
}
