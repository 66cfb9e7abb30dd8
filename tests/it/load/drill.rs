//! The load test: many agents use the real program while everything around it misbehaves, and every
//! request is accounted for.
//!
//! The tests include it at a small size, `examples/load.rs` at any size.

pub(crate) mod agents;
pub(crate) mod dialect;
pub(crate) mod hostile;
pub(crate) mod process;
pub(crate) mod tally;
pub(crate) mod upstream;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, interval, sleep, sleep_until, timeout};

use agents::Agent;
use hostile::Hostile;
use process::{Held, Server, Store};
use tally::Tally;
use upstream::Upstream;

/// The number of agents and the duration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) agents: usize,
    pub(crate) lasting: Duration,
    /// Time between two reloads of the settings.
    pub(crate) reload_every: Duration,
    /// Whether a hostile caller attacks meanwhile.
    pub(crate) has_hostile: bool,
    /// Time without a request after the agents have gone.
    pub(crate) idle: Duration,
}

/// The outcome of a run.
#[derive(Debug)]
pub(crate) struct Report {
    /// Number of requests by outcome.
    pub(crate) counts: Vec<(&'static str, usize)>,
    /// Descriptors, threads, memory and processor time at four times: before, in the middle, at the end,
    /// after all connections closed and the idle time.
    pub(crate) held: [Held; 4],
    /// Attacks of the hostile caller.
    pub(crate) attacks: usize,
    /// Whether a store was stalled; requires an installed redis-server.
    pub(crate) stalled: bool,
    /// All violations found; empty on success.
    pub(crate) wrong: Vec<String>,
}

/// Limit on the wait for resources to be released after the agents have gone. It only turns a hang
/// into a failure.
const PATIENCE: Duration = Duration::from_secs(40);
/// Time between two polls.
const POLL: Duration = Duration::from_millis(50);
/// Permitted growth of memory between the middle and the end, in KiB, on top of a tenth.
const GROWTH_KIB: u64 = 16 << 10;

/// Runs the load test in two phases:
///
/// - Agents work, the store stops for a fifth of the time in the middle, and all agents leave.
/// - Agents work again, and SIGTERM arrives meanwhile.
pub(crate) async fn play(binary: &Path, size: Size) -> Report {
    let tally = Arc::new(Tally::default());
    let upstream = Upstream::start(Arc::clone(&tally)).await;
    let store = Store::start();
    let mut server = Server::start(binary, upstream.address, store.as_ref());
    let mut wrong = Vec::new();

    // A warm-up first, so that resources created once, such as the store's connection, already
    // exist.
    let warm_up = Size { agents: 50, lasting: Duration::from_secs(1), ..size };
    work(&server, &tally, warm_up, None).await;
    upstream.hang_up();
    let before = settled(&server, None).await;
    let (tell, mut halfway) = watch::channel(server.held());
    let look = Look { tell, store: store.as_ref() };
    let hostile = size.has_hostile.then(|| Hostile::start(server.address));
    work(&server, &tally, size, Some(&look)).await;
    let attacks = hostile.map_or(0, Hostile::stop);
    let middle = *halfway.borrow_and_update();
    let end = server.held();
    upstream.hang_up();
    settled(&server, Some(before)).await;
    sleep(size.idle).await;
    // What a task of the idle time used, such as a thread for blocking work, leaves soon after.
    let after = settled(&server, Some(before)).await;
    if after.descriptors > before.descriptors {
        wrong.push(format!(
            "descriptors: {} before, {} after",
            before.descriptors, after.descriptors
        ));
    }
    if after.threads > before.threads.max(middle.threads) {
        wrong.push(format!("threads: {} before, {} after", before.threads, after.threads));
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
        attacks,
        stalled: store.is_some(),
        wrong,
    }
}

/// The mid-run step: stops the store for a fifth of the time and reports the resources held
/// meanwhile.
struct Look<'a> {
    tell: watch::Sender<Held>,
    store: Option<&'a Store>,
}

/// Runs agents for a time, while the settings are reloaded; returns when all have finished their last
/// request.
async fn work(server: &Server, tally: &Arc<Tally>, size: Size, look: Option<&Look<'_>>) {
    let Size { agents, lasting, .. } = size;
    let until = Instant::now() + lasting;
    let mut working = JoinSet::new();
    // Without agents, the hostile caller has the time for itself.
    working.spawn(sleep_until(until));
    for at in 0..agents {
        let agent = Agent::new(at, server.address, Arc::clone(tally));
        working.spawn(agent.work(until));
    }
    let mut is_looking = look.is_some();
    let looking = async {
        if let Some(look) = look {
            look.through(server, lasting).await;
        }
    };
    tokio::pin!(looking);
    let mut reload = interval(size.reload_every);
    loop {
        tokio::select! {
            ended = working.join_next() => match ended {
                Some(ended) => ended.expect("an agent notes what it meets"),
                None => return,
            },
            () = &mut looking, if is_looking => is_looking = false,
            _ = reload.tick() => server.reload(),
        }
    }
}

impl Look<'_> {
    /// Stops the store for a fifth of the time, in the middle.
    async fn through(&self, server: &Server, lasting: Duration) {
        let tenth = lasting / 10;
        sleep(tenth * 4).await;
        if let Some(store) = self.store {
            store.stop();
        }
        sleep(tenth).await;
        self.tell.send_replace(server.held());
        sleep(tenth).await;
        if let Some(store) = self.store {
            store.go_on();
        }
    }
}

/// Returns the resources held once descriptors are stable, or with the threads back to `before`. Gives up after
/// [`PATIENCE`].
async fn settled(server: &Server, before: Option<Held>) -> Held {
    let began = Instant::now();
    let mut last = server.held();
    loop {
        sleep(POLL).await;
        let now = server.held();
        let done = match before {
            None => now.descriptors == last.descriptors,
            Some(before) => now.descriptors <= before.descriptors && now.threads <= before.threads,
        };
        if done || began.elapsed() > PATIENCE {
            return now;
        }
        last = now;
    }
}

/// Sends SIGTERM while agents work: started requests must end whole, and later ones must be refused
/// before the upstream sees them.
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
