//! Test adapters for the product's API: the only place to change when that API changes.

use crate::oracle::pruner::Rule;
use crate::oracle::reader::{Call, Message, Reading};
use longhaul_core::conversation::{Conversation, Role};
use longhaul_core::dialect::bypass::Bypass;
use longhaul_core::dialect::chat_completions::read;
use longhaul_core::planning::history_fold::{HardThresholdMode, fold};
use longhaul_core::planning::plan::{SummarySource, plan};
use longhaul_core::planning::splice::Splice;
use longhaul_core::policy::cut_point::PinnedHead;
use longhaul_core::policy::record::PriorRecords;
use longhaul_core::policy::{CompactionSettings, Policy, Profile, PruneTrigger};
use longhaul_core::pruning::placeholder::Placeholder;
use longhaul_core::units::tokens::Tokens;
use std::collections::BTreeMap;

/// Converts a rule of the oracle to the product's policy.
pub(crate) fn policy(rule: &Rule) -> Policy {
    let tokens = |number| Some(Tokens::new(u32::try_from(number).unwrap()));
    let wishes = CompactionSettings {
        // The literal rule: no call is clipped, no word is kept, and no mark is added.
        profile: Profile::Standard,
        prune_trigger: Some(PruneTrigger::Always),
        protect: tokens(rule.protect),
        minimum: tokens(rule.minimum),
        user_turns: Some(u32::try_from(rule.user_turns).unwrap()),
        exempt_tools: rule.exempt_tools.clone(),
        keep_errors: rule.keep_errors,
        placeholder: Some(if rule.described { Placeholder::Described } else { Placeholder::Fixed }),
        // Pruning alone: every window is large enough.
        proactive: false,
        adds_cache_mark: false,
        ..CompactionSettings::default()
    };
    Policy::new(&wishes, Tokens::new(200_000))
}

/// Returns the results that the product clears, by message, and the number of restored ones.
pub(crate) fn cleared(body: &str, rule: &Rule) -> (BTreeMap<usize, String>, usize) {
    let conversation = read(body.as_bytes()).unwrap();
    let policy = policy(rule);
    let kept = PinnedHead::new(&conversation, &policy, None);
    let fold = fold(&conversation, &policy, kept, None, HardThresholdMode::Cut, &[]).prune_state;
    let cleared = fold
        .cleared()
        .map(|result| {
            let message = conversation.message(result.message).unwrap();
            let words = result.placeholder.render(&conversation, message);
            (result.message, words.into_owned())
        })
        .collect();
    (cleared, fold.restored)
}

/// Returns the body forwarded for `body`.
pub(crate) fn forwarded(body: &[u8], rule: &Rule) -> Result<Vec<u8>, Bypass> {
    let conversation = read(body)?;
    let outlook =
        plan(&conversation, &policy(rule), &PriorRecords::default(), SummarySource::Digest);
    let plan = outlook.view.replacements(&conversation).ok_or(Bypass::Nothing)?;
    Splice::new(&conversation, &plan).map(|splice| splice.apply()).ok_or(Bypass::Unsound)
}

/// Converts the product's reading of a body to the oracle's types. Unknown roles become `?`.
pub(crate) fn reading(conversation: &Conversation<'_>) -> Reading {
    let body = conversation.body();
    let text = |literal: longhaul_core::json::scanner::Literal| literal.decode(body).into_owned();
    let messages = conversation.messages().iter().map(|message| Message {
        role: spelt(message.role).to_owned(),
        text: conversation.text(message).into_owned(),
        chars: chars(conversation, message),
        answers: message.tool_call_id.map(text),
        name: message.name.map(text),
        calls: conversation
            .calls(message)
            .iter()
            .map(|call| Call {
                id: call.id.map(text),
                name: call.name.map(text),
                arguments: call.arguments.map(text),
            })
            .collect(),
    });
    Reading {
        model: conversation.model().into_owned(),
        streaming: conversation.params().streaming,
        output: conversation.params().output_limit.map(|limit| limit.tokens.get()),
        messages: messages.collect(),
    }
}

/// Returns the characters counted by the scanner, not those of the decoded text.
fn chars(conversation: &Conversation<'_>, message: &longhaul_core::conversation::Message) -> usize {
    use longhaul_core::conversation::{Content, PartKind};
    match message.content {
        Content::Absent => 0,
        Content::Text(literal) => literal.chars() as usize,
        Content::Parts(_) => conversation
            .parts(message)
            .iter()
            .filter(|part| part.kind == PartKind::Text)
            .filter_map(|part| part.text)
            .map(|text| text.chars() as usize)
            .sum(),
    }
}

/// Returns a role's name in JSON.
pub(crate) fn spelt(role: Role) -> &'static str {
    match role {
        Role::Assistant => "assistant",
        Role::Developer => "developer",
        Role::Function => "function",
        Role::Other => "?",
        Role::System => "system",
        Role::Tool => "tool",
        Role::User => "user",
    }
}
