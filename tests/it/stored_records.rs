//! State that survives the process: records in a file, after a restart, a kill, and on a full disk.

mod command;
mod running_jobs;
mod sessions;

use std::path::{Path, PathBuf};

use longhaul_mock_model::{Model, ModelOptions, RequestKind, SeenRequest};
use tempfile::TempDir;
use tokio::sync::mpsc::unbounded_channel;

use crate::caller::{Caller, talk};
use crate::cli::{check_refused, stdout};
use crate::program::Program;
use crate::time_limit::bounded;

const SMALL: u64 = 32_768;

/// Requests a compaction, whatever the marks are.
const NOW: (&str, &str) = ("x-longhaul-compact", "now");

/// A directory for a store.
struct Place {
    dir: TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Self { dir: tempfile::tempdir().unwrap() };
        std::fs::create_dir(place.dir.path().join("kept")).unwrap();
        place
    }

    /// Path of the database.
    fn file(&self) -> PathBuf {
        self.dir.path().join("kept/longhaul.db")
    }

    /// Value of the store setting.
    fn setting(&self) -> String {
        format!("file:{}", self.file().display())
    }

    fn files(&self) -> Vec<String> {
        let found = std::fs::read_dir(self.file().parent().unwrap()).unwrap();
        let names = found.map(|file| file.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }
}

fn summaries(seen: &[SeenRequest]) -> usize {
    seen.iter().filter(|seen| seen.kind == RequestKind::Summary).count()
}

/// Returns the last chat that the model received.
fn last(model: &Model) -> SeenRequest {
    let seen = model.seen();
    seen.into_iter().rfind(|seen| seen.kind == RequestKind::Chat).unwrap()
}

#[cfg(unix)]
fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[cfg(unix)]
fn set_mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[tokio::test]
async fn summary_survives_a_kill_right_after_its_reply() {
    let model = Model::start(ModelOptions::with_window(SMALL)).await.unwrap();
    let place = Place::new();
    let setting = place.setting();
    let env = [("LONGHAUL_STORE", setting.as_str())];
    let body = talk(20, 2_000);

    let program = Program::told(&model.url(), &env);
    let arrived = Caller::of(program.address()).ask(body.clone()).await;
    assert_eq!(arrived.action(), "retry, summary");
    assert_eq!(summaries(&model.seen()), 1);
    let before = last(&model);
    program.killed();

    let program = Program::told(&model.url(), &env);
    let arrived = Caller::of(program.address()).ask(body).await;
    assert_eq!(arrived.action(), "summary");
    assert_eq!(summaries(&model.seen()), 1);
    assert_eq!(last(&model).body, before.body);
    let said = program.killed();
    assert!(!said.contains("WARN"), "{said}");
    assert_eq!(place.files(), ["longhaul.db", "longhaul.db.secret"]);
    #[cfg(unix)]
    {
        let file = place.file();
        assert_eq!(mode(&file), 0o600);
        assert_eq!(mode(&file.with_extension("db.secret")), 0o600);
    }
}

#[tokio::test]
async fn store_file_is_intact_after_a_kill_at_any_moment() {
    let model = Model::start(ModelOptions::with_window(SMALL)).await.unwrap();
    let place = Place::new();
    let setting = place.setting();
    let env = [("LONGHAUL_STORE", setting.as_str()), ("LONGHAUL_WINDOW", "32768")];
    let (tell, mut kept) = unbounded_channel();
    for round in 0..10 {
        let program = Program::told(&model.url(), &env);
        let address = program.address();
        let tell = tell.clone();
        let asked = tokio::spawn(async move {
            let caller = Caller::of(address);
            for ordinal in 0.. {
                let body = apart(&format!("{round}, {ordinal}"));
                let arrived = caller.ask_with(&[NOW], body.clone()).await;
                assert_eq!(arrived.action(), "summary");
                tell.send(body).expect("the test waits for it");
            }
        });
        // The kill points range from before the first write to between the writes of later
        // requests.
        let before = model.seen().len();
        bounded(model.wait_for(|seen| seen.len() >= before + round)).await;
        asked.abort();
        let said = program.killed();
        assert!(!said.contains("WARN"), "round {round}: {said}");
    }
    // Every record whose reply had arrived is found; without it, the action would be a digest.
    let program = Program::told(&model.url(), &env);
    let caller = Caller::of(program.address());
    let made = summaries(&model.seen());
    let mut found = 0;
    while let Ok(body) = kept.try_recv() {
        let arrived = caller.ask(body).await;
        assert_eq!(arrived.action(), "summary", "{found}");
        found += 1;
    }
    assert!(found > 0, "no reply came before a kill");
    assert_eq!(summaries(&model.seen()), made, "none is made again");
    let said = program.killed();
    assert!(!said.contains("WARN"), "{said}");
    assert_eq!(place.files(), ["longhaul.db", "longhaul.db.secret"]);
}

