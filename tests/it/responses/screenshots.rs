//! Old screenshots of a computer, through sockets, against the strict model.

use longhaul_mock_model::Verdict;
use serde_json::{Value, json};

use super::served::{PATH, is_answer, started};

/// Builds an input of `steps` steps, each with a call whose screenshot is the answer and one whose answer is text.
fn computer(steps: usize) -> Vec<u8> {
    let step = |at: usize| {
        let (call, picture) = (format!("call_{at}"), format!("iVBOR{at:03}").repeat(300));
        let url = format!("data:image/png;base64,{picture}");
        let output = json!({"type": "computer_screenshot", "image_url": url});
        let mut items = vec![
            json!({"type": "reasoning", "id": format!("rs_{at}"), "summary": [],
                "encrypted_content": "gAAA"}),
            json!({"type": "computer_call", "id": format!("cu_{at}"), "call_id": call,
                "action": {"type": "screenshot"}, "pending_safety_checks": [], "status": "completed"}),
            json!({"type": "function_call", "id": format!("fc_{at}"), "call_id": format!("f_{at}"),
                "name": "read", "arguments": "{}"}),
            json!({"type": "computer_call_output", "call_id": call, "output": output}),
            json!({"type": "function_call_output", "call_id": format!("f_{at}"),
                "output": format!("line of {at:03}.\n").repeat(300)}),
        ];
        if at.is_multiple_of(10) {
            items.insert(0, json!({"role": "user", "content": format!("Task {at}: go on")}));
        }
        items
    };
    let input: Vec<Value> = (0..steps).flat_map(step).collect();
    json!({"model": "m", "input": input}).to_string().into()
}

#[tokio::test]
async fn answered_screenshots_leave_and_their_calls_stay() {
    let (model, _proxy, caller) = started(10_000_000, &[("profile", "standard")]).await;
    let sent = computer(100);
    assert!(is_answer(&caller.ask_at(PATH, &[], sent.clone()).await));
    let seen = model.seen().pop().unwrap();
    assert!(!matches!(seen.verdict, Verdict::Broken(_)), "{:?}", seen.verdict);
    let items = |body: &[u8]| {
        let body: Value = serde_json::from_slice(body).unwrap();
        body["input"].as_array().unwrap().clone()
    };
    let (sent, forwarded) = (items(&sent), items(&seen.body));
    assert_eq!(sent.len(), forwarded.len());
    let newest = (0..sent.len()).rfind(|&at| sent[at] != forwarded[at]).unwrap();
    let mut pictures = 0;
    for (at, (before, mut after)) in sent.iter().zip(forwarded).enumerate() {
        let url = |item: &Value| item["output"]["image_url"].as_str().map(str::len);
        if at <= newest
            && let Some(length) = url(&after)
        {
            pictures += 1;
            assert!(length < 400 && url(before) > Some(1_000));
        }
        if at <= newest && !before["output"].is_null() {
            after["output"] = before["output"].clone();
        }
        assert_eq!(after, *before, "ids and pairs stay");
    }
    assert!((40..80).contains(&pictures), "{pictures}");
}
