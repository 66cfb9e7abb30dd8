//! What a call names: its tool, and with what that is called.

use super::keys::{RequestKey, SeenKeys, known_key};
use super::string_or_null;
use crate::rewrite::bypass::Bypass;
use crate::rewrite::scan::{Literal, Scanner};

/// What is called, and with what.
#[derive(Default)]
pub(super) struct CalledFunction {
    pub(super) name: Option<Literal>,
    pub(super) arguments: Option<Literal>,
}

impl CalledFunction {
    /// Reads a member of what holds the name and the arguments of a call.
    pub(super) fn read_member(
        &mut self,
        scanner: &mut Scanner<'_>,
        key: Literal,
        seen: &mut SeenKeys,
    ) -> Result<(), Bypass> {
        match known_key(scanner, key) {
            Some(RequestKey::Name) => {
                seen.insert_once(RequestKey::Name)?;
                self.name = string_or_null(scanner)?;
            }
            Some(RequestKey::Arguments) if scanner.peek() == Some(b'"') => {
                seen.insert_once(RequestKey::Arguments)?;
                self.arguments = Some(scanner.string()?);
            }
            _ => scanner.skip()?,
        }
        Ok(())
    }
}
