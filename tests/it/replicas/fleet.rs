//! Replicas of the compiled program in front of a shared strict model, and a client that chooses
//! among them.

use std::time::{Duration, Instant};

use bytes::Bytes;
use longhaul_mock_model::{Model, ModelOptions, RequestKind, SeenRequest};

use crate::caller::Caller;
use crate::journey::Step;
use crate::program::Program;
use crate::redis_server::RedisServer;

/// Limit on every wait; only turns a hang into a failure.
pub(super) const PATIENCE: Duration = Duration::from_mins(1);
/// Time between two polls.
const POLL: Duration = Duration::from_millis(5);
/// Header that links the requests seen by the model to the client's request.
const ORDINAL: &str = "x-ordinal";
/// Log messages of a replica that mark the start of a summary, and those that mark its end.
const BEGINS: [&str; 2] = ["compacting …", "preparing a summary"];
const ENDS: [&str; 3] =
    ["summary made", "no summary; going on without", "another process is making it"];

/// Requests compaction regardless of the thresholds.
pub(super) const NOW: (&str, &str) = ("x-longhaul-compact", "now");

/// Replicas that share a store.
pub(super) struct Fleet {
    pub(super) model: Model,
    pub(super) replicas: Vec<Program>,
    environment: Vec<(String, String)>,
    asked: usize,
    answered: usize,
}

impl Fleet {
    /// Starts `replicas` replicas with their records at `store`.
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
            // A machine that runs all tests at once may exceed the default wait.
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
        let environment: Vec<(&str, &str)> =
            self.environment.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        Program::told(&self.model.url(), &environment)
    }

    /// Kills replica `at` and starts another in its place; returns the log of the killed replica.
    pub(super) fn restart(&mut self, at: usize) -> String {
        let next = self.replica();
        std::mem::replace(&mut self.replicas[at], next).killed()
    }

    /// Kills and replaces all replicas.
    pub(super) fn restart_all(&mut self) {
        for at in 0..self.replicas.len() {
            self.restart(at);
        }
    }

    /// Returns a client of a replica.
    pub(super) fn caller(&self, replica: usize) -> Caller {
        Caller::of(self.replicas[replica].address())
    }

    /// Sends a chat through a replica; returns the outcome.
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
        Step { sent: body, arrived: came, upstream }
    }

    /// Returns the number of summary calls that the model has received.
    pub(super) fn summaries(&self) -> usize {
        summaries(&self.model.seen())
    }

    /// Waits until no summary is in progress.
    ///
    /// The wait makes a session repeatable on every machine. Real agents' tools take longer than a
    /// summary.
    pub(super) async fn settled(&self, server: &RedisServer) {
        self.until(|| {
            let logs: Vec<String> = self.replicas.iter().map(Program::said).collect();
            let count = |words: &[&str]| -> usize {
                let times = |word| logs.iter().map(|log| log.matches(word).count()).sum::<usize>();
                words.iter().copied().map(times).sum()
            };
            // The lease ends when the summary is stored.
            count(&BEGINS) == count(&ENDS) && leases(server).is_empty()
        })
        .await;
    }

    /// Waits until all replicas can read the token count of every answer, also for repeatability.
    pub(super) async fn counted(&self, server: &RedisServer) {
        self.until(|| counts(server) >= self.answered).await;
    }

    /// Polls until `condition` holds; panics after [`PATIENCE`].
    pub(super) async fn until(&self, condition: impl Fn() -> bool) {
        let began = Instant::now();
        while !condition() {
            assert!(began.elapsed() < PATIENCE, "it does not come about");
            tokio::time::sleep(POLL).await;
        }
    }
}

/// Returns the keys of the leases held at the server.
pub(super) fn leases(server: &RedisServer) -> String {
    server.asked(&["KEYS", "longhaul:*:lease"])
}

/// Returns the number of requests whose token counts the server holds.
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

/// Counts the summary calls in `seen`.
pub(super) fn summaries(seen: &[SeenRequest]) -> usize {
    let calls = seen.iter().filter(|seen| seen.kind == RequestKind::Summary);
    calls.count()
}

/// Returns the bodies forwarded for each step, in order.
pub(super) fn forwarded(steps: &[Step]) -> Vec<Vec<Bytes>> {
    let bodies = |step: &Step| step.upstream.iter().map(|seen| seen.body.clone()).collect();
    steps.iter().map(bodies).collect()
}

/// Asserts that the forwarded bodies equal `expect`, byte for byte.
pub(super) fn same(name: &str, steps: &[Step], expect: &[Vec<Bytes>]) {
    let forwarded = forwarded(steps);
    assert_eq!(forwarded.len(), expect.len(), "{name}");
    for (at, (got, expect)) in forwarded.iter().zip(expect).enumerate() {
        assert_eq!(got.len(), expect.len(), "{name}, request {at}: sends");
        assert!(got == expect, "{name}, request {at}: {:?}", steps[at].arrived.headers);
    }
}
