//! The content of a summary, and the detection of requests for one.

use super::*;

const TRANSCRIPT: &str = "Summarise this.\n[User]: build FACT-a1 please\n[Assistant]: reading\n\
    [Tool Call]: read(path=\"src/main.rs\")\n[Tool Result]: x=FACT-b2, y\n[Assistant]: done";

fn chat(system: &str, last: &str, tools: &str) -> ChatBody {
    let body = serde_json::json!({"messages": [
        {"role": "system", "content": system}, {"role": "user", "content": last}],
        "tools": tools.parse::<serde_json::Value>().unwrap()});
    ChatBody::parse(body.to_string().as_bytes()).unwrap()
}

#[test]
fn recognises_a_summary_request() {
    assert!(is_summary_request(&chat("You summarize.", "[User]: hi", "[]"), None));
    assert!(is_summary_request(&chat("x", TRANSCRIPT, "null"), None));
    assert!(!is_summary_request(&chat("You summarize.", "hi", "[]"), None), "no transcript");
    assert!(!is_summary_request(&chat("x", "[User]: hi", "[]"), None), "no word for it");
    let tools = r#"[{"type": "function", "function": {"name": "f"}}]"#;
    assert!(!is_summary_request(&chat("You summarize.", TRANSCRIPT, tools), None), "tools");
    assert!(is_summary_request(&chat("x", "hi, WRAP UP", tools), Some("WRAP UP")));
}

#[test]
fn summary_is_made_from_the_transcript() {
    let text = write(&chat("x", TRANSCRIPT, "[]"), SummaryBehaviour::Faithful, 3_000);
    for part in ["## Goal\nbuild FACT-a1 please", "- [x] done", "- src/main.rs", "- FACT-b2"] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn carries_goal_and_facts_of_the_previous_summary() {
    let before = write(&chat("x", TRANSCRIPT, "[]"), SummaryBehaviour::Faithful, 3_000);
    let next = format!("Update the summary.\n{before}\n[User]: and now FACT-c3");
    let text = write(&chat("x", &next, "[]"), SummaryBehaviour::Faithful, 3_000);
    assert_eq!(facts(&text).collect::<BTreeSet<_>>().len(), 3, "{text}");
    assert!(text.starts_with("## Goal\nbuild FACT-a1 please\n"), "{text}");
}

#[test]
fn does_not_take_a_placeholder_as_goal() {
    let asked = format!("## Goal\n[what the user wants]\n{TRANSCRIPT}");
    let text = write(&chat("x", &asked, "[]"), SummaryBehaviour::Faithful, 3_000);
    assert!(text.starts_with("## Goal\nbuild FACT-a1 please\n"), "{text}");
}

#[test]
fn shortens_the_summary_but_keeps_the_facts() {
    let text = write(&chat("x", TRANSCRIPT, "[]"), SummaryBehaviour::Faithful, 1);
    assert!(text.contains("FACT-b2") && !text.contains("- [x]") && !text.contains("main.rs"));
}

#[test]
fn drops_the_oldest_step_first() {
    let asked = format!("{TRANSCRIPT}\n[Assistant]: {}", "x".repeat(60));
    let whole = write(&chat("x", &asked, "[]"), SummaryBehaviour::Faithful, 3_000);
    let text = write(&chat("x", &asked, "[]"), SummaryBehaviour::Faithful, whole.len() - 1);
    assert!(whole.contains("- [x] reading") && !text.contains("- [x] reading"), "{text}");
    assert!(text.contains("- [x] done") && text.contains("- [x] xxx"), "{text}");
}

#[test]
fn forgetful_and_none_behaviours_omit_facts() {
    let forgetful = write(&chat("x", TRANSCRIPT, "[]"), SummaryBehaviour::Forgetful, 3_000);
    assert_eq!(facts(&forgetful).count(), 0, "{forgetful}");
    let none = write(&chat("x", TRANSCRIPT, "[]"), SummaryBehaviour::None, 3_000);
    let said = none.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    assert!(said.into_iter().all(|line| line == "(none)"), "{none}");
}
