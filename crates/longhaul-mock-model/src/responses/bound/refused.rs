//! Requests that a GPT model refuses because of bound items, and rules of other models that it waives.

use serde_json::{Value, json};

use crate::binding::ReasoningBook;
use crate::binding::models::{COMPACTION, GptVersion, PREFIX_RULE, UPDATES, is_gpt_from};
use crate::refusal::RefusalReply;
use crate::request::{ChatBody, list, member};
use crate::responses::issued;
use crate::server_rules::ModelServer;

const UNVERIFIED: &str = "The encrypted content for item <what> could not be verified. Reason: Encrypted content could not be decrypted or parsed.";
const SCOPES: &str =
    "You have insufficient permissions for this operation. Missing scopes: api.responses.write.";
const ADJACENT: &str = "Two items of type 'configuration_update' must not follow each other.";

/// A request, and what a rule needs besides.
struct JudgedItems<'a> {
    chat: &'a ChatBody,
    book: &'a ReasoningBook,
    server: ModelServer,
}

/// A rule for requests to a GPT model.
struct RefusedRule {
    id: &'static str,
    /// The first model with the rule.
    from: GptVersion,
    status: u16,
    code: Option<&'static str>,
    /// The error text, with `<what>` in place of the offending item.
    error: &'static str,
    breach: fn(&JudgedItems<'_>) -> Option<String>,
}

const RULES: [RefusedRule; 4] = [
    RefusedRule {
        id: "nc-o-login",
        from: PREFIX_RULE,
        status: 403,
        code: Some("missing_scope"),
        error: SCOPES,
        breach: login_at_the_api,
    },
    RefusedRule {
        id: "nc-o-update-adjacent",
        from: UPDATES,
        status: 400,
        code: None,
        error: ADJACENT,
        breach: adjacent_updates,
    },
    RefusedRule {
        id: "nc-o-opaque",
        from: UPDATES,
        status: 400,
        code: Some("invalid_encrypted_content"),
        error: UNVERIFIED,
        breach: damaged_item,
    },
    RefusedRule {
        id: "nc-o-owner",
        from: COMPACTION,
        status: 400,
        code: Some("invalid_encrypted_content"),
        error: UNVERIFIED,
        breach: foreign_compaction,
    },
];

/// Returns the rule that a request breaks, and the refusal for it.
pub(crate) fn judge(
    chat: &ChatBody,
    book: &ReasoningBook,
    server: ModelServer,
) -> Option<(&'static str, RefusalReply)> {
    let received = JudgedItems { chat, book, server };
    let rules = RULES.iter().filter(|rule| is_gpt_from(chat.model(), rule.from));
    rules.into_iter().find_map(|rule| {
        let what = (rule.breach)(&received)?;
        let error = json!({"error": {"message": rule.error.replace("<what>", &what),
            "type": "invalid_request_error", "param": null, "code": rule.code}});
        let refusal = RefusalReply::new(rule.status, "application/json", error.to_string());
        Some((rule.id, refusal))
    })
}

/// Returns the rules of the API that a model waives. A damaged item has a rule of its own from GPT-6 on.
///
/// nc-o-ids: all others still hold. GPT-6 takes calls without their reasoning.
pub(crate) fn waived(model: &str) -> &'static [&'static str] {
    if is_gpt_from(model, PREFIX_RULE) {
        &["r-encrypted", "r-encrypted-caller"]
    } else if is_gpt_from(model, UPDATES) {
        &["r-encrypted", "r-reasoning-precede"]
    } else {
        &[]
    }
}

fn items<'a>(received: &JudgedItems<'a>) -> &'a [Value] {
    list(member(received.chat.original(), "input"))
}

fn sealed(item: &Value) -> Option<(&Value, &str)> {
    Some((item, member(item, "encrypted_content").as_str()?))
}

fn name((item, content): (&Value, &str)) -> String {
    let start: String = content.chars().take(4).collect();
    member(item, "id").as_str().map_or_else(|| format!("{start}..."), str::to_owned)
}

/// nc-o-login: a token of a login has no scope at the host of the API.
fn login_at_the_api(received: &JudgedItems<'_>) -> Option<String> {
    (received.server == ModelServer::Api && received.chat.is_chatgpt_login()).then(String::new)
}

/// nc-o-update-adjacent.
fn adjacent_updates(received: &JudgedItems<'_>) -> Option<String> {
    let items = items(received);
    let is_update = |item: &Value| member(item, "type") == "configuration_update";
    let mut pairs = items.iter().zip(items.iter().skip(1));
    pairs.any(|(one, next)| is_update(one) && is_update(next)).then(String::new)
}

/// nc-o-opaque: an item of this provider differs by a byte.
fn damaged_item(received: &JudgedItems<'_>) -> Option<String> {
    let mut items = items(received).iter().filter_map(sealed);
    items.find(|(_, content)| !issued::is_intact(content)).map(name)
}

/// nc-o-owner: a compaction of another organisation. Foreign reasoning is dropped.
fn foreign_compaction(received: &JudgedItems<'_>) -> Option<String> {
    let chat = received.chat;
    let compactions = items(received).iter().filter(|item| member(item, "type") == "compaction");
    let is_foreign = |content: &str| {
        let receiver = received.book.receiver(content);
        issued::is_foreign(chat.credential(), content)
            || receiver.is_some_and(|receiver| receiver != chat.caller_number())
    };
    compactions.filter_map(sealed).find(|(_, content)| is_foreign(content)).map(name)
}
