//! Compares the forwarded bytes of every recorded session, and the summary requests of some, with
//! those of this [`FORM_VERSION`].

use crate::dialect::Dialect;
use crate::planning::plan::{SummarySource, plan};
use crate::planning::splice::Splice;
use crate::policy::record::PriorRecords;
use crate::policy::{CompactionSettings, Policy};
use crate::pruning::placeholder::Placeholder;
use crate::summary::prompts::Prompts;
use crate::summary::request::{
    MAX_BACKGROUND_CALLS, RequestTemplate, SummariserLimits, SummaryRequest, cached_style_body,
};
use crate::summary::segments::SegmentPlace;
use crate::units::tokens::Tokens;
use flate2::read::GzDecoder;
use std::fmt::Write;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Window sizes in tokens, from one that keeps little of a session to one that holds most of them
/// whole.
const WINDOWS: [u32; 4] = [16_000, 32_000, 64_000, 128_000];

/// Default policies for these windows, and for the largest also the one with described results.
fn policies() -> Vec<Policy> {
    let usual = WINDOWS.map(|window| (window, Placeholder::Fixed));
    let described = (WINDOWS[3], Placeholder::Described);
    let all = usual.into_iter().chain([described]);
    let policy = |(window, placeholder)| {
        let settings =
            CompactionSettings { placeholder: Some(placeholder), ..CompactionSettings::default() };
        Policy::new(&settings, Tokens::new(window))
    };
    all.map(policy).collect()
}

/// Returns the start of the hash of the bytes forwarded for `body`, or a dash if it is forwarded
/// unchanged.
fn forwarded(dialect: Dialect, body: &[u8], policy: &Policy) -> String {
    let conversation = dialect.read(body).unwrap();
    let plan = plan(&conversation, policy, &PriorRecords::default(), SummarySource::Digest);
    let Some(plan) = plan.view.replacements(&conversation) else {
        return "-".to_owned();
    };
    let splice = Splice::new(&conversation, &plan).unwrap();
    blake3::hash(&splice.apply()).to_hex()[..16].to_owned()
}

/// Opens every recorded session of a dialect, with its name.
fn recorded_sessions(dialect: Dialect) -> Vec<(String, Vec<u8>)> {
    let folder = match dialect {
        Dialect::ChatCompletions => "../../fixtures/sessions",
        Dialect::Messages => "../../fixtures/messages/sessions",
        Dialect::Responses => "../../fixtures/sessions_responses",
    };
    let sessions = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut files: Vec<_> = fs::read_dir(sessions)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "gz"))
        .collect();
    files.sort();
    let open = |file: PathBuf| {
        let mut body = Vec::new();
        let bytes = fs::read(&file).unwrap();
        GzDecoder::new(&*bytes).read_to_end(&mut body).unwrap();
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        (name.trim_end_matches(".json.gz").to_owned(), body)
    };
    files.into_iter().map(open).collect()
}

/// A failure means that prompt caches and stored records of the previous release are useless after
/// an update. Raise the version and say so in the changelog, or fix the change.
#[test]
fn forwarded_bytes_are_those_of_the_form_version() {
    insta::assert_snapshot!(forwarded_table(Dialect::ChatCompletions));
}

/// See [`forwarded_bytes_are_those_of_the_form_version`].
#[test]
fn forwarded_messages_are_those_of_their_form_version() {
    insta::assert_snapshot!(forwarded_table(Dialect::Messages));
}

/// See [`forwarded_bytes_are_those_of_the_form_version`].
#[test]
fn forwarded_responses_are_those_of_the_form_version() {
    insta::assert_snapshot!(forwarded_table(Dialect::Responses));
}

/// Returns the hashes of the bytes forwarded for each session, one line a session.
fn forwarded_table(dialect: Dialect) -> String {
    let (form, policies) = (dialect.form_version(), policies());
    let mut table = format!("form {form}, windows {WINDOWS:?}, described\n");
    for (name, body) in recorded_sessions(dialect) {
        table.push_str(&name);
        for policy in &policies {
            write!(table, " {}", forwarded(dialect, &body, policy)).unwrap();
        }
        table.push('\n');
    }
    table
}

