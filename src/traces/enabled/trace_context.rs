//! Reads the parent span of a request from `traceparent` and `tracestate`, strictly by W3C Trace
//! Context (<https://www.w3.org/TR/trace-context/>). As the specification requires, an invalid
//! `traceparent` is ignored, and the request begins a new trace.

use http::{HeaderMap, HeaderName};
use opentelemetry::trace::{SpanContext, SpanId, TraceFlags, TraceId, TraceState};

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// `00-`, 32 digits, `-`, 16 digits, `-`, 2 digits.
const TRACEPARENT_BYTES: usize = 55;
/// The version number that the specification forbids.
const INVALID_VERSION: u8 = 0xff;
/// Maximum bytes of a `tracestate` that is propagated: the length that every implementation should
/// accept.
const MAX_TRACESTATE_BYTES: usize = 512;

/// Returns the parent that `headers` name; `None` if they name two.
pub(super) fn from_headers(headers: &HeaderMap) -> Option<SpanContext> {
    let (trace, span, flags) = parse_traceparent(single_value(headers, &TRACEPARENT)?)?;
    let state = single_value(headers, &TRACESTATE)
        .filter(|state| state.len() <= MAX_TRACESTATE_BYTES)
        .and_then(|state| state.parse::<TraceState>().ok())
        .unwrap_or_default();
    let parent = SpanContext::new(trace, span, flags, true, state);
    parent.is_valid().then_some(parent)
}

/// Returns the value of a header that occurs exactly once.
fn single_value<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?;
    if values.next().is_some() {
        return None;
    }
    value.to_str().ok()
}

/// Parses trace, span and flags. Later versions begin with these fields too, and may append more
/// after another dash.
fn parse_traceparent(text: &str) -> Option<(TraceId, SpanId, TraceFlags)> {
    let (known, more) = text.split_at_checked(TRACEPARENT_BYTES)?;
    let mut parts = known.split('-');
    let version = u8::try_from(parse_hex(parts.next()?, 2)?).ok()?;
    let trace = parse_hex(parts.next()?, 32)?;
    let span = u64::try_from(parse_hex(parts.next()?, 16)?).ok()?;
    let flags = u8::try_from(parse_hex(parts.next()?, 2)?).ok()?;
    let ends = match version {
        0 => more.is_empty(),
        INVALID_VERSION => false,
        1..INVALID_VERSION => more.is_empty() || more.starts_with('-'),
    };
    let sampled = TraceFlags::new(flags) & TraceFlags::SAMPLED;
    (ends && parts.next().is_none()).then_some((trace.into(), span.into(), sampled))
}

/// Parses exactly `count` lower-case hexadecimal digits.
fn parse_hex(text: &str, count: usize) -> Option<u128> {
    let small = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f');
    (text.len() == count && text.bytes().all(small))
        .then(|| u128::from_str_radix(text, 16).ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
    const SPAN: &str = "b7ad6b7169203331";

    /// Checks the parent of a request with these headers: trace, span, and whether it is sampled.
    fn check(headers: &[(&'static str, &str)], expect: Option<(&str, &str, bool)>) {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().unwrap());
        }
        let found = from_headers(&map).map(|parent| {
            assert!(parent.is_remote());
            (
                parent.trace_id().to_string(),
                parent.span_id().to_string(),
                parent.is_sampled(),
            )
        });
        let expect = expect.map(|(trace, span, sampled)| (trace.into(), span.into(), sampled));
        assert_eq!(found, expect, "{headers:?}");
    }

    #[test]
    fn reads_the_parent_and_its_sampling_flag() {
        for (flags, sampled) in [("01", true), ("00", false), ("ff", true), ("02", false)] {
            let value = format!("00-{TRACE}-{SPAN}-{flags}");
            check(&[("traceparent", &value)], Some((TRACE, SPAN, sampled)));
        }
    }

    #[test]
    fn later_version_may_append_fields_after_a_dash() {
        let later = format!("cc-{TRACE}-{SPAN}-01-what-is-yet-to-come");
        check(&[("traceparent", &later)], Some((TRACE, SPAN, true)));
        check(&[("traceparent", &later.replace("-what", "what"))], None);
    }

    #[test]
    fn malformed_traceparent_is_ignored() {
        let zero_trace = "0".repeat(32);
        for garbage in [
            "",
            "00",
            "garbage",
            "00-1-1-01",
            &format!("00-{TRACE}-{SPAN}"),
            &format!("00-{TRACE}-{SPAN}-1"),
            &format!("00-{TRACE}-{SPAN}-01-more"),
            &format!("00-{TRACE}-{SPAN}-0x"),
            &format!("00-{TRACE}-{SPAN}-+1"),
            &format!("ff-{TRACE}-{SPAN}-01"),
            &format!("00-{}-{SPAN}-01", TRACE.to_uppercase()),
            &format!("00-{zero_trace}-{SPAN}-01"),
            &format!("00-{TRACE}-{}-01", "0".repeat(16)),
            &format!("00-{TRACE}{SPAN}--01-"),
        ] {
            check(&[("traceparent", garbage)], None);
        }
    }

    #[test]
    fn two_traceparents_are_ignored() {
        let value = format!("00-{TRACE}-{SPAN}-01");
        check(&[("traceparent", &value), ("traceparent", &value)], None);
    }

    #[test]
    fn invalid_tracestate_is_dropped_and_the_parent_kept() {
        let value = format!("00-{TRACE}-{SPAN}-01");
        for (state, expect) in [
            ("a=1,b=2", "a=1,b=2"),
            ("A=1", ""),
            (&format!("a={}", "1".repeat(600)), ""),
        ] {
            let mut map = HeaderMap::new();
            map.insert("traceparent", value.parse().unwrap());
            map.insert("tracestate", state.parse().unwrap());
            assert_eq!(from_headers(&map).unwrap().trace_state().header(), expect);
        }
    }
}
