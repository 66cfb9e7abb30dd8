//! The drill: many agents at once through the real program while everything around it misbehaves,
//! and the account of every request.
//!
//! The tests include it at a small size, `examples/load.rs` at any.

pub(crate) mod agents;
pub(crate) mod process;
pub(crate) mod tally;
pub(crate) mod upstream;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use agents::Agent;
use process::{Held, Server, Store};
use tally::Tally;
use upstream::Upstream;

/// How many, and for how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) agents: usize,
    pub(crate) lasting: Duration,
}

/// What was seen.
#[derive(Debug)]
pub(crate) struct Report {
    /// What every request came to, by name.
    pub(crate) counts: Vec<(&'static str, usize)>,
    /// Descriptors, threads and memory: before, in the middle, at the end, when all had gone.
    pub(crate) held: [Held; 4],
    /// Whether there was a store to stall: a redis-server is started where one is installed.
    pub(crate) stalled: bool,
    /// Everything that must not be; none is a success.
    pub(crate) wrong: Vec<String>,
}

/// For what comes by itself once the agents have gone. It only turns a hang into a failure.
const PATIENCE: Duration = Duration::from_secs(40);
/// Between two looks at what says nothing by itself.
const POLL: Duration = Duration::from_millis(50);
/// Memory may grow by so much between the middle and the end: a tenth, and this.
const GROWTH_KIB: u64 = 16 << 10;

/// Plays it: agents at work, the store stopped for a fifth of the time in the middle, all agents
/// gone; then agents at work again, and SIGTERM among them.
pub(crate) async fn play(binary: &Path, size: Size) -> Report {
    let tally = Arc::new(Tally::default());
    let upstream = Upstream::start(Arc::clone(&tally)).await;
    let store = Store::start();
    let mut server = Server::start(binary, upstream.address, store.as_ref());
    let mut wrong = Vec::new();

    // One of every kind first: what is made once, such as a connection to the store, is there then.
    work(&server, &tally, 50, Duration::from_secs(1), None).await;
    upstream.hang_up();
    let before = settled(&server, None).await;
    let (tell, mut halfway) = watch::channel(server.held());
    let look = Look {
        tell,
        store: store.as_ref(),
    };
    work(&server, &tally, size.agents, size.lasting, Some(&look)).await;
    let middle = *halfway.borrow_and_update();
    let end = server.held();
    upstream.hang_up();
    let after = settled(&server, Some(before)).await;
    if after.descriptors > before.descriptors {
        wrong.push(format!(
            "descriptors: {} before, {} after",
            before.descriptors, after.descriptors
        ));
    }
    if after.threads > before.threads.max(middle.threads) {
        wrong.push(format!(
            "threads: {} before, {} after",
            before.threads, after.threads
        ));
    }
    if end.memory_kib > middle.memory_kib + middle.memory_kib / 10 + GROWTH_KIB {
        wrong.push(format!(
            "memory: {} KiB in the middle, {} at the end",
            middle.memory_kib, end.memory_kib
        ));
    }
    wrong.extend(terminated(&mut server, &tally, size).await);
    wrong.extend(tally.wrong());
    Report {
        counts: tally.counts(),
        held: [before, middle, end, after],
        stalled: store.is_some(),
        wrong,
    }
}

/// What happens in the middle: the store is stopped for a fifth of the time, and what is held then
/// is told.
struct Look<'a> {
    tell: watch::Sender<Held>,
    store: Option<&'a Store>,
}

/// So many agents at work for so long; returns when all have ended what they had begun.
async fn work(
    server: &Server,
    tally: &Arc<Tally>,
    agents: usize,
    lasting: Duration,
    look: Option<&Look<'_>>,
) {
    let until = Instant::now() + lasting;
    let mut working = JoinSet::new();
    for at in 0..agents {
        let agent = Agent::new(at, server.address, Arc::clone(tally));
        working.spawn(agent.work(until));
    }
    if let Some(Look { tell, store }) = look {
        let tenth = lasting / 10;
        sleep(tenth * 4).await;
        if let Some(store) = store {
            store.stop();
        }
        sleep(tenth).await;
        tell.send_replace(server.held());
        sleep(tenth).await;
        if let Some(store) = store {
            store.go_on();
        }
    }
    while let Some(ended) = working.join_next().await {
        ended.expect("an agent notes what it meets");
    }
}

/// What is held once as little is as was before, or once that has been waited for.
async fn settled(server: &Server, before: Option<Held>) -> Held {
    let began = Instant::now();
    let mut last = server.held();
    loop {
        sleep(POLL).await;
        let now = server.held();
        let done = match before {
            None => now.descriptors == last.descriptors,
            Some(before) => now.descriptors <= before.descriptors,
        };
        if done || began.elapsed() > PATIENCE {
            return now;
        }
        last = now;
    }
}

/// SIGTERM among agents at work: what was begun ends whole, what comes later is refused unseen.
async fn terminated(server: &mut Server, tally: &Arc<Tally>, size: Size) -> Vec<String> {
    let mut working = JoinSet::new();
    let until = Instant::now() + PATIENCE;
    tally.may_refuse();
    for at in 0..size.agents {
        let agent = Agent::new(at, server.address, Arc::clone(tally));
        working.spawn(agent.work_until_refused(until));
    }
    let begun = tally.begun() + size.agents;
    while tally.begun() < begun && Instant::now() < until {
        sleep(POLL).await;
    }
    server.terminate();
    let ended = timeout(PATIENCE, server.ended()).await;
    while let Some(ended) = working.join_next().await {
        ended.expect("an agent notes what it meets");
    }
    match ended {
        Err(_) => vec!["it did not end after SIGTERM".to_owned()],
        Ok(0) => Vec::new(),
        Ok(code) => vec![format!("it ended with {code} after SIGTERM")],
    }
}
