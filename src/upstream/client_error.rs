//! Maps errors of the HTTP client to faults.

use std::error::Error as StdError;
use std::io;
use std::net::{Ipv4Addr, UdpSocket};

use hyper_util::client::legacy::Error;

use crate::error::Fault;
use crate::upstream::proxy_connector::ProxyConnectError;

/// Returns the fault that caused an error, by the types in its source chain. Only a failed DNS
/// lookup has no type; hyper-util's message identifies the failure.
pub(super) fn to_fault(error: &Error) -> Fault {
    if error.is_connect() {
        connect_fault(error)
    } else {
        exchange_fault(error)
    }
}

/// Returns the innermost cause of a failed connection, such as the reason that the TLS library or
/// the operating system gives. `None` for any other error.
pub(super) fn connect_reason(error: &Error) -> Option<String> {
    let innermost = causes(error).last().filter(|_| error.is_connect())?;
    Some(innermost.to_string())
}

fn connect_fault(error: &Error) -> Fault {
    let ran_out =
        |cause: &(dyn StdError + 'static)| cause.downcast_ref().is_some_and(is_exhaustion);
    if causes(error).any(ran_out) {
        return Fault::NoDescriptors;
    }
    for cause in causes(error) {
        if cause.is::<ProxyConnectError>() {
            return Fault::UpstreamProxy;
        }
        if cause.is::<rustls::Error>() {
            return Fault::UpstreamTls;
        }
        let timed_out = |system: &io::Error| system.kind() == io::ErrorKind::TimedOut;
        if cause.downcast_ref().is_some_and(timed_out) {
            return Fault::UpstreamTimedOut;
        }
        if cause.to_string().starts_with("dns error") {
            // Without descriptors, the system's resolver reports that the name does not exist.
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0));
            return if socket.is_err_and(|error| is_exhaustion(&error)) {
                Fault::NoDescriptors
            } else {
                Fault::UpstreamUnresolved
            };
        }
    }
    Fault::UpstreamUnreachable
}

/// Whether the process or the system has reached its limit on open descriptors.
fn is_exhaustion(error: &io::Error) -> bool {
    #[cfg(unix)]
    let exhausted = [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE]
        .map(rustix::io::Errno::raw_os_error)
        .map(Some)
        .contains(&error.raw_os_error());
    #[cfg(not(unix))]
    let exhausted = {
        let _ = error;
        false
    };
    exhausted
}

fn exchange_fault(error: &Error) -> Fault {
    let malformed =
        |cause: &(dyn StdError + 'static)| cause.downcast_ref().is_some_and(hyper::Error::is_parse);
    if causes(error).any(malformed) {
        Fault::UpstreamMalformed
    } else {
        Fault::UpstreamBroke
    }
}

/// Iterates over the causes of an error, outermost first.
fn causes<'a>(error: &'a Error) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(error.source(), |&cause| next_cause(cause))
}

/// Returns the next cause. `io::Error::source` skips the error that it wraps, so the wrapped error
/// is taken first; TLS errors are wrapped twice.
fn next_cause<'a>(cause: &'a (dyn StdError + 'static)) -> Option<&'a (dyn StdError + 'static)> {
    let wrapped = cause
        .downcast_ref::<io::Error>()
        .and_then(io::Error::get_ref);
    wrapped.map_or_else(|| cause.source(), |wrapped| Some(wrapped))
}
