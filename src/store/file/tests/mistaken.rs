//! Paths that name something other than a store of longhaul's, which is left unchanged.

use std::collections::BTreeMap;

use redb::{Database, ReadableDatabase as _, TableDefinition};

use super::*;

/// Returns why a path is refused, equally by a start and by a check. Both leave the path unchanged.
fn refused(place: &Place) -> String {
    let before = all(place);
    let serve = place.try_open("512MiB").err().unwrap().to_string();
    let check = super::super::check(&place.path()).unwrap_err().to_string();
    assert_eq!(check, serve);
    assert!(all(place) == before, "something was changed: {serve}");
    assert!(serve.contains("is not a store of longhaul's"), "{serve}");
    serve
}

/// Like [`refused`], if an inspection gives the same reason.
fn refused_to_all(place: &Place) -> String {
    let before = all(place);
    let look = place.look().err().unwrap().to_string();
    assert!(all(place) == before, "something was changed: {look}");
    assert_eq!(refused(place), look);
    look
}

/// Returns every file with its content.
fn all(place: &Place) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    place.files().map(|path| (path.clone(), fs::read(path).ok())).collect()
}

/// Creates a place with `text` in its file.
fn with(text: impl AsRef<[u8]>) -> Place {
    let place = Place::new();
    fs::create_dir_all(place.path().parent().unwrap()).unwrap();
    fs::write(place.path(), text).unwrap();
    place
}

fn secret_of(place: &Place) -> PathBuf {
    place.path().with_extension("db.secret")
}

/// Creates a database of another program, with a table of that name.
fn foreign(name: &str) -> Place {
    let place = with("");
    let database = Database::create(place.path()).unwrap();
    let writing = database.begin_write().unwrap();
    let table: TableDefinition<'_, &str, &str> = TableDefinition::new(name);
    let mut open = writing.open_table(table).unwrap();
    open.insert("format", "theirs").unwrap();
    drop(open);
    writing.commit().unwrap();
    place
}

#[test]
fn foreign_file_is_refused_and_left_unchanged() {
    for text in [&b"x"[..], b"notes of mine", &vec![0; 1 << 16]] {
        let place = with(text);
        assert!(refused_to_all(&place).contains("move what is there away"));
        fs::write(secret_of(&place), "another program's").unwrap();
        refused_to_all(&place);
        fs::write(secret_of(&place), "").unwrap();
        refused_to_all(&place);
    }
}

#[test]
fn foreign_database_is_refused_and_gets_no_table() {
    for name in ["theirs", "about"] {
        let place = foreign(name);
        assert!(refused_to_all(&place).contains("another program"));
        // Recognised by its tables even if a secret like longhaul's is next to it.
        fs::write(secret_of(&place), [7; 32]).unwrap();
        let problem = place.try_open("512MiB").err().unwrap().to_string();
        assert!(problem.contains("another program"), "{problem}");
        let database = Database::open(place.path()).unwrap();
        let reading = database.begin_read().unwrap();
        assert_eq!(reading.list_tables().unwrap().count(), 1);
    }
    let place = with("");
    drop(Database::create(place.path()).unwrap());
    refused_to_all(&place);
}

#[test]
fn refuses_a_path_that_is_not_a_regular_file() {
    let place = Place::new();
    fs::create_dir_all(place.path()).unwrap();
    assert!(refused_to_all(&place).contains("not a regular file"));
    let place = Place::new();
    fs::create_dir_all(secret_of(&place)).unwrap();
    let problem = place.try_open("512MiB").err().unwrap().to_string();
    assert!(problem.contains("db.secret") && problem.contains("not a regular file"));
    assert!(!place.path().exists());
}

#[cfg(unix)]
#[test]
fn refuses_a_link_to_a_foreign_file() {
    let place = with("");
    let theirs = place.0.path().join("theirs");
    fs::write(&theirs, "theirs").unwrap();
    fs::remove_file(place.path()).unwrap();
    std::os::unix::fs::symlink(&theirs, place.path()).unwrap();
    refused_to_all(&place);
    assert_eq!(fs::read(theirs).unwrap(), b"theirs");
}

#[test]
fn does_not_overwrite_a_foreign_secret() {
    for there in [false, true] {
        let place = with("");
        if !there {
            fs::remove_file(place.path()).unwrap();
        }
        fs::write(secret_of(&place), "another program's").unwrap();
        assert!(refused(&place).contains("db.secret"));
    }
}

#[test]
fn an_empty_file_may_be_used() {
    let place = with("");
    fs::write(secret_of(&place), "").unwrap();
    super::super::check(&place.path()).unwrap();
    assert!(matches!(place.look(), Err(Problem::NoStore(_))));
    place.open();
    assert_eq!(fs::read(secret_of(&place)).unwrap().len(), 32);
}

#[tokio::test]
async fn store_left_half_created_by_a_kill_is_created_again() {
    // The secret is written first, and then the database without its first bytes, or its tables.
    let bare = with("");
    drop(Database::create(bare.path()).unwrap());
    let begun = with(vec![0; 1 << 16]);
    for (place, asides) in [(bare, 0), (begun, 1)] {
        fs::write(secret_of(&place), [7; 32]).unwrap();
        super::super::check(&place.path()).unwrap();
        let file = place.open();
        write(&file, "k", &[record("kept")]).await;
        assert_eq!(read(&file, "k").await, Some(entry("kept")));
        assert_eq!(place.asides(), asides);
    }
}

#[tokio::test]
async fn inspection_sets_nothing_aside_and_creates_nothing() {
    let place = Place::new();
    assert!(matches!(place.look(), Err(Problem::NoStore(_))));
    assert_eq!(fs::read_dir(place.path().parent().unwrap()).unwrap().count(), 0);

    let file = place.open();
    write(&file, "k", &[record("kept")]).await;
    file.close().await;
    fs::remove_file(secret_of(&place)).unwrap();
    let (file, _) = place.look().unwrap();
    assert_eq!(read(&file, "k").await, Some(entry("kept")));
    file.close().await;
    assert!(!secret_of(&place).exists());

    fs::write(secret_of(&place), [7; 32]).unwrap();
    fs::write(place.path(), "damaged").unwrap();
    let before = all(&place);
    let problem = place.look().err().unwrap().to_string();
    assert!(problem.contains("cannot be read"), "{problem}");
    assert!(all(&place) == before);
}