/// Members of a request that a summary call takes over, changes or leaves out.
const MEMBERS: [&str; 4] = [
    "",
    r#""models":["a","b"], "provider":{"order":["x"]},"max_tokens":9000,"stream":false,"reasoning_effort":"low","prompt_cache_key":"k\u0041","stream_options":{"include_usage" : true},"stop":"x","#,
    r#""user":"u","max_completion_tokens":9000,"thinking":{"type": "disabled"},"reasoning":{"effort":"high"},"tool_choice":"required","response_format":{},"#,
    r#""stream":true,"reasoning":{"max_tokens":2000},"enable_thinking":false,"n":2,"#,
];

/// Returns the start of the hash of these request bodies, or a dash if there are none.
fn hashed(dialect: Dialect, bodies: impl IntoIterator<Item = String>) -> String {
    let mut hasher = blake3::Hasher::new();
    let mut count = 0;
    for body in bodies {
        assert!(dialect.read(body.as_bytes()).is_ok(), "{body}");
        hasher.update(body.as_bytes());
        count += 1;
    }
    if count == 0 {
        return "-".to_owned();
    }
    hasher.finalize().to_hex()[..16].to_owned()
}

/// Returns every kind of call for a summary of the first half of `body`.
fn summary_calls(dialect: Dialect, body: &str, policy: &Policy) -> [String; 4] {
    let conversation = dialect.read(body.as_bytes()).unwrap();
    let cuts = conversation.boundaries();
    let cut = cuts[cuts.len() / 2];
    let prompts = Prompts::default();
    let covered = conversation.head_len()..cut;
    let limits =
        SummariserLimits { window: policy.thresholds.window, max_calls: MAX_BACKGROUND_CALLS };
    let request = SummaryRequest::new(
        &conversation,
        &SegmentPlace {
            earlier: None,
            retained: covered.end..covered.end,
            said_until: covered.end,
            words: &crate::policy::NO_STANDING_WORDS,
            covered,
        },
        &policy.budgets,
        &prompts,
        limits,
    );
    let transcript = |template: &RequestTemplate<'_>| {
        let parts = request.iter().flat_map(|it| (0..it.parts.len()).map(move |at| (it, at)));
        hashed(
            dialect,
            parts.map(|(it, at)| it.call_body(at, (at > 0).then_some("so far"), template)),
        )
    };
    let own = RequestTemplate::from_request(&conversation, None);
    let other = RequestTemplate::from_request(&conversation, Some("small"));
    [
        transcript(&own),
        transcript(&other),
        transcript(&other.for_other_endpoint()),
        hashed(dialect, cached_style_body(&conversation, body, cut, policy, &prompts)),
    ]
}

/// A failure means that a provider's cache, its routing or its limits apply to a summary
/// differently than in the previous release.
#[test]
fn summary_requests_are_those_of_the_form_version() {
    insta::assert_snapshot!(summary_table(Dialect::ChatCompletions, 9, &MEMBERS));
}

/// See [`summary_requests_are_those_of_the_form_version`].
#[test]
fn summary_requests_of_responses_are_those_of_the_form_version() {
    insta::assert_snapshot!(summary_table(Dialect::Responses, 6, &RESPONSES_MEMBERS));
}

/// Members of a Responses request that a summary call takes over, changes or leaves out. The recorded
/// bodies have reasoning, a cache key and a stream of their own.
const RESPONSES_MEMBERS: [&str; 2] = [
    "",
    r#""max_output_tokens":9000,"user":"u","models":["a","b"],"service_tier":"flex","truncation":"auto","metadata":{"a":"b"},"#,
];

/// Returns the hashes of the summary calls of every `step`th session with each of `members`.
fn summary_table(dialect: Dialect, step: usize, members: &[&str]) -> String {
    let policy = Policy::new(&CompactionSettings::default(), Tokens::new(WINDOWS[2]));
    let mut table = "own model, other model, other endpoint, cached\n".to_owned();
    for (name, body) in recorded_sessions(dialect).into_iter().step_by(step) {
        let body = String::from_utf8(body).unwrap();
        for members in members {
            let body = body.replacen('{', &["{", members].concat(), 1);
            let calls = summary_calls(dialect, &body, &policy).join(" ");
            writeln!(table, "{name} {calls}").unwrap();
        }
    }
    table
}
