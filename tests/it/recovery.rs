//! What follows a first reply that was no answer: once more with less, or that reply as it came.

mod bytes;
mod forms;
mod known;
mod ladder;
mod output;
mod patterns;
mod refusals;
mod relayed;
pub(crate) mod scripted;

use ::bytes::Bytes;
use http::Request;
use http_body_util::Full;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use longhaul::Config;
use longhaul::demo::{Model, ModelOptions, TokenDensity};
use longhaul::rewrite::policy::PruneTrigger;
use longhaul::rewrite::tokens::Tokens;

use crate::arrived::Arrived;

/// Nothing is cut or cleared but by recovery, so that whatever changes is its doing: no summary
/// before an overflow, and results cleared only where there are more than these sessions have.
pub(crate) fn undisturbed(config: &mut Config) {
    config.compaction.proactive = false;
    config.compaction.prune_trigger = Some(PruneTrigger::Always);
    config.compaction.protect = Some(Tokens::new(1_000_000));
}

/// What a request comes to, as the model counts.
pub(crate) async fn size(body: &[u8], density: TokenDensity) -> u64 {
    let options = ModelOptions {
        density,
        ..ModelOptions::with_window(10_000_000)
    };
    let model = Model::start(options).await.unwrap();
    ask(&model.url(), body).await;
    model.seen()[0].prompt_tokens
}

/// What comes of a request without a proxy.
pub(crate) async fn directly(options: ModelOptions, body: &[u8]) -> Arrived {
    let model = Model::start(options).await.unwrap();
    ask(&model.url(), body).await
}

pub(crate) async fn ask(base: &str, body: &[u8]) -> Arrived {
    let client = Client::builder(TokioExecutor::new()).build_http();
    let request = Request::post(format!("{base}/chat/completions"))
        .header("content-type", "application/json")
        .body(Full::new(Bytes::copy_from_slice(body)))
        .unwrap();
    Arrived::of(client.request(request).await.unwrap()).await
}
