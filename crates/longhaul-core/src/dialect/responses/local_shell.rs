//! Outputs of a local shell that name their call by its item `id`, where others give its `call_id`.
//!
//! The schema describes the `id` of such an output as the id of the call, and a call has two.

use std::collections::{HashMap, HashSet};

use super::keys::ItemKey;
use crate::conversation::{Message, Pieces, Role};
use crate::dialect::bypass::Bypass;
use crate::dialect::request_keys::SeenKeys;
use crate::dialect::request_values::string_or_null;
use crate::json::scanner::{Literal, Scanner};

/// Type of the calls.
const CALL: &str = "local_shell_call";

/// Gives each output that names its call by the item `id` alone the `call_id` of the newest such call before
/// it. Leaves every other output as it is.
pub(super) fn pair_by_item_id(body: &str, items: &mut Pieces) {
    let is_by_item_id = |it: &Message| {
        it.role == Role::Tool && it.tool_call_id.is_some_and(|id| is_item_id(body, id))
    };
    let Some(last) = items.messages.iter().rposition(is_by_item_id) else {
        return;
    };
    let mut call_ids = HashSet::new();
    let mut by_item_id = HashMap::new();
    for at in 0..=last {
        let Some(message) = items.messages.get_mut(at) else {
            return;
        };
        let calls = items.calls.get(message.calls.clone()).unwrap_or_default();
        for call in calls {
            // A call without a name is called by its type.
            let is_local = call.name.is_some_and(|name| name.raw(body) == CALL);
            let item_id = is_local.then(|| item_id(body, message)).flatten();
            if let Some(id) = call.id {
                call_ids.insert(id.decode(body));
                by_item_id.extend(item_id.map(|item_id| (item_id.decode(body), id)));
            }
        }
        let named = message.tool_call_id.filter(|_| is_by_item_id(message));
        let Some(named) = named.map(|id| id.decode(body)) else {
            continue;
        };
        if !call_ids.contains(&named)
            && let Some(&call_id) = by_item_id.get(&named)
        {
            message.tool_call_id = Some(call_id);
        }
    }
}

/// Whether `id` is the value of the key `id`.
fn is_item_id(body: &str, id: Literal) -> bool {
    let before = body.get(..id.span().start()).unwrap_or_default();
    let key = before.trim_end().strip_suffix(':').map(str::trim_end);
    key.is_some_and(|key| key.ends_with(r#""id""#))
}

/// Returns the item `id` of a call; `None` if it has none.
fn item_id(body: &str, call: &Message) -> Option<Literal> {
    let mut scanner = Scanner::new(body);
    scanner.advance(call.span.start()).ok()?;
    let mut seen = SeenKeys::default();
    let mut found = None;
    let read = scanner.object(|scanner, key| {
        match seen.next(scanner, key)? {
            Some(ItemKey::Id) => found = string_or_null(scanner)?,
            Some(_) | None => scanner.skip()?,
        }
        Ok::<(), Bypass>(())
    });
    read.ok()?;
    found
}
