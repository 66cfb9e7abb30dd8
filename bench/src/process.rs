//! Processor time and memory of a process, as reported by the kernel.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// A running process.
#[derive(Clone, Copy, Debug)]
pub struct Process(pub u32);

impl Process {
    /// Returns the user and system time of the process's current threads, to the nanosecond. The
    /// time of a finished thread is lost; the programs measured here keep their threads.
    ///
    /// # Errors
    /// The process does not exist, or the kernel does not keep these statistics.
    pub fn processor_time(self) -> io::Result<Duration> {
        let mut nanoseconds = 0;
        for thread in fs::read_dir(self.file("task"))? {
            let statistics = fs::read_to_string(thread?.path().join("schedstat"))?;
            nanoseconds += first_number(&statistics);
        }
        Ok(Duration::from_nanos(nanoseconds))
    }

    /// Returns a memory figure from its `status`, such as `VmRSS` or `VmHWM`, in KiB.
    ///
    /// # Errors
    /// The process does not exist.
    pub fn memory_kib(self, name: &str) -> io::Result<u64> {
        let status = fs::read_to_string(self.file("status"))?;
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let figure = line.and_then(|line| line.strip_prefix(':'));
        Ok(figure.map_or(0, first_number))
    }

    fn file(self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/{name}", self.0))
    }
}

fn first_number(text: &str) -> u64 {
    let word = text.split_whitespace().next();
    word.and_then(|word| word.parse().ok()).unwrap_or(0)
}
