//! Tells a store of ours from whatever else a path may name, and changes nothing: what a setting
//! names by mistake is somebody's own.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _};
use std::path::Path;

use redb::backends::FileBackend;
use redb::{Builder, ReadableDatabase, StorageBackend, TableError};

use super::caught::quietly;
use super::open::{CACHE_BYTES, PANIC, Refused, foreign};
use super::table::{ABOUT, FORMAT_KEY};
use crate::error::Problem;
use crate::store::secret::LENGTH;

/// What every database of the library begins with.
const MAGIC: [u8; 9] = *b"redb\x1a\x0a\xa9\x0d\x0a";

/// What is where a store is to be.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Found {
    /// One of ours, of whatever version; perhaps damaged, or not closed.
    Ours,
    /// Nothing, or an empty file.
    Room,
}

/// What is where its secret is to be.
enum Beside {
    Nothing,
    Other,
    Secret,
}

/// What is at `path`, with its secret at `beside`. A file that cannot be read as a database is ours
/// if a secret is there: ours is on the disk before the database is begun.
///
/// # Errors
/// It is not ours, or the system does not let us look.
pub(super) fn find(path: &Path, beside: &Path) -> Result<Found, Problem> {
    let theirs = |why: String| Refused::Theirs(why).problem(path);
    let looked = look(path).map_err(|refused| refused.problem(path))?;
    let secret = secret(beside).map_err(|error| Refused::System(error).problem(beside))?;
    match (looked, secret) {
        (Ok(Found::Room), Beside::Other) => Err(theirs(format!(
            "{} is there and is not the secret of one, which has {LENGTH} bytes",
            beside.display()
        ))),
        (Ok(found), _) => Ok(found),
        (Err(_), Beside::Secret) => Ok(Found::Ours),
        (Err(why), Beside::Nothing | Beside::Other) => Err(theirs(why)),
    }
}

/// Whether a file is a database of the library, to go by how it begins.
pub(super) fn is_database(path: &Path) -> io::Result<bool> {
    let mut start = [0; MAGIC.len()];
    match File::open(path)?.read_exact(&mut start) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        read => read.map(|()| start == MAGIC),
    }
}

/// The format that a database of ours says it has.
pub(super) fn format_of(database: &impl ReadableDatabase) -> Result<Option<u64>, redb::Error> {
    match database.begin_read()?.open_table(ABOUT) {
        Ok(about) => Ok(about.get(FORMAT_KEY)?.map(|format| format.value())),
        Err(TableError::Storage(error)) => Err(error.into()),
        // No such table, or another program's of that name.
        Err(_) => Ok(None),
    }
}

/// What the file alone shows; why it cannot be told for ours where it cannot.
fn look(path: &Path) -> Result<Result<Found, String>, Refused> {
    let about = match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Ok(Found::Room)),
        about => about.map_err(Refused::System)?,
    };
    // To open a pipe would wait for its other end.
    if !about.is_file() {
        return Err(Refused::Theirs("it is no file".into()));
    }
    if about.len() == 0 {
        return Ok(Ok(Found::Room));
    }
    if !is_database(path).map_err(Refused::System)? {
        return Ok(Err("it is no database".into()));
    }
    let read = || {
        let backend = Unlocked(FileBackend::new(File::open(path)?)?);
        let mut builder = Builder::new();
        builder.set_cache_size(CACHE_BYTES);
        format_of(&builder.open_read_only_with_backend(backend)?)
    };
    let why = match quietly(read) {
        Some(Ok(Some(_))) => return Ok(Ok(Found::Ours)),
        Some(Ok(None)) => "it is a database of another program".into(),
        Some(Err(redb::Error::RepairAborted)) => "it is a database that was not closed".into(),
        Some(Err(error)) => match foreign(error) {
            Refused::Damaged(why) => why,
            refused @ (Refused::Busy | Refused::System(_) | Refused::Theirs(_)) => {
                return Err(refused);
            }
        },
        None => PANIC.into(),
    };
    Ok(Err(why))
}

fn secret(beside: &Path) -> io::Result<Beside> {
    match fs::metadata(beside) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Beside::Nothing),
        Err(error) => Err(error),
        Ok(about) if !about.is_file() => Err(io::Error::other("it is no file")),
        // As a kill leaves it that comes before it is written.
        Ok(about) if about.len() == 0 => Ok(Beside::Nothing),
        Ok(about) if about.len() == LENGTH => Ok(Beside::Secret),
        Ok(_) => Ok(Beside::Other),
    }
}

/// A file that is read without a lock: neither does a proxy that runs keep us from it, nor we one
/// that starts. What it writes meanwhile is found to be not closed.
#[derive(Debug)]
struct Unlocked(FileBackend);

impl StorageBackend for Unlocked {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read(offset, out)
    }

    fn set_len(&self, _: u64) -> io::Result<()> {
        Err(ErrorKind::ReadOnlyFilesystem.into())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, _: u64, _: &[u8]) -> io::Result<()> {
        Err(ErrorKind::ReadOnlyFilesystem.into())
    }
}
