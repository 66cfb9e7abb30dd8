//! Recognises a store of longhaul's among other files, and changes nothing: a setting may name
//! somebody else's file by mistake.

use std::cell::Cell;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Once;

use redb::backends::FileBackend;
use redb::{Builder, ReadableDatabase, TableError};

use crate::error::Problem;
use crate::store::file::open::{CACHE_BYTES, FOREIGN_REASON, OpenError, PANIC_REASON};
use crate::store::file::table::{ABOUT, FORMAT_KEY};
use crate::store::secret::LENGTH;

/// Content of the path of a store.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum FileIdentity {
    /// A store of longhaul's, of any version; perhaps damaged, or not closed.
    Store,
    /// No file, or an empty one.
    Vacant,
}

/// Identifies the file at `path`, with its secret at `beside`. A file is longhaul's if a secret is there:
/// longhaul writes the secret before it creates the database. Without a secret, the content decides. Fails
/// if the file is not longhaul's, or the system refuses access.
pub(super) fn identify(path: &Path, beside: &Path) -> Result<FileIdentity, Problem> {
    // A kill before the secret is written leaves an empty file.
    let secret = file_len(beside).map_err(|error| error.into_problem(beside))?;
    let identity = match (file_len(path), secret) {
        (Ok(0), 0 | LENGTH) => Ok(FileIdentity::Vacant),
        (Ok(0), _) => Err(OpenError::Foreign(format!(
            "{} exists and is not the secret of a store, which has {LENGTH} bytes",
            beside.display()
        ))),
        (Ok(_), LENGTH) => File::open(path).map(|_| FileIdentity::Store).map_err(OpenError::Io),
        (Ok(_), _) => identify_database(path),
        (Err(refused), _) => Err(refused),
    };
    identity.map_err(|error| error.into_problem(path))
}

/// Reads the format version of a database of longhaul's.
pub(super) fn read_format(database: &impl ReadableDatabase) -> Result<Option<u64>, OpenError> {
    match database.begin_read()?.open_table(ABOUT) {
        Ok(about) => Ok(about.get(FORMAT_KEY)?.map(|format| format.value())),
        Err(TableError::Storage(error)) => Err(error.into()),
        // The table does not exist, or is another program's of that name.
        Err(_) => Ok(None),
    }
}

fn identify_database(path: &Path) -> Result<FileIdentity, OpenError> {
    let read = || -> Result<_, OpenError> {
        let mut builder = Builder::new();
        builder.set_cache_size(CACHE_BYTES);
        let backend = FileBackend::new(File::open(path)?)?;
        read_format(&builder.open_read_only_with_backend(backend)?)
    };
    let why = match catch_quietly(read) {
        Some(Ok(Some(_))) => return Ok(FileIdentity::Store),
        Some(Ok(None)) => FOREIGN_REASON,
        Some(Err(OpenError::Damaged(_))) => {
            "it is not a database, or one that is damaged or was not closed"
        }
        Some(Err(refused)) => return Err(refused),
        None => PANIC_REASON,
    };
    Err(OpenError::Foreign(why.into()))
}

/// Returns the length of a file; 0 if there is none. Fails for a pipe: opening it would wait for its
/// other end.
fn file_len(path: &Path) -> Result<u64, OpenError> {
    match fs::metadata(path) {
        Ok(about) if about.is_file() => Ok(about.len()),
        Ok(_) => Err(OpenError::Foreign("it is not a regular file".into())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(0),
        Err(error) => Err(OpenError::Io(error)),
    }
}

thread_local! {
    /// Whether a panic of this thread is caught and reported by its caller.
    static IS_TOLD: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work`. Returns `None` if it panics, which the caller reports. The panic's own message and
/// backtrace are suppressed, because they would interrupt the log in another format.
pub(super) fn catch_quietly<T>(work: impl FnOnce() -> T) -> Option<T> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let others = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if !IS_TOLD.get() {
                others(panic);
            }
        }));
    });
    IS_TOLD.set(true);
    let done = catch_unwind(AssertUnwindSafe(work));
    IS_TOLD.set(false);
    done.ok()
}
