//! Panics of the library, which may stumble over a file that is damaged.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::sync::Once;

thread_local! {
    /// Whether whoever catches a panic of this thread tells of it.
    static IS_TOLD: Cell<bool> = const { Cell::new(false) };
}

/// What `work` comes to; nothing if it panics, which its caller tells of. The panic's own message, and
/// its backtrace, would stand between the lines of the log, in no format of theirs.
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
