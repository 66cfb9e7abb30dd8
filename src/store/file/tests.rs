//! Tests of the file: its content after it was closed, damaged, filled and locked.

mod mistaken;

use std::fs;
use std::path::PathBuf;

use bytes::Bytes;
use tempfile::TempDir;

use super::table::LIST_PAGE_ENTRIES;
use super::*;
use crate::config::Config;
use crate::store::durable::{Change, NoteName};
use longhaul_core::units::scope::Scope;

/// A directory for a file.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        fs::create_dir(place.0.path().join("a")).unwrap();
        place
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("a/longhaul.db")
    }

    fn try_open(&self, max_bytes: &str) -> Result<(FileStore, Secret), Problem> {
        let settings = [("store.max_bytes", max_bytes)];
        let config = Config::default_with(settings).unwrap().store;
        FileStore::open(&self.path(), (config.max_bytes, config.ttl), Intent::Use)
    }

    fn look(&self) -> Result<(FileStore, Secret), Problem> {
        let config = Config::default_with([]).unwrap().store;
        FileStore::open(&self.path(), (config.max_bytes, config.ttl), Intent::Inspect)
    }

    fn open(&self) -> FileStore {
        self.try_open("512MiB").unwrap().0
    }

    fn files(&self) -> impl Iterator<Item = PathBuf> {
        let files = fs::read_dir(self.path().parent().unwrap()).unwrap();
        files.map(|file| file.unwrap().path())
    }

    fn asides(&self) -> usize {
        let names = self.files().map(|path| path.to_str().unwrap().to_owned());
        names.filter(|name| name.contains("aside")).count()
    }

    /// Whether any of the files contains a word.
    fn holds(&self, word: &str) -> bool {
        let is_word = |bytes: &[u8]| bytes == word.as_bytes();
        self.files().any(|path| fs::read(path).unwrap().windows(word.len()).any(is_word))
    }
}

fn key(name: &str) -> RecordKey {
    Scope::new(&[0; 32], &[]).named_key(name)
}

fn record(text: &'static str) -> Change {
    Change::Record(Bytes::from_static(text.as_bytes()))
}

async fn write(file: &FileStore, name: &str, changes: &[Change]) -> WriteResult {
    let write = EntryWrite { key: key(name), changes: changes.to_vec() };
    file.write(&[write]).await.unwrap().pop().unwrap()
}

async fn read(file: &FileStore, name: &str) -> Option<StoredEntry> {
    file.read(&[key(name)]).await.unwrap().pop().unwrap()
}

fn entry(record: &'static str) -> StoredEntry {
    StoredEntry { record: Some(Bytes::from_static(record.as_bytes())), ..StoredEntry::default() }
}

#[tokio::test]
async fn written_entries_survive_reopening() {
    let place = Place::new();
    let file = place.open();
    let note =
        |text: &'static str| Change::Note(NoteName([1; 8]), Bytes::from_static(text.as_bytes()));
    write(&file, "one", &[record("first"), note("old")]).await;
    write(&file, "one", &[Change::Adopted, Change::Seen, note("new")]).await;
    write(&file, "two", &[Change::Refused]).await;
    file.close().await;
    let file = place.open();
    let one = StoredEntry {
        adopted: true,
        seen: true,
        notes: vec![(NoteName([1; 8]), Bytes::from_static(b"new"))],
        ..entry("first")
    };
    let two = StoredEntry { refused: true, ..StoredEntry::default() };
    let keys = [key("two"), key("none"), key("one")];
    assert_eq!(file.read(&keys).await.unwrap(), [Some(two), None, Some(one)]);
}

#[tokio::test]
async fn first_record_stays_until_it_is_discarded_as_unreadable() {
    let place = Place::new();
    let file = place.open();
    let winner = |text: &'static str, adopted| WriteResult { record: entry(text).record, adopted };
    assert_eq!(write(&file, "k", &[record("first")]).await, winner("first", false));
    let adopted = [record("second"), Change::Adopted];
    assert_eq!(write(&file, "k", &adopted).await, winner("first", true));
    assert_eq!(write(&file, "k", &[record("third")]).await, winner("first", true));
    for (there, expect, adopted) in [("second", "first", true), ("first", "fourth", false)] {
        let discard = Change::Discard(Bytes::from_static(there.as_bytes()));
        let changes = [discard, record("fourth")];
        assert_eq!(write(&file, "k", &changes).await, winner(expect, adopted));
    }
}

#[tokio::test]
async fn second_opener_is_refused_without_disturbing_the_first() {
    let place = Place::new();
    let file = place.open();
    let problem = place.try_open("512MiB").err().unwrap().to_string();
    assert!(problem.contains("in use by another process"), "{problem}");
    write(&file, "k", &[record("still")]).await;
    assert_eq!(read(&file, "k").await, Some(entry("still")));
}

#[tokio::test]
async fn error_names_a_path_that_cannot_be_written() {
    let place = Place::new();
    let folder = place.0.path().join("a");
    fs::remove_dir(&folder).unwrap();
    let problem = || place.try_open("512MiB").err().unwrap().to_string();
    assert!(problem().contains("the folder of"), "{}", problem());
    fs::write(&folder, "a file where a directory should be").unwrap();
    let path = place.path();
    assert!(problem().contains(path.to_str().unwrap()), "{}", problem());
}

