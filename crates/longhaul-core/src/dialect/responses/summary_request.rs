//! Request bodies of summary calls.

use crate::dialect::request_template::RequestTemplate;
use crate::dialect::responses::writer::user_message;
use crate::dialect::summary_members::{
    client_members, has_text_format, models_without_search, object, repeat_members,
};
use crate::json::quote::quote;
use crate::units::tokens::Tokens;

/// See [`RequestTemplate::render`]. The call stores
/// nothing, and limits its output only if the client does: some backends refuse the key.
pub(in crate::dialect) fn body(
    template: &RequestTemplate<'_>,
    system: &str,
    user: &str,
    output: Tokens,
) -> String {
    let mut body = client_members(template, output);
    body.extend([
        "\"store\":false,\"stream\":true,\"instructions\":",
        &quote(system),
        ",\"input\":[",
        &user_message(&quote(user)),
        "]}",
    ]);
    body
}

pub(in crate::dialect) fn append_prompt(
    forwarded: &str,
    upto: usize,
    prompt: &str,
    output: Tokens,
) -> Option<String> {
    let message = user_message(prompt);
    let (members, is_text) = repeated(forwarded, upto, &message, Some(output))?;
    // An answer in the client's own format is not a summary, and another format misses the cache.
    is_text.then(|| object(&members))
}

/// See [`Dialect::compaction_order`](crate::dialect::Dialect::compaction_order).
/// The call is an ordinary turn with the order as its last item.
pub(in crate::dialect) fn compaction_order(forwarded: &str, upto: usize) -> Option<String> {
    let order = r#"{"type":"compaction_trigger"}"#;
    let (members, _) = repeated(forwarded, upto, order, None)?;
    Some(object(&members))
}

/// Returns the members of a call that repeats `forwarded` up to byte `upto` and ends with `item`. Also returns
/// whether the format of the output is plain text. `None` if the body has no list of items.
fn repeated(
    forwarded: &str,
    upto: usize,
    item: &str,
    output: Option<Tokens>,
) -> Option<(Vec<String>, bool)> {
    let (mut stored, mut has_items, mut is_text) = (None, false, true);
    let repeated = include_str!("repeated_keys.txt");
    let mut members = repeat_members(forwarded, repeated, &[], |name, value| {
        if name == "text" {
            is_text = has_text_format(value.slice(forwarded));
        }
        Some(match name {
            "input" => {
                let items = forwarded.get(value.start()..upto).unwrap_or_default();
                has_items = items.starts_with('[');
                format!("{items},{item}]")
            }
            "model" | "models" => models_without_search(value.slice(forwarded)).into_owned(),
            "max_output_tokens" => output?.to_string(),
            "store" => {
                stored = Some(value.slice(forwarded));
                return None;
            }
            _ => return None,
        })
    })?;
    if !has_items {
        return None;
    }
    if !needs_stored_items(forwarded) {
        members.push("\"store\":false".to_owned());
    } else if let Some(stored) = stored {
        members.push(format!("\"store\":{stored}"));
    }
    members.push("\"stream\":true".to_owned());
    Some((members, is_text))
}

