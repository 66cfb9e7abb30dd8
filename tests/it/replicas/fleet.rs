//! Replicas of the compiled program in front of one strict model, and a client that chooses among
//! them.

use std::time::{Duration, Instant};

use bytes::Bytes;
use longhaul::demo::{Model, ModelOptions, RequestKind, SeenRequest};

use crate::caller::Caller;
use crate::journey::Step;
use crate::program::Program;
use crate::redis_server::RedisServer;

/// Only bounds a hang.
pub(super) const PATIENCE: Duration = Duration::from_mins(1);
/// Between two looks at what says nothing by itself.
const POLL: Duration = Duration::from_millis(5);
/// Tells the model's records apart by the client's request that they belong to.
const ORDINAL: &str = "x-ordinal";
/// What begins a summary, in a replica's log, and what ends one.
const BEGINS: [&str; 2] = ["compacting …", "preparing a summary"];
const ENDS: [&str; 3] = [
    "summary made",
    "no summary; going on without",
    "made by another process",
];

/// Has a request compacted, whatever the marks say.
pub(super) const NOW: (&str, &str) = ("x-longhaul-compact", "now");

/// Some replicas that share a store.
pub(super) struct Fleet {
    pub(super) model: Model,
    pub(super) replicas: Vec<Program>,
    environment: Vec<(String, String)>,
    asked: usize,
    answered: usize,
}

impl Fleet {
    /// So many, with their records at `store`.
    pub(super) async fn start(
        replicas: usize,
        options: ModelOptions,
        store: &str,
        settings: &[(&str, &str)],
    ) -> Self {
        let secret = "a secret of thirty-two characters";
        let mut environment = vec![
            ("LONGHAUL_STORE", store),
            ("LONGHAUL_STORE_SCOPE_SECRET", secret),
            ("LONGHAUL_LOG_LEVEL", "debug"),
            // A machine that runs all tests at once may take longer than a request should wait.
            ("LONGHAUL_STORE_WAIT", "10s"),
        ];
        environment.extend(settings);
        let own = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        let mut fleet = Self {
            model: Model::start(options).await.unwrap(),
            replicas: Vec::new(),
            environment: environment.into_iter().map(own).collect(),
            asked: 0,
            answered: 0,
        };
        for _ in 0..replicas {
            fleet.replicas.push(fleet.replica());
        }
        fleet
    }

    fn replica(&self) -> Program {
        let environment: Vec<(&str, &str)> = self
            .environment
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        Program::told(&self.model.url(), &environment)
    }

    /// Kills one and starts another in its place; what the first one wrote.
    pub(super) fn restart(&mut self, at: usize) -> String {
        let next = self.replica();
        std::mem::replace(&mut self.replicas[at], next).killed()
    }

    /// Kills all of them and starts others.
    pub(super) fn restart_all(&mut self) {
        for at in 0..self.replicas.len() {
            self.restart(at);
        }
    }

    /// A client of one of them.
    pub(super) fn caller(&self, replica: usize) -> Caller {
        Caller::of(self.replicas[replica].address())
    }

    /// Sends one chat through one of them; what became of it.
    pub(super) async fn step(&mut self, replica: usize, body: Vec<u8>) -> Step {
        self.asked += 1;
        let ordinal = self.asked.to_string();
        let caller = self.caller(replica);
        let came = caller.ask_with(&[(ORDINAL, &ordinal)], body.clone()).await;
        self.answered += usize::from(came.status == 200);
        let mut upstream = self.model.seen();
        upstream.retain(|seen| {
            let marked = seen.headers.get(ORDINAL);
            seen.kind == RequestKind::Chat && marked.is_some_and(|mark| *mark == *ordinal)
        });
        Step {
            sent: body,
            arrived: came,
            upstream,
        }
    }

    /// How many calls for summaries the model has had.
    pub(super) fn summaries(&self) -> usize {
        summaries(&self.model.seen())
    }

    /// Waits until no summary is under way, so that the same session goes the same way on every
    /// machine: an agent's tools take longer.
    pub(super) async fn settled(&self, server: &RedisServer) {
        self.until(|| {
            let logs: Vec<String> = self.replicas.iter().map(Program::said).collect();
            let count = |words: &[&str]| -> usize {
                let times = |word| {
                    logs.iter()
                        .map(|log| log.matches(word).count())
                        .sum::<usize>()
                };
                words.iter().copied().map(times).sum()
            };
            // The lease ends when the summary is kept.
            count(&BEGINS) == count(&ENDS) && leases(server).is_empty()
        })
        .await;
    }

    /// Waits until what every answer was counted as is seen by all, for the same reason.
    pub(super) async fn counted(&self, server: &RedisServer) {
        self.until(|| counts(server) >= self.answered).await;
    }

    /// Waits for what says nothing by itself.
    pub(super) async fn until(&self, condition: impl Fn() -> bool) {
        let began = Instant::now();
        while !condition() {
            assert!(began.elapsed() < PATIENCE, "it does not come about");
            tokio::time::sleep(POLL).await;
        }
    }
}

/// The names of the leases that somebody holds.
pub(super) fn leases(server: &RedisServer) -> String {
    server.asked(&["KEYS", "longhaul:*:lease"])
}

/// Of how many requests the server has what they were counted as.
fn counts(server: &RedisServer) -> usize {
    let counted = "\
        local counted = 0
        for _, key in ipairs(redis.call('KEYS', 'longhaul:*')) do
            if redis.call('TYPE', key).ok == 'hash' and redis.call('HEXISTS', key, 'met') == 1 then
                for _, field in ipairs(redis.call('HKEYS', key)) do
                    if field:sub(1, 5) == 'note:' then counted = counted + 1 end
                end
            end
        end
        return counted";
    let counted = server.asked(&["EVAL", counted, "0"]);
    counted.trim().parse().expect("a number")
}

/// How many of `seen` are calls for summaries.
pub(super) fn summaries(seen: &[SeenRequest]) -> usize {
    let calls = seen.iter().filter(|seen| seen.kind == RequestKind::Summary);
    calls.count()
}

/// What was forwarded for each step, in order.
pub(super) fn forwarded(steps: &[Step]) -> Vec<Vec<Bytes>> {
    let bodies = |step: &Step| step.upstream.iter().map(|seen| seen.body.clone()).collect();
    steps.iter().map(bodies).collect()
}

/// Holds what was forwarded to what was forwarded elsewhere, byte for byte.
pub(super) fn same(name: &str, steps: &[Step], expect: &[Vec<Bytes>]) {
    let forwarded = forwarded(steps);
    assert_eq!(forwarded.len(), expect.len(), "{name}");
    for (at, (got, expect)) in forwarded.iter().zip(expect).enumerate() {
        assert_eq!(got.len(), expect.len(), "{name}, request {at}: sends");
        assert!(
            got == expect,
            "{name}, request {at}: {:?}",
            steps[at].arrived.headers
        );
    }
}
