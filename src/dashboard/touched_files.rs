//! The files that a conversation touched most recently.

use std::collections::HashMap;

use crate::dashboard::dto::FileDto;
use longhaul_core::summary::file_activity::FileAccess;

/// Maximum files shown of each conversation.
const MAX_FILES: usize = 100;

/// The files touched most recently, with access counts. Up to twice as many are held as are shown,
/// so that eviction costs a long patch only one look at each of its files.
#[derive(Default)]
pub(super) struct TouchedFiles {
    by_path: HashMap<String, FileTouches>,
    /// Total number of touches.
    touches: u64,
}

/// Accesses to one file.
#[derive(Default)]
struct FileTouches {
    /// Sequence number of the last touch.
    last_touch: u64,
    read: u32,
    modified: u32,
    created: u32,
    deleted: u32,
}

impl TouchedFiles {
    /// Records a touch of a file.
    pub(super) fn touch(&mut self, path: String, touch: FileAccess) {
        self.touches += 1;
        let touched = self.by_path.entry(path).or_default();
        touched.last_touch = self.touches;
        let count = match touch {
            FileAccess::Created => &mut touched.created,
            FileAccess::Deleted => &mut touched.deleted,
            FileAccess::Modified => &mut touched.modified,
            FileAccess::Read => &mut touched.read,
        };
        *count += 1;
        self.evict();
    }

    /// Appends files that were touched after these.
    pub(super) fn append(&mut self, newer: Self) {
        for (path, more) in newer.by_path {
            let touched = self.by_path.entry(path).or_default();
            touched.last_touch = self.touches + more.last_touch;
            touched.read += more.read;
            touched.modified += more.modified;
            touched.created += more.created;
            touched.deleted += more.deleted;
        }
        self.touches += newer.touches;
        self.evict();
    }

    /// Returns the files to show, most recently touched first.
    pub(super) fn most_recent(&self) -> Vec<FileDto> {
        let mut files: Vec<_> = self.by_path.iter().collect();
        files.sort_unstable_by_key(|(_, touched)| std::cmp::Reverse(touched.last_touch));
        let shown = files.into_iter().take(MAX_FILES);
        let file = |(path, touched): (&String, &FileTouches)| FileDto {
            path: path.clone(),
            read: touched.read,
            modified: touched.modified,
            created: touched.created,
            deleted: touched.deleted,
        };
        shown.map(file).collect()
    }

    /// Evicts the files that would not be shown, if there are too many.
    fn evict(&mut self) {
        if self.by_path.len() <= 2 * MAX_FILES {
            return;
        }
        let mut last: Vec<u64> = self
            .by_path
            .values()
            .map(|touched| touched.last_touch)
            .collect();
        last.sort_unstable_by_key(|&last| std::cmp::Reverse(last));
        let oldest = last.get(MAX_FILES - 1).copied().unwrap_or_default();
        self.by_path
            .retain(|_, touched| touched.last_touch >= oldest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(files: &TouchedFiles) -> Vec<String> {
        files
            .most_recent()
            .into_iter()
            .map(|file| file.path)
            .collect()
    }

    /// Creates the files of the range `of`, each read once.
    fn read(of: std::ops::Range<usize>) -> TouchedFiles {
        let mut files = TouchedFiles::default();
        for at in of {
            files.touch(at.to_string(), FileAccess::Read);
        }
        files
    }

    #[test]
    fn lists_each_file_once_with_its_counts_most_recent_first() {
        let mut files = read(0..2);
        files.touch("0".into(), FileAccess::Modified);
        files.touch("2".into(), FileAccess::Created);
        files.touch("2".into(), FileAccess::Deleted);
        assert_eq!(paths(&files), ["2", "0", "1"]);
        let shown = files.most_recent();
        let counts = |file: &FileDto| [file.read, file.modified, file.created, file.deleted];
        let counts: Vec<_> = shown.iter().map(counts).collect();
        assert_eq!(counts, [[0, 0, 1, 1], [1, 1, 0, 0], [1, 0, 0, 0]]);
    }

    #[test]
    fn keeps_the_latest_files_up_to_twice_the_shown_number() {
        for count in [
            MAX_FILES,
            MAX_FILES + 1,
            2 * MAX_FILES,
            2 * MAX_FILES + 1,
            1_000,
        ] {
            let files = read(0..count);
            let last: Vec<_> = (count - MAX_FILES..count)
                .rev()
                .map(|at| at.to_string())
                .collect();
            assert_eq!(paths(&files), last, "{count}");
            assert!(files.by_path.len() <= 2 * MAX_FILES, "{count}");
        }
    }

    #[test]
    fn appended_files_are_newer() {
        let mut files = read(0..3);
        files.append(read(1..2));
        files.append(read(5..6));
        assert_eq!(paths(&files), ["5", "1", "2", "0"]);
        assert_eq!(files.most_recent()[1].read, 2);
        files.append(read(10..1_000));
        files.append(read(2_000..2_150));
        assert_eq!(files.most_recent()[0].path, "2149");
        assert!(files.by_path.len() <= 2 * MAX_FILES);
    }
}
