//! A hostile caller: requests that are made to cost much, to hang, or to reach the conversations of others.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

/// Time between two attacks of one kind.
const PAUSE: Duration = Duration::from_millis(200);
/// Limit on an attack: then the caller leaves.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes of a body that is declared and never sent.
const DECLARED: usize = 64 << 20;

/// The attacks. All play at the same time until the caller stops.
#[derive(Clone, Copy, Debug)]
enum Attack {
    /// A head of many long fields.
    Fields,
    /// No request at all.
    Garbage,
    /// A conversation of another agent, under another key.
    Imitation,
    /// A body that is declared and never sent.
    Missing,
    /// JSON nested as deep as it fits.
    Nesting,
    /// A chat of very many empty messages.
    Pieces,
    /// Lengths and codings that two servers may read differently.
    Smuggling,
    /// A handshake for a WebSocket.
    Upgrade,
}

const ALL: [Attack; 8] = [
    Attack::Fields,
    Attack::Garbage,
    Attack::Imitation,
    Attack::Missing,
    Attack::Nesting,
    Attack::Pieces,
    Attack::Smuggling,
    Attack::Upgrade,
];

/// A running caller.
pub(crate) struct Hostile {
    tasks: Vec<JoinHandle<()>>,
    attacks: Arc<AtomicUsize>,
}

impl Hostile {
    /// Starts every attack.
    pub(crate) fn start(proxy: SocketAddr) -> Self {
        let attacks = Arc::<AtomicUsize>::default();
        let tasks = ALL.map(|attack| {
            let attacks = Arc::clone(&attacks);
            tokio::spawn(async move {
                loop {
                    // Whatever becomes of an attack, the next one follows.
                    let _ = timeout(PATIENCE, attack.play(proxy)).await;
                    attacks.fetch_add(1, Ordering::Relaxed);
                    sleep(PAUSE).await;
                }
            })
        });
        Self { tasks: tasks.into(), attacks }
    }

    /// Stops, and returns the number of attacks.
    pub(crate) fn stop(self) -> usize {
        self.tasks.iter().for_each(JoinHandle::abort);
        self.attacks.load(Ordering::Relaxed)
    }
}

impl Attack {
    async fn play(self, proxy: SocketAddr) -> std::io::Result<()> {
        let mut socket = TcpStream::connect(proxy).await?;
        socket.write_all(&self.bytes()).await?;
        let mut heard = Vec::new();
        socket.read_to_end(&mut heard).await?;
        Ok(())
    }

    fn bytes(self) -> Vec<u8> {
        let chat = |body: &str| {
            let head =
                "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer hostile";
            format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
        };
        match self {
            Self::Fields => {
                let field = format!("x-field: {}\r\n", "a".repeat(4_000));
                format!("GET /v1/models HTTP/1.1\r\nHost: x\r\n{}\r\n", field.repeat(40)).into()
            }
            Self::Garbage => vec![0xff; 4_096],
            Self::Imitation => chat(
                r#"{"model":"m","messages":[{"role":"user","content":"agent 3, request number none"}]}"#,
            ),
            Self::Missing => format!(
                "POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: {DECLARED}\r\n\r\n{{"
            )
            .into(),
            Self::Nesting => {
                let depth = 100_000;
                let nested = "[".repeat(depth) + &"]".repeat(depth);
                chat(&format!(r#"{{"messages":[{{"role":"user","content":{nested}}}]}}"#))
            }
            Self::Pieces => {
                let messages = vec![r#"{"role":"user"}"#; 50_000].join(",");
                chat(&format!(r#"{{"model":"m","messages":[{messages}]}}"#))
            }
            Self::Smuggling => b"POST /v1/responses HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\
                Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n"
                .to_vec(),
            Self::Upgrade => b"GET /v1/responses HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\n\
                Upgrade: websocket\r\nSec-WebSocket-Key: a\r\nSec-WebSocket-Version: 13\r\n\r\n"
                .to_vec(),
        }
    }
}
