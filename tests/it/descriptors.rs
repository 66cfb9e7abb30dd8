//! A process with few file descriptors: how many it uses, and the replies to clients once none is
//! left.

use crate::harness::Wire;
use crate::program::Program;

const ASK: &str = "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\
                   Content-Length: 2\r\n\r\n{}";
/// Answered by longhaul itself, without an upstream.
const OURS: &str = "GET /__longhaul__/ HTTP/1.1\r\nHost: x\r\n\r\n";

/// More descriptors than it has open after the start.
const FEW: usize = 64;

/// Whether the process has reached its limit. Inherited descriptors beyond the limit do not count.
fn has_all(program: &Program) -> bool {
    let open = std::fs::read_dir(format!("/proc/{}/fd", program.process())).unwrap();
    let numbers = open.map(|open| open.unwrap().file_name().into_string().unwrap());
    let within = numbers.filter(|number| number.parse::<usize>().unwrap() < FEW);
    within.count() == FEW
}

#[tokio::test]
async fn who_finds_no_descriptor_left_is_told_so_whether_or_not_a_name_was_to_be_looked_up() {
    for upstream in ["http://127.0.0.1:9/v1", "http://localhost:9/v1"] {
        let program = Program::with_descriptors(upstream, FEW, FEW);
        let mut client = Wire::to(program.address()).await;
        client.send(OURS).await;
        client.until("\r\n\r\n").await;
        let mut others = Vec::new();
        while !has_all(&program) {
            let mut other = Wire::to(program.address()).await;
            other.send(OURS).await;
            other.until("\r\n\r\n").await;
            others.push(other);
        }
        client.send(ASK).await;
        let reply = client.rest().await;
        assert!(reply.contains("HTTP/1.1 503 "), "{upstream}: {reply}");
        let fault = reply.split_once("x-longhaul-fault: ").unwrap().1;
        assert_eq!(fault.lines().next(), Some("no_descriptors"), "{upstream}");
        assert!(fault.contains("ulimit -n"), "{upstream}: {reply}");
    }
}

#[test]
fn it_takes_as_many_as_the_system_lets_it_have() {
    let program = Program::with_descriptors("http://127.0.0.1:9/v1", FEW, 4 * FEW);
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", program.process())).unwrap();
    let line = limits
        .lines()
        .find(|line| line.starts_with("Max open files"));
    let most = (4 * FEW).to_string();
    let [.., soft, hard, _] = line.unwrap().split_whitespace().collect::<Vec<_>>()[..] else {
        panic!("{limits}");
    };
    assert_eq!([soft, hard], [&most, &most]);
}
