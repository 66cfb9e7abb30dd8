//! Compares the forwarded bytes of every recorded session with those of this [`FORM_VERSION`].

use crate::FORM_VERSION;
use crate::dialect::chat_completions::read;
use crate::planning::plan::{SummarySource, plan};
use crate::planning::splice::Splice;
use crate::policy::record::PriorRecords;
use crate::policy::{CompactionSettings, Policy};
use crate::pruning::placeholder::Placeholder;
use crate::units::tokens::Tokens;
use flate2::read::GzDecoder;
use std::fmt::Write;
use std::fs;
use std::io::Read;
use std::path::Path;

/// Window sizes in tokens, from one that keeps little of a session to one that holds most of them
/// whole.
const WINDOWS: [u32; 4] = [16_000, 32_000, 64_000, 128_000];

/// Default policies for these windows, and for the largest also those with longer placeholders.
fn policies() -> Vec<Policy> {
    let usual = WINDOWS.map(|window| (window, Placeholder::default()));
    let telling = [Placeholder::Described, Placeholder::Index].map(|it| (WINDOWS[3], it));
    let all = usual.into_iter().chain(telling);
    let policy = |(window, placeholder)| {
        let wishes = CompactionSettings {
            placeholder,
            ..CompactionSettings::default()
        };
        Policy::new(&wishes, Tokens::new(window))
    };
    all.map(policy).collect()
}

/// Returns the start of the hash of the bytes forwarded for `body`, or a dash if it is forwarded
/// unchanged.
fn forwarded(body: &[u8], policy: &Policy) -> String {
    let conversation = read(body).unwrap();
    let outlook = plan(
        &conversation,
        policy,
        &PriorRecords::default(),
        SummarySource::Digest,
    );
    let Some(plan) = outlook.view.replacements(&conversation) else {
        return "-".to_owned();
    };
    let splice = Splice::new(&conversation, &plan).unwrap();
    blake3::hash(&splice.apply()).to_hex()[..16].to_owned()
}

/// A failure means that prompt caches and stored records of the previous release are useless after
/// an update. Raise the version and say so in the changelog, or fix the change.
#[test]
fn forwarded_bytes_are_those_of_the_form_version() {
    let sessions = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/sessions");
    let mut files: Vec<_> = fs::read_dir(sessions)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "gz"))
        .collect();
    files.sort();
    let policies = policies();
    let mut table = format!("form {FORM_VERSION}, windows {WINDOWS:?}, described, index\n");
    for file in files {
        let mut body = Vec::new();
        let bytes = fs::read(&file).unwrap();
        GzDecoder::new(&*bytes).read_to_end(&mut body).unwrap();
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        table.push_str(name.trim_end_matches(".json.gz"));
        for policy in &policies {
            write!(table, " {}", forwarded(&body, policy)).unwrap();
        }
        table.push('\n');
    }
    insta::assert_snapshot!(table);
}
