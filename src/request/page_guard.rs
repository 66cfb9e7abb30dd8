//! Refusal of requests that a web page of another site makes a browser send.
//!
//! Any page in a local browser may send what a form can send. A page whose name was made to point
//! here can also read the reply (DNS rebinding). longhaul replaces `Host`, so the upstream cannot
//! make this check itself.

use http::header::ORIGIN;
use http::{HeaderMap, HeaderName, Request, Uri};

use crate::error::Fault;
use crate::request::host_check::{Host, requested_hosts};

/// Fetch metadata that browsers send. A page can neither set nor omit this field.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Refuses pages of other sites and unknown host names.
#[derive(Clone)]
pub(crate) struct PageGuard {
    /// Host names of the settings, in lower case.
    allowed_hosts: Vec<String>,
}

impl PageGuard {
    pub(crate) fn new(allowed_hosts: &[String]) -> Self {
        let hosts = allowed_hosts.iter().map(|host| host.trim());
        Self {
            allowed_hosts: hosts.map(str::to_ascii_lowercase).collect(),
        }
    }

    /// Checks whether the sender of `request` is served.
    ///
    /// # Errors
    /// - `ForeignPage` if a page of another site caused the request.
    /// - `UnknownHost` if the request names a host that anybody could have made to point here.
    pub(crate) fn admit<B>(&self, request: &Request<B>) -> Result<(), Fault> {
        let headers = request.headers();
        if self.is_from_foreign_page(headers) {
            return Err(Fault::ForeignPage);
        }
        if requested_hosts(request).all(|host| self.is_known(&host)) {
            Ok(())
        } else {
            Err(Fault::UnknownHost)
        }
    }

    /// Whether a page of another site caused the request. Programs send no origin, and no page can
    /// assume the origin of an app or extension.
    ///
    /// A browser omits the origin when it loads a page, an image or a script, and when it takes the
    /// request for same-origin. `Sec-Fetch-Site` reveals the first kind, the host the second.
    fn is_from_foreign_page(&self, headers: &HeaderMap) -> bool {
        let mut origins = headers.get_all(ORIGIN).iter().peekable();
        if origins.peek().is_none() {
            return is_cross_site(headers);
        }
        origins.any(|origin| match Uri::try_from(origin.as_bytes()) {
            // A page without an origin, such as a sandboxed frame.
            _ if origin == "null" => true,
            Ok(origin) => {
                let scheme = origin.scheme_str().unwrap_or_default();
                let is_own = origin.host().is_some_and(|host| match Host::parse(host) {
                    Host::Address(address) => address.is_loopback(),
                    // A server of the local network is another site too.
                    Host::Local(name) | Host::Name(name) => {
                        name == "localhost"
                            || name.ends_with(".localhost")
                            || self.allowed_hosts.contains(&name)
                    }
                });
                matches!(scheme, "" | "http" | "https") && !is_own
            }
            Err(_) => false,
        })
    }

    /// Whether no stranger can make this name point to this machine: an address, a name reserved
    /// for local use, or a name of the settings.
    fn is_known(&self, host: &Host) -> bool {
        match host {
            Host::Address(_) | Host::Local(_) => true,
            Host::Name(name) => self.allowed_hosts.contains(name),
        }
    }
}

/// Whether a browser reports that another site, or another port, initiated the request.
fn is_cross_site(headers: &HeaderMap) -> bool {
    let mut sites = headers.get_all(SEC_FETCH_SITE).iter();
    sites.any(|site| site == "cross-site" || site == "same-site")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks a request with these fields, separated by `|`, where `app.example` is allowed.
    fn check(fields: &str, expect: Result<(), Fault>) {
        let guard = PageGuard::new(&["App.example".to_owned()]);
        let mut request = Request::new(());
        for field in fields.split('|') {
            let (name, value) = field.split_once(": ").unwrap();
            let name: HeaderName = name.parse().unwrap();
            request.headers_mut().append(name, value.parse().unwrap());
        }
        assert_eq!(guard.admit(&request), expect, "{fields}");
    }

    #[test]
    fn serves_local_and_allowed_origins_only() {
        for origin in [
            "http://localhost:3000",
            "http://LOCALHOST:3000",
            "http://[::ffff:127.0.0.1]:3000",
            "https://127.0.0.1",
            "http://[::1]:8484",
            "https://app.example",
            "vscode-webview://1a2b",
            "file://",
        ] {
            check(&format!("origin: {origin}"), Ok(()));
        }
        for origin in [
            "null",
            "https://example.org",
            "https://sub.app.example",
            "http://localhost.example.org:8484",
            "http://203.0.113.5",
            "http://webui:8080",
            "http://wiki.internal",
        ] {
            check(&format!("origin: {origin}"), Err(Fault::ForeignPage));
        }
    }

    #[test]
    fn rejects_cross_site_fetches_without_an_origin() {
        for site in ["cross-site", "same-site"] {
            let image = format!("host: 127.0.0.1:8484|sec-fetch-site: {site}");
            check(&image, Err(Fault::ForeignPage));
            for origin in ["http://localhost:3000", "app://main"] {
                check(&format!("{image}|origin: {origin}"), Ok(()));
            }
        }
        for site in ["none", "same-origin"] {
            check(
                &format!("host: localhost:8484|sec-fetch-site: {site}"),
                Ok(()),
            );
        }
    }

    #[test]
    fn accepts_only_local_and_allowed_host_names() {
        for host in [
            "127.0.0.1:8484",
            "localhost",
            "lh.localhost:8484",
            "host.docker.internal:8484",
            "host.containers.internal",
            "longhaul:8484",
            "APP.example:8484",
            "",
        ] {
            check(&format!("host: {host}"), Ok(()));
        }
        for host in [
            "evil.example",
            "localhost.example:8484",
            "127.0.0.1.example",
            "internal.example",
            "user@127.0.0.1",
        ] {
            check(&format!("host: {host}"), Err(Fault::UnknownHost));
        }
        check(
            "host: 127.0.0.1|host: evil.example",
            Err(Fault::UnknownHost),
        );
    }
}