/// Builds a conversation past the window, different from all others.
fn apart(name: &str) -> Vec<u8> {
    let body = String::from_utf8(talk(20, 2_000)).unwrap();
    body.replace("go on", &format!("go on, {name}")).into()
}

/// Number of records that exceeds the room in a new file.
const MANY: usize = 400;

#[tokio::test]
async fn full_disk_is_logged_once_and_affects_no_client() {
    let model = Model::start(ModelOptions::with_window(SMALL)).await.unwrap();
    let place = Place::new();
    let setting = place.setting();
    let env = [("LONGHAUL_STORE", setting.as_str())];
    drop(Program::start(&model.url(), &env));
    // The file cannot grow beyond its current size.
    let blocks = std::fs::metadata(place.file()).unwrap().len() / 512;
    let program = Program::on_a_small_disk(&model.url(), &env, blocks);
    let caller = Caller::of(program.address());
    // Each conversation needs a record of its own: a new file has room for many.
    for kept in 0..MANY {
        let arrived = caller.ask(apart(&format!("{kept} {}", "x".repeat(8_000)))).await;
        assert_eq!(arrived.status, 200);
        assert!(arrived.action().contains("summary") || arrived.action().contains("digest"));
    }
    let said = program.killed();
    // Either reads show repeatedly that the store answers, and small writes succeed now and then,
    // or the file can no longer be read either.
    let told = ["takes no writes", "going on from memory alone"];
    let told = told.map(|words| said.matches(words).count());
    assert!([[1, 0], [0, 1], [1, 1]].contains(&told), "{told:?}: {said}");
    // Once there is room, the file is used again, and contains no partial write.
    let program = Program::told(&model.url(), &env);
    let arrived = Caller::of(program.address()).ask(talk(20, 2_000)).await;
    assert_eq!(arrived.status, 200);
    let said = program.killed();
    assert!(!said.contains("WARN"), "{said}");
}

#[cfg(unix)]
#[tokio::test]
async fn read_only_store_file_affects_no_client_and_stays_unchanged() {
    let model = Model::start(ModelOptions::with_window(SMALL)).await.unwrap();
    let place = Place::new();
    let setting = place.setting();
    let env = [("LONGHAUL_STORE", setting.as_str())];
    let body = talk(20, 2_000);
    let program = Program::told(&model.url(), &env);
    Caller::of(program.address()).ask(body.clone()).await;
    program.killed();

    let forbid = |files: u32, directory: u32| {
        for name in place.files() {
            set_mode(&place.file().with_file_name(name), files);
        }
        set_mode(place.file().parent().unwrap(), directory);
        set_mode(place.dir.path(), directory);
    };
    let before = std::fs::read(place.file()).unwrap();
    forbid(0o444, 0o555);
    let program = Program::without_privileges(&model.url(), &env);
    let arrived = Caller::of(program.address()).ask(body.clone()).await;
    assert_eq!((arrived.status, arrived.action()), (200, "retry, summary"));
    let said = program.killed();
    assert!(said.contains("the file cannot be written"), "{said}");
    forbid(0o600, 0o700);
    assert_eq!(std::fs::read(place.file()).unwrap(), before);

    let summaries_before = summaries(&model.seen());
    let program = Program::told(&model.url(), &env);
    let arrived = Caller::of(program.address()).ask(body).await;
    assert_eq!((arrived.status, arrived.action()), (200, "summary"));
    assert_eq!(summaries(&model.seen()), summaries_before);
    let said = program.killed();
    assert!(!said.contains("WARN"), "{said}");
}

