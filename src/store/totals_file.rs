//! Totals in a file next to the store, or in the state folder, so that they survive a restart.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::config::{StoreConfig, StoreLocation};
use crate::store::Store;
use crate::store::format::RecordSealer;
use longhaul_core::units::scope::{RecordKey, Scope};

/// Maximum bytes that are read: every row that may be written takes less.
const MAX_BYTES: u64 = 16 << 20;

/// Names of the files: totals by day; conversations; titles, sealed like records; prices that a person set; spending
/// that has a cap. They follow the name of the store.
pub(crate) const DAYS: &str = ".days.json";
pub(crate) const CONVERSATIONS: &str = ".conversations.json";
pub(crate) const TITLES: &str = ".titles";
pub(crate) const PRICES: &str = ".prices.json";
pub(crate) const SPENT: &str = ".spent.json";

/// File with the rows of a table. Only the process that has the store, or the port, writes the file.
pub(crate) struct TotalsFile {
    path: PathBuf,
    rows: Box<dyn Fn() -> Vec<u8> + Send + Sync>,
    /// Rows as they were written last.
    written: Mutex<Vec<u8>>,
    sealing: Option<Sealing>,
}

type Sealing = (Arc<RecordSealer>, RecordKey);

impl TotalsFile {
    /// Passes the rows of the file to `restore`; `rows` returns those of `source` to write. Returns `None` if the
    /// settings give no place for the file.
    pub(crate) fn open<S: Send + Sync + 'static, T: DeserializeOwned + Serialize>(
        (store, config): (&Store, &StoreConfig),
        name: &str,
        source: &Arc<S>,
        restore: impl FnOnce(&S, Vec<T>),
        rows: impl Fn(&S) -> Vec<T> + Send + Sync + 'static,
    ) -> Option<Arc<Self>> {
        let path = path(config, name)?;
        let sealing = (name == TITLES).then(|| {
            let key = Scope::new(store.secret.as_bytes(), &[]).named_key(name);
            (Arc::clone(&store.sealer), key)
        });
        let found = read(&path, sealing.as_ref()).inspect_err(|error| {
            tracing::warn!(%error, name, "what the page of an earlier process kept cannot be read");
        });
        let to_json = |rows: &Vec<T>| serde_json::to_vec(rows).unwrap_or_default();
        let written = Mutex::new(found.as_ref().map(to_json).unwrap_or_default());
        restore(source, found.unwrap_or_default());
        let source = Arc::clone(source);
        let rows = Box::new(move || to_json(&rows(&source)));
        Some(Arc::new(Self { path, rows, written, sealing }))
    }

    /// Writes the rows if they have changed.
    pub(crate) async fn write(self: &Arc<Self>) {
        let file = Arc::clone(self);
        _ = tokio::task::spawn_blocking(move || {
            let rows = (file.rows)();
            let mut written = file.written.lock();
            if *written == rows {
                return;
            }
            let content =
                file.content(&rows).ok_or_else(|| io::Error::other("they cannot be sealed"));
            match content.and_then(|content| replace(&file.path, ".new", &content)) {
                Ok(()) => *written = rows,
                Err(error) => tracing::warn!(%error, "the totals cannot be written"),
            }
        })
        .await;
    }

    /// Returns `rows` as the file holds them; `None` if they cannot be sealed.
    fn content(&self, rows: &[u8]) -> Option<Bytes> {
        let Some((sealer, key)) = &self.sealing else {
            return Some(Bytes::copy_from_slice(rows));
        };
        sealer.seal(*key, &serde_json::from_slice::<&RawValue>(rows).ok()?)
    }
}

/// Removes what the pages of earlier processes kept. The spending that has a cap stays.
pub(crate) fn remove(config: &StoreConfig) {
    for path in [DAYS, CONVERSATIONS, TITLES, PRICES].iter().filter_map(|name| path(config, name)) {
        _ = fs::remove_file(path);
    }
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

/// Returns the rows of the file; none without a file.
fn read<T: DeserializeOwned>(path: &Path, sealing: Option<&Sealing>) -> io::Result<Vec<T>> {
    let bytes = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        found => found?.len(),
    };
    if bytes > MAX_BYTES {
        return Err(io::Error::other("the file is too large"));
    }
    let content = fs::read(path)?;
    let Some((sealer, key)) = sealing else {
        return Ok(serde_json::from_slice(&content)?);
    };
    let opened = sealer.open(*key, &content);
    opened.ok_or_else(|| io::Error::other("another version, or another secret, sealed the file"))
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
        remove(&config.store);
        assert!([DAYS, TITLES].iter().all(|name| !path(&config.store, name).unwrap().exists()));
    }
}
