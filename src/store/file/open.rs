//! Takes hold of the file: for this process alone, for its owner alone, and whole or not at all.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use redb::backends::FileBackend;
use redb::{Builder, Database, DatabaseError, ReadableDatabase as _};

use super::Intent;
use super::caught::quietly;
use super::ours::{self, Found};
use super::table::{ABOUT, FORMAT_KEY, MARKS, RECORDS};
use crate::error::Problem;
use crate::store::format::FORMAT;
use crate::store::secret::{LENGTH, Secret};

/// What the database keeps of the file in memory; ours stands in front of it.
pub(super) const CACHE_BYTES: usize = 8 << 20;
/// Why a file over which the library stumbled is not opened.
pub(super) const PANIC: &str = "reading it ended in a panic";
/// How many files that were set aside are left lying.
const ASIDE: u32 = 9;
/// What the secret's file has behind the name of the database.
const SECRET: &str = ".secret";
/// What a copy has there that is to take the database's place: a name that nobody else's file has.
const COPY: &str = ".longhaul-copy";

/// Where the database is. Nobody else opens it for as long as this is held.
pub(super) struct Place {
    path: PathBuf,
    intent: Intent,
    /// The secret's file, locked. There may be none beside a database that is looked at.
    _lock: Option<File>,
}

/// Why a database is not opened.
#[derive(Debug)]
pub(super) enum Refused {
    /// Another process has it.
    Busy,
    /// It is ours, and damaged or of another version; why.
    Damaged(String),
    /// The system does not let us.
    System(io::Error),
    /// It is not ours; why.
    Theirs(String),
}

impl Refused {
    /// Whether what it lies on takes no writes now, as it may again: its place is the right one.
    pub(super) fn may_pass(&self) -> bool {
        let Self::System(error) = self else {
            return false;
        };
        [
            ErrorKind::FileTooLarge,
            ErrorKind::PermissionDenied,
            ErrorKind::QuotaExceeded,
            ErrorKind::ReadOnlyFilesystem,
            ErrorKind::StorageFull,
        ]
        .contains(&error.kind())
    }

    /// What is wrong, for the operator.
    pub(super) fn problem(self, path: &Path) -> Problem {
        let path = path.display();
        Problem::Store(match self {
            Self::Busy => format!(
                "store.at: {path} is in use by another process, perhaps a longhaul that runs; stop \
                 that, or give this one a file of its own"
            ),
            Self::Damaged(why) => format!(
                "store.at: {path} cannot be read: {why}; a proxy that starts with it sets it aside \
                 and begins a new one"
            ),
            Self::System(error) => format!(
                "store.at: {path} cannot be opened or made: {error}; give a file that longhaul can \
                 write, with --store file:PATH"
            ),
            Self::Theirs(why) => format!(
                "store.at: {path} is not a store of longhaul's: {why}; give another path with \
                 --store file:PATH, or move what is there away"
            ),
        })
    }
}

impl Place {
    /// Takes the place at `path`, with the secret that lies beside it or a new one. To use it, a
    /// directory that is not there is made.
    ///
    /// # Errors
    /// Another process has it, it is not ours and is left as it is, or the system does not let us;
    /// there is none to look at.
    pub(super) fn take(path: &Path, intent: Intent) -> Result<(Self, Secret), Problem> {
        let system = |error| Refused::System(error).problem(path);
        let beside = with_suffix(path, SECRET);
        let found = ours::find(path, &beside)?;
        let opened = match (intent, found) {
            (Intent::Look, Found::Room) => return Err(Problem::NoStore(path.to_owned())),
            (Intent::Look, Found::Ours) => there(&beside),
            (Intent::Use, _) => {
                let directory = path.parent().filter(|path| !path.as_os_str().is_empty());
                if let Some(directory) = directory {
                    make(directory).map_err(system)?;
                }
                private(&beside)
            }
        };
        // One that is there may be read, and locked, where nothing can be written.
        let lock = match opened.or_else(|error| File::open(&beside).map_err(|_| error)) {
            Err(error) if intent == Intent::Look && error.kind() == ErrorKind::NotFound => None,
            opened => Some(opened.map_err(|error| Refused::System(error).problem(&beside))?),
        };
        match lock.as_ref().map(File::try_lock) {
            None | Some(Ok(())) => {}
            Some(Err(TryLockError::WouldBlock)) => return Err(Refused::Busy.problem(path)),
            Some(Err(TryLockError::Error(error))) => return Err(system(error)),
        }
        let secret = match &lock {
            Some(lock) => read_or_draw(lock, &beside, intent, found)?,
            None => Secret::draw()?,
        };
        let place = Self {
            path: path.to_owned(),
            intent,
            _lock: lock,
        };
        Ok((place, secret))
    }

