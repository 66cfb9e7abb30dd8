//! The strict model as a process, for clients in other languages. It makes its client read files
//! until several windows are full, and refuses requests that a provider would refuse.
//!
//! The process prints its base URL and serves until its standard input ends. Then it prints a line
//! of JSON about the requests it received.

use std::error::Error;
use std::io;
use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use longhaul_mock_model::{
    ChatBehaviour, FileReading, Model, ModelOptions, PreservedThinking, RequestKind, SeenRequest,
    ThinkingRules, TokenDensity, Verdict,
};
use memchr::memmem;
use serde_json::{Value, json};
use tokio::task::spawn_blocking;

/// A strict model on a free port of loopback.
#[derive(Parser)]
struct Options {
    /// Context window, in tokens.
    #[arg(long, default_value_t = 32_768)]
    window: u64,
    /// Empty folder in which the files to read are written.
    #[arg(long, value_name = "FOLDER")]
    parts: PathBuf,
    /// Number of files; each has about 3,000 tokens.
    #[arg(long, default_value_t = 36)]
    count: usize,
    /// Number of files after which the model ends its turn once.
    #[arg(long, value_name = "FILES")]
    pause: Option<usize>,
    /// Rules for reasoning whose history changed.
    #[arg(long, value_enum, default_value_t = Thinking::Off)]
    thinking: Thinking,
}

/// Rules for reasoning.
#[derive(Clone, Copy, ValueEnum)]
enum Thinking {
    /// Signs the thinking of answers, and refuses thinking whose history changed.
    Bound,
    /// Applies the rules of the model that a request names, and writes compactions.
    ByModel,
    /// Writes no reasoning, and examines none.
    Off,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let options = Options::parse();
    let reading = FileReading::write(&options.parts, options.count)?.pausing_after(options.pause);
    let model = Model::start(ModelOptions {
        chat: ChatBehaviour::Reads(reading.clone()),
        thinking: match options.thinking {
            Thinking::Bound => ThinkingRules::Bound,
            Thinking::ByModel => ThinkingRules::ByModel(PreservedThinking::default()),
            Thinking::Off => ThinkingRules::Off,
        },
        ..ModelOptions::with_window(options.window)
    })
    .await?;
    println!("{}", model.url());
    spawn_blocking(|| io::copy(&mut io::stdin(), &mut io::sink())).await??;
    println!("{}", totals(&model.seen(), &reading));
    Ok(())
}

/// Counts the prompts that are smaller than the one before, among those of an agent at work. The
/// agent's own history only grows. Its side requests, such as for a title, are skipped: they offer
/// no tools, while its other requests do.
fn compactions(chats: &[&SeenRequest]) -> usize {
    let offers = |chat: &&&SeenRequest| {
        let body: Option<Value> = serde_json::from_slice(&chat.body).ok();
        let tools = body.as_ref().and_then(|body| body.get("tools")?.as_array());
        tools.is_some_and(|tools| !tools.is_empty())
    };
    let mut steps: Vec<u64> = chats.iter().filter(offers).map(|chat| chat.prompt_tokens).collect();
    if steps.is_empty() {
        steps = chats.iter().map(|chat| chat.prompt_tokens).collect();
    }
    let pairs = steps.iter().zip(steps.iter().skip(1));
    pairs.filter(|(before, after)| after < before).count()
}

/// Whether a request holds an item of the provider in place of history.
fn holds_item(chat: &SeenRequest) -> bool {
    memmem::find(&chat.body, br#""type":"compaction""#).is_some()
}

fn totals(seen: &[SeenRequest], reading: &FileReading) -> Value {
    let chats: Vec<&SeenRequest> =
        seen.iter().filter(|seen| seen.kind == RequestKind::Chat).collect();
    let accepted: Vec<&SeenRequest> =
        chats.iter().filter(|chat| chat.verdict == Verdict::Accepted).copied().collect();
    let broken: Vec<&str> = seen
        .iter()
        .filter_map(|seen| match seen.verdict {
            Verdict::Broken(rule) => Some(rule),
            Verdict::Accepted | Verdict::Overflowed | Verdict::Unread => None,
        })
        .collect();
    let sum =
        |tokens: fn(&SeenRequest) -> u64| -> u64 { accepted.iter().map(|chat| tokens(chat)).sum() };
    let count = |verdict| seen.iter().filter(|seen| seen.verdict == verdict).count();
    json!({
        "requests": chats.len(),
        "accepted": accepted.len(),
        "summaries": seen.iter().filter(|seen| seen.kind == RequestKind::Summary).count(),
        "overflowed": count(Verdict::Overflowed),
        "refused": chats.len() - accepted.len(),
        "broken": broken,
        "dropped": chats.iter().map(|chat| chat.dropped.len()).sum::<usize>(),
        "with_item": accepted.iter().filter(|chat| holds_item(chat)).count(),
        "largest_prompt": accepted.iter().map(|chat| chat.prompt_tokens).max().unwrap_or(0),
        "compactions": compactions(&accepted),
        "prefix_changes": accepted.iter().filter(|chat| !chat.keeps_prefix()).count(),
        "prompt_tokens": sum(|chat| chat.prompt_tokens),
        "cached_tokens": sum(|chat| chat.cached_tokens),
        "history_tokens": reading.shown_tokens(TokenDensity::STANDARD, seen),
    })
}
