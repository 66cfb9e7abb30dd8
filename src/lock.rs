//! Locks that a panic does not shut.
//!
//! A panic in one request ends one connection and nobody else's. With the locks of `std` it would shut
//! what everybody shares. These give out what they guard as it was left: so what is changed under one
//! is whole after every statement, or half of the change harms nobody.

use std::sync::{MutexGuard, PoisonError, RwLockReadGuard, RwLockWriteGuard};

/// As that of `std`.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(guarded: T) -> Self {
        Self(std::sync::Mutex::new(guarded))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// As that of `std`.
#[derive(Debug, Default)]
pub(crate) struct RwLock<T>(std::sync::RwLock<T>);

impl<T> RwLock<T> {
    pub(crate) fn new(guarded: T) -> Self {
        Self(std::sync::RwLock::new(guarded))
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn what_somebody_panicked_with_in_hand_is_there_for_the_next_as_it_was_left() {
        let (mutex, rw_lock) = (Mutex::new(1), RwLock::new(1));
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let (mut one, mut other) = (mutex.lock(), rw_lock.write());
            (*one, *other) = (2, 2);
            panic!("with both in hand");
        }));
        assert!(panicked.is_err());
        assert_eq!((*mutex.lock(), *rw_lock.read()), (2, 2));
        *rw_lock.write() = 3;
        assert_eq!(*rw_lock.read(), 3);
    }
}
