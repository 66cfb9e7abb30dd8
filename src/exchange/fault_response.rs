//! Responses for faults, in the error format of the API.

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderName, HeaderValue, Response};

use crate::error::{Fault, RetryAdvice};
use crate::exchange::relay::{ReplyBody, ReplySource, relay};
use crate::exchange::request_log::RequestLog;
use crate::metrics::Label as _;
use crate::proxy_state::ProxyState;
use crate::report;

const FAULT_HEADER: HeaderName = HeaderName::from_static("x-longhaul-fault");
/// The `OpenAI` SDKs do not retry a request if its response sets this header to `false`.
const SHOULD_RETRY_HEADER: HeaderName = HeaderName::from_static("x-should-retry");

/// Seconds after which a place for a request may be free. The SDKs double their own delay with each
/// retry.
const RETRY_AFTER_SECONDS: &str = "1";

/// Answers a request with `fault`, which is logged and counted. `page` is the origin of the page that
/// sent the request, if any.
pub(crate) fn answer_fault(
    state: &ProxyState,
    fault: Fault,
    page: Option<&HeaderValue>,
    mut log: Box<RequestLog>,
) -> Response<ReplyBody> {
    state.metrics.faults.add(fault);
    log.record_fault(fault);
    let origin = state.config.upstream.base.origin();
    let detailed = state.upstream.failure_message(fault, &origin);
    if fault.status().is_server_error() {
        tracing::warn!(code = fault.label(), "{detailed}");
    } else {
        tracing::info!(code = fault.label(), "{detailed}");
    }
    if fault.is_of_upstream() {
        state.recent.record_outage(&origin, &detailed);
    }
    // The cause may be another request's. Only a proxy with one user shows the cause to its client.
    let is_for_one = state.config.is_for_this_machine;
    let message = if is_for_one { detailed } else { fault.message(&origin) };
    let mut reply = fault_response(fault, log.error_body(fault, &message));
    if let Ok(id) = HeaderValue::try_from(log.id.to_string()) {
        reply.headers_mut().insert(report::REQUEST, id);
    }
    if let Some(page) = page {
        state.cross_origin.add_to(page, reply.headers_mut());
    }
    relay(reply.map(|body| ReplySource::Left(body.into())), log)
}

/// Builds the complete response for `fault`.
fn fault_response(fault: Fault, body: Vec<u8>) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from(body));
    *response.status_mut() = fault.status();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(FAULT_HEADER, HeaderValue::from_static(fault.label()));
    if fault == Fault::TransferCoding {
        // The end of the request's body is uncertain.
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    if fault == Fault::TooManyRequests {
        headers.insert(RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER_SECONDS));
    }
    if fault.retry_advice() == RetryAdvice::Useless {
        headers.insert(SHOULD_RETRY_HEADER, HeaderValue::from_static("false"));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_core::dialect::Dialect;

    /// Builds the response to a chat completion.
    fn answer(fault: Fault) -> Response<Bytes> {
        let status = fault.status().as_u16();
        fault_response(fault, Dialect::error_reply("/", status, fault.label(), "a message"))
    }

    #[test]
    fn every_fault_response_is_an_api_error_object() {
        for fault in Fault::ALL {
            let answer = answer(*fault);
            let body: serde_json::Value = serde_json::from_slice(answer.body()).unwrap();
            let error = body["error"].as_object().unwrap();
            let keys: Vec<&String> = error.keys().collect();
            assert_eq!(keys, ["message", "type", "param", "code"]);
            assert_eq!(error["code"], fault.label());
            assert_eq!(answer.headers()["x-longhaul-fault"], fault.label());
        }
    }

    #[test]
    fn sends_the_should_retry_header_if_a_retry_is_useless() {
        let hint = |fault| answer(fault).headers().get(SHOULD_RETRY_HEADER).cloned();
        assert_eq!(hint(Fault::UpstreamTls), Some(HeaderValue::from_static("false")));
        assert_eq!(hint(Fault::UpstreamUnreachable), None);
    }
}
