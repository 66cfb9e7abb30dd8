//! An upstream that is too busy for chats receives no background summary calls.

use super::slow::{BUSY, Slow};
use crate::admin::has_counted;
use crate::caller::{Caller, talk};
use crate::program::{Admin, Program};

/// Plays a throttled chat, then others whose next request will need a summary.
async fn throttled(chats: &Slow, settings: &[(&str, &str)]) -> Program {
    let settings = [&[("LONGHAUL_WINDOW", "32768")], settings].concat();
    let program = Program::with_admin(&chats.base(), &settings, Admin::Free);
    let caller = Caller::of(program.address());
    let busy = String::from_utf8(talk(1, 10)).unwrap();
    let busy = busy.replace(r#""model":"m""#, BUSY);
    assert_eq!(caller.ask(busy).await.status, 429);
    for turns in [12, 25] {
        assert_eq!(caller.ask(talk(turns, 1_000)).await.status, 200);
    }
    program
}

#[tokio::test]
async fn requests_no_summary_from_a_throttled_upstream() {
    let chats = Slow::start().await;
    let program = throttled(&chats, &[]).await;
    let throttled = [("reason", "throttled")];
    has_counted(program.admin(), "longhaul_summaries_withheld_total", &throttled).await;
    assert_eq!(*chats.told.borrow(), (0, 0));
}

#[tokio::test]
async fn throttled_chats_do_not_stop_a_dedicated_summariser() {
    let (chats, mut other) = (Slow::start().await, Slow::start().await);
    let base = other.base();
    let settings = [("LONGHAUL_SUMMARY_UPSTREAM", &*base), ("LONGHAUL_SUMMARY_MODEL", "small")];
    let _program = throttled(&chats, &settings).await;
    other.told(1, 0).await;
    assert_eq!(*chats.told.borrow(), (0, 0));
}
