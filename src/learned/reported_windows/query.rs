//! A query to the upstream: its paths and its bounds.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Limited};
use tokio::time::timeout;

use crate::body::request_body::{RequestBody, TransferMeter};
use crate::config::BaseUrl;
use crate::error::Fault;
use crate::learned::reported_windows::formats::{self, LOCAL_ENDPOINTS, ModelsPage, WindowParser};
use crate::models::HostKind;
use crate::upstream::Upstream;
use longhaul_core::units::tokens::Tokens;

/// Timeout of a whole query, however many paths it takes.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum total size of its responses. `OpenRouter`'s list of 400 models has about 1 MB.
const MAX_BYTES: usize = 8 << 20;
/// Maximum pages of one list. `OpenRouter` has 500 models on each.
const MAX_PAGES: usize = 8;

pub(crate) struct WindowQuery {
    pub(crate) model: String,
    pub(crate) base: BaseUrl,
    pub(crate) host_kind: HostKind,
    /// The path of the upstream's list of models.
    pub(crate) models_path: String,
    /// The caller's credentials in the query of a URL; empty if there are none.
    pub(crate) credentials: String,
    /// The request headers: Host, and a caller's credentials.
    pub(crate) headers: HeaderMap,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct QueryOutcome {
    pub(crate) models_listed: usize,
    pub(crate) answer: WindowAnswer,
    /// The fault of the first request that failed, if any.
    pub(crate) fault: Option<Fault>,
}

/// The upstream's answer for one model.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum WindowAnswer {
    /// No answer in time, or an unreadable one.
    #[default]
    Failed,
    Window(Tokens),
    /// The upstream refused the caller's credentials.
    Unauthorized,
    /// An answer that states no window for this model.
    NoWindow,
}

impl WindowAnswer {
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Window(_) => "window",
            Self::Unauthorized => "refused",
            Self::NoWindow => "no-window",
        }
    }
}

impl WindowQuery {
    /// Returns the upstream's host, without the port.
    pub(crate) fn host(&self) -> &str {
        self.base.authority().host()
    }

    /// Runs the query within its bounds on time and bytes.
    pub(crate) async fn run(&self, upstream: &Upstream) -> QueryOutcome {
        let asking = QueryRun {
            query: self,
            upstream,
            bytes_left: MAX_BYTES,
            outcome: QueryOutcome::default(),
        };
        let outcome = timeout(TIMEOUT, asking.run()).await;
        outcome.unwrap_or_default()
    }
}

struct QueryRun<'q> {
    query: &'q WindowQuery,
    upstream: &'q Upstream,
    /// Bytes that may still be read.
    bytes_left: usize,
    /// Outcome so far.
    outcome: QueryOutcome,
}

