//! Where clients connect, and that it is said who may where not only this machine can.

use std::net::SocketAddr;

use super::layers::Resolved;
use super::settings::{CLIENT_TOKENS_FILE, LISTEN, PUBLIC};
use crate::error::Problem;

/// Whether nobody but this machine can connect to it.
pub(super) fn is_of_this_machine(listen: SocketAddr) -> bool {
    listen.ip().to_canonical().is_loopback()
}

/// The address clients are told.
///
/// # Errors
/// Strangers could connect to it, and nothing says that they may.
pub(super) fn listen(found: &Resolved) -> Result<SocketAddr, Problem> {
    let listen = found.value(&LISTEN)?;
    let is_said = found.value(&PUBLIC)? || found.value(&CLIENT_TOKENS_FILE)?.is_some();
    if is_said || is_of_this_machine(listen) {
        return Ok(listen);
    }
    let reason = format!(
        "other machines can connect to {listen}, and nobody would be asked for anything: listen on \
         127.0.0.1:{port}, or ask for tokens ({tokens}), or set {public} = true (LONGHAUL_PUBLIC) \
         where only those get through who may, as in a container",
        port = listen.port(),
        tokens = CLIENT_TOKENS_FILE.key,
        public = PUBLIC.key,
    );
    Err(found.problem(&LISTEN, reason))
}

#[cfg(test)]
mod tests {
    use super::super::Config;

    fn check(listen: &str, more: &[(&str, &str)]) -> Result<(), String> {
        let listen = [("listen", listen)];
        let settings = listen.iter().chain(more).copied();
        let config = Config::default_with(settings);
        config.map(drop).map_err(|problems| problems[0].to_string())
    }

    #[test]
    fn a_listener_that_strangers_can_reach_has_to_be_meant() {
        for listen in [
            "0.0.0.0:8484",
            "[::]:8484",
            "192.0.2.1:80",
            "[2001:db8::1]:1",
        ] {
            let told = check(listen, &[]).unwrap_err();
            for way in ["127.0.0.1:", "client_tokens_file", "public = true"] {
                assert!(told.contains(way), "{told}");
            }
            assert!(check(listen, &[("public", "false")]).is_err());
            assert_eq!(check(listen, &[("public", "true")]), Ok(()));
        }
    }

    #[test]
    fn loopback_by_any_name_needs_no_word() {
        for listen in [
            "127.0.0.1:1",
            "localhost:1",
            "127.8.8.8:1",
            "[::1]:1",
            "[::ffff:127.0.0.1]:1",
        ] {
            assert_eq!(check(listen, &[]), Ok(()), "{listen}");
        }
    }
}
