//! Totals in a file next to the store, or in the state folder, so that they survive a restart.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::config::{StoreConfig, StoreLocation};

/// Maximum bytes that are read: every row that may be written takes less.
const MAX_BYTES: u64 = 16 << 20;

/// Names of the files: requests, tokens and costs by day; the conversations; the prices that a person set; the
/// spending that has a cap. They follow the name of the store.
pub(crate) const DAYS: &str = ".days.json";
pub(crate) const CONVERSATIONS: &str = ".conversations.json";
pub(crate) const PRICES: &str = ".prices.json";
pub(crate) const SPENT: &str = ".spent.json";

/// File with the rows of a table. Only the process that has the store, or the port, writes the file.
pub(crate) struct TotalsFile {
    path: PathBuf,
    rows: Box<dyn Fn() -> Vec<u8> + Send + Sync>,
    /// Rows as they were written last.
    written: Mutex<Vec<u8>>,
}

impl TotalsFile {
    /// Passes the rows of the file to `restore`; `rows` returns those to write. Returns `None` if the
    /// settings give no place for the file.
    pub(crate) fn open<T: DeserializeOwned + Serialize>(
        config: &StoreConfig,
        name: &str,
        restore: impl FnOnce(Vec<T>),
        rows: impl Fn() -> Vec<T> + Send + Sync + 'static,
    ) -> Option<Arc<Self>> {
        let path = path(config, name)?;
        let found = read(&path).unwrap_or_else(|error| {
            if error.kind() != io::ErrorKind::NotFound {
                tracing::warn!(%error, name, "the totals of earlier days cannot be read");
            }
            Vec::new()
        });
        restore(found);
        let rows = move || serde_json::to_vec(&rows()).unwrap_or_default();
        Some(Arc::new(Self { path, written: Mutex::new(rows()), rows: Box::new(rows) }))
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
            match replace(&file.path, ".new", &rows) {
                Ok(()) => *written = rows,
                Err(error) => tracing::warn!(%error, "the totals cannot be written"),
            }
        })
        .await;
    }
}

/// Removes what the pages of earlier processes kept. The spending that has a cap stays.
pub(crate) fn remove(config: &StoreConfig) {
    for path in [DAYS, CONVERSATIONS, PRICES].iter().filter_map(|name| path(config, name)) {
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

fn read<T: DeserializeOwned>(path: &Path) -> io::Result<Vec<T>> {
    if fs::metadata(path)?.len() > MAX_BYTES {
        return Err(io::Error::other("the file is too large"));
    }
    Ok(serde_json::from_slice(&fs::read(path)?)?)
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
        let open = || {
            let found = Arc::new(Mutex::new(Vec::<u32>::new()));
            let (to, from) = (Arc::clone(&found), Arc::clone(&found));
            let restore = move |rows| *to.lock() = rows;
            let file =
                TotalsFile::open(&config.store, ".n.json", restore, move || from.lock().clone());
            (file.unwrap(), found)
        };
        let (file, rows) = open();
        rows.lock().push(7);
        file.write().await;
        assert_eq!(*open().1.lock(), [7]);
        fs::write(dir.path().join("store.db.n.json"), "{").unwrap();
        assert!(open().1.lock().is_empty());
    }
}
