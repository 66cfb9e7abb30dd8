//! The admin listener: health, metrics, settings and the dashboard of a process.
//!
//! No credentials are required, so the listener is meant for this machine. If it is reachable from
//! elsewhere, as in a container that is probed from outside, others get only health and metrics. No
//! page contains a key or a header's value; the dashboard contains the beginnings of user messages.

pub(crate) mod commands;
pub(crate) mod events;
mod exposition;
mod overview;
mod table;

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use parking_lot::RwLock;
use percent_encoding::percent_decode_str;
use serde::Serialize;
use tokio::sync::Semaphore;

use crate::dashboard::shared;
use crate::explanation::RequestId;
use crate::models;
use crate::request::host_check::{Host, requested_hosts};
use events::{EventStream, MAX_VIEWERS};
use longhaul_core::cost::pricing::Price;
pub(crate) use overview::Overview;
use table::MetricsSource;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// The type includes the version of the format; Prometheus 3 rejects a page without it.
const METRICS_TYPE: HeaderValue =
    HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
const TEXT: HeaderValue = HeaderValue::from_static(PLAIN);

const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");
/// Prevents text of a conversation from running scripts or loading resources: only files of this
/// listener may.
const CONTENT_POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
);

/// Path that drops learned windows.
pub(crate) const FORGET_PATH: &str = "/windows/forget";

/// A value that no header has.
const LOCKED: HeaderValue = HeaderValue::from_static("");

pub(crate) const EVENTS_PATH: &str = "/events";

/// The list of pages, which answers an unknown path.
const CONTENTS: &str = include_str!("admin/contents.txt");

/// The pages of the admin listener.
pub(crate) struct Admin {
    pub(crate) overview: Arc<Overview>,
    /// Permits for event streams.
    viewers: Arc<Semaphore>,
    /// The settings as JSON, without secrets.
    settings: RwLock<Bytes>,
    /// Whether only programs on this machine can connect.
    is_on_loopback: bool,
    stopping: AtomicBool,
    /// Token of the reader's link; `None` without a state folder.
    pub(crate) token: Option<HeaderValue>,
    /// Address of the page, once this process serves it.
    pub(crate) address: OnceLock<SocketAddr>,
}

impl Admin {
    /// Creates the pages for a listener at `listen`.
    pub(crate) fn new(overview: Overview, settings: String, listen: SocketAddr) -> Self {
        let token = overview.folder().map(|folder| match shared::token(folder) {
            Ok(token) => HeaderValue::from_str(&token).unwrap_or(LOCKED),
            Err(error) => {
                tracing::warn!(%error, "nobody can read the dashboard: no token");
                LOCKED
            }
        });
        Self {
            token,
            address: OnceLock::new(),
            overview: Arc::new(overview),
            viewers: Arc::new(Semaphore::new(MAX_VIEWERS)),
            settings: RwLock::new(Bytes::from(settings)),
            is_on_loopback: listen.ip().to_canonical().is_loopback(),
            stopping: AtomicBool::new(false),
        }
    }

    pub(crate) fn set_settings(&self, settings: String) {
        *self.settings.write() = Bytes::from(settings);
    }