    /// Opens the database. To use it, one that is damaged or of another version is set aside for a
    /// new one.
    pub(super) fn open(&self) -> Result<Database, Refused> {
        // A copy that was not finished.
        _ = remove(&self.copy());
        match open(&self.path) {
            Err(Refused::Damaged(why)) if self.intent == Intent::Use => {
                let aside = self.set_aside().map_err(Refused::System)?;
                tracing::warn!(
                    why,
                    aside = %aside.display(),
                    "the store's file cannot be read; it was set aside, and a new one is begun"
                );
                open(&self.path)
            }
            other => other,
        }
    }

    /// Makes a database for a copy of this one, for the same owner.
    pub(super) fn begin_copy(&self) -> Result<Database, Refused> {
        let copy = self.copy();
        remove(&copy)
            .and_then(|()| private(&copy))
            .and_then(|file| give(&file, &fs::metadata(&self.path)?))
            .map_err(Refused::System)?;
        open(&copy)
    }

    /// Puts the copy in the place of the database; both are closed. After a kill at any moment one of
    /// them is there, whole.
    pub(super) fn take_copy(&self) -> io::Result<()> {
        let path = self.followed();
        fs::rename(self.copy(), &path)?;
        // As good as it can be had: not every system and file system syncs directories.
        _ = path.parent().map(|path| File::open(path)?.sync_all());
        Ok(())
    }

    /// Empties the file of a database that is closed, and removes those that were set aside.
    pub(super) fn empty(&self) -> io::Result<()> {
        for aside in self.asides() {
            remove(&aside)?;
        }
        let file = there(&self.path)?;
        file.set_len(0)?;
        file.sync_all()
    }

    /// Where there is room for no other, one that was set aside before is overwritten: one that is a
    /// database to look at, for of another nobody can say what it is.
    fn set_aside(&self) -> io::Result<PathBuf> {
        let is_free = |name: &PathBuf| {
            let found = fs::symlink_metadata(name);
            found.is_err_and(|error| error.kind() == ErrorKind::NotFound)
        };
        let is_database = |name: &PathBuf| matches!(ours::is_database(name), Ok(true));
        let free = self.asides().find(is_free);
        let Some(name) = free.or_else(|| self.asides().rfind(is_database)) else {
            return Err(io::Error::other(format!(
                "it is damaged, and each name for it from {} on is taken",
                with_suffix(&self.path, ".aside-1").display()
            )));
        };
        fs::rename(&self.path, &name)?;
        Ok(name)
    }

    fn asides(&self) -> impl DoubleEndedIterator<Item = PathBuf> {
        (1..=ASIDE).map(|number| with_suffix(&self.path, &format!(".aside-{number}")))
    }

    fn copy(&self) -> PathBuf {
        with_suffix(&self.followed(), COPY)
    }

    /// Where the file lies to which the path may only be a link.
    fn followed(&self) -> PathBuf {
        fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone())
    }
}

/// Whether the place at `path` could be taken and opened, as far as that shows without doing so. A
/// proxy may have it; nothing is locked, and nothing is left behind.
///
/// # Errors
/// It is not ours, or the system does not let us.
pub(super) fn check(path: &Path) -> Result<(), Problem> {
    let beside = with_suffix(path, SECRET);
    ours::find(path, &beside)?;
    match there(&beside) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {
            try_beside(&beside).map_err(|error| Refused::System(error).problem(path))?;
        }
        Err(error) => {
            // One that may be read will do.
            let read = File::open(&beside).map_err(|_| Refused::System(error).problem(&beside));
            read.map(drop)?;
        }
    }
    match there(path).map_err(Refused::System) {
        Err(Refused::System(error)) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(refused) if !refused.may_pass() => Err(refused.problem(path)),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// A file to read and write, if it is there.
fn there(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open(path)
}

/// Whether a file can be made beside `path`, or in the directory that its own would be made in: one
/// is, and is taken away again. No other way tells of every file system and every permission.
fn try_beside(path: &Path) -> io::Result<()> {
    let mut above = path.ancestors().skip(1);
    let is_there = |path: &&Path| !matches!(path.try_exists(), Ok(false));
    // Of a path that begins where we are, nothing may be there yet.
    let directory = above.find(is_there).unwrap_or_else(|| Path::new(""));
    let tried = directory.join(format!(".longhaul-check-{}", std::process::id()));
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).open(&tried)?;
    fs::remove_file(&tried)
}

