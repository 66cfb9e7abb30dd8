//! Tests of writes that fail while reads are answered, and of writes that fail because the store is
//! unavailable.

use tokio::time::advance;

use super::*;
use crate::store::circuit_breaker::{MAX_FAILURES, PAUSE};
use crate::store::tests::scripted::ScriptedStore;

const FAILED: Unavailable = Unavailable("told to");

fn tiered() -> Store {
    let far = Some((DurableStore::Scripted(ScriptedStore::new()), READ));
    let secret = Secret::from_bytes([7; 32]);
    Store::from_parts((ROOM, WEEK), far, secret, &Arc::default(), &Arc::default())
}

/// Makes a write that ends as given. Returns whether it was let through.
async fn writes(store: &Store, ended: Result<(), Unavailable>) -> bool {
    let mut called = false;
    let call = async {
        called = true;
        ended
    };
    let inner = &store.tiered.as_ref().unwrap().inner;
    _ = inner.guarded_write(READ, call).await;
    called
}

async fn reads(store: &Store, ended: Result<(), Unavailable>) {
    let inner = &store.tiered.as_ref().unwrap().inner;
    _ = inner.guarded_read(READ, async { ended }).await;
}

#[tokio::test(start_paused = true)]
async fn refused_writes_are_retried_once_per_pause() {
    let store = tiered();
    for _ in 0..MAX_FAILURES {
        assert!(writes(&store, Err(FAILED)).await);
        reads(&store, Ok(())).await;
    }
    for _ in 0..3 {
        assert!(!writes(&store, Ok(())).await);
        advance(PAUSE).await;
        assert!(writes(&store, Err(FAILED)).await);
        assert!(!writes(&store, Ok(())).await, "one at a time");
        reads(&store, Ok(())).await;
    }
    advance(PAUSE).await;
    assert!(writes(&store, Ok(())).await);
    assert!(writes(&store, Ok(())).await && writes(&store, Ok(())).await);
}

#[tokio::test(start_paused = true)]
async fn unavailable_store_does_not_count_as_refusing_writes() {
    let store = tiered();
    for _ in 0..2 * MAX_FAILURES {
        assert!(writes(&store, Err(FAILED)).await);
    }
    reads(&store, Ok(())).await;
    for _ in 0..2 * MAX_FAILURES {
        assert!(writes(&store, Err(FAILED)).await);
        reads(&store, Err(FAILED)).await;
        reads(&store, Ok(())).await;
    }
}
