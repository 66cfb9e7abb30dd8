//! Cross-origin fields for faults: a page can read a fault only with the fields that the upstream gives
//! this page.

use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS,
    ORIGIN, VARY,
};
use http::{HeaderMap, HeaderName, HeaderValue};
use longhaul_core::collections::two_generation_cache::LockedCache;

/// Capacity of each cache generation, in origins. Pages of few origins use one proxy.
const ORIGINS: usize = 64;

/// Fields of a response that a browser reads. Preflight requests have other fields, and the upstream
/// answers these requests itself.
const FIELDS: [HeaderName; 4] = [
    ACCESS_CONTROL_ALLOW_CREDENTIALS,
    ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS,
    VARY,
];

/// Cross-origin fields of an upstream's replies, by the origin of the page.
#[derive(Default)]
pub(crate) struct CrossOriginFields {
    by_origin: LockedCache<HeaderValue, HeaderMap, ORIGINS>,
}

impl CrossOriginFields {
    /// Returns the origin of the page that sent a request; `None` for a program.
    pub(crate) fn origin(request: &HeaderMap) -> Option<HeaderValue> {
        request.get(ORIGIN).cloned()
    }

    /// Records the fields of the upstream's reply to a page of this origin.
    pub(crate) fn record(&self, origin: &HeaderValue, reply: &HeaderMap) {
        if !reply.contains_key(ACCESS_CONTROL_ALLOW_ORIGIN) {
            return;
        }
        let mut fields = HeaderMap::new();
        for name in FIELDS {
            for value in reply.get_all(&name) {
                fields.append(name.clone(), value.clone());
            }
        }
        self.by_origin.lock().insert(origin.clone(), fields);
    }

    /// Adds the recorded fields for this origin to a fault. Before the upstream has answered a page of
    /// the origin, there is none.
    pub(crate) fn add_to(&self, origin: &HeaderValue, fault: &mut HeaderMap) {
        if let Some(fields) = self.by_origin.lock().get(origin) {
            fault.extend(fields);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_repeats_the_cors_headers_the_upstream_gave_that_origin() {
        let fields = CrossOriginFields::default();
        let origin = HeaderValue::from_static("https://app.example");
        let mut reply = HeaderMap::new();
        fields.record(&origin, &reply);
        reply.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
        reply.insert(VARY, HeaderValue::from_static("origin"));
        reply.insert("x-request-id", HeaderValue::from_static("1"));
        let mut fault = HeaderMap::new();
        fields.add_to(&origin, &mut fault);
        assert!(fault.is_empty());
        fields.record(&origin, &reply);
        fields.add_to(&HeaderValue::from_static("https://other.example"), &mut fault);
        assert!(fault.is_empty());
        fields.add_to(&origin, &mut fault);
        assert_eq!(fault.len(), 2);
        assert_eq!(fault[ACCESS_CONTROL_ALLOW_ORIGIN], origin);
    }
}
