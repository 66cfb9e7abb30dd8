//! A client connection that sends chats.

use crate::Failure;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// The path of chats, unless a connection has another.
const CHAT_COMPLETIONS: &str = "/v1/chat/completions";

/// A connection to a proxy or to the upstream itself.
#[derive(Debug)]
pub struct Connection {
    address: String,
    path: &'static str,
    sender: SendRequest<Full<Bytes>>,
}

impl Connection {
    /// Connects. Must be called inside [`block_on`](crate::block_on).
    ///
    /// # Errors
    /// The connection is refused.
    pub async fn open(address: &str) -> Result<Self, Failure> {
        let socket = TcpStream::connect(address).await?;
        socket.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(socket)).await?;
        tokio::task::spawn_local(connection);
        Ok(Self { address: address.to_owned(), path: CHAT_COMPLETIONS, sender })
    }

    /// Sends its chats to the path of another API.
    #[must_use]
    pub fn to_path(self, path: &'static str) -> Self {
        Self { path, ..self }
    }

    /// Sends a chat; `query` tells the upstream how to answer.
    ///
    /// # Errors
    /// The connection broke, or the status is not a success.
    pub async fn send(&mut self, query: &str, body: Bytes) -> Result<Response<Incoming>, Failure> {
        self.sender.ready().await?;
        let request = Request::post(format!("{}?{query}", self.path))
            .header("host", &self.address)
            .header("content-type", "application/json")
            .header("authorization", "Bearer sk-none")
            .body(Full::new(body))?;
        let reply = self.sender.send_request(request).await?;
        if reply.status().is_success() {
            Ok(reply)
        } else {
            Err(format!("{} from {}", reply.status(), self.address).into())
        }
    }

    /// Like [`send`](Self::send), but reads the reply to its end.
    ///
    /// # Errors
    /// As for [`send`](Self::send), or the reply broke off.
    pub async fn exchange(&mut self, query: &str, body: Bytes) -> Result<(), Failure> {
        let mut reply = self.send(query, body).await?.into_body();
        while let Some(frame) = reply.frame().await {
            frame?;
        }
        Ok(())
    }
}
