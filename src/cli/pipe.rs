//! Output of commands, and their input.

use std::io::{self, Read, Write as _};
use std::path::{Path, PathBuf};

use anstream::AutoStream;
use clap::ArgMatches;

use crate::error::Problem;
use longhaul_console::input::open_input;

/// Returns the file that the argument `file` names; `-` stands for standard input.
pub(super) fn input_file(matches: &ArgMatches) -> &Path {
    let file = matches.get_one::<PathBuf>("file");
    file.map_or_else(|| Path::new("-"), PathBuf::as_path)
}

/// Returns the input up to one byte beyond `limit`, and the rest. Fails if `file` cannot be read.
pub(super) fn read_input(file: &Path, limit: u64) -> Result<(Vec<u8>, impl Read), Problem> {
    let mut body = Vec::new();
    let read = open_input(file).and_then(|mut input| {
        input.by_ref().take(limit + 1).read_to_end(&mut body)?;
        Ok(input)
    });
    let reason = |error| format!("{error}; give a file, or - for standard input");
    let rest = read.map_err(|error| Problem::Input { path: file.into(), reason: reason(error) })?;
    Ok((body, rest))
}

/// Writes to standard output. A reader that has left, as `head` does, is not an error.
pub(super) fn write_output(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    ignore_broken_pipe(out.write_all(bytes).and_then(|()| out.flush()))
}

/// Like [`write_output`], for input that has yet to be read.
pub(super) fn copy_to_output(mut rest: impl Read) -> io::Result<()> {
    let mut out = io::stdout().lock();
    ignore_broken_pipe(io::copy(&mut rest, &mut out).and_then(|_| out.flush()))
}

/// Like [`write_output`], for text with ANSI styles. Removes them unless standard output is a
/// terminal that wants them: `NO_COLOR`, `CLICOLOR`, `CLICOLOR_FORCE` and `TERM` decide.
pub(super) fn write_styled_output(text: &str) -> io::Result<()> {
    let mut out = AutoStream::auto(io::stdout().lock());
    ignore_broken_pipe(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// Writes text with ANSI styles to standard error, under the rule of [`write_styled_output`].
/// Ignores failures: there is nowhere left to report them.
pub(super) fn write_styled_error(text: &str) {
    _ = AutoStream::auto(io::stderr().lock()).write_all(text.as_bytes());
}

fn ignore_broken_pipe(written: io::Result<()>) -> io::Result<()> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}
