//! Opens the store file with an exclusive lock and owner-only permissions, creating it atomically.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use redb::backends::FileBackend;
use redb::{Builder, Database};

use super::table::{ABOUT, FORMAT_KEY, METADATA, RECORDS};
use super::{Intent, with_suffix};
use crate::error::Problem;
use crate::store::file::identify::{self, FileIdentity, catch_quietly};
use crate::store::format::FORMAT;
use crate::store::secret::{LENGTH, Secret};

/// Bytes of the file that the database caches. Small, because longhaul's own memory is in front.
pub(super) const CACHE_BYTES: usize = 8 << 20;
/// Reason for not opening a file on which the library panicked.
pub(super) const PANIC_REASON: &str = "reading it caused a panic";
/// Reason for not opening a database with other tables than longhaul's.
pub(super) const FOREIGN_REASON: &str = "it is a database of another program";
/// Time to wait for a lock: a restarted process may begin before its predecessor has ended.
const LOCK_WAIT: Duration = Duration::from_millis(500);
/// Pause between two attempts to lock.
const LOCK_PAUSE: Duration = Duration::from_millis(10);
/// Suffix of the copy of a damaged database, which replaces any earlier one.
const ASIDE_SUFFIX: &str = ".aside-1";
/// Suffix of the secret's file, appended to the name of the database.
const SECRET_SUFFIX: &str = ".secret";
/// Suffix of a copy that will replace the database. No other program uses such a name.
const COPY_SUFFIX: &str = ".longhaul-copy";

/// Location of the database. No other process opens it while this is held.
pub(in crate::store) struct StoreFile {
    path: PathBuf,
    intent: Intent,
    /// The secret's file, locked. `None` if a database under inspection has no such file.
    _lock: Option<File>,
}

#[derive(Debug)]
pub(super) enum OpenError {
    /// Another process has it.
    Busy,
    /// A store of longhaul's that is damaged or of another version, with the reason.
    Damaged(String),
    /// The system refuses access.
    Io(io::Error),
    /// Not a store of longhaul's, with the reason.
    Foreign(String),
}

impl<E: Into<redb::Error>> From<E> for OpenError {
    /// Decides whether the file or its disk is at fault. A file is set aside only if it is certainly at
    /// fault.
    fn from(error: E) -> Self {
        let error = error.into();
        let why = error.to_string();
        if let redb::Error::Io(error) = error {
            let is_damage = matches!(
                error.kind(),
                ErrorKind::InvalidData | ErrorKind::InvalidInput | ErrorKind::UnexpectedEof
            );
            return if is_damage { Self::Damaged(why) } else { Self::Io(error) };
        }
        if matches!(error, redb::Error::DatabaseAlreadyOpen | redb::Error::LockProtocolMismatch) {
            return Self::Busy;
        }
        let is_damage = matches!(
            error,
            redb::Error::Corrupted(_)
                | redb::Error::RepairAborted
                | redb::Error::TableIsMultimap(_)
                | redb::Error::TableTypeMismatch { .. }
                | redb::Error::TypeDefinitionChanged { .. }
                | redb::Error::UpgradeRequired(_)
        );
        if is_damage { Self::Damaged(why) } else { Self::Io(io::Error::other(why)) }
    }
}

impl OpenError {
    pub(super) fn into_problem(self, path: &Path) -> Problem {
        let path = path.display();
        Problem::Store(match self {
            Self::Busy => {
                return Problem::StoreInUse(format!(
                    "store.at: {path} is in use by another process, perhaps a running longhaul; stop \
                     that process, or give this one a file of its own"
                ));
            }
            Self::Damaged(why) => format!(
                "store.at: {path} cannot be read: {why}; a proxy that starts with it sets it aside \
                 and creates a new one"
            ),
            Self::Io(error) if error.kind() == ErrorKind::NotFound => format!(
                "store.at: the folder of {path} does not exist; create the folder, or name another \
                 file with --store file:PATH"
            ),
            Self::Io(error) => format!(
                "store.at: {path} cannot be opened or created: {error}; name a file that \
                 longhaul can write, with --store file:PATH"
            ),
            Self::Foreign(why) => format!(
                "store.at: {path} is not a store of longhaul's: {why}; give another path with \
                 --store file:PATH, or move what is there away"
            ),
        })
    }
}

/// Locks a file, and waits up to [`LOCK_WAIT`] for another process to release the file.
pub(in crate::store) fn try_lock_for_a_moment(file: &File) -> Result<(), TryLockError> {
    let until = Instant::now() + LOCK_WAIT;
    loop {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) if Instant::now() < until => thread::sleep(LOCK_PAUSE),
            locked => return locked,
        }
    }
}