    /// Makes the process unready for new requests.
    pub(crate) fn set_stopping(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    /// Starts an event stream if the request from `peer` asks for one and may have one. Every other
    /// request is answered by [`Self::respond`].
    pub(crate) fn events<B>(
        &self,
        request: &Request<B>,
        peer: IpAddr,
    ) -> Option<Response<EventStream>> {
        if request.uri().path() != EVENTS_PATH
            || *request.method() != Method::GET
            || self.refusal(request, peer).is_some()
        {
            return None;
        }
        let viewer = Arc::clone(&self.viewers).try_acquire_owned().ok()?;
        let stream = EventStream::start(&self.overview, viewer);
        Some(with_common_headers(StatusCode::OK, EVENTS, stream))
    }

    pub(crate) fn respond<B>(&self, request: &Request<B>, peer: IpAddr) -> Response<Bytes> {
        if *request.method() == Method::POST && request.uri().path() == FORGET_PATH {
            return self.forget(request, peer);
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut refusal = text(StatusCode::METHOD_NOT_ALLOWED, "GET or HEAD\n");
            refusal.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return refusal;
        }
        // A web page whose name was made to point here could read the response.
        let is_ours = requested_hosts(request).all(|host| !matches!(host, Host::Name(_)));
        if self.is_on_loopback && !is_ours {
            return text(
                StatusCode::FORBIDDEN,
                "use an IP address or localhost as the host, not a name\n",
            );
        }
        let query = request.uri().query().unwrap_or_default();
        match request.uri().path() {
            "/livez" => text(StatusCode::OK, "alive\n"),
            "/readyz" if self.stopping.load(Ordering::Acquire) => {
                text(StatusCode::SERVICE_UNAVAILABLE, "stopping\n")
            }
            "/readyz" => text(StatusCode::OK, "ready\n"),
            "/metrics" => self.metrics(),
            path => {
                if let Some(page) = local_only(request, peer) {
                    return page;
                }
                if let Some((_, kind, body)) = ASSETS.iter().find(|(at, ..)| *at == path) {
                    return ok(HeaderValue::from_static(kind), Bytes::from_static(body));
                }
                self.refusal(request, peer).unwrap_or_else(|| self.local_page(path, query))
            }
        }
    }

    /// Returns the refusal of a page for the user alone: to another machine, another site, or a reader without
    /// the token. `None` if the client may have the page.
    pub(crate) fn refusal<B>(&self, request: &Request<B>, peer: IpAddr) -> Option<Response<Bytes>> {
        let shown = request.headers().get(shared::TOKEN);
        // Digests are compared in a time that does not depend on them.
        let digest = |value: &HeaderValue| blake3::hash(value.as_bytes());
        let is_shown = |token: &HeaderValue| {
            *token != LOCKED && shown.is_some_and(|shown| digest(shown) == digest(token))
        };
        let unlinked =
            || text(StatusCode::FORBIDDEN, "open the link that `longhaul dashboard` prints\n");
        local_only(request, peer)
            .or_else(|| self.token.as_ref().is_some_and(|it| !is_shown(it)).then(unlinked))
    }

    /// Drops the learned windows of the model in the query. A web page may not ask for this.
    fn forget<B>(&self, request: &Request<B>, peer: IpAddr) -> Response<Bytes> {
        let is_of_browser =
            ["origin", "sec-fetch-site"].iter().any(|name| request.headers().contains_key(*name));
        if is_of_browser || self.refusal(request, peer).is_some() {
            return text(StatusCode::FORBIDDEN, "available to programs of this machine only\n");
        }
        let query = request.uri().query().unwrap_or_default();
        let model = query.strip_prefix("model=").unwrap_or_default();
        json(&self.overview.forget(&percent_decode_str(model).decode_utf8_lossy()))
    }

    /// Returns a page that is served only to clients on this machine.
    fn local_page(&self, path: &str, query: &str) -> Response<Bytes> {
        let overview = &self.overview;
        let recent = &overview.state.recent;
        let found = match path {
            "/config" => Some(ok(JSON, self.settings.read().clone())),
            "/page" => self.address.get().map(|at| ok(TEXT, at.to_string().into())),
            "/join" => {
                recent.notify();
                Some(text(StatusCode::OK, "joined\n"))
            }
            "/conversations" => Some(ok(JSON, overview.changes_since(0).1)),
            "/quota" => Some(json(&overview.state.metrics.quotas.all())),
            "/windows" => Some(json(&overview.held_windows())),
            "/days" => Some(json(&overview.days(query == "beside"))),
            "/requests/last" => recent.last_explanation(None).map(|it| json(&it)),
            "/export.json" => Some(json(&recent.all_details())),
            EVENTS_PATH => Some(text(
                StatusCode::SERVICE_UNAVAILABLE,
                "too many viewers; close one of the dashboard's windows\n",
            )),
            _ => self.page_of_one(path, query),
        };
        found.unwrap_or_else(|| text(StatusCode::NOT_FOUND, CONTENTS))
    }

    /// Returns the page of one conversation or request.
    fn page_of_one(&self, path: &str, query: &str) -> Option<Response<Bytes>> {
        let recent = &self.overview.state.recent;
        if let Some(model) = path.strip_prefix("/prices/") {
            let model = percent_decode_str(model).decode_utf8_lossy();
            // Of a million tokens, in billionths of a dollar.
            let nanos = |price: Price| price.cost_of(1_000_000);
            let prices = models::proposed_prices(&model);
            return Some(json(&prices.map(|it| [Some(nanos(it.input)), it.cached.map(nanos)])));
        }
        if let Some(id) = path.strip_prefix("/requests/") {
            let explanation = recent.explanation(RequestId::parse(id)?)?;
            return Some(json(&explanation));
        }
        let rest = path.strip_prefix("/conversations/")?;
        match rest.split_once('/') {
            None => {
                let after = query.strip_prefix("after=").unwrap_or_default();
                let mut whole = recent.details(rest, after.parse().unwrap_or(0))?;
                whole.kept = self.overview.kept(&whole.kept_keys);
                Some(json(&whole))
            }
            Some((id, "last")) => recent.last_explanation(Some(id)).map(|it| json(&it)),
            Some(_) => None,
        }
    }

    fn metrics(&self) -> Response<Bytes> {
        let source = MetricsSource {
            metrics: &self.overview.state.metrics,
            started: self.overview.started / 1_000,
        };
        ok(METRICS_TYPE, exposition::render(table::METRICS, &source).into())
    }
}

/// Returns the refusal of a page that is served only to clients on this machine, or `None` if the
/// client may have the page.
fn local_only<B>(request: &Request<B>, peer: IpAddr) -> Option<Response<Bytes>> {
    let is_ours = requested_hosts(request).all(|host| !matches!(host, Host::Name(_)));
    let may = is_ours && peer.to_canonical().is_loopback() && !is_of_other_site(request);
    (!may).then(|| text(StatusCode::FORBIDDEN, "available from this machine only\n"))
}

/// Whether a page of another site makes this request in the background. Such a page cannot read the
/// response, but could hold the places of viewers. A link that a person follows does not count.
fn is_of_other_site<B>(request: &Request<B>) -> bool {
    let field = |name: &str| request.headers().get(name).map(HeaderValue::as_bytes);
    let is_other = matches!(field("sec-fetch-site"), Some(b"cross-site" | b"same-site"));
    is_other && field("sec-fetch-mode") != Some(b"navigate")
}

/// Returns a response with the headers of every page.
fn with_common_headers<B>(status: StatusCode, kind: HeaderValue, body: B) -> Response<B> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, kind);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CONTENT_SECURITY_POLICY, CONTENT_POLICY);
    response
}

