//! What a command works on and what it answers: a file or standard input, and standard output.

use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal as _, Read, Write as _};
use std::path::{Path, PathBuf};

use clap::{Arg, value_parser};
use flate2::read::GzDecoder;

/// The argument that names the file.
pub(super) fn file() -> Arg {
    Arg::new("file")
        .value_name("FILE")
        .value_parser(value_parser!(PathBuf))
        .help("The request body, JSON, gzip or not; standard input if it is absent or -")
}

/// How a gzip file begins.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// The file, or standard input for `-`, unpacked if it is gzip.
pub(super) fn open(file: &Path) -> io::Result<Box<dyn Read>> {
    let mut input = packed(file)?;
    Ok(if input.fill_buf()?.starts_with(&GZIP) {
        Box::new(GzDecoder::new(input))
    } else {
        Box::new(input)
    })
}

fn packed(file: &Path) -> io::Result<Box<dyn BufRead>> {
    if file != Path::new("-") {
        return Ok(Box::new(BufReader::new(File::open(file)?)));
    }
    let input = io::stdin();
    if input.is_terminal() {
        // Else it looks as if it hung.
        super::tell("longhaul: reading a request body from the terminal\n");
    }
    Ok(Box::new(input.lock()))
}

/// To standard output; a reader that has left, as `head` does, is no error.
pub(super) fn write(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    forgive(out.write_all(bytes).and_then(|()| out.flush()))
}

/// The same for what is still to be read.
pub(super) fn copy(mut rest: impl Read) -> io::Result<()> {
    let mut out = io::stdout().lock();
    forgive(io::copy(&mut rest, &mut out).and_then(|_| out.flush()))
}

fn forgive(written: io::Result<()>) -> io::Result<()> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}
