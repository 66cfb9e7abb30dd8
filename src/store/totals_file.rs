//! Rows in a file next to the store, or in the state folder, so that they survive a restart.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::config::{StoreConfig, StoreLocation};
use crate::error::Problem;
use crate::store::Store;
use crate::store::file::{Intent, StoreFile, try_lock_for_a_moment};
use crate::store::format::RecordSealer;
use longhaul_core::units::scope::{RecordKey, Scope};

/// Maximum bytes that are read: every row that may be written takes less.
const MAX_BYTES: u64 = 16 << 20;

/// Names of the files, which follow the name of the store. Lessons and titles are sealed like records.
pub(crate) const DAYS: &str = ".days.json";
pub(super) const LESSONS: &str = ".models";
pub(crate) const CONVERSATIONS: &str = ".conversations.json";
pub(crate) const TITLES: &str = ".titles";
pub(crate) const PRICES: &str = ".prices.json";
pub(crate) const SPENT: &str = ".spent.json";
const LOCK: &str = ".lock";

/// File with the rows of a table, which several processes may write.
pub(crate) struct TotalsFile(Mutex<Box<Exchange>>);

/// Reads the file, and writes rows to it.
type Exchange = dyn FnMut() -> io::Result<()> + Send;

type Sealing = (Arc<RecordSealer>, RecordKey);

impl TotalsFile {
    /// Passes the rows of the file to `restore`; `rows` returns those of `source` to write in their place. Returns
    /// `None` if the settings give no place for the file.
    pub(crate) fn open<S: Send + Sync + 'static, T: DeserializeOwned + Serialize + 'static>(
        at: (&Store, &StoreConfig),
        name: &str,
        source: &Arc<S>,
        restore: impl FnOnce(&S, Vec<T>) + Send + 'static,
        rows: impl Fn(&S) -> Vec<T> + Send + 'static,
    ) -> Option<Arc<Self>> {
        let mut restore = Some(restore);
        Self::share(at, name, source, move |source, kept, write| {
            if let Some(restore) = restore.take() {
                restore(source, kept);
            }
            write(rows(source))
        })
    }

    /// Opens a file that other processes write, too. At once and at each write, `exchange` receives the rows of the
    /// file, and a function that replaces them, while no other process may.
    pub(crate) fn share<S: Send + Sync + 'static, T: DeserializeOwned + Serialize>(
        (store, config): (&Store, &StoreConfig),
        name: &str,
        source: &Arc<S>,
        mut exchange: impl FnMut(&S, Vec<T>, &dyn Fn(Vec<T>) -> io::Result<()>) -> io::Result<()>
        + Send
        + 'static,
    ) -> Option<Arc<Self>> {
        let lock = path(config, LOCK).filter(|_| config.location == StoreLocation::Memory);
        let path = path(config, name)?;
        let sealing = [LESSONS, TITLES].contains(&name).then(|| {
            let key = Scope::new(store.secret.as_bytes(), &[]).named_key(name);
            (Arc::clone(&store.sealer), key)
        });
        let source = Arc::clone(source);
        let exchange = move || {
            // The end of a process, even by a crash, releases its lock. Any other store has one process alone.
            let open = |lock| OpenOptions::new().append(true).create(true).open(lock);
            let lock = lock.as_ref().map(open).transpose()?;
            lock.as_ref().map(try_lock_for_a_moment).transpose()?;
            let kept = read(&path, sealing.as_ref())?;
            let before = serde_json::to_vec(&kept)?;
            exchange(&source, kept, &|rows| {
                let rows = serde_json::to_vec(&rows)?;
                if rows == before { Ok(()) } else { write(&path, sealing.as_ref(), &rows) }
            })
        };
        let file = Arc::new(Self(Mutex::new(Box::new(exchange))));
        file.exchange();
        Some(file)
    }

    /// Writes the rows if they have changed.
    pub(crate) async fn write(self: &Arc<Self>) {
        let file = Arc::clone(self);
        _ = tokio::task::spawn_blocking(move || file.exchange()).await;
    }

    fn exchange(&self) {
        if let Err(error) = self.0.lock()() {
            tracing::warn!(%error, "what longhaul keeps for the next start cannot be written");
        }
    }
}

