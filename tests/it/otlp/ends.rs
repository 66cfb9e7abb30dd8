//! The end of spans: the time and the outcome.

use std::time::{SystemTime, UNIX_EPOCH};

use super::collector::Collector;
use super::{check, clients, server, start};
use crate::caller::{Caller, chat};
use crate::harness::{Upstream, Wire};
use crate::program::Program;

/// Starts a stream; returns its client and its upstream connection.
async fn streaming(upstream: &Upstream, program: &Program) -> (Wire, Wire) {
    let body = r#"{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}"#;
    let mut client = Wire::to(program.address()).await;
    client
        .send(&format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        ))
        .await;
    let mut served = upstream.accept().await;
    served.until(body).await;
    served
        .send("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
        .await;
    served.send("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hello\"}}]}\n\n").await;
    client.until("Hello").await;
    (client, served)
}

#[tokio::test]
async fn span_of_a_stream_ends_with_the_stream_and_has_its_usage() {
    let (upstream, collector) = (Upstream::bind().await, Collector::start().await);
    let program = start(&upstream.base("/v1"), &collector, &[]);
    let (mut client, mut served) = streaming(&upstream, &program).await;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    served
        .send(
            "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":70,\"completion_tokens\":30,\
             \"total_tokens\":100,\"prompt_tokens_details\":{\"cached_tokens\":40}}}\n\n\
             data: [DONE]\n\n",
        )
        .await;
    drop(served);
    client.until("[DONE]").await;

    let spans = collector.requests(1).await;
    let (request, call) = (server(&spans), clients(&spans)[0]);
    for span in [request, call] {
        assert!(u128::from(span.ended) >= now.as_nanos());
        check(span, &[("gen_ai.request.stream", true.into())]);
    }
    check(
        call,
        &[
            ("gen_ai.usage.input_tokens", 70_u64.into()),
            ("gen_ai.usage.output_tokens", 30_u64.into()),
            ("gen_ai.usage.cache_read.input_tokens", 40_u64.into()),
        ],
    );
}

#[tokio::test]
async fn client_disconnect_ends_both_spans_without_an_error() {
    let (upstream, collector) = (Upstream::bind().await, Collector::start().await);
    let program = start(&upstream.base("/v1"), &collector, &[]);
    let (client, _served) = streaming(&upstream, &program).await;
    drop(client);
    let spans = collector.requests(1).await;
    let (request, call) = (server(&spans), clients(&spans)[0]);
    check(request, &[("longhaul.ended", "client-left".into())]);
    check(call, &[("error.type", "cancelled".into())]);
    assert!(!request.is_error && !call.is_error);
}

#[tokio::test]
async fn broken_reply_marks_both_spans_as_errors() {
    let (upstream, collector) = (Upstream::bind().await, Collector::start().await);
    let program = start(&upstream.base("/v1"), &collector, &[]);
    let (mut client, served) = streaming(&upstream, &program).await;
    served.reset();
    client.drain().await;
    let spans = collector.requests(1).await;
    for span in [server(&spans), clients(&spans)[0]] {
        assert!(span.is_error);
        check(span, &[("error.type", "upstream_broke".into())]);
    }
}

#[tokio::test]
async fn unreachable_upstream_marks_both_spans_as_errors() {
    let collector = Collector::start().await;
    let program = start("http://127.0.0.1:9/v1", &collector, &[]);
    let reply = Caller::of(program.address()).ask(chat(1, 10)).await;
    assert_eq!(reply.status, 502);
    let spans = collector.requests(1).await;
    for span in [server(&spans), clients(&spans)[0]] {
        assert!(span.is_error);
        check(span, &[("error.type", "upstream_unreachable".into())]);
    }
    check(server(&spans), &[("http.response.status_code", 502_u64.into())]);
}
