//! An error of the client library to the fault it means.

use std::error::Error as StdError;
use std::io;

use hyper_util::client::legacy::Error;

use crate::error::Fault;

/// The fault behind an error. Told by the types in its chain; only a failed lookup has none of its
/// own and is told by hyper-util's word for it.
pub(super) fn of(error: &Error) -> Fault {
    if error.is_connect() {
        connecting(error)
    } else {
        talking(error)
    }
}

fn connecting(error: &Error) -> Fault {
    for cause in chain(error) {
        if cause.downcast_ref::<rustls::Error>().is_some() {
            return Fault::UpstreamTls;
        }
        if let Some(system) = cause.downcast_ref::<io::Error>() {
            if system
                .get_ref()
                .is_some_and(|inner| inner.is::<rustls::Error>())
            {
                return Fault::UpstreamTls;
            }
            if system.kind() == io::ErrorKind::TimedOut {
                return Fault::UpstreamTimedOut;
            }
        }
        if cause.to_string().starts_with("dns error") {
            return Fault::UpstreamUnresolved;
        }
    }
    Fault::UpstreamUnreachable
}

fn talking(error: &Error) -> Fault {
    for cause in chain(error) {
        if let Some(hyper) = cause.downcast_ref::<hyper::Error>() {
            if hyper.is_parse() {
                return Fault::UpstreamMalformed;
            }
        }
    }
    Fault::UpstreamBroke
}

fn chain<'a>(error: &'a Error) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(error.source(), |&cause| cause.source())
}
