//! Every recorded reply, as raw bytes on a socket, and its effect on the client and the upstream.

mod answers;
mod expected;
mod upstream;

use longhaul::Config;
use longhaul_core::units::tokens::Tokens;
use memchr::memmem;
use serde_json::{Value, json};

use crate::harness::Proxy;
use crate::journey::digests;
use crate::oracle::reader::messages;
use crate::received_reply::ReceivedReply;
use crate::recorded::{Recorded, replies};
use crate::recovery::ask;
use expected::{Answer, Expected};
use upstream::{Pieces, Upstream};

const ANSWER: &str = r#"{"choices":[{"index":0,"message":{"role":"assistant","content":"on"}}]}"#;
/// Tokens left free when the output limit is lowered to the rest of the window.
const MARGIN: u32 = 256;

/// Builds a conversation of about 60,000 tokens, mostly in tool results, with an image in an old
/// turn. Conversations of different names share neither a prefix nor a model.
fn conversation(name: &str, expected: &Expected) -> Vec<u8> {
    // Few bytes of images do not explain a limit on bytes.
    let bytes = if expected.answer == Answer::FewerBytes { 200_000 } else { 4 };
    let image = format!("data:image/png;base64,{}", "A".repeat(bytes));
    let mut all = vec![
        json!({"role": "system", "content": "You write code."}),
        json!({"role": "user", "content": format!("Look into {name}.")}),
        json!({"role": "assistant", "content": "Which part?"}),
        json!({"role": "user", "content": [
            {"type": "text", "text": "This one."},
            {"type": "image_url", "image_url": {"url": image}}]}),
    ];
    for step in 0..40 {
        let id = format!("call_{step}");
        let arguments = format!("{{\"path\":\"src/part_{step}.rs\"}}");
        all.push(json!({"role": "assistant", "content": null, "tool_calls": [
            {"id": id, "type": "function", "function": {"name": "read", "arguments": arguments}}]}));
        let text = format!("line {step} of it\n").repeat(400);
        all.push(json!({"role": "tool", "tool_call_id": id, "content": text}));
        if step == 38 {
            all.push(json!({"role": "assistant", "content": "Half of it is done."}));
            all.push(json!({"role": "user", "content": "Go on."}));
        }
    }
    let mut body = json!({"model": format!("model of {name}"), "messages": all});
    if let Some(output) = expected.output.filter(|&output| output > 0) {
        body["max_tokens"] = output.into();
    }
    body.to_string().into_bytes()
}

/// Estimated tokens: characters of text over four, counted independently. Windows are learned in
/// this unit.
fn estimate(body: &[u8]) -> u64 {
    fn chars(value: &Value) -> usize {
        match value {
            Value::String(text) => text.chars().count(),
            Value::Array(all) => all.iter().map(chars).sum(),
            Value::Object(all) => all.values().map(chars).sum(),
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        }
    }
    let body: Value = serde_json::from_slice(body).unwrap();
    chars(&body["messages"]) as u64 / 4
}

struct Case<'a> {
    recorded: &'a Recorded,
    expected: &'a Expected,
    sent: Vec<u8>,
    asked: Vec<Vec<u8>>,
    arrived: ReceivedReply,
}