impl QueryRun<'_> {
    async fn run(mut self) -> QueryOutcome {
        let mut answer = self.query_models_list().await;
        // Paths other than the list of models are not part of the API: only a local server receives
        // them.
        let is_open = matches!(answer, WindowAnswer::NoWindow | WindowAnswer::Failed);
        if is_open && matches!(self.query.host_kind, HostKind::Local) {
            for (path, form) in LOCAL_ENDPOINTS {
                if let Some(tokens) = self.query_local_path(path, form).await {
                    answer = WindowAnswer::Window(tokens);
                    break;
                }
            }
        }
        QueryOutcome { answer, ..self.outcome }
    }

    /// Queries the list of models, page by page.
    async fn query_models_list(&mut self) -> WindowAnswer {
        let mut query = None;
        for _ in 0..MAX_PAGES {
            let path = self.query.models_path.as_str();
            let bytes = match self.get(path, query.as_deref()).await {
                Ok(bytes) => bytes,
                Err(answer) => return answer,
            };
            let Some(listing) = self.parse(bytes, formats::models_page).await else {
                return WindowAnswer::Failed;
            };
            let ModelsPage { models, window, next } = listing;
            self.outcome.models_listed += models;
            match (window, next) {
                (Some(tokens), _) => return WindowAnswer::Window(tokens),
                (None, Some(next)) => query = Some(next),
                (None, None) => break,
            }
        }
        WindowAnswer::NoWindow
    }

    async fn query_local_path(&mut self, path: &str, form: WindowParser) -> Option<Tokens> {
        let bytes = self.get(path, None).await.ok()?;
        self.parse(bytes, form).await
    }

    /// Parses a response on a blocking thread: several megabytes take a while.
    async fn parse<T: Send + 'static>(
        &self,
        bytes: Bytes,
        form: fn(&[u8], &str) -> Option<T>,
    ) -> Option<T> {
        let model = self.query.model.clone();
        let read = tokio::task::spawn_blocking(move || form(&bytes, &model));
        read.await.ok().flatten()
    }

    /// Sends one request for a page of `path`; does not follow redirects.
    async fn get(&mut self, path: &str, page: Option<&str>) -> Result<Bytes, WindowAnswer> {
        let credentials = Some(&*self.query.credentials).filter(|query| !query.is_empty());
        let query: Vec<&str> = page.into_iter().chain(credentials).collect();
        let target = match &query[..] {
            [] => path.to_owned(),
            query => format!("{path}?{}", query.join("&")),
        };
        let request = self.build_request(&target).ok_or(WindowAnswer::Failed)?;
        let reply = self.upstream.send(request).await;
        let reply = reply.map_err(|fault| {
            self.outcome.fault.get_or_insert(fault);
            WindowAnswer::Failed
        })?;
        match reply.status() {
            StatusCode::OK => {}
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                return Err(WindowAnswer::Unauthorized);
            }
            _ => return Err(WindowAnswer::Failed),
        }
        let body = Limited::new(reply.into_body(), self.bytes_left).collect().await;
        let bytes = body.map_err(|_| WindowAnswer::Failed)?.to_bytes();
        self.bytes_left = self.bytes_left.saturating_sub(bytes.len());
        Ok(bytes)
    }

    fn build_request(&self, path: &str) -> Option<Request<RequestBody>> {
        let uri = self.query.base.url_of(path).ok()?;
        let nothing = RequestBody::from_bytes(Bytes::new(), &Arc::new(TransferMeter::default()));
        let mut request = Request::get(uri).body(nothing).ok()?;
        *request.headers_mut() = self.query.headers.clone();
        Some(request)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;
    use crate::config::Config;

    /// Runs a query against a server at such a place; returns the requested paths and the answer.
    /// The server replies 404 to a path without a page.
    async fn asked(
        place: HostKind,
        page: impl Fn(&str) -> Option<Vec<u8>> + Clone + Send + 'static,
    ) -> (Vec<String>, WindowAnswer) {
        asked_as("", place, page).await
    }

    /// As [`asked`], with credentials in the query of the URL.
    async fn asked_as(
        credentials: &str,
        place: HostKind,
        page: impl Fn(&str) -> Option<Vec<u8>> + Clone + Send + 'static,
    ) -> (Vec<String>, WindowAnswer) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let question =
            WindowQuery { credentials: credentials.to_owned(), ..question(&listener, place) };
        let (tell, mut heard) = tokio::sync::mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (tell, page) = (tell.clone(), page.clone());
                tokio::spawn(async move {
                    let mut head = Vec::new();
                    while stream.read_buf(&mut head).await.is_ok_and(|more| more > 0) {
                        if head.ends_with(b"\r\n\r\n") {
                            let text = String::from_utf8(std::mem::take(&mut head)).unwrap();
                            let path = text.split(' ').nth(1).unwrap().to_owned();
                            let (status, body) = page(&path)
                                .map_or(("404 Not Found", Vec::new()), |body| ("200 OK", body));
                            _ = tell.send(path);
                            let length = body.len();
                            let head =
                                format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n");
                            // The client may disconnect before the end.
                            _ = stream.write_all(&[head.as_bytes(), &body].concat()).await;
                        }
                    }
                });
            }
        });
        let config = Config::default_with([]).unwrap();
        let upstream = Upstream::new(&config.upstream, None).unwrap();
        let outcome = question.run(&upstream).await;
        let mut paths = Vec::new();
        while let Ok(path) = heard.try_recv() {
            paths.push(path);
        }
        (paths, outcome.answer)
    }

    fn question(listener: &TcpListener, place: HostKind) -> WindowQuery {
        WindowQuery {
            model: "m".into(),
            base: BaseUrl::parse(&listener.local_addr().unwrap().to_string()).unwrap(),
            host_kind: place,
            models_path: "/v1/models".into(),
            credentials: String::new(),
            headers: HeaderMap::new(),
        }
    }

    /// Pads `text` on the left with spaces to `bytes` bytes.
    fn padded(text: &str, bytes: usize) -> Vec<u8> {
        let spaces = " ".repeat(bytes - text.len());
        (spaces + text).into_bytes()
    }

    const WINDOW: &str = r#"{"data":[{"id":"m","context_length":32768}]}"#;
    const MORE: &str = r#"{"data":[],"links":{"next":"/?more"}}"#;

    #[tokio::test]
    async fn queries_non_api_paths_only_on_local_servers() {
        let list = || vec!["/v1/models".to_owned()];
        let none = |_: &str| None;
        assert_eq!(asked(HostKind::Unknown, none).await, (list(), WindowAnswer::Failed));
        let provider = HostKind::Provider("openai");
        assert_eq!(asked(provider, none).await, (list(), WindowAnswer::Failed));
        let (paths, answer) = asked(HostKind::Local, none).await;
        let own = LOCAL_ENDPOINTS.iter().map(|(path, _)| (*path).to_owned());
        assert_eq!(paths, list().into_iter().chain(own).collect::<Vec<_>>());
        assert_eq!(answer, WindowAnswer::Failed);
    }

    #[tokio::test(start_paused = true)]
    async fn unanswered_query_ends_as_failed() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let question = question(&listener, HostKind::Local);
        let config = Config::default_with([]).unwrap();
        let upstream = Upstream::new(&config.upstream, None).unwrap();
        assert_eq!(question.run(&upstream).await.answer, WindowAnswer::Failed);
    }

    #[tokio::test]
    async fn answer_beyond_the_byte_limit_fails() {
        for (bytes, says) in [
            (MAX_BYTES, WindowAnswer::Window(Tokens::new(32_768))),
            (MAX_BYTES + 1, WindowAnswer::Failed),
        ] {
            let (_, answer) = asked(HostKind::Unknown, move |_| Some(padded(WINDOW, bytes))).await;
            assert_eq!(answer, says, "{bytes} bytes");
        }
    }

    #[tokio::test]
    async fn pages_of_a_list_share_the_byte_limit() {
        let page = |path: &str| {
            let text = if path.ends_with("more") { WINDOW } else { MORE };
            Some(padded(text, MAX_BYTES / 2 + 1))
        };
        let (paths, answer) = asked(HostKind::Unknown, page).await;
        assert_eq!((paths.len(), answer), (2, WindowAnswer::Failed));
    }

    #[tokio::test]
    async fn follows_an_endless_list_only_up_to_the_page_limit() {
        let (paths, answer) = asked(HostKind::Unknown, |_| Some(MORE.into())).await;
        assert_eq!((paths.len(), answer), (MAX_PAGES, WindowAnswer::NoWindow));
    }

    #[tokio::test]
    async fn credentials_in_the_query_accompany_every_page() {
        let page = |target: &str| {
            let text = if target.contains("more") { WINDOW } else { MORE };
            Some(text.into())
        };
        let (targets, answer) = asked_as("key=k&token=t", HostKind::Unknown, page).await;
        assert_eq!(targets, ["/v1/models?key=k&token=t", "/v1/models?more&key=k&token=t"]);
        assert_eq!(answer, WindowAnswer::Window(Tokens::new(32_768)));
    }
}