fn ok(kind: HeaderValue, body: Bytes) -> Response<Bytes> {
    with_common_headers(StatusCode::OK, kind, body)
}

fn json(value: &impl Serialize) -> Response<Bytes> {
    ok(JSON, overview::json(value))
}

fn text(status: StatusCode, body: &'static str) -> Response<Bytes> {
    with_common_headers(status, TEXT, Bytes::from_static(body.as_bytes()))
}

const PLAIN: &str = "text/plain; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";

/// Files of the dashboard: path, type and content.
const ASSETS: &[(&str, &str, &[u8])] = &[
    ("/", "text/html; charset=utf-8", include_bytes!("admin/web/index.html")),
    ("/web/style.css", STYLE, include_bytes!("admin/web/style.css")),
    ("/web/app.js", SCRIPT, include_bytes!("admin/web/app.js")),
    ("/web/bar.js", SCRIPT, include_bytes!("admin/web/bar.js")),
    ("/web/commands.js", SCRIPT, include_bytes!("admin/web/commands.js")),
    ("/web/money.js", SCRIPT, include_bytes!("admin/web/money.js")),
    ("/web/trend.js", SCRIPT, include_bytes!("admin/web/trend.js")),
    ("/web/explanation.js", SCRIPT, include_bytes!("admin/web/explanation.js")),
    ("/web/chart.js", SCRIPT, include_bytes!("admin/web/chart.js")),
    ("/web/conversation.js", SCRIPT, include_bytes!("admin/web/conversation.js")),
    ("/web/format.js", SCRIPT, include_bytes!("admin/web/format.js")),
    ("/web/overview.js", SCRIPT, include_bytes!("admin/web/overview.js")),
    ("/web/state.js", SCRIPT, include_bytes!("admin/web/state.js")),
    ("/web/vendor/preact.js", SCRIPT, include_bytes!("admin/web/vendor/preact.js")),
    ("/web/vendor/uplot.js", SCRIPT, include_bytes!("admin/web/vendor/uplot.js")),
    ("/web/vendor/uplot.css", STYLE, include_bytes!("admin/web/vendor/uplot.css")),
    ("/web/vendor/LICENSES.txt", PLAIN, include_bytes!("admin/web/vendor/LICENSES.txt")),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::proxy_state::ProxyState;

    const HERE: &str = "127.0.0.1";
    const THERE: &str = "192.0.2.7";

    fn admin(listen: &str) -> Admin {
        let listen = SocketAddr::new(listen.parse().unwrap(), 8485);
        let config = Config::default_with([("upstream.base", "http://127.0.0.1:9/v1")]).unwrap();
        let overview = Overview::from_state(&ProxyState::new(config).unwrap(), String::new());
        Admin::new(overview, "[]".into(), listen)
    }

    /// Checks the status of a request by `peer` for a page of `host`, at the listener on `listen`.
    fn check(listen: &str, peer: &str, host: &str, path: &str, expect: u16) {
        let request = Request::get(path).header("host", host).body(()).unwrap();
        let answer = admin(listen).respond(&request, peer.parse().unwrap());
        let of = format!("{path} of {host} for {peer} at {listen}");
        assert_eq!(answer.status().as_u16(), expect, "{of}");
    }

    #[test]
    fn background_requests_of_other_sites_are_refused() {
        for (site, mode, expect) in [
            ("cross-site", "no-cors", true),
            ("same-site", "cors", true),
            ("cross-site", "navigate", false),
            ("same-origin", "cors", false),
            ("none", "navigate", false),
        ] {
            let request = Request::get("/events")
                .header("sec-fetch-site", site)
                .header("sec-fetch-mode", mode);
            assert_eq!(is_of_other_site(&request.body(()).unwrap()), expect, "{site} {mode}");
        }
        assert!(!is_of_other_site(&Request::new(())));
    }

    #[test]
    fn local_caller_with_a_foreign_host_header_gets_403() {
        for path in ["/", "/livez", "/readyz", "/metrics", "/config", "/conversations"] {
            check(HERE, HERE, "evil.example:8485", path, 403);
            check(HERE, HERE, "localhost:8485", path, 200);
            check("::1", "::1", "[::1]:8485", path, 200);
        }
        check("0.0.0.0", HERE, "evil.example:8485", "/config", 403);
    }

    #[test]
    fn remote_caller_sees_health_and_metrics_but_no_settings() {
        for path in ["/livez", "/readyz", "/metrics"] {
            check("0.0.0.0", THERE, "longhaul:8485", path, 200);
        }
        for path in ["/", "/config", "/conversations", "/conversations/0", "/status"] {
            check("0.0.0.0", THERE, "192.0.2.1:8485", path, 403);
        }
        check("0.0.0.0", HERE, "127.0.0.1:8485", "/config", 200);
        check("::", "::ffff:127.0.0.1", "127.0.0.1:8485", "/config", 200);
    }

    #[test]
    fn rejects_methods_other_than_get_and_head() {
        let request = Request::post("/livez").body(()).unwrap();
        let answer = admin(HERE).respond(&request, HERE.parse().unwrap());
        assert_eq!(answer.status(), StatusCode::METHOD_NOT_ALLOWED);
        assert_eq!(answer.headers()[ALLOW], "GET, HEAD");
    }

    #[test]
    fn unknown_path_lists_the_available_pages() {
        let request = Request::get("/status").body(()).unwrap();
        let answer = admin(HERE).respond(&request, HERE.parse().unwrap());
        assert_eq!(answer.status(), StatusCode::NOT_FOUND);
        assert!(answer.body().starts_with(CONTENTS.as_bytes()));
    }

    #[test]
    fn stopping_process_is_live_but_not_ready() {
        let admin = admin(HERE);
        admin.set_stopping();
        let ask = |path| {
            let request = Request::get(path).body(()).unwrap();
            admin.respond(&request, HERE.parse().unwrap()).status()
        };
        assert_eq!(ask("/readyz"), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(ask("/livez"), StatusCode::OK);
    }
}
