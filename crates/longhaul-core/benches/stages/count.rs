//! Instruction counts of a pass: this program runs itself under callgrind, which counts only inside
//! [`counted_pass`]. Unlike times, counts are stable on a busy machine.

use crate::bodies::Body;
use crate::stage::Stage;
use longhaul_core::dialect::Dialect;
use std::error::Error;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Argument that marks the counted run.
pub(crate) const CHILD: &str = "--counted";

/// Counter with a temporary folder that hands the body to the child process.
pub(crate) struct Counter {
    program: PathBuf,
    folder: tempfile::TempDir,
}

impl Counter {
    /// Returns `None` if valgrind is not installed.
    pub(crate) fn find() -> Result<Option<Self>, Box<dyn Error>> {
        let found = Command::new("valgrind")
            .arg("--version")
            .stdout(Stdio::null())
            .status()
            .is_ok_and(|status| status.success());
        Ok(if found {
            Some(Self { program: std::env::current_exe()?, folder: tempfile::tempdir()? })
        } else {
            None
        })
    }

    /// Counts the instructions of one pass of `stage` over `body`, after an uncounted warm-up pass.
    pub(crate) fn count(&self, stage: Stage, body: &Body) -> Result<u64, Box<dyn Error>> {
        let file = self.folder.path().join("body");
        std::fs::write(&file, &body.bytes)?;
        let output = Command::new("valgrind")
            .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
            .args(["--collect-atstart=no", "--toggle-collect=*counted_pass*"])
            .arg(&self.program)
            .args([CHILD, stage.name(), body.dialect.path()])
            .arg(&file)
            .output()?;
        let report = String::from_utf8_lossy(&output.stderr);
        let counted = report
            .lines()
            .find_map(|line| line.split_once("Collected :"))
            .ok_or_else(|| format!("callgrind counted nothing:\n{report}"))?;
        Ok(counted.1.trim().parse()?)
    }
}

/// Executes the counted run in the child process.
pub(crate) fn in_child(stage: &str, path: &str, file: &Path) -> Result<(), Box<dyn Error>> {
    let stage =
        Stage::ALL.into_iter().find(|known| known.name() == stage).ok_or("no such stage")?;
    let body = std::fs::read(file)?;
    let dialect = Dialect::of_path(&["/v1", path].concat()).ok_or("no such API")?;
    let mut pass = stage.pass(dialect, &body)?.ok_or("nothing to splice")?;
    // Warm-up: one-time initialisation (processor features, tables) is not part of a request's
    // cost.
    black_box(pass());
    black_box(counted_pass(&mut *pass));
    Ok(())
}

#[inline(never)]
fn counted_pass(pass: &mut dyn FnMut() -> usize) -> usize {
    pass()
}