impl StoreFile {
    /// Locks the file at `path`, with the secret next to it or a new one.
    ///
    /// # Errors
    /// - The folder of the file does not exist: a mistyped path is more likely than a new folder.
    /// - Another process has the file.
    /// - The file is not a store of longhaul's. It is left unchanged.
    /// - The system refuses access.
    /// - There is no store to inspect.
    pub(in crate::store) fn lock(path: &Path, intent: Intent) -> Result<(Self, Secret), Problem> {
        let system = |error| OpenError::Io(error).into_problem(path);
        let beside = with_suffix(path, SECRET_SUFFIX);
        let found = identify::identify(path, &beside)?;
        let opened = match (intent, found) {
            (Intent::Inspect, FileIdentity::Vacant) => {
                return Err(Problem::NoStore(path.to_owned()));
            }
            (Intent::Inspect, FileIdentity::Store) => open_existing(&beside),
            (Intent::Use, _) => open_private(&beside),
        };
        let lock = match readable(opened, &beside) {
            Err(error) if intent == Intent::Inspect && error.kind() == ErrorKind::NotFound => None,
            opened => Some(opened.map_err(|error| OpenError::Io(error).into_problem(&beside))?),
        };
        match lock.as_ref().map(try_lock_for_a_moment) {
            None | Some(Ok(())) => {}
            Some(Err(TryLockError::WouldBlock)) => return Err(OpenError::Busy.into_problem(path)),
            Some(Err(TryLockError::Error(error))) => return Err(system(error)),
        }
        let secret = match &lock {
            Some(lock) => read_or_generate_secret(lock, &beside, intent, found)?,
            None => Secret::generate()?,
        };
        let place = Self { path: path.to_owned(), intent, _lock: lock };
        Ok((place, secret))
    }

    /// Opens the database. For use, a database that is damaged or of another version is set aside, and
    /// a new one is created. The copy replaces any earlier one.
    pub(super) fn open(&self) -> Result<Database, OpenError> {
        // Remove a copy that was not finished.
        _ = remove_if_exists(&self.copy_path());
        match open_database(&self.path) {
            Err(OpenError::Damaged(why)) if self.intent == Intent::Use => {
                let aside = self.aside_path();
                fs::rename(&self.path, &aside)?;
                tracing::warn!(
                    why,
                    aside = %aside.display(),
                    "the store's file cannot be read; set it aside and created a new one"
                );
                // A file left half created would be set aside next, in place of this one.
                open_database(&self.path).inspect_err(|_| _ = remove_if_exists(&self.path))
            }
            other => other,
        }
    }

    pub(super) fn create_copy(&self) -> Result<Database, OpenError> {
        let copy = self.copy_path();
        remove_if_exists(&copy)?;
        copy_ownership(&open_private(&copy)?, &fs::metadata(&self.path)?)?;
        open_database(&copy)
    }

    /// Replaces the database with the copy; both must be closed. After a kill at any moment, one of
    /// them is there, intact.
    pub(super) fn replace_with_copy(&self) -> io::Result<()> {
        let path = self.resolved_path();
        fs::rename(self.copy_path(), &path)?;
        // Best effort: not every system and file system syncs directories.
        _ = path.parent().map(|path| File::open(path)?.sync_all());
        Ok(())
    }

    pub(super) fn remove_aside(&self) -> io::Result<()> {
        remove_if_exists(&self.aside_path())
    }

    fn aside_path(&self) -> PathBuf {
        with_suffix(&self.path, ASIDE_SUFFIX)
    }

    fn copy_path(&self) -> PathBuf {
        with_suffix(&self.resolved_path(), COPY_SUFFIX)
    }

    /// Returns the path of the file with links resolved.
    fn resolved_path(&self) -> PathBuf {
        fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone())
    }
}

/// Returns the secret next to `path`, with the lock unless another process has it. Fails if that process has not
/// written the secret, or as [`StoreFile::lock`].
pub(in crate::store) fn lock_or_share(path: &Path) -> Result<(Option<StoreFile>, Secret), Problem> {
    StoreFile::lock(path, Intent::Use).map(|(lock, secret)| (Some(lock), secret)).or_else(
        |problem| {
            let secret = fs::read(with_suffix(path, SECRET_SUFFIX)).unwrap_or_default();
            let secret = secret.try_into().map_err(|_| problem)?;
            Ok((None, Secret::from_bytes(secret)))
        },
    )
}

