//! Decision core: reads, plans and splices conversations, and judges replies.
//!
//! Everything below this module is pure: no runtime, network, clock, file system or environment.
//! Each decision can therefore be replayed from a fixture.

#![forbid(unsafe_code)]

/// Declares an enum with the text of each variant in logs and metrics.
macro_rules! labels {
    ($(#[$of:meta])* $name:ident { $($(#[$about:meta])* $value:ident = $label:literal,)+ }) => {
        $(#[$of])*
        #[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
        pub enum $name {
            $($(#[$about])* $value,)+
        }

        impl $name {
            /// All values.
            pub const ALL: &[Self] = &[$(Self::$value),+];

            /// Returns the text in logs and metrics.
            pub fn label(self) -> &'static str {
                match self {
                    $(Self::$value => $label,)+
                }
            }
        }
    };
}

use labels;

/// Includes text files of one folder.
macro_rules! texts {
    ($folder:literal: $($name:literal)+) => {
        [$(include_str!(concat!($folder, $name, ".txt"))),+]
    };
}

pub mod clients;
pub mod collections;
pub mod conversation;
pub mod cost;
pub mod dialect;
pub mod identifiers;
pub mod json;
pub mod overflow;
pub mod planning;
pub mod policy;
pub mod prefix;
pub mod pruning;
pub mod recall;
pub mod sse;
pub mod summary;
pub mod text;
pub mod units;
mod user_words;
pub mod window;

/// Version of everything that determines forwarded bytes: wording, token estimate, clearing and
/// prefix hashes. A release that changes forwarded bytes raises this number and says so in the
/// changelog.
pub const FORM_VERSION: u32 = 4;

#[cfg(test)]
mod tests {
    mod form;
}
