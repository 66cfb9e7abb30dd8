//! Panics of the library, which may occur on a damaged file.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::sync::Once;

thread_local! {
    /// Whether a panic of this thread is caught and reported by its caller.
    static IS_TOLD: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work`. Returns `None` if it panics, which the caller reports. The panic's own message and
/// backtrace are suppressed, because they would interrupt the log in another format.
pub(super) fn catch_quietly<T>(work: impl FnOnce() -> T) -> Option<T> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let others = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if !IS_TOLD.get() {
                others(panic);
            }
        }));
    });
    IS_TOLD.set(true);
    let done = catch_unwind(AssertUnwindSafe(work));
    IS_TOLD.set(false);
    done.ok()
}
