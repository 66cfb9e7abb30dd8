//! The signals that longhaul forwards to a command.

use std::io;

#[cfg(unix)]
use rustix::process::{Pid, Signal, getpgrp, kill_process};
#[cfg(unix)]
use rustix::termios::tcgetpgrp;

/// The signals that end a program, as one sequence.
pub(super) struct Signals {
    #[cfg(unix)]
    receivers: Vec<(ForwardedSignal, tokio::signal::unix::Signal)>,
}

/// A signal that ends a program.
#[cfg(unix)]
#[derive(Clone, Copy)]
pub(super) struct ForwardedSignal(Signal);

/// A signal that no system without signals sends.
#[cfg(not(unix))]
pub(super) enum ForwardedSignal {}

#[cfg(unix)]
impl ForwardedSignal {
    /// Whether a terminal sent the signal. If so, the command, in the same process group, has
    /// received it too.
    pub(super) fn is_sent_by_terminal(self) -> bool {
        [Signal::INT, Signal::QUIT].contains(&self.0) && is_in_foreground()
    }

    /// Sends the signal to a process, unless the process has ended.
    pub(super) fn send_to(self, id: u32) {
        if let Some(id) = i32::try_from(id).ok().and_then(Pid::from_raw) {
            _ = kill_process(id, self.0);
        }
    }
}

#[cfg(unix)]
impl Signals {
    /// Subscribes to the signals that are not ignored at start, as under `nohup`. A handler would
    /// end that for the command too.
    pub(super) fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let ignored = ignored_signals();
        let mut heard = Vec::new();
        for forwarded in [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM] {
            let number = forwarded.as_raw();
            // The first bit of the mask is signal 1.
            if ignored & (1 << (number - 1)) == 0 {
                let received = signal(SignalKind::from_raw(number))?;
                heard.push((ForwardedSignal(forwarded), received));
            }
        }
        Ok(Self { receivers: heard })
    }

    pub(super) async fn next(&mut self) -> ForwardedSignal {
        std::future::poll_fn(|context| {
            for (forwarded, signal) in &mut self.receivers {
                if signal.poll_recv(context).is_ready() {
                    return std::task::Poll::Ready(*forwarded);
                }
            }
            std::task::Poll::Pending
        })
        .await
    }
}

/// Whether longhaul's process group is in the foreground of its terminal, and so receives what is
/// typed there. Independent of where the standard streams lead.
#[cfg(unix)]
fn is_in_foreground() -> bool {
    let terminal = std::fs::File::open("/dev/tty");
    terminal.is_ok_and(|terminal| tcgetpgrp(terminal) == Ok(getpgrp()))
}

/// Returns the mask of signals that this process ignores, or 0 if the system does not report one.
#[cfg(unix)]
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default()
}

#[cfg(not(unix))]
impl ForwardedSignal {
    pub(super) fn is_sent_by_terminal(self) -> bool {
        match self {}
    }

    pub(super) fn send_to(self, _: u32) {
        match self {}
    }
}

#[cfg(not(unix))]
impl Signals {
    #[expect(clippy::unnecessary_wraps, reason = "the same signature as where it can fail")]
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {})
    }

    /// Never returns: Ctrl-C reaches the command directly.
    pub(super) async fn next(&mut self) -> ForwardedSignal {
        loop {
            if tokio::signal::ctrl_c().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}
