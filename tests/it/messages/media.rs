//! Refusals of images and documents: old ones become markers, and what cannot be cured is relayed.

use longhaul::Config;
use serde_json::{Value, json};

use crate::caller::Caller;
use crate::harness::Proxy;
use crate::journey::digests;
use crate::received_reply::ReceivedReply;
use crate::recovery::scripted::{self, Reply};

const ANSWER: &str = r#"{"id":"m","type":"message","role":"assistant","content":[{"type":"text","text":"on"}],"stop_reason":"end_turn","usage":{"input_tokens":9,"output_tokens":1}}"#;
const TOO_MANY: &str = "Too much media: 0 document pages + 107 images > 100";
const TOO_WIDE: &str = "messages.2.content.0.tool_result.content.0.image.source.base64.data: At least one of the image dimensions exceed max allowed size for many-image requests: 2000 pixels";
const TOO_LONG: &str =
    "messages.0.content.1.pdf.source.base64.data: A maximum of 100 PDF pages may be provided.";
const TOO_LARGE: &str = "messages.0.content.1.image.source.base64: image exceeds 5 MB maximum: 7034040 bytes > 5242880 bytes";

fn refusal(message: &str) -> String {
    let error = json!({"type": "invalid_request_error", "message": message});
    json!({"type": "error", "error": error, "request_id": "req_1"}).to_string()
}

fn refused(message: &str) -> Reply {
    Reply::new(400, "content-type: application/json\r\n", refusal(message))
}

/// The refusal of a body of more than 32 MB.
fn too_many_bytes() -> Reply {
    let error = json!({"type": "request_too_large", "message": "Request exceeds the maximum size"});
    let body = json!({"type": "error", "error": error}).to_string();
    Reply::new(413, "content-type: application/json\r\n", body)
}

fn answer() -> Reply {
    Reply::new(200, "content-type: application/json\r\n", ANSWER)
}

fn source(media: &str) -> Value {
    json!({"type": "base64", "media_type": media, "data": "A".repeat(900)})
}

fn image() -> Value {
    json!({"type": "image", "source": source("image/png")})
}

