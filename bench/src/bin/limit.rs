//! The minimum cost of a proxy on hyper: a server, a pooled client and streamed bodies.
//!
//! `limit ADDRESS` forwards to the benchmark's upstream.

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::header::{CONNECTION, HOST, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use longhaul_bench::{Failure, UPSTREAM, block_on};
use tokio::net::TcpListener;

type Upstream = Client<HttpConnector, Incoming>;
type Reply = Response<BoxBody<Bytes, hyper::Error>>;

fn main() -> Result<(), Failure> {
    let address = std::env::args().nth(1).ok_or("usage: limit ADDRESS")?;
    block_on(serve(address))?
}

async fn serve(address: String) -> Result<(), Failure> {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    let client: Upstream = Client::builder(TokioExecutor::new()).build(connector);
    let listener = TcpListener::bind(address).await?;
    loop {
        let (socket, _) = listener.accept().await?;
        socket.set_nodelay(true)?;
        let client = client.clone();
        tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(
            TokioIo::new(socket),
            service_fn(move |request| forward(request, client.clone())),
        ));
    }
}

async fn forward(mut request: Request<Incoming>, client: Upstream) -> Result<Reply, Failure> {
    let target = request.uri().path_and_query().map_or("/", |it| it.as_str());
    *request.uri_mut() =
        Uri::builder().scheme("http").authority(UPSTREAM).path_and_query(target).build()?;
    let headers = request.headers_mut();
    headers.remove(CONNECTION);
    headers.insert(HOST, HeaderValue::from_static(UPSTREAM));
    Ok(if let Ok(mut reply) = client.request(request).await {
        reply.headers_mut().remove(CONNECTION);
        reply.map(BodyExt::boxed)
    } else {
        let nothing = Empty::new().map_err(|never| match never {}).boxed();
        let mut reply = Response::new(nothing);
        *reply.status_mut() = StatusCode::BAD_GATEWAY;
        reply
    })
}
