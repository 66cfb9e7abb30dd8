//! A primary that becomes a replica under the same name, and keeps its connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use tokio::net::{TcpListener, TcpStream};

use super::redis_server::free_port;
use super::*;

/// A name that several servers have in turn. Each new connection leads to the current one.
struct Name {
    at: u16,
    leads_to: Arc<AtomicU16>,
    /// Aborted at the end of the test, with its connections.
    _tasks: JoinSet<()>,
}

impl Name {
    async fn of(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap().port();
        let leads_to = Arc::new(AtomicU16::new(server));
        let target = Arc::clone(&leads_to);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (mut near, _) = listener.accept().await.unwrap();
                let port = target.load(Ordering::SeqCst);
                connections.spawn(async move {
                    let mut far = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
                    // If one end closes, the other is closed too.
                    _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
                });
            }
        });
        Self { at, leads_to, _tasks: tasks }
    }

    fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.at)
    }

    fn lead_to(&self, server: u16) {
        self.leads_to.store(server, Ordering::SeqCst);
    }
}

fn at_port() -> (RedisServer, u16) {
    let port = free_port();
    (RedisServer::with(&["--port", &port.to_string()]), port)
}

/// Writes until a write succeeds.
async fn kept(tier: &RedisStore, key: RecordKey) {
    let writing = async {
        while tier.write(&[write(key, [Change::Seen])]).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, writing).await.unwrap();
}

#[tokio::test]
#[ignore = "needs redis-server"]
async fn after_a_failover_behind_one_name_the_new_primary_is_used() {
    let ((old, old_port), (new, new_port)) = (at_port(), at_port());
    let name = Name::of(old_port).await;
    let tier = tier(&name.url(), &[]);
    wrote(&tier, key(1, "before"), [Change::Seen]).await;
    assert_eq!(old.asked(&["DBSIZE"]), "1");
    name.lead_to(new_port);
    let follow = ["REPLICAOF", "127.0.0.1", &new_port.to_string()];
    assert_eq!(old.asked(&follow), "OK");
    kept(&tier, key(1, "after")).await;
    assert_eq!(new.asked(&["DBSIZE"]), "1");
}

#[tokio::test]
#[ignore = "needs redis-server"]
async fn reads_from_a_replica_and_writes_once_it_is_promoted() {
    let server = RedisServer::start();
    let tier = tier(&server.url(), &[]);
    let key = key(1, "a");
    wrote(&tier, key, [Change::Seen]).await;
    // No server listens on the port of the discard service, so this is a replica without a primary.
    assert_eq!(server.asked(&["REPLICAOF", "127.0.0.1", "9"]), "OK");
    for _ in 0..50 {
        assert!(read(&tier, key).await.unwrap().seen, "while it reconnects");
        let refused = tier.write(&[write(key, [Change::Refused])]).await;
        let why = "the server is a read-only copy; store.at has to name its primary";
        assert_eq!(refused.unwrap_err().0, why);
    }
    assert_eq!(server.asked(&["REPLICAOF", "NO", "ONE"]), "OK");
    kept(&tier, key).await;
}
