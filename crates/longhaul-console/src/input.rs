//! Input of commands: a file or standard input, compressed or not.

use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal as _, Read, Write as _};
use std::path::Path;

use flate2::read::GzDecoder;

/// The first bytes of a gzip file.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Opens the file, or standard input for `-`, and decompresses gzip. Fails if the file cannot be opened or
/// its first bytes cannot be read.
pub fn open_input(file: &Path) -> io::Result<Box<dyn Read>> {
    let mut input = open_raw(file)?;
    Ok(if input.fill_buf()?.starts_with(&GZIP_MAGIC) {
        Box::new(GzDecoder::new(input))
    } else {
        Box::new(input)
    })
}

fn open_raw(file: &Path) -> io::Result<Box<dyn BufRead>> {
    if file != Path::new("-") {
        return Ok(Box::new(BufReader::new(File::open(file)?)));
    }
    let input = io::stdin();
    if input.is_terminal() {
        // Without this message, the program appears to hang.
        let notice =
            b"longhaul: reading a request body from the terminal, up to Ctrl-D; a file works too\n";
        _ = io::stderr().write_all(notice);
    }
    Ok(Box::new(input.lock()))
}
