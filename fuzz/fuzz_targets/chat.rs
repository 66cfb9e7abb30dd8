//! Fuzzes request bodies against the oracle. Any body must be read as the oracle reads it. A chat
//! must
//!
//! - be cleared by the exact rule;
//! - be compacted soundly under windows of every size, and again at earlier points after that;
//! - stay unchanged everywhere else.

#![no_main]

use libfuzzer_sys::fuzz_target;
use longhaul_core::policy::placement::Placement;
use longhaul_core::policy::{CompactionSettings, Policy};
use longhaul_core::pruning::placeholder::Placeholder;
use longhaul_core::units::tokens::Tokens;

#[path = "../../tests/it/going_back.rs"]
mod going_back;
#[path = "../../tests/it/promises.rs"]
mod promises;
#[path = "../../tests/it/oracle/pruner.rs"]
mod pruner;
#[path = "../../tests/it/oracle/reader.rs"]
mod reader;
#[path = "../../tests/it/subject.rs"]
mod subject;
#[path = "../../tests/it/oracle/words.rs"]
mod words;

mod oracle {
    pub(crate) use crate::{pruner, reader};
}

fuzz_target!(|body: &[u8]| {
    // The oracle cannot represent very large numbers; such a body is only judged.
    if promises::judged_rightly(body).is_err() || !reader::holds_names(body) {
        return;
    }
    let text = std::str::from_utf8(body).expect("JSON is text");
    // The oracle cannot represent a lone surrogate in a key either.
    if reader::without_lone_surrogates(text) != text {
        return;
    }
    for described in [false, true] {
        let rule = pruner::Rule {
            protect: 0,
            minimum: 0,
            user_turns: 0,
            exempt_tools: vec!["Edit".to_owned()],
            keep_errors: described,
            described,
        };
        promises::prunes_by_the_rule(text, &rule);
    }
    let merged = CompactionSettings {
        placement: Placement::Merged,
        placeholder: Some(Placeholder::Described),
        ..CompactionSettings::default()
    };
    for wishes in [CompactionSettings::default(), merged] {
        let policy = |window| Policy::new(&wishes, Tokens::new(window));
        for window in [400, 2_000, 200_000] {
            promises::compacts_soundly(body, &policy(window));
        }
        going_back::goes_back_soundly(body, &policy(400), 1);
    }
});
