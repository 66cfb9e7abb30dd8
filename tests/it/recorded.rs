//! The recorded sessions, inflated.

use flate2::read::GzDecoder;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

/// Calls `test` with the name and the body of each session.
pub(crate) fn each(test: impl Fn(&str, &str)) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/sessions");
    let mut count = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|ending| ending != "gz") {
            continue;
        }
        let mut body = String::new();
        let mut file = GzDecoder::new(File::open(&path).unwrap());
        file.read_to_string(&mut body).unwrap();
        test(&path.file_name().unwrap().to_string_lossy(), &body);
        count += 1;
    }
    assert_eq!(count, 78, "all sessions are there");
}
