//! Connects to an upstream, directly or through the configured proxy.

use std::error::Error as StdError;
use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::uri::{Authority, Scheme};
use http::{HeaderValue, Uri};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use tower_service::Service;

use crate::config::{Proxies, ProxyUrl};
use crate::upstream::upstream_stream::UpstreamStream;

/// Default port of SOCKS proxies (RFC 1928). URLs of HTTP proxies imply the ports of HTTP.
const SOCKS_PORT: u16 = 1080;

pub(super) type BoxError = Box<dyn StdError + Send + Sync>;
/// Connects to a proxy, with TLS if the proxy's URL is https.
type ToProxyConnector = HttpsConnector<HttpConnector>;

/// Rules that select the proxy of each target.
#[derive(Debug)]
pub(super) struct ProxyRules(Matcher);

impl ProxyRules {
    /// Creates the rules; `None` if all targets are reached directly.
    pub(super) fn from_settings(proxies: &Proxies) -> Option<Arc<Self>> {
        let named = [&proxies.http, &proxies.https, &proxies.all];
        if named.iter().all(|named| named.is_none()) || proxies.no_proxy.trim() == "*" {
            return None;
        }
        let [http, https, all] = named.map(|url| url.as_ref().map_or("", ProxyUrl::expose));
        let matcher = Matcher::builder().http(http).https(https).all(all);
        let matcher = matcher.no(proxies.no_proxy.as_str());
        Some(Arc::new(Self(matcher.build())))
    }

    /// Returns the proxy of a target, if any. Loopback targets never use a proxy.
    fn proxy_for(&self, target: &Uri) -> Option<Intercept> {
        if target.host().is_none_or(is_loopback_host) {
            return None;
        }
        self.0.intercept(target)
    }

    /// Returns the proxy credentials to send with a request to `target`. `None` for tunnels: their
    /// CONNECT request carries the credentials.
    pub(super) fn authorization(&self, target: &Uri) -> Option<HeaderValue> {
        if target.scheme() != Some(&Scheme::HTTP) {
            return None;
        }
        self.proxy_for(target)?.basic_auth().cloned()
    }
}

/// Whether a host is this machine by itself: localhost, or a loopback address, with or without
/// brackets.
fn is_loopback_host(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    let address = address.parse::<IpAddr>();
    host.eq_ignore_ascii_case("localhost")
        || address.is_ok_and(|address| address.to_canonical().is_loopback())
}

/// Connects to a target's host, directly or through its proxy.
#[derive(Clone)]
pub(super) struct ProxyConnector {
    pub(super) tcp: HttpConnector,
    pub(super) proxying: Option<(Arc<ProxyRules>, ToProxyConnector)>,
}

impl Service<Uri> for ProxyConnector {
    type Response = UpstreamStream;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<UpstreamStream, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.tcp.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, target: Uri) -> Self::Future {
        let found = self.proxying.as_ref().and_then(|(rules, to_proxy)| {
            let proxy = rules.proxy_for(&target)?;
            Some((proxy, to_proxy.clone()))
        });
        let Some((proxy, to_proxy)) = found else {
            let connecting = self.tcp.call(target);
            return Box::pin(async move { Ok(UpstreamStream::new(connecting.await?)) });
        };
        let tcp = self.tcp.clone();
        Box::pin(async move {
            let reached = connect_through(&proxy, target, tcp, to_proxy).await;
            reached.map_err(|error| ProxyConnectError(error).into())
        })
    }
}

