//! Signals to the process.

use std::io;

#[cfg(unix)]
pub(super) use rustix::process::Signal;

/// Signals, as one sequence.
pub(super) struct Signals {
    #[cfg(unix)]
    receivers: Vec<(Signal, tokio::signal::unix::Signal)>,
}

/// A signal, by its number on other systems. This one sends [`Signal::INT`] alone, for Ctrl-C.
#[cfg(not(unix))]
#[derive(Clone, Copy, Eq, PartialEq)]
pub(super) struct Signal(u8);

#[cfg(not(unix))]
impl Signal {
    pub(super) const HUP: Self = Self(1);
    pub(super) const INT: Self = Self(2);
    pub(super) const QUIT: Self = Self(3);
    pub(super) const TERM: Self = Self(15);

    pub(super) fn as_raw(self) -> u8 {
        self.0
    }
}

impl Signals {
    /// Subscribes to `signals`.
    #[cfg(unix)]
    pub(super) fn new(signals: impl IntoIterator<Item = Signal>) -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let receivers = signals.into_iter().map(|one| {
            let received = signal(SignalKind::from_raw(one.as_raw()))?;
            Ok((one, received))
        });
        Ok(Self { receivers: receivers.collect::<io::Result<_>>()? })
    }

    #[cfg(unix)]
    pub(super) async fn next(&mut self) -> Signal {
        use std::task::Poll;
        std::future::poll_fn(|context| {
            let mut receivers = self.receivers.iter_mut();
            match receivers.find_map(|(one, it)| it.poll_recv(context).is_ready().then_some(*one)) {
                Some(signal) => Poll::Ready(signal),
                None => Poll::Pending,
            }
        })
        .await
    }

    #[cfg(not(unix))]
    #[expect(clippy::unnecessary_wraps, reason = "the same signature as where it can fail")]
    pub(super) fn new(_signals: impl IntoIterator<Item = Signal>) -> io::Result<Self> {
        Ok(Self {})
    }

    #[cfg(not(unix))]
    pub(super) async fn next(&mut self) -> Signal {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        Signal::INT
    }
}
