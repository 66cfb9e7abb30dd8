//! Shares of callers, expiry and the order of eviction.

use crate::callers::owners::Owners;

use super::*;

impl<K: CallerKey, V: Clone> FairCache<K, V> {
    pub(crate) fn weight(&self) -> u64 {
        self.state.lock().by_caller.values().map(|entries| entries.weight).sum()
    }
}

const MINUTE: Duration = Duration::from_mins(1);

fn key(caller: u32, number: u32) -> RecordKey {
    let scope = Scope::new(&[0; 32], &[&caller.to_le_bytes()]);
    scope.named_key(&number.to_string())
}

/// A cache with room for 70 entries of accepted callers and 10 of newcomers. Callers up to 3 are
/// accepted.
fn cache() -> FairCache<RecordKey, ()> {
    let accepted = Arc::new(AcceptedCallers::default());
    for caller in 0..=3 {
        accepted.insert_alone(key(caller, 0).scope());
    }
    FairCache::of_entries(80, MINUTE, &accepted)
}

fn insert(cache: &FairCache<RecordKey, ()>, caller: u32, numbers: std::ops::Range<u32>) {
    for number in numbers {
        cache.insert(key(caller, number), ());
    }
}

fn kept(cache: &FairCache<RecordKey, ()>, caller: u32, numbers: std::ops::Range<u32>) -> Vec<u32> {
    numbers.filter(|number| cache.get(&key(caller, *number)).is_some()).collect()
}

#[tokio::test(start_paused = true)]
async fn counts_the_entries_of_all_callers_that_have_not_expired() {
    let accepted = Arc::new(AcceptedCallers::default());
    accepted.insert_alone(key(1, 0).scope());
    let cache = FairCache::of_entries(80, MINUTE, &accepted);
    cache.insert(key(1, 0), 1);
    tokio::time::advance(MINUTE / 2).await;
    cache.insert(key(1, 1), 2);
    cache.insert(key(2, 0), 3);
    assert_eq!(cache.count(|_| true), 3);
    tokio::time::advance(MINUTE / 2 + Duration::from_secs(1)).await;
    assert_eq!((cache.count(|_| true), cache.count(|value| *value == 3)), (2, 1));
}

#[tokio::test]
async fn a_caller_that_floods_the_cache_evicts_only_its_own_entries() {
    let cache = cache();
    insert(&cache, 1, 0..30);
    insert(&cache, 2, 0..1_000);
    assert_eq!(kept(&cache, 1, 0..30).len(), 30);
    let newest: Vec<u32> = (960..1_000).collect();
    assert_eq!(kept(&cache, 2, 0..1_000), newest);
}

#[tokio::test]
async fn callers_of_one_credential_have_one_share_and_are_equal_within_it() {
    let accepted = Arc::new(AcceptedCallers::default());
    let credential = Owners::of_tags(&[key(9, 9).scope()]);
    accepted.insert_alone(key(0, 0).scope());
    for caller in 1..=60 {
        accepted.insert(key(caller, 0).scope(), &credential);
    }
    let cache = FairCache::of_entries(80, MINUTE, &accepted);
    insert(&cache, 0, 0..35);
    insert(&cache, 1, 0..5);
    for caller in 2..=30 {
        insert(&cache, caller, 0..3);
    }
    assert_eq!(kept(&cache, 0, 0..35).len(), 35);
    assert!(!kept(&cache, 1, 0..5).is_empty());
    assert_eq!(cache.weight(), 70);
}

#[tokio::test]
async fn a_further_caller_gets_an_equal_share_from_the_largest() {
    let cache = cache();
    insert(&cache, 1, 0..70);
    insert(&cache, 2, 0..10);
    insert(&cache, 3, 0..1_000);
    assert_eq!(kept(&cache, 2, 0..10).len(), 10);
    assert_eq!(kept(&cache, 1, 0..70).len(), 30);
    assert_eq!(kept(&cache, 3, 0..1_000).len(), 30);
}

