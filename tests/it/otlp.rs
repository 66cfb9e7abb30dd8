//! Traces, as a collector gets them: what is in them, what is not, and that nobody waits for them.

mod collector;
mod protobuf;

use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use http::StatusCode;
use longhaul::demo::{Model, ModelOptions};

use crate::caller::{Caller, chat, talk};
use crate::harness::{Upstream, Wire};
use crate::program::Program;
use collector::Collector;
use protobuf::{Said, Span};

const SMALL: u64 = 32_768;
const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
/// Milliseconds between two exports: soon, for tests that wait for one.
const SOON: (&str, &str) = ("OTEL_BSP_SCHEDULE_DELAY", "20");
/// Never, for those that wait for the end.
const NEVER: (&str, &str) = ("OTEL_BSP_SCHEDULE_DELAY", "86400000");

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

/// A program that sends its spans to `collector` as soon as it has them.
fn start(upstream: &str, collector: &Collector, more: &[(&str, &str)]) -> Program {
    let endpoint = collector.endpoint();
    let mut environment = vec![(ENDPOINT, endpoint.as_str()), SOON];
    environment.extend(more);
    Program::told(upstream, &environment)
}

async fn model(window: u64) -> Model {
    Model::start(ModelOptions::of_window(window)).await.unwrap()
}

/// Tells the program to end, and waits until it has.
fn end(mut program: Program) -> String {
    let id = program.process().to_string();
    let told = Command::new("kill").args(["-TERM", &id]).status();
    assert!(told.unwrap().success());
    let ended = program.exit();
    let said = program.said();
    assert!(ended.success(), "{ended}: {said}");
    said
}

/// The span of the one request.
fn server(spans: &[Span]) -> &Span {
    let mut servers = spans.iter().filter(|span| span.is_of_server());
    let one = servers.next().unwrap();
    assert!(servers.next().is_none(), "{spans:?}");
    one
}

/// The spans of its calls, in the order in which they ended.
fn clients(spans: &[Span]) -> Vec<&Span> {
    spans.iter().filter(|span| span.is_of_client()).collect()
}

fn check(span: &Span, expect: &[(&str, Said)]) {
    for (key, value) in expect {
        assert_eq!(span.says(key), Some(value), "{key} of {span:?}");
    }
}

#[tokio::test]
async fn a_request_stands_under_the_span_that_it_was_sent_from() {
    let (model, collector) = (model(200_000).await, Collector::start().await);
    let program = start(&model.url(), &collector, &[]);
    let sent = format!("00-{TRACE}-{PARENT}-01");
    let fields = [("traceparent", sent.as_str()), ("tracestate", "a=1")];
    let caller = Caller::of(program.address());
    caller.ask_with(&fields, chat(1, 10)).await;

    let spans = collector.requests(1).await;
    let (request, calls) = (server(&spans), clients(&spans));
    assert_eq!((&*request.trace, &*request.parent), (TRACE, PARENT));
    assert_eq!(request.state, "a=1");
    assert_eq!(calls.len(), 1);
    assert_eq!(
        (&calls[0].trace, &calls[0].parent),
        (&request.trace, &request.id)
    );
    // The upstream never hears of a span of ours.
    let seen = &model.seen()[0].headers;
    assert_eq!(seen["traceparent"], sent);
    assert_eq!(seen["tracestate"], "a=1");
    assert_eq!(seen.get_all("traceparent").iter().count(), 1);
}

#[tokio::test]
async fn a_request_whose_sender_is_not_sampled_leaves_no_span() {
    let (model, collector) = (model(200_000).await, Collector::start().await);
    let program = start(&model.url(), &collector, &[NEVER]);
    let caller = Caller::of(program.address());
    for flags in ["00", "01"] {
        let sent = format!("00-{TRACE}-{PARENT}-{flags}");
        caller
            .ask_with(&[("traceparent", &sent)], chat(1, 10))
            .await;
    }
    end(program);
    // One of the two: its request and its call.
    assert_eq!(collector.spans().len(), 2);
}