/// Checks that a file damaged by `damage` is either set aside or read correctly. Returns how many
/// files were set aside.
async fn check(name: &str, damage: impl FnOnce(&mut Vec<u8>)) -> usize {
    let place = Place::new();
    let file = place.open();
    for at in 0..20 {
        write(&file, &at.to_string(), &[record("kept"), Change::Adopted]).await;
    }
    file.close().await;
    let mut bytes = fs::read(place.path()).unwrap();
    damage(&mut bytes);
    fs::write(place.path(), &bytes).unwrap();
    let file = place.open();
    for at in 0..20 {
        let found = read(&file, &at.to_string()).await;
        let whole = StoredEntry { adopted: true, ..entry("kept") };
        assert!(found.is_none() || found == Some(whole), "{name}: {found:?}");
    }
    write(&file, "new", &[record("new")]).await;
    assert_eq!(read(&file, "new").await, Some(entry("new")), "{name}");
    place.asides()
}

#[tokio::test]
async fn a_damaged_file_is_set_aside_and_a_new_one_is_begun() {
    assert_eq!(check("as it was", |_| ()).await, 0);
    assert_eq!(check("garbage", |bytes| bytes.fill(0x5a)).await, 1);
    assert_eq!(check("text", |bytes| *bytes = b"what is this".to_vec()).await, 1);
    assert_eq!(check("empty", Vec::clear).await, 0);
    assert_eq!(check("cut", |bytes| bytes.truncate(bytes.len() / 2)).await, 1);
    assert_eq!(check("zeroed", |bytes| bytes[4_096..].fill(0)).await, 1);
}

#[tokio::test]
async fn file_with_flipped_bytes_is_read_correctly_or_set_aside() {
    let mut set_aside = 0;
    for step in 0..24_usize {
        let name = format!("step {step}");
        set_aside += check(&name, |bytes| {
            // The pages in use are at the front.
            let at = step * 2_741 % (64 << 10).min(bytes.len());
            bytes[at] ^= 0x10;
        })
        .await;
    }
    assert!(set_aside > 0, "none of them hit anything");
}

#[tokio::test]
async fn a_file_of_another_format_is_set_aside() {
    let place = Place::new();
    place.open().close().await;
    {
        let database = redb::Database::open(place.path()).unwrap();
        let transaction = database.begin_write().unwrap();
        let mut about = transaction.open_table(table::ABOUT).unwrap();
        about.insert(table::FORMAT_KEY, 99).unwrap();
        drop(about);
        transaction.commit().unwrap();
    }
    let file = place.open();
    write(&file, "k", &[record("new")]).await;
    assert_eq!(place.asides(), 1);
}

#[tokio::test]
async fn keeps_only_the_last_damaged_file_aside() {
    let place = Place::new();
    for damage in ["first", "second", "third"] {
        place.open().close().await;
        fs::write(place.path(), damage).unwrap();
    }
    place.open();
    assert_eq!(place.asides(), 1);
    assert!(place.holds("third"));
}

#[tokio::test]
async fn secret_persists_and_a_damaged_one_is_regenerated() {
    let place = Place::new();
    let open = async || {
        let (file, secret) = place.try_open("512MiB").unwrap();
        file.close().await;
        *secret.as_bytes()
    };
    let first = open().await;
    assert_eq!(open().await, first);
    let path = place.path().with_extension("db.secret");
    fs::write(&path, "short").unwrap();
    let second = open().await;
    assert_ne!(second, first);
    assert_eq!(open().await, second);
    assert_eq!(fs::read(&path).unwrap(), second);
}

#[tokio::test]
async fn lists_and_purges_entries_by_scope() {
    let place = Place::new();
    let file = place.open();
    let scopes = [1, 2].map(|caller| Scope::new(&[caller; 32], &[]));
    let mut writes = Vec::new();
    for scope in scopes {
        writes.extend((0..LIST_PAGE_ENTRIES + 3).map(|at| EntryWrite {
            key: scope.named_key(&at.to_string()),
            changes: vec![Change::Seen],
        }));
    }
    file.write(&writes).await.unwrap();
    let count = async |scope: Option<Scope>| {
        let mut keys = std::collections::HashSet::new();
        let mut show = |listed: ListedEntry| _ = keys.insert(listed.key);
        let tag = scope.map(Scope::tag);
        file.for_each_entry(tag, &mut show).await.unwrap();
        keys.len()
    };
    assert_eq!(count(None).await, 2 * (LIST_PAGE_ENTRIES + 3));
    assert_eq!(count(Some(scopes[0])).await, LIST_PAGE_ENTRIES + 3);
    let gone = file.purge(Some(scopes[0].tag())).await.unwrap();
    assert_eq!(gone, LIST_PAGE_ENTRIES as u64 + 3);
    assert_eq!(count(Some(scopes[0])).await, 0);
    assert_eq!(count(None).await, LIST_PAGE_ENTRIES + 3);
    file.purge(None).await.unwrap();
    assert_eq!(count(None).await, 0);
}

