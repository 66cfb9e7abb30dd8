//! Process metrics under the standard names of Prometheus exporters, read from `/proc`. A metric is
//! omitted if the system does not provide it.

use std::fs;

pub(super) fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    kibibytes(&status, "VmRSS:").map(|kibibytes| kibibytes * 1024)
}

/// Returns the number of open files and sockets.
pub(super) fn open_descriptors() -> Option<u64> {
    let open = fs::read_dir("/proc/self/fd").ok()?.count() as u64;
    // The listing of the directory itself holds one descriptor.
    Some(open.saturating_sub(1))
}

/// Returns the maximum number of open files and sockets.
pub(super) fn max_descriptors() -> Option<u64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    open_files_limit(&limits)
}

/// Returns the number after `name` in the lines of `/proc/self/status`.
fn kibibytes(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}

/// Returns the soft limit on open files from the table of `/proc/self/limits`.
fn open_files_limit(limits: &str) -> Option<u64> {
    let row = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?;
    row.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_memory_in_kibibytes() {
        let status = "Name:\tlonghaul\nVmHWM:\t  9000 kB\nVmRSS:\t    7812 kB\n";
        assert_eq!(kibibytes(status, "VmRSS:"), Some(7_812));
        assert_eq!(kibibytes("VmRSS:\t7812 pages\n", "VmRSS:"), None);
    }

    #[test]
    fn reads_the_soft_limit_on_open_files() {
        let limits = "Limit  Soft Limit  Hard Limit  Units\n\
                      Max open files            1024                 524288               files\n";
        assert_eq!(open_files_limit(limits), Some(1_024));
        assert_eq!(
            open_files_limit("Max open files  unlimited  unlimited"),
            None
        );
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn reads_memory_and_open_descriptors_on_linux() {
        assert!(resident_bytes().is_some_and(|bytes| bytes > 1 << 20));
        assert!(open_descriptors().is_some_and(|open| open > 2));
    }
}
