//! Recognises a store of longhaul's among other files, and changes nothing: a setting may name
//! somebody else's file by mistake.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::Path;

use redb::backends::FileBackend;
use redb::{Builder, ReadableDatabase, StorageBackend, TableError};

use crate::error::Problem;
use crate::store::file::catch_panic::catch_quietly;
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

/// Identifies the file at `path`, with its secret at `beside`. A file that cannot be read as a
/// database is longhaul's if a secret is there: longhaul writes the secret before it creates the
/// database. Fails if the file is not longhaul's, or the system refuses access.
pub(super) fn identify(path: &Path, beside: &Path) -> Result<FileIdentity, Problem> {
    let found = identify_database(path);
    // A kill before the secret is written leaves an empty file.
    let secret = file_len(beside).map_err(|error| error.into_problem(beside))?;
    let identity = match found {
        Ok(FileIdentity::Vacant) if ![0, LENGTH].contains(&secret) => {
            Err(OpenError::Foreign(format!(
                "{} exists and is not the secret of a store, which has {LENGTH} bytes",
                beside.display()
            )))
        }
        Err(OpenError::Damaged(_)) if secret == LENGTH => Ok(FileIdentity::Store),
        Err(OpenError::Damaged(why)) => Err(OpenError::Foreign(why)),
        found => found,
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

/// Identifies a file by its content alone. A file that is not recognised as longhaul's is damaged.
fn identify_database(path: &Path) -> Result<FileIdentity, OpenError> {
    if file_len(path)? == 0 {
        return Ok(FileIdentity::Vacant);
    }
    let read = || -> Result<_, OpenError> {
        let backend = UnlockedBackend(FileBackend::new(File::open(path)?)?);
        let mut builder = Builder::new();
        builder.set_cache_size(CACHE_BYTES);
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
    Err(OpenError::Damaged(why.into()))
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

/// A file that is read without a lock: a running proxy does not prevent the read, nor the read a
/// start. If the proxy writes meanwhile, the database appears as not closed.
#[derive(Debug)]
struct UnlockedBackend(FileBackend);

impl StorageBackend for UnlockedBackend {
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
