//! A process with few file descriptors: how many it uses, and the replies to clients once none is
//! left.

use rustix::process::{Pid, Resource, Rlimit, prlimit};

use crate::harness::{Upstream, Wire};
use crate::program::Program;

const ASK: &str = "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\
                   Content-Length: 2\r\n\r\n{}";
/// Answered by longhaul itself, without an upstream.
const OURS: &str = "GET /__longhaul__/ HTTP/1.1\r\nHost: x\r\n\r\n";

/// More descriptors than it has open after the start.
const FEW: u64 = 96;

/// Leaves the process no descriptor beyond those that are open.
fn take_all(program: &Program) {
    let process = Pid::from_raw(program.process().cast_signed()).unwrap();
    let none = Rlimit { current: Some(0), maximum: Some(FEW) };
    prlimit(Some(process), Resource::Nofile, none).unwrap();
}

#[tokio::test]
async fn replies_503_if_no_descriptor_is_left_with_or_without_dns_lookup() {
    for upstream in ["http://127.0.0.1:9/v1", "http://localhost:9/v1"] {
        let program = Program::with_descriptors(upstream, FEW, FEW);
        let mut client = Wire::to(program.address()).await;
        client.send(OURS).await;
        client.until("\r\n\r\n").await;
        take_all(&program);
        client.send(ASK).await;
        let reply = client.rest().await;
        assert!(reply.contains("HTTP/1.1 503 "), "{upstream}: {reply}");
        let fault = reply.split_once("x-longhaul-fault: ").unwrap().1;
        assert_eq!(fault.lines().next(), Some("no_descriptors"), "{upstream}");
        assert!(fault.contains("ulimit -n"), "{upstream}: {reply}");
    }
}

#[tokio::test]
async fn idle_connections_leave_descriptors_for_the_upstream() {
    let upstream = Upstream::bind().await;
    let program = Program::with_descriptors(&upstream.base(""), FEW, FEW);
    let mut client = Wire::to(program.address()).await;
    client.send(OURS).await;
    client.until("\r\n\r\n").await;
    let mut idle = Vec::new();
    for _ in 0..FEW {
        idle.push(Wire::to(program.address()).await);
    }
    client.send(ASK).await;
    let mut server = upstream.accept().await;
    server.until("{}").await;
    server.send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok").await;
    assert!(client.rest().await.ends_with("ok"));
}

#[test]
fn raises_its_descriptor_limit_to_the_hard_limit() {
    let program = Program::with_descriptors("http://127.0.0.1:9/v1", FEW, 4 * FEW);
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", program.process())).unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files"));
    let most = (4 * FEW).to_string();
    let [.., soft, hard, _] = line.unwrap().split_whitespace().collect::<Vec<_>>()[..] else {
        panic!("{limits}");
    };
    assert_eq!([soft, hard], [&most, &most]);
}
