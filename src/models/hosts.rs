//! Hosts of known providers, and local hosts.

use std::net::IpAddr;
use std::sync::LazyLock;

const HOSTS_TABLE: &str = include_str!("../../config/models/hosts.tsv");

/// A row of the table of hosts.
struct HostRow {
    /// A `*` matches any characters, or none.
    pattern: &'static str,
    /// Provider whose models are at such a host.
    provider: &'static str,
    /// Whether the provider makes the models that it serves, so that its rows state their own limits.
    is_maker: bool,
    /// Whether the host accepts requests that are signed for the host.
    checks_signatures: bool,
}

static HOSTS: LazyLock<Vec<HostRow>> = LazyLock::new(|| {
    let rows = HOSTS_TABLE.lines().filter(|line| !line.starts_with('#'));
    let parsed = rows.filter_map(|line| {
        let (pattern, rest) = line.split_once('\t')?;
        let (provider, mark) = rest.split_once('\t').unwrap_or((rest, ""));
        let (is_maker, checks_signatures) = (mark == "maker", mark == "signed");
        Some(HostRow { pattern, provider, is_maker, checks_signatures })
    });
    parsed.collect()
});

/// Whether `provider` makes the models that it serves.
pub(super) fn is_maker(provider: &str) -> bool {
    HOSTS.iter().any(|row| row.is_maker && row.provider == provider)
}

/// Whether `host` accepts signed requests, and only those that were signed for the host itself.
pub(crate) fn checks_signatures(host: &str) -> bool {
    let mut rows = HOSTS.iter().filter(|row| row.checks_signatures);
    rows.any(|row| matches_pattern(&host.to_ascii_lowercase(), row.pattern))
}

/// Suffixes that no public host name has. A name without a dot is local, too.
const LOCAL_NAMES: &[&str] =
    &[".home.arpa", ".internal", ".lan", ".local", ".localdomain", ".localhost"];

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum HostKind {
    /// On this machine or its own network.
    Local,
    Provider(&'static str),
    /// A public host of no known provider.
    Unknown,
}

impl HostKind {
    /// Classifies `host`: a name, or an address with or without brackets, without a port.
    pub(crate) fn from_host(host: &str) -> Self {
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        if let Ok(address) = bare.parse::<IpAddr>() {
            return if is_local(address) { Self::Local } else { Self::Unknown };
        }
        if !host.contains('.') || LOCAL_NAMES.iter().any(|ending| host.ends_with(ending)) {
            return Self::Local;
        }
        HOSTS
            .iter()
            .find(|row| matches_pattern(&host, row.pattern))
            .map_or(Self::Unknown, |row| Self::Provider(row.provider))
    }
}

fn matches_pattern(host: &str, pattern: &str) -> bool {
    match pattern.split_once('*') {
        None => host == pattern,
        Some((head, tail)) => {
            host.len() >= head.len() + tail.len() && host.starts_with(head) && host.ends_with(tail)
        }
    }
}

/// Whether `address` is loopback, private, link-local, unspecified, or one that carriers and
/// overlay networks assign (RFC 6598).
fn is_local(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => {
            let [one, two, ..] = address.octets();
            address.is_loopback()
                || address.is_private()
                || address.is_link_local()
                || address.is_unspecified()
                || (one == 100 && (64..128).contains(&two))
        }
        IpAddr::V6(address) => {
            address.is_loopback()
                || address.is_unique_local()
                || address.is_unicast_link_local()
                || address.is_unspecified()
        }
    }
}

#[cfg(test)]
pub(super) fn all() -> impl Iterator<Item = (String, &'static str)> {
    HOSTS.iter().map(|row| (row.pattern.replace('*', "xy"), row.provider))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(host: &str, expect: HostKind) {
        assert_eq!(HostKind::from_host(host), expect, "{host}");
    }

    #[test]
    fn recognises_providers_by_host() {
        check("api.openai.com", HostKind::Provider("openai"));
        check("API.OpenAI.com.", HostKind::Provider("openai"));
        check("mine.openai.azure.com", HostKind::Provider("azure"));
        check("bedrock-runtime.us-east-1.amazonaws.com", HostKind::Provider("bedrock"));
        check("dashscope-intl.aliyuncs.com", HostKind::Provider("dashscope"));
        check("dashscope.aliyuncs.com", HostKind::Provider("dashscope"));
        check("api.moonshot.cn", HostKind::Provider("moonshot"));
        check("api.business.githubcopilot.com", HostKind::Provider("github-copilot"));
        check("us-central1-aiplatform.googleapis.com", HostKind::Provider("vertex"));
    }

    #[test]
    fn a_host_that_only_looks_like_a_provider_is_unknown() {
        check("api.openai.com.example.org", HostKind::Unknown);
        check("openai.azure.com", HostKind::Unknown);
        check("notapi.openai.com", HostKind::Unknown);
        check("gateway.example.org", HostKind::Unknown);
        check("8.8.8.8", HostKind::Unknown);
    }

    #[test]
    fn loopback_and_private_hosts_are_local() {
        for host in [
            "localhost",
            "127.0.0.1",
            "[::1]",
            "0.0.0.0",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.1.1",
            "100.64.0.1",
            "[fd00::1]",
            "[fe80::1]",
            "[::ffff:10.0.0.1]",
            "ollama",
            "gpu.local",
            "host.docker.internal",
        ] {
            check(host, HostKind::Local);
        }
        check("172.32.0.1", HostKind::Unknown);
        check("100.128.0.1", HostKind::Unknown);
    }
}
