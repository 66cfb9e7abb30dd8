//! The parent span of a request.

use super::collector::Collector;
use super::{NEVER, clients, end, model, server, start};
use crate::caller::{Caller, chat};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

#[tokio::test]
async fn request_span_is_a_child_of_the_callers_span() {
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
    assert_eq!((&calls[0].trace, &calls[0].parent), (&request.trace, &request.id));
    // The upstream never receives the id of a longhaul span.
    let seen = &model.seen()[0].headers;
    assert_eq!(seen["traceparent"], sent);
    assert_eq!(seen["tracestate"], "a=1");
    assert_eq!(seen.get_all("traceparent").iter().count(), 1);
}

#[tokio::test]
async fn request_of_an_unsampled_parent_leaves_no_span() {
    let (model, collector) = (model(200_000).await, Collector::start().await);
    let program = start(&model.url(), &collector, &[NEVER]);
    let caller = Caller::of(program.address());
    for flags in ["00", "01"] {
        let sent = format!("00-{TRACE}-{PARENT}-{flags}");
        caller.ask_with(&[("traceparent", &sent)], chat(1, 10)).await;
    }
    end(program).await;
    // The spans of the sampled request only: its server span and its client span.
    assert_eq!(collector.spans().len(), 2);
}

#[tokio::test]
async fn invalid_traceparent_starts_a_new_trace() {
    let (model, collector) = (model(200_000).await, Collector::start().await);
    let program = start(&model.url(), &collector, &[]);
    let caller = Caller::of(program.address());
    let garbage = format!("00-{TRACE}-garbage");
    let reply = caller.ask_with(&[("traceparent", &garbage)], chat(1, 10)).await;
    assert_eq!(reply.status, 200);
    let spans = collector.requests(1).await;
    assert_eq!(server(&spans).parent, "");
    assert_ne!(server(&spans).trace, TRACE);
    assert_eq!(model.seen()[0].headers["traceparent"], garbage);
}
