//! The function of a tool call: its name and arguments.

use crate::dialect::bypass::Bypass;
use crate::dialect::chat_completions::keys::CallKey;
use crate::dialect::request_keys::{SeenKeys, known_key};
use crate::dialect::request_values::string_or_null;
use crate::json::scanner::{Literal, Scanner};

/// Name and arguments of a called function.
#[derive(Default)]
pub(super) struct CalledFunction {
    pub(super) name: Option<Literal>,
    pub(super) arguments: Option<Literal>,
}

impl CalledFunction {
    /// Reads one member of the object that holds name and arguments.
    pub(super) fn read_member(
        &mut self,
        scanner: &mut Scanner<'_>,
        key: Literal,
        seen: &mut SeenKeys,
    ) -> Result<(), Bypass> {
        match known_key(scanner, key) {
            Some(CallKey::Name) => {
                seen.insert_once(CallKey::Name)?;
                self.name = string_or_null(scanner)?;
            }
            Some(CallKey::Arguments) if scanner.peek() == Some(b'"') => {
                seen.insert_once(CallKey::Arguments)?;
                self.arguments = Some(scanner.string()?);
            }
            _ => scanner.skip()?,
        }
        Ok(())
    }
}