#[tokio::test]
async fn warns_if_the_store_secret_is_missing_or_damaged() {
    let model = Model::start(ModelOptions::with_window(SMALL)).await.unwrap();
    let place = Place::new();
    let setting = place.setting();
    let env = [("LONGHAUL_STORE", setting.as_str())];
    let secret = place.file().with_extension("db.secret");
    let said = || Program::told(&model.url(), &env).closed();
    said();
    let again = said();
    assert!(!again.contains("WARN"), "{again}");
    std::fs::remove_file(&secret).unwrap();
    let without = said();
    std::fs::write(&secret, "half").unwrap();
    for said in [without, said()] {
        assert!(said.contains("missing or damaged"), "{said}");
    }
}

#[tokio::test]
async fn a_store_that_is_damaged_is_set_aside_and_the_proxy_starts() {
    let model = Model::start(ModelOptions::with_window(SMALL)).await.unwrap();
    let place = Place::new();
    let setting = place.setting();
    drop(Program::start(&model.url(), &[("LONGHAUL_STORE", &setting)]));
    std::fs::write(place.file(), "no database at all\n".repeat(1_000)).unwrap();
    // Read-only commands leave the repair to the proxy.
    for what in ["list", "stats", "purge"] {
        let told = ["cannot be read"];
        check_refused(&["store", what, "--store", &setting], &[], &told);
    }
    stdout(&["check", "--store", &setting], &[]);
    assert_eq!(place.files(), ["longhaul.db", "longhaul.db.secret"]);
    let program = Program::told(&model.url(), &[("LONGHAUL_STORE", &setting)]);
    let arrived = Caller::of(program.address()).ask(talk(20, 2_000)).await;
    assert_eq!(arrived.action(), "retry, summary");
    let said = program.killed();
    assert!(said.contains("longhaul.db.aside-1"), "{said}");
    let expect = ["longhaul.db", "longhaul.db.aside-1", "longhaul.db.secret"];
    assert_eq!(place.files(), expect);
}

#[tokio::test]
async fn damaged_store_is_set_aside_without_a_panic_message() {
    let model = Model::start(ModelOptions::with_window(SMALL)).await.unwrap();
    let place = Place::new();
    let setting = place.setting();
    let env = [("LONGHAUL_STORE", setting.as_str())];
    let program = Program::told(&model.url(), &env);
    let caller = Caller::of(program.address());
    assert_eq!(caller.ask(talk(20, 2_000)).await.status, 200);
    program.ended();
    let mut bytes = std::fs::read(place.file()).unwrap();
    // Damages everything after the first page. The first page refers to the rest, so that opening
    // the file fails.
    bytes[4_096..].fill(0);
    std::fs::write(place.file(), bytes).unwrap();
    let said = Program::told(&model.url(), &env).killed();
    assert!(said.contains("longhaul.db.aside-1"), "{said}");
    assert!(!said.contains("panicked at"), "{said}");
}

#[tokio::test]
async fn separates_callers_by_a_trusted_header_that_is_not_forwarded() {
    let model = Model::start(ModelOptions::with_window(SMALL)).await.unwrap();
    let env =
        [("LONGHAUL_STORE_SCOPE", "header:x-user"), ("LONGHAUL_STORE_TRUSTED_HEADERS", "x-user")];
    let program = Program::start(&model.url(), &env);
    let caller = Caller::of(program.address());
    let ask = async |user: &str, key: &str| {
        let fields = [("x-user", user), ("authorization", key), ("x-other", "stays")];
        let arrived = caller.ask_with(&fields, talk(20, 2_000)).await;
        arrived.action().to_owned()
    };
    assert_eq!(ask("one", "Bearer 1").await, "retry, summary");
    assert_eq!(ask("one", "Bearer 2").await, "summary");
    // The window that the first caller learned is not the second caller's.
    assert_eq!(ask("two", "Bearer 1").await, "retry, summary");
    for seen in model.seen() {
        assert!(!seen.headers.contains_key("x-user"), "{:?}", seen.kind);
        assert_eq!(seen.headers["x-other"], "stays");
    }
}
