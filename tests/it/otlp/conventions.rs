//! Attributes of spans, and data that spans never contain.

use memchr::memmem;

use super::collector::Collector;
use super::protobuf::{Said, Span};
use super::{SMALL, check, clients, end, model, server, start};
use crate::caller::{Caller, chat, talk};
use crate::harness::Wire;

#[tokio::test]
async fn chat_spans_follow_the_semantic_conventions() {
    let (model, collector) = (model(200_000).await, Collector::start().await);
    let more = [
        ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=tests"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "x-own=word"),
    ];
    let program = start(&model.url(), &collector, &more);
    Caller::of(program.address()).ask(chat(1, 10)).await;

    let spans = collector.requests(1).await;
    let (request, call) = (server(&spans), clients(&spans)[0]);
    let seen = &model.seen()[0];
    assert_eq!((&*request.name, &*call.name), ("chat m", "chat m"));
    let chat = [
        ("gen_ai.operation.name", "chat".into()),
        ("gen_ai.request.model", "m".into()),
        ("gen_ai.request.stream", false.into()),
        ("http.request.method", "POST".into()),
        ("http.response.status_code", 200_u64.into()),
    ];
    check(request, &chat);
    check(call, &chat);
    check(
        request,
        &[
            ("http.route", "/chat/completions".into()),
            ("longhaul.attempts", 1_u64.into()),
            ("longhaul.bypass", "nothing".into()),
            ("longhaul.ended", "complete".into()),
        ],
    );
    check(
        call,
        &[
            ("gen_ai.provider.name", "openai".into()),
            ("gen_ai.usage.input_tokens", seen.prompt_tokens.into()),
            ("longhaul.attempt", "first".into()),
            ("server.address", "127.0.0.1".into()),
            ("server.port", u64::from(model.addr().port()).into()),
        ],
    );
    assert!(call.says("gen_ai.usage.output_tokens").is_some());
    // Only the client span has token usage, so that a sum over spans counts each token once.
    assert_eq!(request.says("gen_ai.usage.input_tokens"), None);
    assert!(!request.is_error && !call.is_error);
    assert_eq!(request.resource["service.name"], "longhaul".into());
    assert_eq!(request.resource["deployment.environment.name"], "tests".into());
    assert_eq!(collector.posted()[0].headers["x-own"], "word");
}

#[tokio::test]
async fn each_upstream_call_of_a_request_has_its_own_span() {
    let (model, collector) = (model(SMALL).await, Collector::start().await);
    let more = [("OTEL_SERVICE_NAME", "mine")];
    let program = start(&model.url(), &collector, &more);
    let reply = Caller::of(program.address()).ask(talk(20, 2_000)).await;
    assert_eq!(reply.action(), "retry, summary");

    let spans = collector.requests(1).await;
    let (request, calls) = (server(&spans), clients(&spans));
    assert_eq!(request.resource["service.name"], "mine".into());
    let number = |name: &str| -> Said {
        let said = reply.field(name).unwrap();
        said.parse::<u64>().unwrap().into()
    };
    check(
        request,
        &[
            ("longhaul.action", "retry, summary".into()),
            ("longhaul.attempts", 2_u64.into()),
            ("longhaul.tokens_before", number("tokens-before")),
            ("longhaul.tokens_after", number("tokens-after")),
        ],
    );
    assert_eq!(request.says("longhaul.bypass"), None);
    let of = |attempt: &str| -> &Span {
        let is_it = |span: &&&Span| span.text("longhaul.attempt") == attempt;
        calls.iter().find(is_it).unwrap()
    };
    assert_eq!(calls.len(), 3, "{calls:?}");
    for call in &calls {
        assert_eq!((&call.trace, &call.parent), (&request.trace, &request.id));
    }
    let first = of("first");
    assert!(first.is_error);
    check(
        first,
        &[("error.type", "context_overflow".into()), ("http.response.status_code", 400_u64.into())],
    );
    for answered in [of("summary"), of("compacted")] {
        assert!(!answered.is_error);
        assert_eq!(answered.says("error.type"), None);
    }
    assert!(of("compacted").says("gen_ai.usage.input_tokens").is_some());
    assert!(first.ended <= of("summary").ended && of("summary").ended <= of("compacted").ended);
}

#[tokio::test]
async fn traces_contain_no_text_or_secret_of_the_caller() {
    const SECRET: &str = "hunter2";
    let (model, collector) = (model(SMALL).await, Collector::start().await);
    let program = start(&model.url(), &collector, &[]);
    let caller = Caller::of(program.address());
    let body = String::from_utf8(talk(20, 2_000)).unwrap();
    let body = body.replace("said", SECRET).replace("Task", SECRET);
    let body = body.replacen('{', &format!(r#"{{"user":"{SECRET}","#), 1);
    let key = format!("Bearer {SECRET}");
    let fields = [
        ("authorization", key.as_str()),
        ("x-own", SECRET),
        ("cookie", SECRET),
        ("user-agent", SECRET),
        ("traceparent", SECRET),
        ("tracestate", SECRET),
        ("baggage", "key=hunter2"),
    ];
    let recovered = caller.ask_with(&fields, body).await;
    assert_eq!(recovered.action(), "retry, summary");
    let unread = caller.ask_with(&fields, format!("{{\"{SECRET}\":")).await;
    assert_eq!(unread.action(), "");
    let mut wire = Wire::to(program.address()).await;
    wire.send(&format!(
        "HUNTER2 /v1/files/{SECRET}/content?key={SECRET} HTTP/1.1\r\nhost: {SECRET}\r\n\
         connection: close\r\n\r\n"
    ))
    .await;
    wire.drain().await;
    let mut wire = Wire::to(program.address()).await;
    wire.send(&format!(
        "POST /v1/chat/completions?{SECRET} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
         content-length: 4096\r\n\r\n{SECRET}"
    ))
    .await;
    wire.stop_sending().await;
    wire.drain().await;

    let spans = collector.requests(4).await;
    let odd = spans.iter().find(|span| span.name == "HTTP /files/*").unwrap();
    check(odd, &[("http.request.method", "_OTHER".into())]);
    for posted in collector.posted() {
        let body = posted.body.to_ascii_lowercase();
        assert_eq!(memmem::find(&body, SECRET.as_bytes()), None);
    }
    end(program).await;
}

#[tokio::test]
async fn span_of_a_non_chat_request_is_named_by_its_route() {
    let (model, collector) = (model(200_000).await, Collector::start().await);
    let program = start(&model.url(), &collector, &[]);
    for target in ["/v1/models", "/v1/models/own", "/v1/elsewhere/1", "/__longhaul__/1"] {
        let mut wire = Wire::to(program.address()).await;
        wire.send(&format!("GET {target} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")).await;
        wire.drain().await;
    }
    let spans = collector.requests(4).await;
    let names = |is_it: fn(&Span) -> bool| -> Vec<&str> {
        let mut names: Vec<_> = spans.iter().filter(|span| is_it(span)).collect();
        names.sort_by_key(|span| span.ended);
        names.into_iter().map(|span| &*span.name).collect()
    };
    assert_eq!(names(Span::is_of_server), ["GET /models", "GET /models/*", "GET", "GET"]);
    assert_eq!(names(Span::is_of_client), ["GET /models", "GET /models/*", "GET"]);
    let ours = spans.iter().find(|span| span.says("error.type") == Some(&"reserved_path".into()));
    assert!(!ours.unwrap().is_error, "the client's fault is none of a server's");
    assert!(spans.iter().all(|span| span.says("gen_ai.operation.name").is_none()));
}
