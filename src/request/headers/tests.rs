//! Tests for the fields that are forwarded, and for those that are not.

use bytes::Bytes;
use http::Response;
use http_body_util::Full;

use super::*;

fn lines(map: &HeaderMap) -> Vec<String> {
    map.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect()
}

fn check(framing: BodyFraming, fields: &[(&str, &str)], expect: &[&str]) {
    let mut builder = Request::builder();
    for (name, value) in fields {
        builder = builder.header(*name, *value);
    }
    let (head, ()) = builder.body(()).unwrap().into_parts();
    let kept = request(&head, &HeaderValue::from_static("up"), framing);
    assert_eq!(lines(&kept), expect);
}

#[test]
fn keeps_header_order_and_repeated_names() {
    check(
        BodyFraming::Unchanged,
        &[("b", "1"), ("host", "me"), ("a", "2"), ("b", "3")],
        &["b: 1", "b: 3", "host: up", "a: 2"],
    );
}

#[test]
fn a_request_without_host_gets_one_first() {
    check(BodyFraming::Unchanged, &[("a", "1")], &["host: up", "a: 1"]);
}

#[test]
fn removes_hop_by_hop_and_longhaul_headers() {
    check(
        BodyFraming::Unchanged,
        &[
            ("connection", "close, X-Mine"),
            ("keep-alive", "timeout=5"),
            ("proxy-connection", "keep-alive"),
            ("upgrade", "h2c"),
            ("x-mine", "1"),
            ("expect", "100-continue"),
            ("X-Longhaul-Mode", "off"),
            ("proxy-authorization", "x"),
            ("z", "1"),
        ],
        &["host: up", "proxy-authorization: x", "z: 1"],
    );
}

#[test]
fn removes_headers_named_by_connection_in_any_case() {
    check(
        BodyFraming::Unchanged,
        &[
            ("connection", ",, X-MINE ,x-mine,, no-such-field"),
            ("connection", "x-other"),
            ("x-mine", "1"),
            ("X-Other", "2"),
            ("z", "1"),
        ],
        &["host: up", "z: 1"],
    );
}

#[test]
fn joins_split_http_2_cookies_into_one_header() {
    let cookies = |version| {
        let built = Request::builder().version(version).header("host", "x");
        let built = built.header("cookie", "a=1").header("z", "1");
        let (head, ()) = built.header("cookie", "b=2").body(()).unwrap().into_parts();
        lines(&request(&head, &HeaderValue::from_static("up"), BodyFraming::Unchanged)).split_off(1)
    };
    assert_eq!(cookies(Version::HTTP_2), ["cookie: a=1; b=2", "z: 1"]);
    let apart = ["cookie: a=1", "cookie: b=2", "z: 1"];
    assert_eq!(cookies(Version::HTTP_11), apart);
}

#[test]
fn connection_header_cannot_remove_content_length_or_host() {
    check(
        BodyFraming::Unchanged,
        &[("connection", "content-length, host"), ("content-length", "3"), ("host", "me")],
        &["content-length: 3", "host: up"],
    );
}

#[test]
fn forwards_only_trailers_of_the_te_header() {
    check(BodyFraming::Unchanged, &[("te", "gzip")], &["host: up"]);
    check(
        BodyFraming::Unchanged,
        &[("connection", "TE"), ("te", "gzip, Trailers"), ("trailer", "x")],
        &["host: up", "te: trailers", "trailer: x"],
    );
}

#[test]
fn replaces_the_framing_of_a_buffered_body_with_its_length() {
    let counted = BodyFraming::Length(7);
    check(
        counted,
        &[("a", "1"), ("transfer-encoding", "chunked"), ("b", "2")],
        &["host: up", "a: 1", "content-length: 7", "b: 2"],
    );
    check(counted, &[("content-length", "9")], &["host: up", "content-length: 7"]);
    check(counted, &[("host", "x")], &["host: up", "content-length: 7"]);
}

