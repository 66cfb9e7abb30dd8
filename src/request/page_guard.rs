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
        Self { allowed_hosts: hosts.map(str::to_ascii_lowercase).collect() }
    }

    /// Checks whether the sender of `request` is served.
    ///
    /// # Errors
    /// - `ForeignPage` if a page of another site caused the request.
    /// - `UnknownHost` if the request names a host that anybody could have made to point here.
    pub(crate) fn admit<B>(&self, request: &Request<B>) -> Result<(), Fault> {
        self.admit_page(request.headers())?;
        if requested_hosts(request).all(|host| self.is_known(&host)) {
            Ok(())
        } else {
            Err(Fault::UnknownHost)
        }
    }

    /// Like [`PageGuard::admit`], under any host name. Fails with `ForeignPage`.
    pub(crate) fn admit_page(&self, headers: &HeaderMap) -> Result<(), Fault> {
        if self.is_from_foreign_page(headers) { Err(Fault::ForeignPage) } else { Ok(()) }
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
        origins.any(|origin| is_web_page(origin.as_bytes()) && !self.is_own(origin.as_bytes()))
    }

    /// Whether the pages of an origin are of this machine, or of a host in the settings.
    fn is_own(&self, origin: &[u8]) -> bool {
        let origin = Uri::try_from(origin).ok();
        let host = origin.as_ref().and_then(Uri::host);
        host.is_some_and(|host| match Host::parse(host) {
            Host::Address(address) => address.is_loopback(),
            // A server of the local network is another site too.
            Host::Local(name) | Host::Name(name) => {
                name == "localhost"
                    || name.ends_with(".localhost")
                    || self.allowed_hosts.contains(&name)
            }
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

/// Whether an origin is that of a page on the web, and not of an app, an extension or a file. A page
/// without an origin, such as a sandboxed frame, sends `null`. Browsers accept host names that
/// [`Uri`] refuses, so the scheme decides, and an origin without one is a page's.
fn is_web_page(origin: &[u8]) -> bool {
    let mut parts = origin.splitn(2, |byte| *byte == b':');
    let scheme = parts.next().unwrap_or_default();
    let is_of_web = [&b"http"[..], b"https"].iter().any(|web| scheme.eq_ignore_ascii_case(web));
    let is_without_scheme = !parts.next().is_some_and(|rest| rest.starts_with(b"//"));
    is_of_web || is_without_scheme
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
            "app://main",
            "tauri://localhost",
            "chrome-extension://abcdefgh",
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
            "example.org",
            "example.org:80",
            "",
        ] {
            check(&format!("origin: {origin}"), Err(Fault::ForeignPage));
        }
    }

    /// Browsers load pages from hosts that no `Uri` may have.
    #[test]
    fn rejects_pages_whose_origin_cannot_be_parsed() {
        for host in [
            "x{y.evil.example",
            "x}y.evil.example",
            "x`y.evil.example",
            "x\"y.evil.example",
            "x^y.evil.example",
            "a b.evil.example",
            "x.evil.example:99999999",
            "[::1",
            "ü.evil.example",
        ] {
            for scheme in ["http", "https", "HTTP", "hTTps"] {
                for site in ["", "|sec-fetch-site: cross-site", "|sec-fetch-site: same-origin"] {
                    let page = format!("origin: {scheme}://{host}{site}");
                    check(&page, Err(Fault::ForeignPage));
                    check(&format!("origin: http://localhost|{page}"), Err(Fault::ForeignPage));
                    check(&format!("{page}|origin: app://main"), Err(Fault::ForeignPage));
                }
            }
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
            check(&format!("host: localhost:8484|sec-fetch-site: {site}"), Ok(()));
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
        check("host: 127.0.0.1|host: evil.example", Err(Fault::UnknownHost));
    }
}
