//! Clients that disconnect while a summary is written.

use longhaul_mock_model::{
    Model, ModelOptions, ReplyCompletion, RequestKind, SeenRequest, SummaryBehaviour,
};
use serde_json::Value;

use super::slow::Slow;
use crate::caller::{Caller, talk};
use crate::harness::Proxy;
use crate::program::Program;

/// Builds a conversation that the slow upstream refuses.
fn too_long() -> Vec<u8> {
    talk(20, 2_000)
}

/// Builds that conversation some turns earlier.
fn before() -> Vec<u8> {
    let mut body: Value = serde_json::from_slice(&too_long()).unwrap();
    body["messages"].as_array_mut().unwrap().truncate(22);
    body.to_string().into()
}

#[tokio::test]
async fn impatient_client_gets_its_summary_after_one_more_call() {
    let mut upstream = Slow::start().await;
    let proxy = Proxy::start(&upstream.base(), &[]).await;
    let caller = Caller::of(proxy.address);
    // The proxy must have seen the conversation before; otherwise it would use a digest at once.
    assert_eq!(caller.ask(before()).await.status, 200);
    // The client times out. The first time, this looks like a cancellation and ends the job too.
    tokio::select! {
        _ = caller.ask(too_long()) => panic!("no summary was made"),
        () = upstream.told(1, 0) => {}
    }
    upstream.told(1, 1).await;
    // On the second attempt, the job outlives its client.
    let caller = Caller::of(proxy.address);
    tokio::select! {
        _ = caller.ask(too_long()) => panic!("no summary was made"),
        () = upstream.told(2, 1) => {}
    }
    drop(caller);
    upstream.finish.send(true).unwrap();
    let arrived = Caller::of(proxy.address).ask(too_long()).await;
    assert_eq!((arrived.status, arrived.action()), (200, "summary"));
    assert_eq!(*upstream.told.borrow(), (2, 1), "one more call");
}

#[tokio::test]
async fn client_disconnect_during_a_summary_logs_no_warning() {
    let options =
        ModelOptions { summary: SummaryBehaviour::Hangs, ..ModelOptions::with_window(32_768) };
    let model = Model::start(options).await.unwrap();
    let program = Program::told(&model.url(), &[]);
    let caller = Caller::of(program.address());
    let summary = |seen: &SeenRequest| seen.kind == RequestKind::Summary;
    let asked = |seen: &[SeenRequest]| seen.iter().any(summary);
    tokio::select! {
        _ = caller.ask(too_long()) => panic!("no summary was made"),
        _ = model.wait_for(asked) => {}
    }
    drop(caller);
    let abandoned = |seen: &SeenRequest| summary(seen) && seen.ended == ReplyCompletion::Abandoned;
    model.wait_for(|seen| seen.iter().any(abandoned)).await;
    let log = program.ended();
    assert!(log.contains("compacting"), "{log}");
    // The window that the first refusal states is reported at once.
    let others = log.lines().filter(|line| !line.contains("a refusal states a smaller window"));
    let others: String = others.collect();
    assert!(!others.contains("WARN") && !others.contains("ERROR"), "{log}");
}
