//! The dashboard's files, embedded. The page loads nothing from elsewhere.

use bytes::Bytes;
use http::HeaderValue;

/// A file of the dashboard.
pub(super) struct Asset {
    pub(super) kind: HeaderValue,
    pub(super) body: Bytes,
}

macro_rules! assets {
    ($($path:literal => $kind:literal, $file:literal;)*) => {
        /// Returns the file at `path`.
        pub(super) fn asset(path: &str) -> Option<Asset> {
            let (kind, body): (&'static str, &'static [u8]) = match path {
                $($path => ($kind, include_bytes!(concat!("web/", $file))),)*
                _ => return None,
            };
            Some(Asset {
                kind: HeaderValue::from_static(kind),
                body: Bytes::from_static(body),
            })
        }
    };
}

assets! {
    "/" => "text/html; charset=utf-8", "index.html";
    "/web/style.css" => "text/css; charset=utf-8", "style.css";
    "/web/app.js" => "text/javascript; charset=utf-8", "app.js";
    "/web/explanation.js" => "text/javascript; charset=utf-8", "explanation.js";
    "/web/chart.js" => "text/javascript; charset=utf-8", "chart.js";
    "/web/conversation.js" => "text/javascript; charset=utf-8", "conversation.js";
    "/web/format.js" => "text/javascript; charset=utf-8", "format.js";
    "/web/overview.js" => "text/javascript; charset=utf-8", "overview.js";
    "/web/state.js" => "text/javascript; charset=utf-8", "state.js";
    "/web/vendor/preact.js" => "text/javascript; charset=utf-8", "vendor/preact.js";
    "/web/vendor/uplot.js" => "text/javascript; charset=utf-8", "vendor/uplot.js";
    "/web/vendor/uplot.css" => "text/css; charset=utf-8", "vendor/uplot.css";
    "/web/vendor/LICENSES.txt" => "text/plain; charset=utf-8", "vendor/LICENSES.txt";
}