/// Whether the input names items that only the provider has. With `store` off, a provider
/// does not look them up. A match inside a text is impossible, because the quotation marks would be
/// escaped.
fn needs_stored_items(body: &str) -> bool {
    let holds = |value: &str| {
        let mut rest = body.match_indices(value).map(|(at, _)| body.get(at + value.len()..));
        // A request has keys of these names.
        rest.any(|rest| !rest.unwrap_or_default().trim_start().starts_with(':'))
    };
    let key = "\"encrypted_content\"";
    let contents = body.match_indices(key).filter_map(|(at, _)| body.get(at + key.len()..));
    let contents = contents.filter_map(|rest| rest.trim_start().strip_prefix(':'));
    let mut contents = contents.peekable();
    // A client whose items are stored repeats the key without a value.
    let is_sealed = contents.peek().is_some()
        && contents.all(|content| !content.trim_start().starts_with("null"));
    holds("\"item_reference\"") || holds("\"reasoning\"") && !is_sealed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::Dialect;
    use serde_json::Value;

    const BODY: &str = r#"{"model":"m","instructions":"be brief","store":true,"stream":false,"tool_choice":"required","context_management":[{"type":"compaction"}],"background":true,"prompt_cache_key":"k","user":"u","reasoning":{"effort":"low"},"tools":[ {"x":1} ],"input":[ {"role":"user","content":"do"} ,{"role":"assistant","content":"done"},{"role":"user","content":"more"}],"metadata":{}}"#;

    #[test]
    fn summary_request_is_not_stored_and_limited_only_if_the_client_limits() {
        let conversation = Dialect::Responses.read(BODY.as_bytes()).unwrap();
        let own = RequestTemplate::from_request(&conversation, None);
        let call: Value = serde_json::from_str(&body(&own, "s", "u", Tokens::new(9))).unwrap();
        let expect = serde_json::json!({"model": "m", "user": "u", "reasoning": {"effort": "low"},
            "prompt_cache_key": "k-longhaul", "store": false, "stream": true, "instructions": "s",
            "input": [{"type": "message", "role": "user",
                "content": [{"type": "input_text", "text": "u"}]}]});
        assert_eq!(call, expect);
        let limited = BODY.replacen('{', r#"{"max_output_tokens":100,"#, 1);
        let conversation = Dialect::Responses.read(limited.as_bytes()).unwrap();
        let other = RequestTemplate::from_request(&conversation, Some("small"));
        let call = body(&other.for_other_endpoint(), "s", "u", Tokens::new(9));
        let call: Value = serde_json::from_str(&call).unwrap();
        let expect = serde_json::json!({"model": "small", "max_output_tokens": 9, "store": false,
            "stream": true, "instructions": "s", "input": call["input"]});
        assert_eq!(call, expect);
    }

    /// Returns the cache key of the summary call of a client with this key.
    fn cache_key(own: &str) -> String {
        let sent =
            BODY.replace(r#""prompt_cache_key":"k""#, &format!(r#""prompt_cache_key":"{own}""#));
        let conversation = Dialect::Responses.read(sent.as_bytes()).unwrap();
        let template = RequestTemplate::from_request(&conversation, None);
        let call = body(&template, "s", "u", Tokens::new(9));
        let call: Value = serde_json::from_str(&call).unwrap();
        call["prompt_cache_key"].as_str().unwrap().to_owned()
    }

    #[test]
    fn cache_key_of_a_summary_call_stays_within_the_providers_limit() {
        for (own, expect) in [(55, 64), (56, 64), (64, 64), (10, 19)] {
            let key = cache_key(&"k".repeat(own));
            assert_eq!(key.len(), expect);
            assert!(key.ends_with("-longhaul"));
        }
        // A character of three bytes lies across the cut.
        assert_eq!(cache_key(&format!("k{}", "é€".repeat(20))).len(), 63);
    }

    #[test]
    fn cache_keys_that_differ_at_their_end_alone_stay_different() {
        let start = "k".repeat(55);
        let keys = ["", "1", "2"].map(|end| cache_key(&format!("{start}{end}")));
        assert!(keys[0] != keys[1] && keys[1] != keys[2], "{keys:?}");
        assert_eq!(keys[1], cache_key(&format!("{start}1")));
    }

    #[test]
    fn a_format_of_the_client_leaves_no_call_in_cached_style() {
        let upto = BODY.find(r#",{"role":"user","content":"more""#).unwrap();
        for (options, expect) in [
            (r#"{"verbosity":"low"}"#, true),
            (r#"{"format":{"type":"text"}}"#, true),
            (r#"{"format":{"type":"json_schema","schema":{}}}"#, false),
        ] {
            let added = format!(r#"{{"text":{options},"#);
            let sent = BODY.replacen('{', &added, 1);
            let upto = upto + added.len() - 1;
            let call = append_prompt(&sent, upto, "\"sum\"", Tokens::new(9));
            assert_eq!(call.is_some(), expect, "{options}");
        }
    }

    #[test]
    fn the_live_prefix_is_repeated_to_the_byte() {
        let upto = BODY.find(r#",{"role":"user","content":"more""#).unwrap();
        let call = append_prompt(BODY, upto, "\"sum\"", Tokens::new(9)).unwrap();
        assert!(call.contains(r#""input":[ {"role":"user","content":"do"} ,{"role":"assistant""#));
        assert!(call.contains(r#""tools":[ {"x":1} ]"#));
        let call: Value = serde_json::from_str(&call).unwrap();
        let keys: Vec<&String> = call.as_object().unwrap().keys().collect();
        let expect = [
            "model",
            "instructions",
            "prompt_cache_key",
            "user",
            "reasoning",
            "tools",
            "input",
            "store",
            "stream",
        ];
        let mut sorted = expect;
        sorted.sort_unstable();
        let mut found = keys.clone();
        found.sort_unstable();
        assert_eq!(found, sorted);
        assert_eq!((&call["store"], &call["stream"]), (&false.into(), &true.into()));
        assert_eq!(call["input"][2]["content"][0]["text"], "sum");
    }

    #[test]
    fn store_follows_the_client_if_items_exist_only_at_the_provider() {
        for (item, members, expect) in [
            (r#"{"type":"item_reference","id":"rs_1"}"#, "", None),
            (r#"{"type":"reasoning","id":"rs_1","summary":[]}"#, r#""store":true,"#, Some(true)),
            (r#"{"type":"reasoning","id":"rs_1","encrypted_content": null}"#, "", None),
            (
                r#"{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"x"}"#,
                r#""store":true,"#,
                Some(false),
            ),
        ] {
            let body = format!(r#"{{{members}"input":[{item}]}}"#);
            let call = append_prompt(&body, body.len() - 2, "\"sum\"", Tokens::new(9)).unwrap();
            let call: Value = serde_json::from_str(&call).unwrap();
            assert_eq!(call.get("store").and_then(Value::as_bool), expect, "{item}");
        }
        assert_eq!(append_prompt(r#"{"input":"hi"}"#, 12, "\"sum\"", Tokens::new(9)), None);
    }
}
