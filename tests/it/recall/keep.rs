//! Wishes of an agent to keep words, by the ID of their original.

use super::agent::ids;
use super::{URL, large_model, last, with};
use crate::caller::{Caller, chat};
use crate::harness::Wire;
use crate::program::Program;
use crate::time_limit::bounded;

const NOW: (&str, &str) = ("x-longhaul-compact", "now");
const KEPT: &str = "[Kept, by the agent's wish]: Done with 2.";

/// Sends a request without a body, with `fields`. Returns the reply.
async fn send(program: &Program, method: &str, target: &str, fields: &str) -> String {
    let mut wire = Wire::to(program.address()).await;
    wire.send(&format!(
        "{method} /__longhaul__/recall/{target} HTTP/1.1\r\nhost: localhost\r\n{fields}\
         connection: close\r\n\r\n"
    ))
    .await;
    bounded(wire.rest()).await
}

/// Returns the outline of the conversation that `id` belongs to, once it has all steps. A thread of its own
/// collects them.
async fn outline(program: &Program, id: &str) -> String {
    let complete = async {
        loop {
            let outline = send(program, "GET", &format!("{id}?outline"), "").await;
            if ["Done with 2.", "Done with 3."].iter().all(|step| outline.contains(step)) {
                return outline;
            }
        }
    };
    bounded(complete).await
}

#[tokio::test]
async fn an_agent_keeps_words_of_its_own_conversation_by_their_id_alone() {
    let model = large_model().await;
    let program = Program::start(&model.url(), &with(&[URL]));
    let caller = Caller::of(program.address());
    let other = ("authorization", "Bearer other");
    caller.ask(chat(20, 500)).await;
    let forwarded = last(&model);
    let result = ids(&forwarded)[0];
    let outline = outline(&program, result).await;
    let mut steps = outline.lines();
    let step = steps.find(|line| line.contains("Done with 2.")).unwrap();
    let step = &step[..52];
    let refused = |reply: String, status: &str, code: &str| {
        let expected = format!("HTTP/1.1 {status}");
        assert!(reply.starts_with(&expected) && reply.contains(code), "{reply}");
    };
    let unsaid = format!("{step}?quote=Done+with+3.");
    for target in [result, &unsaid] {
        let reply = send(&program, "PUT", target, "").await;
        refused(reply, "400", "keep_refused");
    }
    let page = "origin: https://evil.example\r\n";
    refused(send(&program, "PUT", step, page).await, "403", "foreign_page");
    let unknown = format!("{}aaaa", &step[..48]);
    refused(send(&program, "PUT", &unknown, "").await, "404", "recall_unknown");
    assert!(send(&program, "PUT", step, "").await.ends_with("kept\n"));
    caller.ask_with(&[NOW, other], chat(21, 500)).await;
    assert!(!last(&model).contains("[Kept"));
    caller.ask_with(&[NOW], chat(21, 500)).await;
    assert!(last(&model).contains(KEPT), "{}", last(&model));
}

#[tokio::test]
async fn an_agent_takes_back_its_own_wish_and_none_of_a_person() {
    let model = large_model().await;
    let program = Program::start(&model.url(), &with(&[URL]));
    let caller = Caller::of(program.address());
    let person = ("x-longhaul-keep", "Done with 3.");
    caller.ask_with(&[person], chat(20, 500)).await;
    let forwarded = last(&model);
    let outline = outline(&program, ids(&forwarded)[0]).await;
    for (words, method) in [("2", "PUT"), ("2", "DELETE"), ("3", "DELETE")] {
        let words = format!("Done with {words}.");
        let step = outline.lines().find(|line| line.contains(&words)).unwrap();
        let reply = send(&program, method, &step[..52], "").await;
        assert!(reply.starts_with("HTTP/1.1 200"), "{reply}");
    }
    caller.ask_with(&[NOW], chat(21, 500)).await;
    let forwarded = last(&model);
    assert!(forwarded.contains("[Kept]: Done with 3."), "{forwarded}");
    assert!(!forwarded.contains(KEPT), "{forwarded}");
}
