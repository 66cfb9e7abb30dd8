//! The signals that are passed on to a command.

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

/// One signal.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum ForwardedSignal {
    #[cfg(unix)]
    HangUp,
    #[cfg(unix)]
    Interrupt,
    #[cfg(unix)]
    Quit,
    #[cfg(unix)]
    Terminate,
}

#[cfg(unix)]
impl ForwardedSignal {
    const ALL: [Self; 4] = [Self::HangUp, Self::Interrupt, Self::Quit, Self::Terminate];

    /// Whether a terminal sends it, and so has sent it to the command too, which is in our group.
    pub(super) fn is_sent_by_terminal(self) -> bool {
        match self {
            Self::Interrupt | Self::Quit => is_in_foreground(),
            Self::HangUp | Self::Terminate => false,
        }
    }

    /// Sends it to a process; one that has ended in the meantime needs none.
    pub(super) fn send_to(self, id: u32) {
        if let Some(id) = i32::try_from(id).ok().and_then(Pid::from_raw) {
            _ = kill_process(id, self.signal());
        }
    }

    fn signal(self) -> Signal {
        match self {
            Self::HangUp => Signal::HUP,
            Self::Interrupt => Signal::INT,
            Self::Quit => Signal::QUIT,
            Self::Terminate => Signal::TERM,
        }
    }

    /// Its place in a mask, whose first bit is signal 1.
    fn mask_bit(self) -> u64 {
        1 << (self.signal().as_raw() - 1)
    }
}

#[cfg(unix)]
impl Signals {
    /// Those that are not ignored from the start, as `nohup` has it: to hear one is to end that, for
    /// the command too.
    pub(super) fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let kind = |told| match told {
            ForwardedSignal::HangUp => SignalKind::hangup(),
            ForwardedSignal::Interrupt => SignalKind::interrupt(),
            ForwardedSignal::Quit => SignalKind::quit(),
            ForwardedSignal::Terminate => SignalKind::terminate(),
        };
        let ignored = ignored_signals();
        let mut heard = Vec::new();
        for told in ForwardedSignal::ALL {
            if ignored & told.mask_bit() == 0 {
                heard.push((told, signal(kind(told))?));
            }
        }
        Ok(Self { receivers: heard })
    }

    /// The next of them.
    pub(super) async fn next(&mut self) -> ForwardedSignal {
        std::future::poll_fn(|context| {
            for (told, signal) in &mut self.receivers {
                if signal.poll_recv(context).is_ready() {
                    return std::task::Poll::Ready(*told);
                }
            }
            std::task::Poll::Pending
        })
        .await
    }
}

/// Whether our group is the one that hears what is typed at our terminal, wherever the standard
/// streams lead.
#[cfg(unix)]
fn is_in_foreground() -> bool {
    let terminal = std::fs::File::open("/dev/tty");
    terminal.is_ok_and(|terminal| tcgetpgrp(terminal) == Ok(getpgrp()))
}

/// The mask of the signals that this process ignores; of none where the system does not say it.
#[cfg(unix)]
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or_default()
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
    #[expect(
        clippy::unnecessary_wraps,
        reason = "the same signature as where it can fail"
    )]
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {})
    }

    /// Ctrl-C reaches the command by itself.
    pub(super) async fn next(&mut self) -> ForwardedSignal {
        loop {
            if tokio::signal::ctrl_c().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}
