//! Share of the replies that are held until their verdict is known.

use longhaul_mock_model::{Model, ModelOptions};

use super::page::Metrics;
use crate::caller::Caller;
use crate::journey::bodies;
use crate::program::{Admin, Program};
use crate::sessions::named;

/// Sessions of 60,000 to 110,000 tokens.
const SESSIONS: [&str; 3] = ["cli-0018", "agentv-0420", "agentv-0431"];

/// Plays the sessions at a model with this window, and returns the percentage of replies that were held.
async fn held_percent(window: u64, environment: &[(&str, &str)]) -> f64 {
    let model = Model::start(ModelOptions::with_window(window)).await.unwrap();
    let settings = [&[("LONGHAUL_SUMMARY_MODEL", "none")], environment].concat();
    let program = Program::with_admin(&model.url(), &settings, Admin::Free);
    let caller = Caller::of(program.address());
    let mut asked = 0.0;
    for name in SESSIONS {
        let session = named(name).replay();
        for body in bodies(&session) {
            caller.ask(body).await;
            asked += 1.0;
        }
    }
    let held = Metrics::of(program.admin()).await.counted("longhaul_held_seconds");
    println!("window {window} {environment:?}: {held} of {asked} replies held");
    100.0 * held / asked
}

#[tokio::test]
async fn few_replies_are_held_if_the_window_is_known() {
    // Above 80% of the window, a request is not known to fit.
    let known = [("LONGHAUL_WINDOW", "200000")];
    assert!(held_percent(200_000, &known).await < 1.0);
    let small = [("LONGHAUL_WINDOW", "32768")];
    assert!(held_percent(32_768, &small).await < 40.0);
    // Without a window, any request that is larger than all before may be refused.
    assert!(held_percent(200_000, &[]).await > 99.0);
}
