//! The upstream: streams events with the number of their request, and breaks off when the fate says
//! so.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use memchr::memmem;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::dialect::Dialect;
use super::tally::{Fate, Tally};

/// Time between two events.
const PAUSE: Duration = Duration::from_millis(50);
const EVENTS: usize = 20;
/// Time for which the upstream sends nothing within a reply that stalls.
const STALL: Duration = Duration::from_secs(3);
/// Bytes of the reply to a slow reader.
pub(crate) const LARGE: usize = 512 << 10;
/// The text before a request's number in its body; a quotation mark follows the number.
pub(crate) const MARK: &[u8] = b"request number ";

/// A running upstream.
pub(crate) struct Upstream {
    pub(crate) address: SocketAddr,
    hang_up: watch::Sender<()>,
}

impl Upstream {
    pub(crate) async fn start(tally: Arc<Tally>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("a bound socket");
        let (hang_up, hung_up) = watch::channel(());
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                // Earlier hang-ups do not concern a new connection.
                let mut hung_up = hung_up.clone();
                hung_up.mark_unchanged();
                let tally = Arc::clone(&tally);
                tokio::spawn(async move {
                    tokio::select! {
                        () = serve(socket, &tally) => {}
                        // Dropping the sender at the end of the test also ends the connection.
                        _ = hung_up.changed() => {}
                    }
                });
            }
        });
        Self { address, hang_up }
    }

    /// Ends every connection.
    pub(crate) fn hang_up(&self) {
        self.hang_up.send_replace(());
    }
}

/// Serves a connection until either side ends it.
async fn serve(mut socket: TcpStream, tally: &Tally) {
    let mut read = Vec::new();
    while let Some((number, dialect)) = request(&mut socket, &mut read).await {
        tally.saw(number);
        if reply(&mut socket, number, dialect).await.is_err() {
            return;
        }
        if matches!(Fate::of(number), Fate::BreaksFirst | Fate::BreaksMidway) {
            // Fails only if the socket is already closed, which is fine.
            let _ = socket.set_zero_linger();
            return;
        }
    }
}

/// Reads a whole request; returns its number and API, or `None` if there is none.
async fn request(socket: &mut TcpStream, read: &mut Vec<u8>) -> Option<(usize, Dialect)> {
    loop {
        if let Some(end) = memmem::find(read, b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&read[..end]).to_ascii_lowercase();
            let (_, length) = head.split_once("content-length: ")?;
            let length: usize = length.lines().next()?.trim().parse().ok()?;
            let whole = end + 4 + length;
            if read.len() >= whole {
                let body = &read[end + 4..whole];
                // The newest message holds this request's number; older messages hold those of
                // earlier requests.
                let at = memmem::rfind(body, MARK)?;
                let digits = body[at + MARK.len()..].iter().take_while(|byte| **byte != b'"');
                let digits = digits.map(|byte| char::from(*byte)).collect::<String>();
                read.drain(..whole);
                return digits.parse().ok().zip(Dialect::of_head(&head));
            }
        }
        if socket.read_buf(read).await.unwrap_or_default() == 0 {
            return None;
        }
    }
}

async fn reply(socket: &mut TcpStream, number: usize, dialect: Dialect) -> std::io::Result<()> {
    const HEAD: &str =
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
    let fate = Fate::of(number);
    if fate == Fate::BreaksFirst {
        return Ok(());
    }
    socket.write_all(HEAD.as_bytes()).await?;
    let chunk = |events: &str| format!("{:x}\r\n{events}\r\n", events.len());
    let event = |text: &str| chunk(&dialect.event(&format!("{text} of {number};")));
    if !dialect.opening().is_empty() {
        socket.write_all(chunk(dialect.opening()).as_bytes()).await?;
    }
    for at in 0..EVENTS {
        if fate == Fate::BreaksMidway && at == EVENTS / 2 {
            return Ok(());
        }
        socket.write_all(event(&format!("part {at}")).as_bytes()).await?;
        let is_stalled = fate == Fate::Stalls && at == EVENTS / 2;
        tokio::time::sleep(if is_stalled { STALL } else { PAUSE }).await;
    }
    if fate == Fate::ReadsSlowly {
        let large = event(&"x".repeat(LARGE));
        socket.write_all(large.as_bytes()).await?;
    }
    if fate == Fate::Lies {
        socket.write_all(chunk(dialect.lie()).as_bytes()).await?;
    }
    let end = chunk(dialect.closing()) + "0\r\n\r\n";
    socket.write_all(end.as_bytes()).await
}
