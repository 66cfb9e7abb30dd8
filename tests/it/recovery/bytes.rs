//! A limit on bytes: markers replace images, the oldest first.

use longhaul::Config;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::scripted::{self, Reply};
use crate::harness::Proxy;
use crate::journey::digests;
use crate::oracle::reader::messages;
use crate::received_reply::ReceivedReply;

const TOO_LARGE: &str = "<html>413 Request Entity Too Large</html>";
const ANSWER: &str = r#"{"choices":[{"index":0,"message":{"role":"assistant","content":"on"}}]}"#;

fn too_large() -> Reply {
    Reply::new(413, "content-type: text/html\r\n", TOO_LARGE)
}

fn answer() -> Reply {
    Reply::new(200, "content-type: application/json\r\n", ANSWER)
}

fn image() -> Value {
    let url = format!("data:image/png;base64,{}", "A".repeat(9_000));
    json!({"type": "image_url", "image_url": {"url": url}})
}

fn picture(words: &str) -> Value {
    json!({"role": "user", "content": [{"type": "text", "text": words}, image()]})
}

/// Sends these chats to an upstream with these replies. Returns what the client received, and a
/// handle for the bodies that the upstream received.
async fn play(
    chats: &[&str],
    replies: Vec<Reply>,
) -> (Vec<ReceivedReply>, JoinHandle<Vec<Vec<u8>>>) {
    let (address, asked) = scripted::upstream(replies).await;
    let base = format!("http://{address}/v1");
    let mut config = Config::default_with([("upstream.base", base.as_str())]).unwrap();
    digests(&mut config);
    let proxy = Proxy::with(config).await;
    let mut arrived = Vec::new();
    for chat in chats {
        arrived.push(super::ask(&format!("http://{}/v1", proxy.address), chat.as_bytes()).await);
    }
    (arrived, asked)
}

fn chat(messages: &[Value]) -> String {
    json!({"model": "m", "messages": messages}).to_string()
}

#[tokio::test]
async fn images_before_the_newest_user_turn_become_markers() {
    let body = chat(&[
        json!({"role": "system", "content": "s"}),
        picture("old"),
        json!({"role": "assistant", "content": "a"}),
        picture("new"),
    ]);
    let (arrived, asked) = play(&[&body], vec![too_large(), answer()]).await;
    assert_eq!((arrived[0].status, &arrived[0].body[..]), (200, ANSWER.as_bytes()));
    assert_eq!(arrived[0].action(), "fewer-bytes");
    let asked = asked.await.unwrap();
    assert_eq!(asked[0], body.as_bytes());
    let (before, after) = (messages(&asked[0]), messages(&asked[1]));
    for at in [0, 2, 3] {
        assert_eq!(before[at], after[at]);
    }
    let old: Value = after[1].parse().unwrap();
    let expect = json!([{"type": "text", "text": "old"}, {"type": "text", "text": "[image]"}]);
    assert_eq!(old["content"], expect);
}

#[tokio::test]
async fn history_shrinks_if_images_hold_few_of_the_bytes() {
    let mut messages = vec![picture("old")];
    for turn in 0..12 {
        let call = json!({"id": format!("c{turn}"), "type": "function",
            "function": {"name": "read", "arguments": "{}"}});
        messages.extend([
            json!({"role": "assistant", "content": null, "tool_calls": [call]}),
            json!({"role": "tool", "tool_call_id": format!("c{turn}"),
                "content": format!("line of {turn}\n").repeat(1_000)}),
        ]);
    }
    messages.push(json!({"role": "user", "content": "and now?"}));
    let body = chat(&messages);
    let (arrived, asked) = play(&[&body], vec![too_large(), answer()]).await;
    assert_eq!(arrived[0].status, 200);
    assert!(arrived[0].action().contains("retry"), "{}", arrived[0].action());
    let asked = asked.await.unwrap();
    assert!(asked[1].len() < asked[0].len() / 2, "{}", asked[1].len());
    assert!(!String::from_utf8_lossy(&asked[1]).contains("image_url"));
}

