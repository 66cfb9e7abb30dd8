//! Recovery after a first reply that is not an answer: a retry with less, or that reply unchanged.

mod bytes;
mod learned_windows;
mod output;
mod patterns;
mod refusals;
mod refused_placements;
mod relayed;
pub(crate) mod scripted;
mod steps;

use ::bytes::Bytes;
use http::Request;
use http_body_util::Full;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use longhaul::Config;
use longhaul_core::policy::PruneTrigger;
use longhaul_core::units::tokens::Tokens;
use longhaul_mock_model::{Model, ModelOptions, TokenDensity};

use crate::received_reply::ReceivedReply;

/// Disables clearing and cutting outside recovery, so that recovery causes every change.
///
/// No summary is made before an overflow. Results are cleared only in sessions with more of them
/// than these.
pub(crate) fn undisturbed(config: &mut Config) {
    config.compaction.proactive = false;
    config.compaction.prune_trigger = Some(PruneTrigger::Always);
    config.compaction.protect = Some(Tokens::new(1_000_000));
}

/// Returns the size of a request in tokens, as the model counts them.
pub(crate) async fn size(body: &[u8], density: TokenDensity) -> u64 {
    let options = ModelOptions { density, ..ModelOptions::with_window(10_000_000) };
    let model = Model::start(options).await.unwrap();
    ask(&model.url(), body).await;
    model.seen()[0].prompt_tokens
}

/// Sends a request to a model without a proxy; returns the reply.
pub(crate) async fn directly(options: ModelOptions, body: &[u8]) -> ReceivedReply {
    let model = Model::start(options).await.unwrap();
    ask(&model.url(), body).await
}

pub(crate) async fn ask(base: &str, body: &[u8]) -> ReceivedReply {
    let client = Client::builder(TokioExecutor::new()).build_http();
    let request = Request::post(format!("{base}/chat/completions"))
        .header("content-type", "application/json")
        .body(Full::new(Bytes::copy_from_slice(body)))
        .unwrap();
    ReceivedReply::read(client.request(request).await.unwrap()).await
}
