//! An agent: its conversation grows, it reads what it asked for, and now and then it leaves.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use super::tally::{Fate, Got, Tally};

/// For one reply. It only turns a hang into a failure.
const PATIENCE: Duration = Duration::from_mins(1);
/// Between two requests, and between two reads of a slow reader.
const THINK: Duration = Duration::from_millis(200);
const SLOW: Duration = Duration::from_millis(20);
/// What a slow reader takes at a time.
const SIP: usize = 16 << 10;
/// Turns that a conversation has before it begins anew.
const TURNS: usize = 12;

/// One agent.
pub(crate) struct Agent {
    name: usize,
    proxy: SocketAddr,
    tally: Arc<Tally>,
    turns: Vec<usize>,
}

/// Whether there is more to ask.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Next {
    Connect,
    Refused,
    Stay,
}

impl Agent {
    pub(crate) fn new(name: usize, proxy: SocketAddr, tally: Arc<Tally>) -> Self {
        Self {
            name,
            proxy,
            tally,
            turns: Vec::new(),
        }
    }

    /// Asks until then, and ends what it has begun.
    pub(crate) async fn work(mut self, until: Instant) {
        let mut socket = None;
        while Instant::now() < until {
            self.ask(&mut socket).await;
            sleep(THINK).await;
        }
    }

    /// Asks until nobody listens any more.
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
        let asked = timeout(PATIENCE, exchange(&mut connection, &self.body(), number)).await;
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

    /// A chat with the earlier turns before this one.
    fn body(&self) -> String {
        let turn = |number: &usize| {
            format!(
                r#"{{"role":"user","content":"agent {}, {}{number}"}}"#,
                self.name, "request number "
            )
        };
        let said = "Some text that stands for what a model has said. ".repeat(8);
        let answer = format!(r#",{{"role":"assistant","content":"{said}"}},"#);
        let turns: Vec<String> = self.turns.iter().map(turn).collect();
        format!(
            r#"{{"model":"m","stream":true,"messages":[{}]}}"#,
            turns.join(&answer)
        )
    }
}

/// Sends a request and reads what its fate lets it read.
async fn exchange(socket: &mut TcpStream, body: &str, number: usize) -> Got {
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
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
        if text
            .split(" of ")
            .skip(1)
            .any(|rest| !rest.starts_with(&format!("{number};")))
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

/// Whether the last number has not come to its end yet.
fn ended_in_a_number(text: &str) -> bool {
    text.rsplit(" of ")
        .next()
        .is_some_and(|rest| !rest.contains(';'))
}
