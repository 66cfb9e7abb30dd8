//! Sessions of several windows, end to end: what an agent sees, what is forwarded, what is kept.

use longhaul::demo::{Density, Model, ModelOptions, Plant, Replay};
use longhaul::rewrite::tokens::Tokens;

use crate::journey::{self, Journey, bodies, digests};
use crate::sessions::sessions;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn explore() {
    let filter = std::env::var("NAMES").unwrap_or_default();
    let windows: Vec<u64> = std::env::var("WINDOWS").unwrap_or("32768".into()).split(',').map(|w| w.parse().unwrap()).collect();
    let mut tasks = tokio::task::JoinSet::new();
    let limit = std::sync::Arc::new(tokio::sync::Semaphore::new(3));
    for session in sessions() {
        if !filter.is_empty() && !filter.split(',').any(|f| session.name == f) { continue; }
        for &window in &windows {
            for density in [Density::STANDARD, Density::DENSE] {
                for headless in [false, true] {
                  for configured in [false, true] {
                    let replay = session.replay();
                    let replay = if headless { replay.headless().unwrap() } else { replay };
                    let (replay, facts) = replay.planted(&Plant::one_each()).unwrap();
                    let name = session.name.clone();
                    let limit = limit.clone();
                    tasks.spawn(async move {
                        let _permit = limit.acquire().await.unwrap();
                        let began = std::time::Instant::now();
                        let options = ModelOptions { density, ..ModelOptions::of_window(window) };
                        let direct = Journey::start(ModelOptions { density, ..ModelOptions::of_window(10_000_000) }, digests).await;
                        let mut direct = direct;
                        let last = direct.step(replay.requests().next_back().unwrap().body()).await;
                        let total = last.upstream[0].prompt_tokens;
                        if total < 3 * window { return; }
                        let mut journey = Journey::start(options, |c| { digests(c); if configured { c.window = Tokens::new(u32::try_from(window).unwrap() / 10 * if density == Density::DENSE { 6 } else { 8 }); } }).await;
                        let mut steps = Vec::new();
                        let mut bad = None;
                        for body in bodies(&replay) {
                            let step = journey.step(body).await;
                            let answer = step.arrived.is_answer();
                            if !answer {
                                bad = Some(format!("DIED at {} of {}: {} {} last {:?}", steps.len(), replay.requests().len(), step.arrived.action(), String::from_utf8_lossy(&step.arrived.body).chars().take(120).collect::<String>(), step.upstream.iter().map(|s| (s.verdict, s.prompt_tokens)).collect::<Vec<_>>()));
                                if std::env::var("DEBUG").is_ok() { for (k, seen) in step.upstream.iter().enumerate() { println!("  {name} {k} {:?} bytes {} of {} headers {:?} {:?}", seen.prompt_tokens, seen.body.len(), step.sent.len(), step.arrived.headers.get("x-longhaul-tokens-before"), step.arrived.headers.get("x-longhaul-tokens-after")); let ms = journey::messages(&seen.body); println!("   {:?}", ms.iter().map(|m| format!("{} {}", m.chars().take(40).collect::<String>(), m.len())).collect::<Vec<_>>()); } }
                                break;
                            }
                            steps.push(step);
                        }
                        if steps.is_empty() { println!("{name} w{window} {bad:?} FIRST"); return; }
                        let text = String::from_utf8(steps.last().unwrap().forwarded().body.to_vec()).unwrap();
                        let lost: Vec<String> = facts.iter().filter(|p| bad.is_none() && !text.contains(&p.token)).map(|p| format!("{:?}", p.place)).collect();
                        println!("{name} w{window} {} {} {} total {total} n {} breaks {} records {} retries {} facts {} lost {lost:?} {:?} {}", if headless {"headless"} else {"turns"}, if density == Density::DENSE {"dense"} else {"std"}, if configured {"conf"} else {"learn"}, steps.len(), journey::breaks(&steps), journey::records(&steps), journey::retries(&steps), facts.len(), began.elapsed(), bad.unwrap_or_default());
                    });
                  }
                }
            }
        }
    }
    while let Some(r) = tasks.join_next().await { if let Err(e) = r { println!("PANIC {e}"); } }
    let _ = (Replay::of(b""), Model::start(ModelOptions::default()).await);
}
