//! The owners that a request counts against: each credential that authenticates it, and its address.

use std::iter;
use std::net::IpAddr;
use std::sync::Arc;

use http::Extensions;
use longhaul_core::units::scope::ScopeTag;

/// Public tag of an owner: of a credential, or of an address.
pub(crate) type OwnerTag = ScopeTag;

/// The owners of what one request occupies.
///
/// A caller may vary one credential and keep another, so the request counts against each. Header fields
/// that merely tell callers apart own nothing: anyone can invent them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Owners {
    credentials: Option<Arc<[OwnerTag]>>,
    /// Tag of all credentials together.
    set: Option<OwnerTag>,
    /// Whether longhaul or an upstream has accepted the credentials together.
    pub(crate) is_accepted: bool,
    /// The address that the request comes from; `None` for longhaul itself.
    peer: Option<IpAddr>,
}

impl Owners {
    /// Creates the owners of a request without credentials, or whose credentials prove nothing.
    pub(crate) fn strangers(peer: Option<IpAddr>) -> Self {
        Self { peer, ..Self::default() }
    }

    /// Creates the owner of what all callers at an address hold together.
    pub(crate) fn of_address(peer: IpAddr) -> Self {
        Self { is_accepted: true, ..Self::strangers(Some(peer)) }
    }

    /// Creates the owners of a request with `credentials`, at least one, of which `set` is the common tag.
    pub(crate) fn new(credentials: Vec<OwnerTag>, set: OwnerTag, peer: Option<IpAddr>) -> Self {
        Self { credentials: Some(credentials.into()), set: Some(set), is_accepted: false, peer }
    }

    pub(crate) fn credentials(&self) -> &[OwnerTag] {
        self.credentials.as_deref().unwrap_or_default()
    }

    /// Returns the tag of all credentials together. `None` without credentials.
    pub(crate) fn set(&self) -> Option<OwnerTag> {
        self.set
    }

    /// Returns the address that the request comes from.
    pub(crate) fn peer(&self) -> Option<IpAddr> {
        self.peer
    }

    /// Returns the tags of the credentials, or else the tag of the address.
    pub(crate) fn tags(&self) -> Vec<OwnerTag> {
        if self.credentials.is_none() {
            return self.peer.iter().map(|peer| address_tag(*peer)).collect();
        }
        self.credentials().to_vec()
    }

    /// Returns the owners of longhaul's own work for the holder of `tag`.
    pub(crate) fn of_tag(tag: OwnerTag, peer: Option<IpAddr>) -> Self {
        Self { is_accepted: true, ..Self::new(iter::once(tag).collect(), tag, peer) }
    }
}

#[cfg(test)]
impl Owners {
    pub(crate) fn of_tags(tags: &[OwnerTag]) -> Self {
        Self { is_accepted: true, ..Self::new(tags.to_vec(), tags[0], None) }
    }
}

/// Returns the owners of a request with these extensions.
pub(crate) fn of_request(request: &Extensions) -> Owners {
    request.get().cloned().unwrap_or_default()
}

/// Returns the tag of an address, which no credential has: credentials are hashed with a secret.
fn address_tag(peer: IpAddr) -> OwnerTag {
    let address = match peer {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    };
    let hash = blake3::hash(&address.octets());
    ScopeTag(hash.as_bytes().first_chunk().copied().unwrap_or_default())
}