fn document() -> Value {
    json!({"type": "document", "source": source("application/pdf"),
        "cache_control": {"type": "ephemeral"}})
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// Builds a message of the user with attachments after the words.
fn says(words: &str, attached: &[Value]) -> Value {
    let content = [&[text(words)], attached].concat();
    json!({"role": "user", "content": content})
}

fn answers() -> Value {
    json!({"role": "assistant", "content": [text("seen")]})
}

/// A call for a screenshot, and its result.
fn screenshot(id: &str) -> [Value; 2] {
    let call = json!({"type": "tool_use", "id": id, "name": "look", "input": {}});
    let result = json!({"type": "tool_result", "tool_use_id": id, "content": [image(), text(id)]});
    [json!({"role": "assistant", "content": [call]}), json!({"role": "user", "content": [result]})]
}

fn chat(messages: &[Value]) -> Value {
    let tools = json!([{"name": "look", "input_schema": {"type": "object"}}]);
    json!({"model": "m", "max_tokens": 900, "tools": tools, "messages": messages})
}

/// Sends the chats to an upstream with these replies. Returns what the client received, and the bodies
/// that the upstream received.
async fn play(chats: &[&Value], replies: Vec<Reply>) -> (Vec<ReceivedReply>, Vec<Value>) {
    let (address, asked) = scripted::upstream(replies).await;
    let base = format!("http://{address}");
    let mut config = Config::default_with([("upstream.base", base.as_str())]).unwrap();
    digests(&mut config);
    let proxy = Proxy::with(config).await;
    let caller = Caller::of(proxy.address);
    let mut arrived = Vec::new();
    for chat in chats {
        arrived.push(caller.ask_at("/v1/messages", &[], chat.to_string()).await);
    }
    let asked = asked.await.unwrap();
    let parsed = asked.iter().map(|body| serde_json::from_slice(body));
    (arrived, parsed.collect::<Result<_, _>>().unwrap())
}

fn is_refused(reply: &ReceivedReply, message: &str) {
    assert_eq!(
        (reply.status, &*reply.body, reply.action()),
        (400, refusal(message).as_bytes(), "")
    );
}

/// Returns the content of the message at `at`.
fn content(body: &Value, at: usize) -> &Value {
    &body["messages"][at]["content"]
}

#[tokio::test]
async fn old_images_and_documents_become_markers_whatever_the_refused_limit() {
    let mut messages = vec![says("build it", &[image(), document()])];
    messages.extend(screenshot("a"));
    messages.extend([answers(), says("look at this", &[image()])]);
    let media = [TOO_MANY, TOO_WIDE, TOO_LONG, TOO_LARGE].map(refused);
    for refusal in media.into_iter().chain([too_many_bytes()]) {
        let next = [&messages[..], &[answers(), says("go on", &[])]].concat();
        let (first, next) = (chat(&messages), chat(&next));
        let replies = vec![refusal, answer(), answer()];
        let (arrived, asked) = play(&[&first, &next], replies).await;
        for reply in &arrived {
            assert_eq!((reply.status, &*reply.body), (200, ANSWER.as_bytes()));
            assert_eq!(reply.action(), "fewer-bytes");
        }
        assert_eq!(asked[0], first);
        let marked = json!({"type": "text", "text": "[file]",
            "cache_control": {"type": "ephemeral"}});
        let attached = json!([text("build it"), text("[image]"), marked]);
        // The next request leaves out the same ones.
        for body in &asked[1..] {
            assert_eq!(*content(body, 0), attached);
            let result = &content(body, 2)[0];
            assert_eq!(result["content"], json!([text("[image]"), text("a")]));
            assert_eq!(*content(body, 4), *content(&first, 4));
        }
    }
}

#[tokio::test]
async fn within_one_turn_images_that_the_model_answered_become_markers() {
    let mut messages = vec![says("try each page", &[])];
    messages.extend(["a", "b", "c"].iter().flat_map(|id| screenshot(id)));
    let body = chat(&messages);
    let (arrived, asked) = play(&[&body], vec![refused(TOO_MANY), answer()]).await;
    assert_eq!(arrived[0].status, 200);
    let shown = |at: usize| content(&asked[1], at)[0]["content"][0].clone();
    assert_eq!([shown(2), shown(4)], [text("[image]"), text("[image]")]);
    assert_eq!(shown(6), image());
}

#[tokio::test]
async fn what_the_user_attached_to_the_newest_turn_stays() {
    let mut messages = vec![says("rebuild this", &[image()])];
    messages.extend(["a", "b"].iter().flat_map(|id| screenshot(id)));
    for message in [TOO_MANY, TOO_WIDE, TOO_LONG, TOO_LARGE] {
        // A retry would be answered by the last reply.
        let body = chat(&messages);
        let (arrived, asked) = play(&[&body, &body], vec![refused(message), answer()]).await;
        is_refused(&arrived[0], message);
        assert_eq!(asked, [&body, &body].map(Clone::clone));
    }
}

#[tokio::test]
async fn a_refused_retry_is_not_repeated_before_the_next_turn() {
    let messages = [says("look", &[image()]), answers(), says("and this", &[image()])];
    let next = [&messages[..], &[answers(), says("go on", &[])]].concat();
    let (now, next) = (chat(&messages), chat(&next));
    let again = TOO_LARGE.replace("messages.0", "messages.2");
    let replies =
        vec![refused(TOO_LARGE), refused(&again), refused(TOO_LARGE), refused(TOO_LARGE), answer()];
    let (arrived, asked) = play(&[&now, &now, &next], replies).await;
    // The refusal of the client's own body, not that of the retry.
    is_refused(&arrived[0], TOO_LARGE);
    is_refused(&arrived[1], TOO_LARGE);
    assert_eq!(arrived[2].status, 200);
    assert_eq!([&asked[0], &asked[2], &asked[3]], [&now, &now, &next]);
    let marked = json!([text("look"), text("[image]")]);
    assert_eq!(*content(&asked[1], 0), marked);
    assert_eq!(*content(&asked[4], 2), json!([text("and this"), text("[image]")]));
}

#[tokio::test]
async fn a_throttle_that_speaks_of_images_is_relayed() {
    let messages = [says("look", &[image()]), answers(), says("and now?", &[])];
    let body = chat(&messages);
    let message = "Rate limit: too many images per minute";
    let (arrived, _) = play(&[&body, &body], vec![refused(message), answer()]).await;
    is_refused(&arrived[0], message);
}
