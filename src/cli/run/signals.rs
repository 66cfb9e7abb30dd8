//! The signals that are passed on to a command.

use std::io;

/// The signals that end a program, as one sequence.
pub(super) struct Signals {
    #[cfg(unix)]
    heard: Vec<(Told, tokio::signal::unix::Signal)>,
}

/// One signal.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Told {
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
impl Told {
    const ALL: [Self; 4] = [Self::HangUp, Self::Interrupt, Self::Quit, Self::Terminate];

    /// Whether a terminal sends it to all of its group.
    pub(super) fn is_of_terminal(self) -> bool {
        match self {
            Self::Interrupt | Self::Quit => true,
            Self::HangUp | Self::Terminate => false,
        }
    }

    /// Sends it to a process; one that has ended in the meantime needs none.
    pub(super) fn send_to(self, id: u32) {
        use rustix::process::{Pid, Signal, kill_process};
        let signal = match self {
            Self::HangUp => Signal::HUP,
            Self::Interrupt => Signal::INT,
            Self::Quit => Signal::QUIT,
            Self::Terminate => Signal::TERM,
        };
        if let Some(id) = i32::try_from(id).ok().and_then(Pid::from_raw) {
            _ = kill_process(id, signal);
        }
    }
}

#[cfg(unix)]
impl Signals {
    pub(super) fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let kind = |told| match told {
            Told::HangUp => SignalKind::hangup(),
            Told::Interrupt => SignalKind::interrupt(),
            Told::Quit => SignalKind::quit(),
            Told::Terminate => SignalKind::terminate(),
        };
        let mut heard = Vec::new();
        for told in Told::ALL {
            heard.push((told, signal(kind(told))?));
        }
        Ok(Self { heard })
    }

    /// The next of them.
    pub(super) async fn next(&mut self) -> Told {
        std::future::poll_fn(|context| {
            for (told, signal) in &mut self.heard {
                if signal.poll_recv(context).is_ready() {
                    return std::task::Poll::Ready(*told);
                }
            }
            std::task::Poll::Pending
        })
        .await
    }
}

#[cfg(not(unix))]
impl Told {
    pub(super) fn is_of_terminal(self) -> bool {
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
    pub(super) async fn next(&mut self) -> Told {
        loop {
            if tokio::signal::ctrl_c().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}
