//! Compares instruction counts with the agreed ones, so that a slower stage does not go unnoticed.
//! The agreed counts are those of the profile `gate`.

use crate::bodies::{self, Body};
use crate::count::Counter;
use crate::stage::Stage;
use std::error::Error;

/// Agreed counts of each stage on each body. Each line holds a body, a number and a stage.
/// `--counts` prints current values.
const AGREED: &str = include_str!("counts.txt");
/// Tolerated excess over the agreed count, in percent. Compilers and C libraries differ by a few.
const TOLERANCE: u64 = 10;
/// The counted bodies, of every API: larger ones take minutes and add no information.
const BODIES: [&str; 5] = ["4k", "100k", "1m", "codex", "claude"];
/// A request whose messages were met before, and one that is new. The other stages are parts of both.
const STAGES: [Stage; 2] = [Stage::Whole, Stage::FirstSight];

/// Instruction count of one pass of a stage over a body.
struct Counted {
    body: &'static str,
    stage: &'static str,
    instructions: u64,
}

/// Prints the current counts in the format of the agreed ones.
pub(crate) fn print() -> Result<(), Box<dyn Error>> {
    for Counted { body, stage, instructions } in counted()? {
        println!("{body}\t{instructions}\t{stage}");
    }
    Ok(())
}

/// Counts instructions; fails if a stage takes more than agreed.
pub(crate) fn check() -> Result<(), Box<dyn Error>> {
    let mut exceeded = Vec::new();
    for Counted { body, stage, instructions } in counted()? {
        let agreed = agreed(body, stage).ok_or_else(|| {
            format!(
                "crates/longhaul-core/benches/stages/counts.txt has no line for {body}, {stage}"
            )
        })?;
        println!("{body:>5}  {stage:<18} {instructions:>10} of {agreed}");
        if instructions * 100 > agreed * (100 + TOLERANCE) {
            exceeded.push(format!("{body}, {stage}: {instructions} instead of {agreed}"));
        }
    }
    if exceeded.is_empty() {
        return Ok(());
    }
    Err(format!(
        "more instructions than agreed on, by over {TOLERANCE}%:\n  {}\n\
         find out why; if it is worth it, `cargo bench -p longhaul-core --profile gate --bench stages -- --counts` prints the new counts",
        exceeded.join("\n  ")
    )
    .into())
}

fn agreed(body: &str, stage: &str) -> Option<u64> {
    AGREED.lines().find_map(|line| {
        let mut fields = line.splitn(3, '\t');
        let (name, count) = (fields.next()?, fields.next()?);
        (name == body && fields.next()? == stage).then(|| count.parse().ok()).flatten()
    })
}

fn counted() -> Result<Vec<Counted>, Box<dyn Error>> {
    let counter =
        Counter::find()?.ok_or("instructions are counted by valgrind, which is missing")?;
    let mut bodies: Vec<Body> = bodies::all()?;
    bodies.extend(bodies::recorded()?);
    let mut counts = Vec::new();
    for body in bodies.iter().filter(|body| BODIES.contains(&body.name)) {
        for stage in STAGES {
            counts.push(Counted {
                body: body.name,
                stage: stage.name(),
                instructions: counter.count(stage, body)?,
            });
        }
    }
    Ok(counts)
}
