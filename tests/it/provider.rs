//! The provider's own compaction in place of a summary: recorded sessions against the strict model, which drops or
//! refuses reasoning that is not valid.

mod messages;
mod responses;

use std::time::Duration;

use longhaul::Config;
use longhaul_core::units::tokens::Tokens;
use longhaul_mock_model::{
    CompactionFault, Model, ModelOptions, ReplyCompletion, RequestKind, SeenRequest, Verdict,
};
use serde_json::Value;
use tokio::time::sleep;

use crate::caller::Caller;
use crate::harness::Proxy;
use crate::received_reply::ReceivedReply;

/// A client, a proxy whose provider writes the summaries, and a strict model.
struct Play {
    model: Model,
    config: Config,
    proxy: Proxy,
}

impl Play {
    /// Starts a model with these options, and a proxy with these further settings.
    async fn start(options: ModelOptions, further: &[(&str, &str)]) -> Self {
        let window = u32::try_from(options.window).unwrap();
        let model = Model::start(options).await.unwrap();
        let base = format!("http://{}", model.addr());
        let changes = [("upstream.base", &*base), ("summary.model", "provider")];
        let changes = changes.into_iter().chain(further.iter().copied());
        let mut config = Config::default_with(changes).unwrap();
        config.window = Tokens::new(window / 4 * 3);
        let proxy = Proxy::with(config.clone()).await;
        Self { model, config, proxy }
    }

    /// Stops the proxy and starts another without its records.
    async fn restart(&mut self) {
        let fresh = Proxy::with(self.config.clone()).await;
        std::mem::replace(&mut self.proxy, fresh).stop().await;
    }

    fn fail(&self, fault: CompactionFault) {
        self.model.change(|options| options.compaction = fault);
    }

    /// Sends a request, and waits for the work in the background. Returns what the model received of the request.
    async fn ask(
        &self,
        (path, fields): (&str, &[(&str, &str)]),
        body: &Value,
    ) -> (ReceivedReply, Vec<SeenRequest>) {
        let sent = self.send((path, fields), body).await;
        self.settle().await;
        sent
    }

    /// Sends a request. Returns what the model received of the request.
    async fn send(
        &self,
        (path, fields): (&str, &[(&str, &str)]),
        body: &Value,
    ) -> (ReceivedReply, Vec<SeenRequest>) {
        let before = self.model.seen().len();
        let caller = Caller::of(self.proxy.address);
        let reply = caller.ask_at(path, fields, body.to_string()).await;
        let mut seen = self.model.seen().split_off(before);
        seen.retain(|it| it.kind == RequestKind::Chat);
        (reply, seen)
    }

    /// Waits for the work in the background.
    async fn settle(&self) {
        let mut quiet = 0;
        while quiet < 10 {
            sleep(Duration::from_millis(2)).await;
            let is_busy = self.orders().iter().any(|it| it.ended == ReplyCompletion::Pending);
            quiet = if is_busy { 0 } else { quiet + 1 };
        }
    }

    /// Checks that no two calls show a history of the same end.
    #[track_caller]
    fn no_call_repeats(&self, name: &str) {
        let calls: Vec<u64> = self.orders().iter().map(|it| it.prompt_tokens).collect();
        let mut different = calls.clone();
        different.dedup_by(|one, other| one.abs_diff(*other) < *other / 20);
        assert_eq!(different.len(), calls.len(), "{name}: {calls:?}");
    }

    /// Returns the calls for summaries that the model received.
    fn orders(&self) -> Vec<SeenRequest> {
        let mut seen = self.model.seen();
        seen.retain(|it| it.kind == RequestKind::Summary);
        seen
    }
}

/// Whether a request orders a compaction of the provider.
fn is_order(seen: &SeenRequest) -> bool {
    let body = String::from_utf8_lossy(&seen.body);
    body.contains(r#""type":"compaction_trigger""#) || body.contains(r#""type":"summarize""#)
}

/// Whether a request holds an item or a block of the provider.
fn holds_compaction(seen: &SeenRequest) -> bool {
    String::from_utf8_lossy(&seen.body).contains(r#""type":"compaction""#)
}

/// Counts of one session.
#[derive(Debug, Default)]
struct Outcome {
    /// Requests that the model received with a compaction.
    compacted: usize,
    /// Reasoning that the model dropped.
    dropped: usize,
    /// Requests that were sent twice.
    twice: usize,
    /// Requests with a digest.
    digests: usize,
    /// Requests without some of their thinking.
    stripped: usize,
    /// Calls for summaries.
    orders: usize,
}

impl Outcome {
    /// Adds a step, which must have been answered.
    #[track_caller]
    fn add(&mut self, name: &str, reply: &ReceivedReply, seen: &[SeenRequest]) {
        let sent: Vec<Verdict> = seen.iter().map(|it| it.verdict).collect();
        let text = String::from_utf8_lossy(&reply.body);
        assert_eq!(reply.status, 200, "{name}: {sent:?} {text}");
        assert!((1..=2).contains(&sent.len()), "{name}: {sent:?}");
        let last = seen.last().unwrap();
        assert_eq!(last.verdict, Verdict::Accepted, "{name}: {sent:?}");
        self.compacted += usize::from(holds_compaction(last));
        self.dropped += last.dropped.len();
        self.digests += usize::from(reply.action().contains("digest"));
        self.stripped += usize::from(reply.action().contains("without-thinking"));
        self.twice += usize::from(sent.len() == 2);
    }
}
