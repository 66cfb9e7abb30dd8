//! Errors of a server in fixed words: the server's own messages may hold keys and values.

use redis::{ErrorKind, RedisError, ServerErrorKind};

use crate::store::durable::Unavailable;

/// The server sent no answer.
pub(super) const NO_ANSWER: Unavailable = Unavailable("the server does not answer");

/// The answer does not fit the command.
pub(super) const MALFORMED_ANSWER: Unavailable = Unavailable("the server's answer is malformed");

/// The user exists, but lacks a permission that longhaul needs.
const FORBIDDEN: &str =
    "the server does not permit its user a command that longhaul needs; the README lists them";

/// Returns the message about an error for the operator.
pub(super) fn unavailable(error: &RedisError) -> Unavailable {
    let why = match (error.code(), error.kind()) {
        (Some("NOAUTH" | "WRONGPASS"), _) | (_, ErrorKind::AuthenticationFailed) => {
            "the server refuses the user name or the password"
        }
        (Some("MISCONF"), _) => "the server cannot write to its disk",
        (Some("NOREPLICAS"), _) => "the server has too few replicas to write",
        (Some("OOM"), _) => {
            "the server's memory is full; give it more, or a maxmemory-policy of allkeys-lru"
        }
        (_, ErrorKind::Server(ServerErrorKind::BusyLoading)) => "the server is still loading",
        (_, ErrorKind::Server(ServerErrorKind::NoPerm)) => FORBIDDEN,
        (_, ErrorKind::Server(_)) if is_forbidden_to_scripts(error) => FORBIDDEN,
        (_, ErrorKind::Server(ServerErrorKind::ReadOnly)) => {
            "the server is a read-only copy; store.at has to name its primary"
        }
        (
            _,
            ErrorKind::ClusterConnectionNotFound
            | ErrorKind::Server(ServerErrorKind::ClusterDown | ServerErrorKind::MasterDown),
        ) => "part of the cluster is down",
        (_, ErrorKind::Io) if error.is_timeout() => NO_ANSWER.0,
        (_, ErrorKind::Io) if is_untrusted(error) => "the server's certificate is not trusted",
        (_, ErrorKind::Io) => "the server cannot be reached",
        _ => "the server rejects the command",
    };
    Unavailable(why)
}

/// Whether the user may not run a command in a script. Redis has no code for this up to 7.0, only
/// words.
fn is_forbidden_to_scripts(error: &RedisError) -> bool {
    let detail = error.detail().unwrap_or_default();
    detail.starts_with("The user executing the script can't ")
}

/// Whether the server's certificate is not trusted. The library reports a failed handshake as text.
fn is_untrusted(error: &RedisError) -> bool {
    error.to_string().contains("certificate")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(error: impl Into<RedisError>, expect: &str) {
        let error = error.into();
        assert_eq!(unavailable(&error).0, expect, "{error}");
    }

    #[test]
    fn each_error_kind_has_a_fixed_message() {
        check(
            (ErrorKind::AuthenticationFailed, "no", "secret".to_owned()),
            "the server refuses the user name or the password",
        );
        check(
            std::io::Error::from(std::io::ErrorKind::ConnectionRefused),
            "the server cannot be reached",
        );
        check(
            std::io::Error::from(std::io::ErrorKind::TimedOut),
            NO_ANSWER.0,
        );
        check(
            (ErrorKind::UnexpectedReturnType, "what"),
            "the server rejects the command",
        );
    }
}
