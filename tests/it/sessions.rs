//! The recorded sessions: loading, and properties of all of them.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use longhaul_mock_model::{PlantPosition, PlantedFact, SessionRecording, ValidityRules, session};

/// A recorded session, as listed in `MANIFEST.tsv`.
pub(crate) struct Session {
    /// File name without extensions.
    pub(crate) name: String,
    /// Body of the last request.
    pub(crate) body: Vec<u8>,
    /// Name of the licence.
    pub(crate) licence: String,
    /// Number of user messages by the manifest.
    pub(crate) user_messages: usize,
    /// Number of tool results by the manifest.
    pub(crate) tool_results: usize,
    digest: String,
}

impl Session {
    /// Returns the session's requests as its agent sent them.
    pub(crate) fn replay(&self) -> SessionRecording {
        SessionRecording::parse(&self.body).unwrap_or_else(|error| panic!("{}: {error}", self.name))
    }
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/sessions")
}

/// Returns all sessions in the manifest's order, decompressed one at a time.
pub(crate) fn sessions() -> impl Iterator<Item = Session> {
    let manifest = fs::read_to_string(directory().join("MANIFEST.tsv")).unwrap();
    let rows: Vec<String> = manifest.lines().skip(1).map(str::to_owned).collect();
    rows.into_iter().map(|row| {
        let columns: Vec<&str> = row.split('\t').collect();
        let mut body = Vec::new();
        let file = fs::File::open(directory().join(columns[0])).unwrap();
        GzDecoder::new(file).read_to_end(&mut body).unwrap();
        Session {
            name: columns[0].trim_end_matches(".json.gz").to_owned(),
            body,
            licence: columns[2].to_owned(),
            user_messages: columns[6].parse().unwrap(),
            tool_results: columns[8].parse().unwrap(),
            digest: columns[columns.len() - 1].to_owned(),
        }
    })
}

/// Returns the session with this name.
pub(crate) fn named(name: &str) -> Session {
    sessions().find(|session| session.name == name).unwrap()
}

#[test]
fn the_manifest_lists_every_file_and_its_digest() {
    let mut names = Vec::new();
    for session in sessions() {
        assert_eq!(sha256_16(&session.body), session.digest, "{}", session.name);
        assert!(["MIT", "Apache-2.0"].contains(&session.licence.as_str()), "{}", session.name);
        names.push(format!("{}.json.gz", session.name));
    }
    let files = fs::read_dir(directory()).unwrap().map(|entry| entry.unwrap().file_name());
    let mut files: Vec<String> = files
        .map(|name| name.into_string().unwrap())
        .filter(|name| name != "MANIFEST.tsv")
        .collect();
    names.sort();
    files.sort();
    assert_eq!(names, files);
    assert_eq!(names.len(), 78);
}

#[test]
fn every_session_obeys_the_standard_rules_at_every_tenth_request() {
    let validity = ValidityRules::standard();
    for session in sessions() {
        let replay = session.replay();
        let requests: Vec<_> = replay.requests().collect();
        let last = requests.last().unwrap();
        assert_eq!(last.body().len(), session.body.len(), "{}", session.name);
        for request in requests.iter().step_by(10).chain([last]) {
            let broken = validity.broken_by(&request.body());
            assert_eq!(
                broken.map(|rule| rule.id),
                None,
                "{} at {}",
                session.name,
                request.messages()
            );
        }
    }
}

#[test]
fn demo_replays_a_recorded_session() {
    let last = session().unwrap().requests().next_back().unwrap().body();
    assert_eq!(last, named("cli-0018").body);
}

#[test]
fn every_headless_session_obeys_the_standard_rules() {
    let validity = ValidityRules::standard();
    for session in sessions() {
        let headless = session.replay().headless().unwrap();
        let last = headless.requests().next_back().unwrap().body();
        let broken = validity.broken_by(&last);
        assert_eq!(broken.map(|rule| rule.id), None, "{}", session.name);
        assert!(last.len() <= session.body.len());
    }
}

#[test]
fn plants_facts_in_every_session_with_a_suitable_position() {
    let validity = ValidityRules::standard();
    let mut deep = 0;
    for session in sessions() {
        let (planted, facts) = session.replay().planted(&PlantedFact::one_each()).unwrap();
        let last = planted.requests().next_back().unwrap().body();
        assert_eq!(validity.broken_by(&last).map(|rule| rule.id), None, "{}", session.name);
        let text = str::from_utf8(&last).unwrap();
        for plant in PlantedFact::one_each() {
            let times = usize::from(facts.contains(&plant));
            assert_eq!(text.matches(&plant.token).count(), times, "{}: {plant:?}", session.name);
        }
        let second = facts.iter().any(|plant| plant.place == PlantPosition::SecondUser);
        assert_eq!(second, session.user_messages > 1, "{}", session.name);
        deep += usize::from(facts.iter().any(|plant| plant.place == PlantPosition::ToolResult));
    }
    assert!(deep >= 60, "{deep}");
}

#[test]
fn replay_requests_are_bounded_by_user_messages_and_tool_results() {
    for session in sessions() {
        let replay = session.replay();
        let asked = replay.requests().len();
        assert!(asked >= session.user_messages, "{}", session.name);
        assert!(asked <= session.user_messages + session.tool_results, "{}", session.name);
    }
}

/// Counts the real sessions that break each rule: the reason why these rules are off by default.
#[test]
fn counts_the_sessions_that_break_each_optional_rule() {
    let breaks = |id: &str| {
        let validity = ValidityRules::only(id).unwrap();
        sessions().filter(|session| validity.broken_by(&session.body).is_some()).count()
    };
    let counts = [
        "alternation",
        "assistant-empty",
        "developer-role",
        "first-message",
        "role-order-mistral",
        "system-first",
        "tool-order-gemini",
    ]
    .map(|id| (id, breaks(id)));
    let expect = [
        ("alternation", 7),
        ("assistant-empty", 28),
        ("developer-role", 8),
        ("first-message", 1),
        ("role-order-mistral", 30),
        ("system-first", 8),
        ("tool-order-gemini", 2),
    ];
    assert_eq!(counts, expect);
}

/// Returns the first 16 hex digits of a SHA-256.
fn sha256_16(bytes: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, bytes);
    let hex = digest.as_ref().iter().take(8).map(|byte| format!("{byte:02x}"));
    hex.collect::<Vec<_>>().concat()
}