/// Removes what earlier processes kept. Returns the files. The spending that has a cap stays. Fails while another
/// process keeps lessons.
pub(crate) fn remove(config: &StoreConfig) -> Result<Vec<PathBuf>, Problem> {
    let lessons = config.lessons.as_ref().filter(|_| config.location == StoreLocation::Memory);
    let lock = lessons.map(|path| StoreFile::lock(path, Intent::Use)).transpose();
    let _lock = lock.map_err(|problem| match (problem, lessons) {
        (Problem::StoreInUse(_), Some(path)) => Problem::StoreInUse(format!(
            "{} is in use by a running longhaul; stop that process, then purge again",
            path.display()
        )),
        (problem, _) => problem,
    })?;
    let names = [DAYS, LESSONS, CONVERSATIONS, TITLES, PRICES];
    let paths = names.iter().filter_map(|name| path(config, name));
    Ok(paths.filter(|path| fs::remove_file(path).is_ok()).collect())
}

fn path(config: &StoreConfig, name: &str) -> Option<PathBuf> {
    let store = match &config.location {
        StoreLocation::File(path) => path,
        StoreLocation::Memory => config.lessons.as_ref()?,
        StoreLocation::Redis(_) => config.totals.as_ref()?,
    };
    let mut path = OsString::from(store);
    path.push(name);
    Some(PathBuf::from(path))
}

/// Returns the totals by day that the file has.
pub(crate) fn days<T: DeserializeOwned>(config: &StoreConfig) -> Vec<T> {
    path(config, DAYS).and_then(|path| read(&path, None).ok()).unwrap_or_default()
}

/// Returns the rows of the file; none without a file, or from one that is damaged or of another version.
fn read<T: DeserializeOwned>(path: &Path, sealing: Option<&Sealing>) -> io::Result<Vec<T>> {
    let bytes = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        found => found?.len(),
    };
    if bytes > MAX_BYTES {
        return Err(io::Error::other("the file is too large"));
    }
    let content = fs::read(path)?;
    let rows = match sealing {
        None => serde_json::from_slice(&content).ok(),
        Some((sealer, key)) => sealer.open(*key, &content),
    };
    if rows.is_none() {
        tracing::warn!(path = %path.display(), "what earlier processes kept cannot be read");
    }
    Ok(rows.unwrap_or_default())
}

/// Replaces the rows of the file.
fn write(path: &Path, sealing: Option<&Sealing>, rows: &[u8]) -> io::Result<()> {
    let Some((sealer, key)) = sealing else {
        return replace(path, ".new", rows);
    };
    let sealed = sealer.seal(*key, &serde_json::from_slice::<&RawValue>(rows)?);
    replace(path, ".new", &sealed.ok_or_else(|| io::Error::other("they cannot be sealed"))?)
}

/// Replaces the file by way of a copy for its owner only, so that the file is complete at any moment. `ending`
/// makes the name of the copy. The file keeps its mode.
pub(crate) fn replace(path: &Path, ending: &str, content: &[u8]) -> io::Result<()> {
    let mut copy = OsString::from(path);
    copy.push(ending);
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&copy)?;
    file.write_all(content)?;
    if let Ok(found) = fs::metadata(path) {
        file.set_permissions(found.permissions())?;
    }
    file.sync_all()?;
    fs::rename(&copy, path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[tokio::test]
    async fn rows_are_restored_and_a_damaged_file_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let at = format!("file:{}", dir.path().join("store.db").display());
        let base = ("upstream.base", "http://127.0.0.1:9/v1");
        let config = Config::default_with([base, ("store.at", &at)]).unwrap();
        let store = Store::open(&config.store, &Arc::default(), &Arc::default()).unwrap();
        let open = |name| {
            let found = Arc::new(Mutex::new(Vec::<u32>::new()));
            let restore = |found: &Mutex<_>, rows| *found.lock() = rows;
            let rows = |found: &Mutex<Vec<_>>| found.lock().clone();
            let file = TotalsFile::open((&store, &config.store), name, &found, restore, rows);
            (file.unwrap(), found)
        };
        for name in [DAYS, TITLES] {
            let path = path(&config.store, name).unwrap();
            let (file, rows) = open(name);
            file.write().await;
            assert!(!path.exists(), "nothing to keep");
            rows.lock().push(7_654_321);
            file.write().await;
            let (file, restored) = open(name);
            assert_eq!(*restored.lock(), [7_654_321]);
            let content = fs::read(&path).unwrap();
            let is_plain = content.windows(7).any(|part| part == b"7654321");
            assert_eq!(is_plain, name == DAYS);
            restored.lock().clear();
            file.write().await;
            assert!(open(name).1.lock().is_empty());
            fs::write(&path, &content[..content.len() - 1]).unwrap();
            assert!(open(name).1.lock().is_empty());
        }
        assert_eq!(remove(&config.store).unwrap().len(), 2);
        assert!([DAYS, TITLES].iter().all(|name| !path(&config.store, name).unwrap().exists()));
    }
}
