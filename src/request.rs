//! Receiving a request: paths, headers, scope, keys, and the body of a chat.

pub(crate) mod access_keys;
pub(crate) mod buffered_body;
pub(crate) mod caller_identity;
pub(crate) mod credentials;
pub(crate) mod headers;
pub(crate) mod host_check;
pub(crate) mod keep_headers;
pub(crate) mod key_paths;
pub(crate) mod login;
pub(crate) mod overrides;
pub(crate) mod page_guard;
pub(crate) mod paths;
pub(crate) mod peer_address;
pub(crate) mod receive;
pub(crate) mod scope;

/// Returns the lines of a list in `data`, without its comments.
fn listed(list: &str) -> impl Iterator<Item = &str> {
    list.lines().filter(|line| !line.starts_with('#'))
}