#[tokio::test]
async fn dropped_images_stay_dropped_and_the_saving_is_reported() {
    let first = [picture("old"), json!({"role": "assistant", "content": "a"})];
    let second = [
        picture("new"),
        json!({"role": "assistant", "content": "b"}),
        json!({"role": "user", "content": "and now?"}),
    ];
    let chats =
        [chat(&[&first[..], &second[..1]].concat()), chat(&[&first[..], &second[..]].concat())];
    let replies = vec![too_large(), answer(), answer()];
    let (arrived, _) = play(&[&chats[0], &chats[1]], replies).await;
    for arrived in arrived {
        assert_eq!(arrived.action(), "fewer-bytes");
        let tokens =
            |name: &str| -> u32 { arrived.headers[name].to_str().unwrap().parse().unwrap() };
        let (before, after) = ("x-longhaul-tokens-before", "x-longhaul-tokens-after");
        assert_eq!(tokens(before) - tokens(after), 1_199);
    }
}

#[tokio::test]
async fn images_in_tool_results_become_markers() {
    let call =
        json!({"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}});
    let body = chat(&[
        json!({"role": "user", "content": "look"}),
        json!({"role": "assistant", "content": null, "tool_calls": [call]}),
        json!({"role": "tool", "tool_call_id": "c", "content": [image()]}),
        json!({"role": "assistant", "content": "seen"}),
        json!({"role": "user", "content": "and now?"}),
    ]);
    let (arrived, asked) = play(&[&body], vec![too_large(), answer()]).await;
    assert_eq!(arrived[0].action(), "fewer-bytes");
    let asked = asked.await.unwrap();
    let result: Value = messages(&asked[1])[2].parse().unwrap();
    assert_eq!(result["content"], json!([{"type": "text", "text": "[image]"}]));
    assert_eq!(result["tool_call_id"], "c");
}

#[tokio::test]
async fn relays_the_refusal_if_the_images_are_already_dropped() {
    let first = [picture("old"), json!({"role": "assistant", "content": "a"})];
    let now = |words: &str| {
        let now = json!({"role": "user", "content": words});
        chat(&[&first[..], &[now]].concat())
    };
    // A retry would be answered by the last reply.
    let replies = vec![too_large(), answer(), too_large(), answer()];
    let (arrived, _) = play(&[&now("new"), &now("new")], replies).await;
    assert_eq!(arrived[0].action(), "fewer-bytes");
    assert_eq!((arrived[1].status, &arrived[1].body[..]), (413, TOO_LARGE.as_bytes()));
}

/// A history with an image of `image` bytes and results of some 200 kB.
fn long_history(image: usize) -> String {
    let url = format!("data:image/png;base64,{}", "A".repeat(image));
    let image = json!({"type": "image_url", "image_url": {"url": url}});
    let mut all = vec![
        json!({"role": "user", "content": [{"type": "text", "text": "look"}, image]}),
        json!({"role": "assistant", "content": "seen"}),
        json!({"role": "user", "content": "read the parts"}),
    ];
    for at in 0..20 {
        let id = format!("c{at}");
        let call = json!({"id": id, "type": "function",
            "function": {"name": "read", "arguments": format!(r#"{{"path":"part{at}"}}"#)}});
        let line = format!("line of part {at}\n");
        all.push(json!({"role": "assistant", "content": null, "tool_calls": [call]}));
        all.push(json!({"role": "tool", "tool_call_id": id, "content": line.repeat(600)}));
    }
    all.push(json!({"role": "assistant", "content": "read"}));
    all.push(json!({"role": "user", "content": "and now?"}));
    chat(&all)
}

#[tokio::test]
async fn a_small_image_does_not_stand_for_a_large_history() {
    let body = long_history(60);
    let (arrived, asked) = play(&[&body], vec![too_large(), answer()]).await;
    assert_eq!(arrived[0].status, 200);
    let asked = asked.await.unwrap();
    assert!(asked[1].len() < body.len() / 2, "{}", asked[1].len());
}

#[tokio::test]
async fn history_goes_next_if_fewer_images_did_not_suffice() {
    let body = long_history(150_000);
    let replies = vec![too_large(), too_large(), too_large(), answer()];
    let (arrived, asked) = play(&[&body, &body], replies).await;
    assert_eq!((arrived[0].status, arrived[1].status), (413, 200));
    assert_eq!((arrived[0].action(), &arrived[0].body[..]), ("", TOO_LARGE.as_bytes()));
    let asked = asked.await.unwrap();
    assert!(asked[3].len() < asked[1].len() / 2, "{}", asked[3].len());
}