#[test]
fn removes_the_content_encoding_of_a_decoded_body() {
    let fields = [
        ("content-encoding", "gzip"),
        ("a", "1"),
        ("Content-Encoding", "br"),
        ("content-length", "9"),
    ];
    let encodings = ["content-encoding: gzip", "content-encoding: br"];
    let rest = |length| ["a: 1".to_owned(), format!("content-length: {length}")];
    let kept = |framing| {
        let mut builder = Request::builder().header("host", "x");
        for (name, value) in fields {
            builder = builder.header(name, value);
        }
        let (head, ()) = builder.body(()).unwrap().into_parts();
        lines(&request(&head, &HeaderValue::from_static("up"), framing)).split_off(1)
    };
    assert_eq!(kept(BodyFraming::DecodedLength(7)), rest(7));
    assert_eq!(kept(BodyFraming::Length(9))[..2], encodings);
}

#[test]
fn summary_request_carries_no_content_encoding() {
    let mut fields = HeaderMap::new();
    fields.append(CONTENT_ENCODING, HeaderValue::from_static("zstd"));
    fields.append(AUTHORIZATION, HeaderValue::from_static("Bearer x"));
    assert_eq!(lines(&for_summary(&fields)), ["authorization: Bearer x"]);
}

#[test]
fn summary_request_changes_the_initiator_from_user_to_agent() {
    let summary = |fields: &[(&'static str, &'static str)]| {
        let mut came = HeaderMap::new();
        for (name, value) in fields {
            came.append(*name, HeaderValue::from_static(value));
        }
        lines(&for_summary(&came))
    };
    let expect = ["x-initiator: agent", "x-one: 1"];
    assert_eq!(summary(&[("x-initiator", "user"), ("x-one", "1")]), expect);
    assert_eq!(summary(&[("x-one", "1")]), expect[1..]);
}

#[test]
fn upgrade_request_keeps_its_upgrade_headers() {
    check(
        BodyFraming::Upgrade,
        &[("host", "x"), ("connection", "Upgrade"), ("upgrade", "websocket")],
        &["host: up", "connection: Upgrade", "upgrade: websocket"],
    );
}

#[test]
fn reply_keeps_its_framing_only_towards_http_1_1() {
    let fields = [
        ("transfer-encoding", "chunked"),
        ("connection", "keep-alive, x-hop"),
        ("x-hop", "1"),
        ("server", "s"),
    ];
    check_reply(&fields, &["transfer-encoding: chunked", "server: s"]);
}

/// Checks the fields that an HTTP/1.1 client gets. Clients of other versions get the same without
/// the transfer codings.
fn check_reply(fields: &[(&str, &str)], expect: &[&str]) {
    let mut builder = Response::builder();
    for (name, value) in fields {
        builder = builder.header(*name, *value);
    }
    let (head, ()) = builder.body(()).unwrap().into_parts();
    assert_eq!(lines(&reply(&head, Version::HTTP_11)), expect);
    let is_uncoded = |line: &&&str| !line.starts_with("transfer-encoding");
    let uncoded: Vec<_> = expect.iter().filter(is_uncoded).copied().collect();
    for towards in [Version::HTTP_10, Version::HTTP_2] {
        assert_eq!(lines(&reply(&head, towards)), uncoded, "{towards:?}");
    }
}

#[test]
fn drops_content_length_beside_transfer_encoding() {
    let coding = ("transfer-encoding", "chunked");
    for length in ["5", "", "nonsense"] {
        let length = ("content-length", length);
        check_reply(&[length, coding], &["transfer-encoding: chunked"]);
        check_reply(&[coding, length], &["transfer-encoding: chunked"]);
    }
    let identity = ("Transfer-Encoding", "identity");
    check_reply(&[("content-length", "5"), identity], &[]);
    check_reply(&[("content-length", "5")], &["content-length: 5"]);
}

#[test]
fn reply_codings_end_in_chunked_and_omit_identity() {
    check_reply(&[("transfer-encoding", " Identity ,")], &[]);
    let chunked = "transfer-encoding: chunked";
    let both = ["transfer-encoding: gzip", chunked];
    check_reply(&[("transfer-encoding", "gzip")], &both);
    let apart = [("transfer-encoding", "gzip"), ("transfer-encoding", "chunked")];
    check_reply(&apart, &both);
    let together = "gzip, Chunked";
    let line = format!("transfer-encoding: {together}");
    check_reply(&[("transfer-encoding", together)], &[&line]);
}