#[tokio::test]
async fn a_sender_that_cannot_be_read_is_none() {
    let (model, collector) = (model(200_000).await, Collector::start().await);
    let program = start(&model.url(), &collector, &[]);
    let caller = Caller::of(program.address());
    let garbage = format!("00-{TRACE}-garbage");
    let reply = caller
        .ask_with(&[("traceparent", &garbage)], chat(1, 10))
        .await;
    assert_eq!(reply.status, 200);
    let spans = collector.requests(1).await;
    assert_eq!(server(&spans).parent, "");
    assert_ne!(server(&spans).trace, TRACE);
    assert_eq!(model.seen()[0].headers["traceparent"], garbage);
}

#[tokio::test]
async fn a_chat_is_told_by_the_conventions() {
    let (model, collector) = (model(200_000).await, Collector::start().await);
    let more = [
        (
            "OTEL_RESOURCE_ATTRIBUTES",
            "deployment.environment.name=tests",
        ),
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
    // Whoever adds up over spans counts a token once.
    assert_eq!(request.says("gen_ai.usage.input_tokens"), None);
    assert!(!request.is_error && !call.is_error);
    assert_eq!(request.resource["service.name"], "longhaul".into());
    assert_eq!(
        request.resource["deployment.environment.name"],
        "tests".into()
    );
    assert_eq!(collector.posted()[0].headers["x-own"], "word");
}

#[tokio::test]
async fn each_call_for_a_request_has_a_span_of_its_own() {
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
        &[
            ("error.type", "context_overflow".into()),
            ("http.response.status_code", 400_u64.into()),
        ],
    );
    for answered in [of("summary"), of("compacted")] {
        assert!(!answered.is_error);
        assert!(
            answered.says("gen_ai.usage.input_tokens").is_some(),
            "{answered:?}"
        );
        assert_eq!(answered.says("error.type"), None);
    }
    assert!(first.ended <= of("summary").ended && of("summary").ended <= of("compacted").ended);
}

/// A stream that has begun: both ends of it.
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
    served
        .send("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hello\"}}]}\n\n")
        .await;
    client.until("Hello").await;
    (client, served)
}

