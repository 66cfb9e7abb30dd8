//! Signals to the process: stop, or reload the settings.

use std::io;
#[cfg(unix)]
use std::io::IsTerminal as _;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Signal {
    /// Reload the settings (SIGHUP).
    #[cfg_attr(not(unix), expect(dead_code, reason = "there is no such signal"))]
    Reload,
    /// Stop (SIGTERM, SIGINT, or the end of the terminal).
    Stop,
}

/// The signals, as one sequence.
pub(super) struct Signals {
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    hang_up: tokio::signal::unix::Signal,
    /// Whether the process runs at a terminal, whose end also sends SIGHUP.
    #[cfg(unix)]
    at_terminal: bool,
}

#[cfg(unix)]
impl Signals {
    pub(super) fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
            at_terminal: is_at_terminal(),
        })
    }

    pub(super) async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.terminate.recv() => Signal::Stop,
            _ = self.interrupt.recv() => Signal::Stop,
            // If the terminal has gone, SIGHUP announced its end.
            _ = self.hang_up.recv() => if self.at_terminal && !is_at_terminal() {
                Signal::Stop
            } else {
                Signal::Reload
            },
        }
    }
}

/// Whether any standard stream is a terminal. `nohup` detaches all three from a process that is to
/// outlive its terminal.
#[cfg(unix)]
fn is_at_terminal() -> bool {
    io::stdin().is_terminal() || io::stdout().is_terminal() || io::stderr().is_terminal()
}

#[cfg(not(unix))]
impl Signals {
    #[expect(clippy::unnecessary_wraps, reason = "the same signature as where it can fail")]
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {})
    }

    pub(super) async fn next(&mut self) -> Signal {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        Signal::Stop
    }
}