#[test]
fn reply_codings_pass_if_every_server_sees_the_same_end() {
    for (codings, to_http_11, to_http_2) in [
        ("chunked", true, true),
        ("Chunked", true, true),
        ("identity", true, true),
        ("identity, chunked", true, true),
        ("gzip, chunked", true, false),
        ("gzip", true, false),
        ("chunked,", false, false),
        (",chunked", true, true),
        ("chunked, chunked", false, false),
        ("chunked, identity", false, false),
        ("chunked, gzip", false, false),
    ] {
        let mut fields = HeaderMap::new();
        assert!(reply_codings_pass(&fields, Version::HTTP_2));
        fields.insert(TRANSFER_ENCODING, codings.parse().unwrap());
        let passes = |version| reply_codings_pass(&fields, version);
        assert_eq!(passes(Version::HTTP_11), to_http_11, "{codings}");
        assert_eq!(passes(Version::HTTP_2), to_http_2, "{codings}");
        assert_eq!(passes(Version::HTTP_10), to_http_2, "{codings}");
    }
}

#[test]
fn plain_chunked_is_not_a_transfer_coding() {
    for (codings, expect) in [
        ("", false),
        ("chunked", false),
        ("identity, CHUNKED", false),
        ("gzip, chunked", true),
        ("chunked, chunked", true),
        ("gzip", true),
    ] {
        let mut fields = HeaderMap::new();
        assert!(!is_transfer_coded(&fields));
        for coding in codings.split(", ") {
            fields.append(TRANSFER_ENCODING, coding.parse().unwrap());
        }
        assert_eq!(is_transfer_coded(&fields), expect, "{codings}");
    }
}

#[test]
fn http_2_body_without_a_length_is_forwarded_chunked() {
    let chunked = |version, length: Option<&str>, body: &'static str| {
        let mut builder = Request::get("/").version(version).header("host", "x");
        if let Some(length) = length {
            builder = builder.header("content-length", length);
        }
        let (head, body) = builder.body(Full::<Bytes>::from(body)).unwrap().into_parts();
        let framing = BodyFraming::for_streamed(&head, &body);
        let kept = request(&head, &HeaderValue::from_static("up"), framing);
        lines(&kept).contains(&"transfer-encoding: chunked".to_owned())
    };
    assert!(chunked(Version::HTTP_2, None, "body"));
    assert!(!chunked(Version::HTTP_2, Some("4"), "body"));
    assert!(!chunked(Version::HTTP_2, None, ""));
    assert!(!chunked(Version::HTTP_11, None, "body"));
}

#[test]
fn digests_and_signatures_mark_a_body_as_signed() {
    let signed = |name: &str, value: &str| {
        let request = Request::builder().header(name, value);
        is_signed(request.body(()).unwrap().headers())
    };
    for (name, value) in [
        ("Content-Digest", "sha-256=:x:"),
        ("Content-MD5", "x=="),
        ("Digest", "SHA-256=x"),
        ("Repr-Digest", "sha-256=:x:"),
        ("Signature-Input", "s=();created=1"),
        ("X-Amz-Content-Sha256", "x"),
        ("Authorization", "AWS4-HMAC-SHA256 Credential=x"),
    ] {
        assert!(signed(name, value), "{name}");
    }
    assert!(!signed("Authorization", "Bearer x"));
    assert!(!signed("Want-Content-Digest", "sha-256=1"));
}

#[test]
fn distinguishes_a_claude_login_from_an_api_key() {
    let bears = |name: &'static str, value: &'static str| {
        let mut headers = HeaderMap::new();
        headers.insert(name, HeaderValue::from_static(value));
        bears_client_login(&headers)
    };
    assert!(bears("authorization", "Bearer sk-ant-oat01-x"));
    assert!(!bears("authorization", "Bearer sk-ant-api03-x"));
    assert!(!bears("x-api-key", "sk-ant-oat01-x"));
}
