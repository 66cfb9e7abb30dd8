//! An agent whose conversation grows; it reads replies and now and then leaves.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use super::dialect::Dialect;
use super::tally::{Fate, Got, Tally};

/// Limit on the wait for a reply. It only turns a hang into a failure.
const PATIENCE: Duration = Duration::from_mins(1);
/// Time between two requests, and between two reads of a slow reader.
const THINK: Duration = Duration::from_millis(200);
const SLOW: Duration = Duration::from_millis(20);
/// Bytes that a slow reader reads at a time.
const SIP: usize = 16 << 10;
/// Turns of a conversation before the agent starts a new one.
const TURNS: usize = 12;

/// A client that sends a growing conversation.
pub(crate) struct Agent {
    name: usize,
    proxy: SocketAddr,
    tally: Arc<Tally>,
    turns: Vec<usize>,
}

/// The agent's next step.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Next {
    Connect,
    Refused,
    Stay,
}

impl Agent {
    pub(crate) fn new(name: usize, proxy: SocketAddr, tally: Arc<Tally>) -> Self {
        Self { name, proxy, tally, turns: Vec::new() }
    }

    /// Sends requests until `until`, and finishes the request in progress.
    pub(crate) async fn work(mut self, until: Instant) {
        let mut socket = None;
        while Instant::now() < until {
            self.ask(&mut socket).await;
            sleep(THINK).await;
        }
    }

    /// Sends requests until `until`, or until the proxy refuses connections.
    pub(crate) async fn work_until_refused(mut self, until: Instant) {
        let mut socket = None;
        while Instant::now() < until && self.ask(&mut socket).await != Next::Refused {}
    }

    async fn ask(&mut self, socket: &mut Option<TcpStream>) -> Next {
        let mut connection = match socket.take() {
            Some(connection) => connection,
            None => match TcpStream::connect(self.proxy).await {
                Ok(connection) => connection,
                Err(_) => return Next::Refused,
            },
        };
        let number = self.tally.begin();
        if self.turns.len() == TURNS {
            self.turns.clear();
        }
        self.turns.push(number);
        let asked = timeout(
            PATIENCE,
            exchange(&mut connection, self.dialect().path(), &self.body(), number),
        )
        .await;
        let got = asked.unwrap_or(Got::Odd);
        self.tally.got(number, got);
        match got {
            Got::Whole => {
                *socket = Some(connection);
                Next::Stay
            }
            Got::Broken | Got::Fault | Got::Left | Got::Nothing | Got::Odd | Got::Others => {
                Next::Connect
            }
        }
    }

    fn dialect(&self) -> Dialect {
        Dialect::of_agent(self.name)
    }

    /// Builds a chat of all turns so far.
    fn body(&self) -> String {
        let turn = |number: &usize| format!("agent {}, request number {number}", self.name);
        let answer = "Some text that stands for what a model has said. ".repeat(8);
        let turns: Vec<String> = self.turns.iter().map(turn).collect();
        self.dialect().body(&turns, &answer)
    }
}

/// Sends a request and reads as much of the reply as its fate allows.
async fn exchange(socket: &mut TcpStream, path: &str, body: &str, number: usize) -> Got {
    let head = format!("POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", body.len());
    let request = [head.as_bytes(), body.as_bytes()].concat();
    if socket.write_all(&request).await.is_err() {
        return Got::Nothing;
    }
    let fate = Fate::of(number);
    let mut heard = Vec::new();
    loop {
        let mut limited = (&mut *socket).take(SIP as u64);
        let ended = !matches!(limited.read_buf(&mut heard).await, Ok(more) if more > 0);
        let text = String::from_utf8_lossy(&heard);
        if text.split(" of ").skip(1).any(|rest| !rest.starts_with(&format!("{number};")))
            && !ended_in_a_number(&text)
        {
            return Got::Others;
        }
        if text.ends_with("\r\n0\r\n\r\n") {
            return Got::Whole;
        }
        if fate == Fate::Leaves && text.contains("part 1 of") {
            return Got::Left;
        }
        if text.contains("\"upstream_broke\"") && text.starts_with("HTTP/1.1 502 ") {
            return Got::Fault;
        }
        if ended {
            return match (heard.is_empty(), text.starts_with("HTTP/1.1 200 ")) {
                (true, _) => Got::Nothing,
                (false, true) => Got::Broken,
                (false, false) => Got::Odd,
            };
        }
        if fate == Fate::ReadsSlowly {
            sleep(SLOW).await;
        }
    }
}

/// Whether `text` breaks off within a request number.
fn ended_in_a_number(text: &str) -> bool {
    text.rsplit(" of ").next().is_some_and(|rest| !rest.contains(';'))
}
