//! Edits of the history that the provider makes at the client's request.

use super::keys::EditKey;
use crate::conversation::HistoryKeeper;
use crate::dialect::request_keys::known_key;
use crate::json::scanner::{Literal, NotJson, Scanner};

/// Edit that removes only the model's reasoning. Claude Code requests it by default.
const CLEAR_THINKING: &str = "clear_thinking_";
/// Edit that replaces history by a compaction block.
const COMPACT: &str = "compact_";

/// Reads the value of `context_management`. Returns who keeps the history then.
///
/// - Without an edit, or with reasoning removed alone, the client.
/// - With a compaction, the provider.
/// - With any other edit, such as cleared tool results, the provider clears and the client keeps.
///
/// Two parties that clear the same results move each other's trigger and break the prompt cache.
pub(super) fn read(scanner: &mut Scanner<'_>) -> Result<HistoryKeeper, NotJson> {
    let mut keeper = HistoryKeeper::Client;
    if scanner.peek() != Some(b'{') {
        scanner.skip()?;
        return Ok(keeper);
    }
    scanner.object(|scanner, key| {
        if known_key(scanner, key) != Some(EditKey::Edits) || scanner.peek() != Some(b'[') {
            return scanner.skip();
        }
        scanner.array(|scanner| {
            if scanner.peek() != Some(b'{') {
                return scanner.skip();
            }
            keeper = keeper.max(read_edit(scanner)?);
            Ok::<(), NotJson>(())
        })?;
        Ok::<(), NotJson>(())
    })?;
    Ok(keeper)
}

fn read_edit(scanner: &mut Scanner<'_>) -> Result<HistoryKeeper, NotJson> {
    let mut name: Option<Literal> = None;
    scanner.object(|scanner, key| {
        if known_key(scanner, key) == Some(EditKey::Type) && scanner.peek() == Some(b'"') {
            name = Some(scanner.string()?);
            return Ok(());
        }
        scanner.skip()
    })?;
    let name = name.map(|name| name.decode(scanner.text()));
    Ok(match name.as_deref() {
        Some(name) if name.starts_with(CLEAR_THINKING) => HistoryKeeper::Client,
        Some(name) if name.starts_with(COMPACT) => HistoryKeeper::Provider,
        Some(_) | None => HistoryKeeper::ClearingProvider,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn context_edits_select_the_history_keeper() {
        use HistoryKeeper::{ClearingProvider, Client, Provider};
        for (value, expect) in [
            ("null", Client),
            ("{}", Client),
            (r#"{"edits":[]}"#, Client),
            (
                r#"{"edits":[{"type":"clear_thinking_20251015","keep":"all"}]}"#,
                Client,
            ),
            (
                r#"{"edits":[{"type":"clear_thinking_20251015"},{"keep":3,"type":"clear_tool_uses_20250919"}]}"#,
                ClearingProvider,
            ),
            (r#"{"edits":[{"type":"unknown"}]}"#, ClearingProvider),
            (r#"{"edits":[{}]}"#, ClearingProvider),
            (
                r#"{"edits":[{"type":"compact_20260112"},{"type":"clear_tool_uses_20250919"}]}"#,
                Provider,
            ),
        ] {
            assert_eq!(read(&mut Scanner::new(value)).unwrap(), expect, "{value}");
        }
    }
}
