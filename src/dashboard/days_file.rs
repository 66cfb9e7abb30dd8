//! Totals by day and model in a file next to the store, or in the state folder, so that they survive
//! a restart.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::sleep;

use crate::config::{StoreConfig, StoreLocation};
use crate::dashboard::RecentConversations;
use crate::dashboard::days::DayRow;

/// Time between two writes.
const WRITE_INTERVAL: Duration = Duration::from_mins(1);
/// Maximum bytes that are read: every row that may be written takes less.
const MAX_BYTES: u64 = 4 << 20;

/// File with the totals by day and model. Only the process that has the store, or the port, writes it.
pub(crate) struct DaysFile {
    path: PathBuf,
    recent: Arc<RecentConversations>,
    /// Rows as they were written last.
    written: Mutex<Vec<DayRow>>,
}

impl DaysFile {
    /// Restores the totals from the file. Returns `None` if the settings give none.
    pub(crate) fn open(config: &StoreConfig, recent: &Arc<RecentConversations>) -> Option<Self> {
        let store = match &config.location {
            StoreLocation::File(path) => path,
            StoreLocation::Memory => config.lessons.as_ref()?,
            StoreLocation::Redis(_) => config.totals.as_ref()?,
        };
        let mut path = OsString::from(store);
        path.push(".days.json");
        let path = PathBuf::from(path);
        let rows = read(&path).unwrap_or_else(|error| {
            if error.kind() != io::ErrorKind::NotFound {
                tracing::warn!(%error, "the totals of earlier days cannot be read");
            }
            Vec::new()
        });
        recent.restore_days(rows);
        Some(Self {
            path,
            written: Mutex::new(recent.days()),
            recent: Arc::clone(recent),
        })
    }

    /// Writes the totals now and then, until dropped.
    pub(crate) async fn write_regularly(self: Arc<Self>) {
        loop {
            sleep(WRITE_INTERVAL).await;
            self.write().await;
        }
    }

    /// Writes the totals if they have changed.
    pub(crate) async fn write(self: &Arc<Self>) {
        let file = Arc::clone(self);
        _ = tokio::task::spawn_blocking(move || {
            let rows = file.recent.days();
            let mut written = file.written.lock();
            if *written == rows {
                return;
            }
            match replace(&file.path, &rows) {
                Ok(()) => *written = rows,
                Err(error) => tracing::warn!(%error, "the totals by day cannot be written"),
            }
        })
        .await;
    }
}

fn read(path: &Path) -> io::Result<Vec<DayRow>> {
    if fs::metadata(path)?.len() > MAX_BYTES {
        return Err(io::Error::other("the file is too large"));
    }
    Ok(serde_json::from_slice(&fs::read(path)?)?)
}

/// Replaces the file, so that it is complete at any moment.
fn replace(path: &Path, rows: &[DayRow]) -> io::Result<()> {
    let mut copy = OsString::from(path);
    copy.push(".new");
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&copy)?;
    file.write_all(&serde_json::to_vec(rows)?)?;
    file.sync_all()?;
    fs::rename(&copy, path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::dashboard::days::DayNumbers;

    #[tokio::test]
    async fn the_totals_are_restored_and_a_damaged_file_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let at = format!("file:{}", dir.path().join("store.db").display());
        let base = ("upstream.base", "http://127.0.0.1:9/v1");
        let config = Config::default_with([base, ("store.at", &at)]).unwrap();
        let recent = || Arc::<RecentConversations>::default();
        let row = DayRow {
            day: 20_000,
            model: "m".into(),
            numbers: DayNumbers::default(),
        };
        let first = recent();
        let file = Arc::new(DaysFile::open(&config.store, &first).unwrap());
        first.restore_days(vec![row.clone()]);
        file.write().await;
        let second = recent();
        DaysFile::open(&config.store, &second).unwrap();
        assert_eq!(second.days(), [row]);
        fs::write(dir.path().join("store.db.days.json"), "{").unwrap();
        let third = recent();
        assert!(DaysFile::open(&config.store, &third).is_some());
        assert_eq!(third.days(), []);
    }
}