#[tokio::test]
async fn invented_callers_evict_nothing_of_accepted_ones() {
    let cache = cache();
    insert(&cache, 1, 0..70);
    for invented in 1_000..11_000 {
        cache.insert(key(invented, 0), ());
    }
    assert_eq!(kept(&cache, 1, 0..70).len(), 70);
    assert_eq!(cache.state.lock().by_caller[&NEWCOMERS].weight, 10);
}

#[tokio::test]
async fn an_entry_that_can_never_fit_evicts_no_other() {
    let accepted = Arc::new(AcceptedCallers::default());
    let cache = FairCache::new(80, MINUTE, |weight: &u64| *weight, &accepted);
    cache.insert(key(8, 0), 10);
    cache.insert(key(9, 0), 11);
    assert_eq!((cache.get(&key(8, 0)), cache.weight()), (Some(10), 10));
}

#[tokio::test]
async fn entries_of_a_newcomer_are_safe_once_it_is_accepted() {
    let cache = cache();
    insert(&cache, 9, 0..1);
    cache.state.lock().accepted.insert_alone(key(9, 0).scope());
    assert_eq!(kept(&cache, 9, 0..1), [0]);
    for invented in 1_000..2_000 {
        cache.insert(key(invented, 0), ());
    }
    assert_eq!(kept(&cache, 9, 0..1), [0]);
}

#[tokio::test]
async fn the_least_recently_used_entry_goes_first_and_one_replaced_counts_once() {
    let cache = cache();
    insert(&cache, 1, 0..70);
    insert(&cache, 1, 69..70);
    assert_eq!(kept(&cache, 1, 0..1), [0]);
    insert(&cache, 1, 70..71);
    assert_eq!(kept(&cache, 1, 0..3), [0, 2]);
    assert_eq!(cache.state.lock().weight, 70);
}

#[tokio::test(start_paused = true)]
async fn an_entry_expires_after_its_last_use() {
    let cache = cache();
    insert(&cache, 1, 0..1);
    for _ in 0..2 {
        tokio::time::advance(Duration::from_secs(50)).await;
        assert_eq!(kept(&cache, 1, 0..1), [0]);
    }
    tokio::time::advance(Duration::from_secs(61)).await;
    assert!(kept(&cache, 1, 0..1).is_empty());
    let state = cache.state.lock();
    assert!(state.weight == 0 && state.by_caller.is_empty());
}

#[tokio::test(start_paused = true)]
async fn expired_entries_are_freed_by_the_uses_of_other_callers() {
    let cache = cache();
    insert(&cache, 1, 0..10);
    insert(&cache, 9, 0..5);
    tokio::time::advance(Duration::from_secs(50)).await;
    assert_eq!(kept(&cache, 1, 0..1), [0]);
    tokio::time::advance(Duration::from_secs(30)).await;
    insert(&cache, 2, 0..1);
    assert_eq!(cache.weight(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_share_is_free_for_another_caller_after_its_entries_expired() {
    let accepted = Arc::new(AcceptedCallers::default());
    let callers = u32::try_from(MAX_SHARES).unwrap();
    for caller in 0..=callers {
        accepted.insert_alone(key(caller, 0).scope());
    }
    let cache = FairCache::of_entries(1 << 16, MINUTE, &accepted);
    for caller in 0..=callers {
        cache.insert(key(caller, 0), ());
    }
    assert_eq!(cache.state.lock().by_caller[&NEWCOMERS].weight, 1);
    tokio::time::advance(Duration::from_secs(61)).await;
    cache.insert(key(callers, 1), ());
    assert!(cache.state.lock().by_caller.contains_key(&key(callers, 1).scope()));
}

#[tokio::test]
async fn the_newest_entry_stays_even_if_all_others_were_used() {
    let cache = cache();
    for number in 0..200 {
        insert(&cache, 1, number..number + 1);
        assert_eq!(kept(&cache, 1, number..number + 1), [number]);
    }
    let newest: Vec<u32> = (130..200).collect();
    assert_eq!(kept(&cache, 1, 0..200), newest);
    assert_eq!(cache.state.lock().entries.len(), 70);
}