/// Connects to `target` through a proxy. The proxy resolves the name, since often only the proxy
/// can.
async fn connect_through(
    proxy: &Intercept,
    target: Uri,
    tcp: HttpConnector,
    mut to_proxy: ToProxyConnector,
) -> Result<UpstreamStream, BoxError> {
    let place = proxy.uri().clone();
    if place.scheme_str().is_some_and(|scheme| scheme.starts_with("socks")) {
        let mut socks = SocksV5::new(with_port(place, SOCKS_PORT)?, tcp);
        if let Some((user, password)) = proxy.raw_auth() {
            socks = socks.with_auth(user.to_owned(), password.to_owned());
        }
        let implied = if target.scheme() == Some(&Scheme::HTTP) { 80 } else { 443 };
        return Ok(UpstreamStream::new(socks.call(with_port(target, implied)?).await?));
    }
    if target.scheme() == Some(&Scheme::HTTP) {
        return Ok(UpstreamStream::to_forward_proxy(to_proxy.call(place).await?));
    }
    let mut tunnel = Tunnel::new(place, to_proxy);
    if let Some(authorization) = proxy.basic_auth() {
        tunnel = tunnel.with_auth(authorization.clone());
    }
    Ok(UpstreamStream::new(tunnel.call(target).await?))
}

fn with_port(uri: Uri, implied: u16) -> Result<Uri, BoxError> {
    if uri.port().is_some() {
        return Ok(uri);
    }
    let mut parts = uri.into_parts();
    let host = parts.authority.as_ref().map_or("", Authority::host);
    parts.authority = Some(format!("{host}:{implied}").parse()?);
    Ok(Uri::from_parts(parts)?)
}

/// Error of a proxy that cannot be reached or refuses the connection.
#[derive(Debug, thiserror::Error)]
#[error("cannot connect through the proxy")]
pub(super) struct ProxyConnectError(#[source] BoxError);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    /// Checks the proxy for `target` under these settings.
    fn check(settings: &[(&str, &str)], target: &str, expect: Option<&str>) {
        let config = Config::default_with(settings.iter().copied()).unwrap();
        let rules = ProxyRules::from_settings(&config.upstream.proxies);
        let found = rules.and_then(|rules| rules.proxy_for(&target.parse().unwrap()));
        let found = found.map(|proxy| proxy.uri().to_string());
        assert_eq!(found.as_deref(), expect, "{settings:?} {target}");
    }

    #[test]
    fn each_scheme_uses_its_proxy_or_else_the_general_one() {
        let (http, https) = (("proxy.http", "p:1"), ("proxy.https", "p:2"));
        let all = ("proxy.all", "socks5://p:3");
        check(&[http, https], "http://a.example/v1", Some("http://p:1/"));
        check(&[http, https], "https://a.example/v1", Some("http://p:2/"));
        check(&[http], "https://a.example/v1", None);
        check(&[http, all], "https://a.example/v1", Some("socks5://p:3/"));
        check(&[http, all], "http://a.example/v1", Some("http://p:1/"));
        check(&[], "https://a.example/v1", None);
    }

    #[test]
    fn loopback_and_exceptions_bypass_the_proxy() {
        let all = ("proxy.all", "http://p:1");
        for here in ["localhost:1", "127.0.0.1", "127.9.9.9:80", "[::1]:80", "[::ffff:127.0.0.1]"] {
            check(&[all], &format!("http://{here}/v1"), None);
        }
        let except = ("proxy.except", "a.example, 10.0.0.0/8");
        for near in ["a.example", "b.a.example:8443", "10.1.2.3"] {
            check(&[all, except], &format!("https://{near}/v1"), None);
        }
        for far in ["na.example", "11.1.2.3", "192.0.2.1"] {
            check(&[all, except], &format!("https://{far}/v1"), Some("http://p:1/"));
        }
        check(&[all, ("proxy.except", "*")], "https://192.0.2.1/v1", None);
    }

    #[test]
    fn proxy_password_is_sent_in_the_request_only_without_a_tunnel() {
        let settings = [("proxy.all", "http://me:hunter2@p:1")];
        let config = Config::default_with(settings).unwrap();
        let rules = ProxyRules::from_settings(&config.upstream.proxies).unwrap();
        let shown = |target: &str| rules.authorization(&target.parse().unwrap());
        assert_eq!(shown("http://a.example/v1").unwrap(), "Basic bWU6aHVudGVyMg==");
        assert_eq!(shown("https://a.example/v1"), None);
        assert_eq!(shown("http://127.0.0.1/v1"), None);
        assert!(!format!("{rules:?} {config:?}").contains("hunter2"));
    }
}
