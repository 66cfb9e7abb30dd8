//! The signals that longhaul forwards to a command.

use crate::cli::signals::Signal;

/// Returns the signals that end a program, without those ignored at start, as under `nohup`. A handler
/// would end that for the command too.
pub(super) fn forwarded() -> impl Iterator<Item = Signal> {
    let ignored = ignored_signals();
    let all = [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM];
    // The first bit of the mask is signal 1.
    all.into_iter().filter(move |signal| ignored & (1 << (signal.as_raw() - 1)) == 0)
}

/// Whether a terminal sent the signal. If so, the command, in the same process group, has received it
/// too: longhaul's process group is in the foreground. Independent of where the standard streams lead.
#[cfg(unix)]
pub(super) fn is_sent_by_terminal(signal: Signal) -> bool {
    use rustix::process::getpgrp;
    use rustix::termios::tcgetpgrp;
    let terminal = || std::fs::File::open("/dev/tty");
    [Signal::INT, Signal::QUIT].contains(&signal)
        && terminal().is_ok_and(|terminal| tcgetpgrp(terminal) == Ok(getpgrp()))
}

/// Sends the signal to a process, unless the process has ended.
#[cfg(unix)]
pub(super) fn send(signal: Signal, id: u32) {
    use rustix::process::{Pid, kill_process};
    if let Some(id) = i32::try_from(id).ok().and_then(Pid::from_raw) {
        _ = kill_process(id, signal);
    }
}

/// Returns the mask of signals that this process ignores, or 0 if the system does not report one.
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default()
}

/// Ctrl-C reaches the command directly.
#[cfg(not(unix))]
pub(super) fn is_sent_by_terminal(_: Signal) -> bool {
    true
}

#[cfg(not(unix))]
pub(super) fn send(_: Signal, _: u32) {}