impl Case<'_> {
    fn is_relayed(&self) {
        let Recorded { status, body, .. } = self.recorded;
        let file = &self.expected.file;
        assert_eq!(self.asked, [&self.sent[..]], "{file}");
        assert_eq!(
            (self.arrived.status, &self.arrived.body[..]),
            (*status, body.as_bytes()),
            "{file}"
        );
        assert_eq!(self.arrived.action(), "", "{file}");
    }

    /// Checks that the request was retried, that the answer arrived, and that the reported action
    /// matches. Returns the retry's body.
    fn is_mended(&self, action: &str) -> &[u8] {
        let file = &self.expected.file;
        assert_eq!(self.asked.len(), 2, "{file}: {:?}", self.arrived.action());
        assert_eq!(self.asked[0], self.sent, "{file}");
        assert_eq!(
            (self.arrived.status, &self.arrived.body[..]),
            (200, ANSWER.as_bytes()),
            "{file}"
        );
        assert!(
            self.arrived.action().split(", ").any(|act| act == action),
            "{file}: {}",
            self.arrived.action()
        );
        &self.asked[1]
    }

    /// Checks that the refusal is relayed and reported to the agent.
    fn is_given_up(&self) {
        let Recorded { status, body, .. } = self.recorded;
        assert_eq!(self.asked, [&self.sent[..]]);
        assert_eq!((self.arrived.status, &self.arrived.body[..]), (*status, body.as_bytes()));
        assert_eq!(self.arrived.action(), "gave-up");
    }

    fn is_compacted(&self) {
        let Expected { limit, used, excess, file, .. } = self.expected;
        let forwarded = estimate(self.is_mended("retry"));
        let before = estimate(&self.sent);
        let used = used.or_else(|| Some(limit.as_ref()? + excess.as_ref()?));
        // The limit in longhaul's own units if the reply states its count, otherwise the stated
        // limit. At most nine tenths of the refused size.
        let window = match (limit, used) {
            (Some(limit), Some(used)) => u64::from(*limit) * before / u64::from(used),
            (Some(limit), None) => u64::from(*limit).min(before * 9 / 10),
            (None, _) => before * 9 / 10,
        };
        // In a tiny window, the ids and names that this estimate counts in addition to the texts are
        // significant.
        let aim = if window < 2_000 { window } else { window * 6 / 10 };
        assert!(forwarded <= aim, "{file}: {forwarded} of {window}");
    }

    fn has_less_output(&self) {
        let Expected { limit, used, output, file, .. } = self.expected;
        let left = used.map(|used| limit.unwrap() - used);
        if left.is_some_and(|left| left <= MARGIN) {
            // The history leaves no room for an answer, so the history must be reduced.
            let second: Value = serde_json::from_slice(self.is_mended("retry")).unwrap();
            let asked = second["max_tokens"].as_u64().unwrap();
            assert!(asked < u64::from(limit.unwrap()), "{file}: {asked}");
            return;
        }
        let second = self.is_mended("smaller-output");
        assert_eq!(messages(second), messages(&self.sent), "{file}");
        let second: Value = serde_json::from_slice(second).unwrap();
        let asked = second["max_tokens"].as_u64().unwrap();
        let expect = left.map(|left| u64::from(left - MARGIN));
        assert!(asked < u64::from(output.unwrap()), "{file}: {asked}");
        assert!(expect.is_none_or(|expect| expect == asked), "{file}: {asked}, not {expect:?}");
    }

    fn has_fewer_bytes(&self) {
        let second = self.is_mended("fewer-bytes");
        let image = b"data:image";
        assert!(memmem::find(second, image).is_none(), "{}", self.expected.file);
    }
}

/// Plays every recorded reply, split as `pieces` says, to a proxy whose window is `set` or assumed.
async fn play(pieces: Pieces, set: Option<u32>, check: impl Fn(&Case<'_>)) {
    let (upstream, address) = Upstream::start().await;
    let base = format!("http://{address}/v1");
    let mut config = Config::default_with([("upstream.base", base.as_str())]).unwrap();
    digests(&mut config);
    config.compaction.proactive = false;
    config.compaction.prune = false;
    if let Some(window) = set {
        config.window = Tokens::new(window);
        config.window_place = Some("a test".into());
    }
    let proxy = Proxy::with(config).await;
    let answer = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{ANSWER}",
        ANSWER.len()
    );
    let all = replies();
    assert_eq!(all.len(), 138);
    for recorded in &all {
        let expected = Expected::of(recorded);
        let sent = conversation(&expected.file, &expected);
        upstream.give([
            (recorded.raw.clone().into_bytes(), pieces),
            (answer.clone().into_bytes(), Pieces::Whole),
        ]);
        let arrived = ask(&format!("http://{}/v1", proxy.address), &sent).await;
        check(&Case { recorded, expected: &expected, sent, asked: upstream.asked(), arrived });
    }
}

/// Checks a request to a model of which nothing is known. A success without an answer is not an
/// overflow there.
fn of_unknown_size(case: &Case<'_>) {
    match case.expected.answer {
        Answer::Compact if case.expected.silent && case.recorded.status < 300 => case.is_relayed(),
        Answer::Compact if case.expected.is_hopeless() => case.is_given_up(),
        Answer::Compact | Answer::SmallerRequest => case.is_compacted(),
        Answer::FewerBytes | Answer::FewerImages => case.has_fewer_bytes(),
        Answer::Leave | Answer::Malformed | Answer::ShorterText => case.is_relayed(),
        Answer::SmallerOutput => case.has_less_output(),
    }
}

#[tokio::test]
async fn each_recorded_reply_has_its_effect_in_one_piece() {
    play(Pieces::ALL[0], None, of_unknown_size).await;
}

#[tokio::test]
async fn each_recorded_reply_has_its_effect_byte_by_byte() {
    play(Pieces::ALL[1], None, of_unknown_size).await;
}

#[tokio::test]
async fn each_recorded_reply_has_its_effect_in_two_halves() {
    play(Pieces::ALL[2], None, of_unknown_size).await;
}

#[tokio::test]
async fn silent_refusal_near_the_window_counts_as_an_overflow() {
    play(Pieces::Whole, Some(64_000), |case| {
        if case.expected.answer == Answer::Compact && case.expected.silent {
            case.is_compacted();
        } else {
            of_unknown_size(case);
        }
    })
    .await;
}

#[tokio::test]
async fn silent_refusal_far_from_a_configured_window_is_relayed() {
    play(Pieces::Whole, Some(200_000), |case| {
        if case.expected.silent {
            case.is_relayed();
        }
    })
    .await;
}