/// Checks whether the file at `path` could be locked and opened, without doing so. A proxy may have
/// it: the check locks nothing and creates nothing that stays. Fails if the file is not a store of
/// longhaul's, or the system refuses access.
pub(in crate::store) fn check(path: &Path) -> Result<(), Problem> {
    let beside = with_suffix(path, SECRET_SUFFIX);
    identify::identify(path, &beside)?;
    match readable(open_existing(&beside), &beside) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            try_create_beside(&beside).map_err(|error| OpenError::Io(error).into_problem(path))
        }
        found => found.map(drop).map_err(|error| OpenError::Io(error).into_problem(&beside)),
    }
}

/// Opens the secret at `path` for reading, if it could not be `opened` for writing. An existing secret
/// can be read and locked even if it cannot be written.
fn readable(opened: io::Result<File>, path: &Path) -> io::Result<File> {
    opened.or_else(|error| File::open(path).map_err(|_| error))
}

fn open_existing(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open(path)
}

/// Checks whether a file can be created next to `path`, or in the directory where its own would be
/// created. Creates one and removes it again: no other test covers every file system and
/// permission.
fn try_create_beside(path: &Path) -> io::Result<()> {
    let mut above = path.ancestors().skip(1);
    let is_there = |path: &&Path| !matches!(path.try_exists(), Ok(false));
    // For a relative path, no parent may exist yet. Then use the working directory.
    let directory = above.find(is_there).unwrap_or_else(|| Path::new(""));
    let tried = directory.join(format!(".longhaul-check-{}", std::process::id()));
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).open(&tried)?;
    fs::remove_file(&tried)
}

/// Opens a file as a database of longhaul's, and checks every page. An empty file becomes a new
/// database.
fn open_database(path: &Path) -> Result<Database, OpenError> {
    let backend = FileBackend::new(open_private(path)?)?;
    // The library is made to detect any damage to a file, but it may still panic.
    let opened = catch_quietly(|| {
        let mut builder = Builder::new();
        builder.set_cache_size(CACHE_BYTES);
        builder.set_check_integrity_on_open(true);
        let database = builder.create_with_backend(backend)?;
        let writing = database.begin_write()?;
        // A database without tables is new, or a kill came before its first table.
        let is_new = writing.list_tables()?.count() + writing.list_multimap_tables()?.count() == 0;
        match identify::read_format(&database)? {
            Some(format) if format == u64::from(FORMAT) => {}
            Some(other) => {
                let why = format!("its format is {other}, not {FORMAT}");
                return Err(OpenError::Damaged(why));
            }
            None if is_new => {}
            None => return Err(OpenError::Foreign(FOREIGN_REASON.into())),
        }
        writing.open_table(ABOUT)?.insert(FORMAT_KEY, u64::from(FORMAT))?;
        writing.open_table(METADATA)?;
        writing.open_table(RECORDS)?;
        writing.commit()?;
        Ok(database)
    });
    opened.unwrap_or_else(|| Err(OpenError::Damaged(PANIC_REASON.into())))
}

/// Reads the secret from its file. If the file holds none, generates a secret and, for use, writes
/// it. Entries of an existing database, made with the old secret, are not found again; they expire.
fn read_or_generate_secret(
    mut file: &File,
    path: &Path,
    intent: Intent,
    found: FileIdentity,
) -> Result<Secret, Problem> {
    let system = |error| OpenError::Io(error).into_problem(path);
    let mut bytes = Vec::new();
    file.take(LENGTH + 1).read_to_end(&mut bytes).map_err(system)?;
    if let Ok(secret) = <[u8; 32]>::try_from(&bytes[..]) {
        return Ok(Secret::from_bytes(secret));
    }
    let secret = Secret::generate()?;
    if intent == Intent::Inspect {
        return Ok(secret);
    }
    if found == FileIdentity::Store {
        tracing::warn!(
            path = %path.display(),
            "the scope secret of the store is missing or damaged; generated a new one, and \
             earlier entries cannot be found any more: always move the two files together"
        );
    }
    file.set_len(0)
        .and_then(|()| file.rewind())
        .and_then(|()| file.write_all(secret.as_bytes()))
        .and_then(|()| file.sync_all())
        .map_err(system)?;
    Ok(secret)
}

/// Creates a directory and its missing parents, for their owner only.
pub(crate) fn create_private_dir(directory: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)
}

/// Opens or creates a file to read and write. A new file is for its owner only.
fn open_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

fn remove_if_exists(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Gives a file the owner and the permissions of another, so that the same users can open both.
fn copy_ownership(file: &File, like: &Metadata) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::{MetadataExt as _, fchown};
        let is = file.metadata()?;
        if (is.uid(), is.gid()) != (like.uid(), like.gid()) {
            fchown(file, Some(like.uid()), Some(like.gid()))?;
        }
    }
    file.set_permissions(like.permissions())
}
