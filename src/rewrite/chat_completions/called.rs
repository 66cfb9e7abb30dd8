//! What a call names: its tool, and with what that is called.

use super::keys::{Key, Seen, known};
use super::string_or_null;
use crate::rewrite::bypass::Bypass;
use crate::rewrite::scan::{Literal, Scanner};

/// What is called, and with what.
#[derive(Default)]
pub(super) struct Called {
    pub(super) name: Option<Literal>,
    pub(super) arguments: Option<Literal>,
}

impl Called {
    /// Reads a member of what holds the name and the arguments of a call.
    pub(super) fn member(
        &mut self,
        scanner: &mut Scanner<'_>,
        key: Literal,
        seen: &mut Seen,
    ) -> Result<(), Bypass> {
        match known(scanner, key) {
            Some(Key::Name) => {
                seen.once(Key::Name)?;
                self.name = string_or_null(scanner)?;
            }
            Some(Key::Arguments) if scanner.peek() == Some(b'"') => {
                seen.once(Key::Arguments)?;
                self.arguments = Some(scanner.string()?);
            }
            _ => scanner.skip()?,
        }
        Ok(())
    }
}
