//! Recognises a store of longhaul's among other files, and changes nothing: a setting may name
//! somebody else's file by mistake.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _};
use std::path::Path;

use redb::backends::FileBackend;
use redb::{Builder, ReadableDatabase, StorageBackend, TableError};

use crate::error::Problem;
use crate::store::file::catch_panic::catch_quietly;
use crate::store::file::open::{CACHE_BYTES, OpenError, PANIC_REASON, classify_error};
use crate::store::file::table::{ABOUT, FORMAT_KEY};
use crate::store::secret::LENGTH;

/// First bytes of every database of the library.
const MAGIC: [u8; 9] = *b"redb\x1a\x0a\xa9\x0d\x0a";

/// Content of the path of a store.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum FileIdentity {
    /// A store of longhaul's, of any version; perhaps damaged, or not closed.
    Store,
    /// No file, or an empty one.
    Vacant,
}

/// Content of the path of a secret.
enum SecretIdentity {
    Missing,
    Foreign,
    Secret,
}

/// Identifies the file at `path`, with its secret at `beside`. A file that cannot be read as a
/// database is longhaul's if a secret is there: longhaul writes the secret before it creates the
/// database. Fails if the file is not longhaul's, or the system refuses access.
pub(super) fn identify(path: &Path, beside: &Path) -> Result<FileIdentity, Problem> {
    let theirs = |why: String| OpenError::Foreign(why).into_problem(path);
    let looked = identify_database(path).map_err(|refused| refused.into_problem(path))?;
    let secret =
        identify_secret(beside).map_err(|error| OpenError::Io(error).into_problem(beside))?;
    match (looked, secret) {
        (Ok(FileIdentity::Vacant), SecretIdentity::Foreign) => Err(theirs(format!(
            "{} exists and is not the secret of a store, which has {LENGTH} bytes",
            beside.display()
        ))),
        (Ok(found), _) => Ok(found),
        (Err(_), SecretIdentity::Secret) => Ok(FileIdentity::Store),
        (Err(why), SecretIdentity::Missing | SecretIdentity::Foreign) => Err(theirs(why)),
    }
}

/// Whether a file is a database of the library, judged by its first bytes.
pub(super) fn is_database(path: &Path) -> io::Result<bool> {
    let mut start = [0; MAGIC.len()];
    match File::open(path)?.read_exact(&mut start) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        read => read.map(|()| start == MAGIC),
    }
}

/// Reads the format version of a database of longhaul's.
pub(super) fn read_format(database: &impl ReadableDatabase) -> Result<Option<u64>, redb::Error> {
    match database.begin_read()?.open_table(ABOUT) {
        Ok(about) => Ok(about.get(FORMAT_KEY)?.map(|format| format.value())),
        Err(TableError::Storage(error)) => Err(error.into()),
        // The table does not exist, or is another program's of that name.
        Err(_) => Ok(None),
    }
}

/// Identifies a file by its content alone. The inner error says why it is not recognised as
/// longhaul's.
fn identify_database(path: &Path) -> Result<Result<FileIdentity, String>, OpenError> {
    let about = match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Ok(FileIdentity::Vacant)),
        about => about.map_err(OpenError::Io)?,
    };
    // Opening a pipe would wait for its other end.
    if !about.is_file() {
        return Err(OpenError::Foreign("it is not a regular file".into()));
    }
    if about.len() == 0 {
        return Ok(Ok(FileIdentity::Vacant));
    }
    if !is_database(path).map_err(OpenError::Io)? {
        return Ok(Err("it is not a database".into()));
    }
    let read = || {
        let backend = UnlockedBackend(FileBackend::new(File::open(path)?)?);
        let mut builder = Builder::new();
        builder.set_cache_size(CACHE_BYTES);
        read_format(&builder.open_read_only_with_backend(backend)?)
    };
    let why = match catch_quietly(read) {
        Some(Ok(Some(_))) => return Ok(Ok(FileIdentity::Store)),
        Some(Ok(None)) => "it is a database of another program".into(),
        Some(Err(redb::Error::RepairAborted)) => "it is a database that was not closed".into(),
        Some(Err(error)) => match classify_error(error) {
            OpenError::Damaged(why) => why,
            refused @ (OpenError::Busy | OpenError::Io(_) | OpenError::Foreign(_)) => {
                return Err(refused);
            }
        },
        None => PANIC_REASON.into(),
    };
    Ok(Err(why))
}

fn identify_secret(beside: &Path) -> io::Result<SecretIdentity> {
    match fs::metadata(beside) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(SecretIdentity::Missing),
        Err(error) => Err(error),
        Ok(about) if !about.is_file() => Err(io::Error::other("it is not a regular file")),
        // A kill before the secret is written leaves an empty file.
        Ok(about) if about.len() == 0 => Ok(SecretIdentity::Missing),
        Ok(about) if about.len() == LENGTH => Ok(SecretIdentity::Secret),
        Ok(_) => Ok(SecretIdentity::Foreign),
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
