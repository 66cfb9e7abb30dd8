//! Readiness for systemd, which starts what depends on longhaul only then.

/// A state of the service.
#[derive(Clone, Copy, Debug)]
pub(super) enum State {
    /// Both listeners accept connections.
    Ready,
    /// The stop signal has arrived; requests in flight finish.
    Stopping,
}

/// Reports `state` to the service manager, if one has set `NOTIFY_SOCKET`. A failure is ignored:
/// the proxy serves without a manager, too.
pub(super) fn tell(state: State) {
    #[cfg(target_os = "linux")]
    {
        let state = match state {
            State::Ready => sd_notify::NotifyState::Ready,
            State::Stopping => sd_notify::NotifyState::Stopping,
        };
        _ = sd_notify::notify(&[state]);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = state;
}
