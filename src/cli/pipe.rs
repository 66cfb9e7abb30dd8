//! What a command works on and what it answers: a file or standard input, and standard output.

use std::fs::File;
use std::io::{self, IsTerminal as _, Read, Write as _};
use std::path::{Path, PathBuf};

use clap::{Arg, value_parser};

/// The argument that names the file.
pub(super) fn file() -> Arg {
    Arg::new("file")
        .value_name("FILE")
        .value_parser(value_parser!(PathBuf))
        .help("The request body; standard input if it is absent or -")
}

/// The file, or standard input for `-`.
pub(super) fn open(file: &Path) -> io::Result<Box<dyn Read>> {
    if file != Path::new("-") {
        return Ok(Box::new(File::open(file)?));
    }
    let input = io::stdin();
    if input.is_terminal() {
        // Else it looks as if it hung.
        super::tell("longhaul: reading a request body from the terminal\n");
    }
    Ok(Box::new(input))
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