#[tokio::test]
async fn entries_stay_within_the_size_limit_of_the_file() {
    let place = Place::new();
    let (file, _) = place.try_open("1MiB").unwrap();
    let text = Bytes::from(vec![b'x'; 64 << 10]);
    for at in 0..100 {
        write(&file, &at.to_string(), &[Change::Record(text.clone())]).await;
        let mut bytes = 0;
        let mut show = |listed: ListedEntry| bytes += listed.entry.record.map_or(0, |r| r.len());
        file.for_each_entry(None, &mut show).await.unwrap();
        assert!(bytes <= (1 << 20) + text.len(), "{bytes}");
    }
    let size = fs::metadata(place.path()).unwrap().len();
    assert!(size < 8 << 20, "freed space is used again: {size}");
}

#[tokio::test]
async fn notes_count_against_the_bound_of_a_file() {
    let place = Place::new();
    let (file, _) = place.try_open("1MiB").unwrap();
    let text = Bytes::from(vec![b'x'; 150]);
    let notes = (0..16).map(|model| Change::Note(NoteName([model; 8]), text.clone()));
    let notes: Vec<_> = notes.collect();
    for batch in 0..40 {
        let writes = (0..100)
            .map(|at| EntryWrite { key: key(&format!("{batch} {at}")), changes: notes.clone() });
        file.write(&writes.collect::<Vec<_>>()).await.unwrap();
    }
    let mut bytes = 0;
    let mut show = |listed: ListedEntry| {
        bytes += listed.entry.notes.iter().map(|(_, n)| n.len()).sum::<usize>();
    };
    file.for_each_entry(None, &mut show).await.unwrap();
    assert!(bytes <= (1 << 20) + 100 * 16 * text.len(), "{bytes}");
    let size = fs::metadata(place.path()).unwrap().len();
    assert!(size < 8 << 20, "freed space is used again: {size}");
}

/// Creates a file with an entry of each of two callers.
async fn of_two_callers(place: &Place) -> (FileStore, [Scope; 2]) {
    let file = place.open();
    let scopes = [1, 2].map(|caller| Scope::new(&[caller; 32], &[]));
    let writes = [("ours", scopes[0]), ("theirs", scopes[1])].map(|(said, scope)| EntryWrite {
        key: scope.named_key("k"),
        changes: vec![record(said), Change::Adopted],
    });
    file.write(&writes).await.unwrap();
    (file, scopes)
}

#[tokio::test]
async fn purged_text_is_gone_from_the_bytes_of_the_file() {
    let place = Place::new();
    let (file, [first, second]) = of_two_callers(&place).await;
    assert!(place.holds("ours") && place.holds("theirs"));
    assert_eq!(file.purge(Some(first.tag())).await.unwrap(), 1);
    assert!(!place.holds("ours") && place.holds("theirs"));
    let theirs = StoredEntry { adopted: true, ..entry("theirs") };
    let keys = [first.named_key("k"), second.named_key("k")];
    assert_eq!(file.read(&keys).await.unwrap(), [None, Some(theirs)]);
    write(&file, "new", &[record("written")]).await;
    file.close().await;

    let file = place.open();
    assert_eq!(read(&file, "new").await, Some(entry("written")));
    assert_eq!(file.purge(None).await.unwrap(), 2);
    assert!(!place.holds("theirs") && !place.holds("written"));
    write(&file, "new", &[record("again")]).await;
    assert_eq!(read(&file, "new").await, Some(entry("again")));
}

#[tokio::test]
async fn purging_everything_removes_files_set_aside() {
    let place = Place::new();
    place.open().close().await;
    fs::write(place.path(), "damaged").unwrap();
    let file = place.open();
    assert_eq!(place.asides(), 1);
    file.purge(None).await.unwrap();
    assert_eq!(place.asides(), 0);
}

#[tokio::test]
async fn removes_an_unfinished_copy_left_by_a_kill() {
    let place = Place::new();
    let (file, _) = of_two_callers(&place).await;
    file.close().await;
    let copy = place.path().with_extension("db.longhaul-copy");
    fs::write(copy, "half a copy").unwrap();
    place.open();
    assert!(!place.holds("half a copy"));
    assert!(place.holds("ours"));
}

#[cfg(unix)]
#[tokio::test]
async fn a_purge_keeps_the_link_and_the_permissions_of_the_file() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let place = Place::new();
    let (file, [first, _]) = of_two_callers(&place).await;
    file.close().await;
    let elsewhere = place.0.path().join("elsewhere");
    fs::rename(place.path(), &elsewhere).unwrap();
    fs::set_permissions(&elsewhere, fs::Permissions::from_mode(0o640)).unwrap();
    symlink(&elsewhere, place.path()).unwrap();
    let file = place.open();
    for scope in [Some(first.tag()), None] {
        assert_eq!(file.purge(scope).await.unwrap(), 1);
        assert!(place.path().is_symlink());
        let mode = fs::metadata(&elsewhere).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
    }
}