/// Opens a file as a database of ours, every page of which is checked; an empty one is made one.
fn open(path: &Path) -> Result<Database, Refused> {
    let file = private(path).map_err(Refused::System)?;
    let backend = FileBackend::new(file).map_err(refused)?;
    // The library is made to find whatever is wrong with a file. It may still stumble.
    let opened = quietly(|| {
        let mut builder = Builder::new();
        builder.set_cache_size(CACHE_BYTES);
        builder.set_check_integrity_on_open(true);
        let database = builder.create_with_backend(backend).map_err(refused)?;
        match ours::format_of(&database).map_err(foreign)? {
            Some(FORMAT_NOW) => {}
            Some(other) => {
                return Err(Refused::Damaged(format!(
                    "it is of format {other}, not {FORMAT_NOW}"
                )));
            }
            None if is_bare(&database).map_err(foreign)? => {}
            None => {
                return Err(Refused::Theirs(
                    "it is a database of another program".into(),
                ));
            }
        }
        make_tables(&database).map_err(foreign)?;
        Ok(database)
    });
    opened.unwrap_or_else(|| Err(Refused::Damaged(PANIC.into())))
}

const FORMAT_NOW: u64 = FORMAT as u64;

/// Whether a database has no table, as a new one and one that a kill came before the first of.
fn is_bare(database: &Database) -> Result<bool, redb::Error> {
    let transaction = database.begin_read()?;
    let tables = transaction.list_tables()?.count();
    Ok(tables + transaction.list_multimap_tables()?.count() == 0)
}

/// Makes the tables of ours that are not there yet.
fn make_tables(database: &Database) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    transaction
        .open_table(ABOUT)?
        .insert(FORMAT_KEY, FORMAT_NOW)?;
    transaction.open_table(MARKS)?;
    transaction.open_table(RECORDS)?;
    transaction.commit()?;
    Ok(())
}

fn refused(error: DatabaseError) -> Refused {
    let busy = matches!(
        error,
        DatabaseError::DatabaseAlreadyOpen | DatabaseError::LockProtocolMismatch
    );
    if busy {
        Refused::Busy
    } else {
        foreign(error.into())
    }
}

/// Whether the file is at fault, or what it lies on. Only where it is the file for certain, it is set
/// aside.
pub(super) fn foreign(error: redb::Error) -> Refused {
    let of_the_file = if let redb::Error::Io(error) = &error {
        [
            ErrorKind::InvalidData,
            ErrorKind::InvalidInput,
            ErrorKind::UnexpectedEof,
        ]
        .contains(&error.kind())
    } else {
        matches!(
            error,
            redb::Error::Corrupted(_)
                | redb::Error::RepairAborted
                | redb::Error::TableIsMultimap(_)
                | redb::Error::TableTypeMismatch { .. }
                | redb::Error::TypeDefinitionChanged { .. }
                | redb::Error::UpgradeRequired(_)
        )
    };
    if of_the_file {
        Refused::Damaged(error.to_string())
    } else if let redb::Error::Io(error) = error {
        Refused::System(error)
    } else {
        Refused::System(io::Error::other(error.to_string()))
    }
}

/// The secret in its file, or one that is drawn, and written there to be used. What is none is drawn
/// anew beside a database that is ours: what was kept with it is not found again, and goes in its
/// time.
fn read_or_draw(
    mut file: &File,
    path: &Path,
    intent: Intent,
    found: Found,
) -> Result<Secret, Problem> {
    let system = |error| Refused::System(error).problem(path);
    let mut bytes = Vec::new();
    file.take(LENGTH + 1)
        .read_to_end(&mut bytes)
        .map_err(system)?;
    if let Ok(secret) = <[u8; 32]>::try_from(&bytes[..]) {
        return Ok(Secret::of(secret));
    }
    let secret = Secret::draw()?;
    if intent == Intent::Look {
        return Ok(secret);
    }
    if found == Found::Ours {
        tracing::warn!(
            path = %path.display(),
            "the scope secret of the store is missing or damaged; a new one is drawn, and what was \
             kept is not found again: move the two files together"
        );
    }
    file.set_len(0)
        .and_then(|()| file.rewind())
        .and_then(|()| file.write_all(secret.bytes()))
        .and_then(|()| file.sync_all())
        .map_err(system)?;
    Ok(secret)
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

/// A directory and those above it, for their owner alone where they are made.
fn make(directory: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)
}

/// A file to read and write, for its owner alone where it is made.
fn private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Removes a file that may not be there.
fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Gives a file to the owner of another, with the same permissions: who opens this one must be able
/// to open that one.
fn give(file: &File, like: &Metadata) -> io::Result<()> {
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