#[tokio::test]
async fn the_span_of_a_stream_ends_with_it_and_has_its_usage() {
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
async fn a_client_that_leaves_ends_its_spans() {
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
async fn a_reply_that_breaks_off_is_an_error() {
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
async fn an_upstream_that_nobody_reaches_is_an_error_of_call_and_request() {
    let collector = Collector::start().await;
    let program = start("http://127.0.0.1:9/v1", &collector, &[]);
    let reply = Caller::of(program.address()).ask(chat(1, 10)).await;
    assert_eq!(reply.status, 502);
    let spans = collector.requests(1).await;
    for span in [server(&spans), clients(&spans)[0]] {
        assert!(span.is_error);
        check(span, &[("error.type", "upstream_unreachable".into())]);
    }
    check(
        server(&spans),
        &[("http.response.status_code", 502_u64.into())],
    );
}

#[tokio::test]
async fn nothing_that_a_caller_says_or_gets_is_in_a_trace() {
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
    let odd = spans
        .iter()
        .find(|span| span.name == "HTTP /files/*")
        .unwrap();
    check(odd, &[("http.request.method", "_OTHER".into())]);
    // A name of a model as long as a text is none.
    for posted in collector.posted() {
        let body = posted.body.to_ascii_lowercase();
        let mut windows = body.windows(SECRET.len());
        assert!(windows.all(|window| window != SECRET.as_bytes()));
    }
    end(program);
}

#[tokio::test]
async fn what_is_no_chat_is_called_by_its_place_in_the_api() {
    let (model, collector) = (model(200_000).await, Collector::start().await);
    let program = start(&model.url(), &collector, &[]);
    for target in [
        "/v1/models",
        "/v1/models/own",
        "/v1/elsewhere/1",
        "/__longhaul__/1",
    ] {
        let mut wire = Wire::to(program.address()).await;
        wire.send(&format!(
            "GET {target} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
        ))
        .await;
        wire.drain().await;
    }
    let spans = collector.requests(4).await;
    let names = |is_it: fn(&Span) -> bool| -> Vec<&str> {
        let mut names: Vec<_> = spans.iter().filter(|span| is_it(span)).collect();
        names.sort_by_key(|span| span.ended);
        names.into_iter().map(|span| &*span.name).collect()
    };
    assert_eq!(
        names(Span::is_of_server),
        ["GET /models", "GET /models/*", "GET", "GET"]
    );
    assert_eq!(
        names(Span::is_of_client),
        ["GET /models", "GET /models/*", "GET"]
    );
    let ours = spans
        .iter()
        .find(|span| span.says("error.type") == Some(&"reserved_path".into()));
    assert!(
        !ours.unwrap().is_error,
        "the client's fault is none of a server's"
    );
    assert!(
        spans
            .iter()
            .all(|span| span.says("gen_ai.operation.name").is_none())
    );
}

#[tokio::test]
async fn what_is_left_is_sent_at_the_end() {
    let (model, collector) = (model(200_000).await, Collector::start().await);
    let program = start(&model.url(), &collector, &[NEVER]);
    Caller::of(program.address()).ask(chat(1, 10)).await;
    assert_eq!(collector.posted().len(), 0);
    let said = end(program);
    assert_eq!(collector.spans().len(), 2, "{said}");
}

#[tokio::test]
async fn a_collector_that_takes_nothing_is_told_of_once_and_costs_nobody_anything() {
    let (model, collector) = (model(200_000).await, Collector::start().await);
    collector.answer(StatusCode::FORBIDDEN);
    let program = start(&model.url(), &collector, &[]);
    let caller = Caller::of(program.address());
    for times in 1..=3 {
        assert_eq!(caller.ask(chat(1, 10)).await.status, 200);
        collector.is_asked(times).await;
    }
    collector.answer(StatusCode::OK);
    // Whatever is still on its way is refused, or taken: then this is.
    caller.ask(chat(1, 10)).await;
    collector.requests(4).await;
    let said = end(program);
    assert_eq!(said.matches("takes no spans").count(), 1, "{said}");
    assert_eq!(said.matches("takes spans again").count(), 1, "{said}");
}

#[tokio::test]
async fn a_collector_that_is_not_there_holds_no_end_up() {
    let model = model(200_000).await;
    let gone = Upstream::bind().await.base("");
    let program = Program::told(&model.url(), &[(ENDPOINT, &gone), NEVER]);
    assert_eq!(
        Caller::of(program.address()).ask(chat(1, 10)).await.status,
        200
    );
    let said = end(program);
    assert_eq!(said.matches("takes no spans").count(), 1, "{said}");
}

#[tokio::test]
async fn a_collector_that_hangs_holds_no_end_up() {
    let (model, hangs) = (model(200_000).await, Upstream::bind().await);
    let program = Program::told(&model.url(), &[(ENDPOINT, &hangs.base("")), NEVER]);
    assert_eq!(
        Caller::of(program.address()).ask(chat(1, 10)).await.status,
        200
    );
    let said = end(program);
    assert!(said.contains("did not reach the collector"), "{said}");
}

#[tokio::test]
async fn who_switches_traces_off_has_none() {
    let (model, collector) = (model(200_000).await, Collector::start().await);
    for off in [
        ("OTEL_SDK_DISABLED", "true"),
        ("OTEL_TRACES_EXPORTER", "none"),
        ("OTEL_TRACES_SAMPLER", "always_off"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
    ] {
        let program = start(&model.url(), &collector, &[off]);
        Caller::of(program.address()).ask(chat(1, 10)).await;
        let said = end(program);
        assert_eq!(
            said.contains("there are no traces"),
            off.1 == "grpc",
            "{said}"
        );
    }
    assert_eq!(collector.posted().len(), 0);
}
