//! Holds the counted instructions to those that were agreed on, so that a stage does not grow dear
//! unseen. They are those of the profile `gate`.

use crate::bodies::{self, Body};
use crate::count::Counter;
use crate::stage::Stage;
use std::error::Error;

/// What each stage took on each body when that was last looked at: a body, a number and a stage a
/// line. `--counts` prints it anew.
const AGREED: &str = include_str!("counts.txt");
/// By how many hundredths a count may exceed what was agreed on. Compilers and C libraries differ by
/// a few.
const TOLERANCE: u64 = 10;
/// The bodies that are counted: larger ones say nothing new, and take minutes.
const BODIES: [&str; 3] = ["4k", "100k", "1m"];
/// What every request passes, and what a new message costs. The others are paid where something is
/// replaced.
const STAGES: [Stage; 5] = [
    Stage::ReadNew,
    Stage::Read,
    Stage::Chain,
    Stage::PlanWide,
    Stage::Whole,
];

/// What one pass of a stage over a body took.
struct Counted {
    body: &'static str,
    stage: &'static str,
    instructions: u64,
}

/// Prints the counts as they are, in the form of the agreed ones.
pub(crate) fn print() -> Result<(), Box<dyn Error>> {
    for Counted {
        body,
        stage,
        instructions,
    } in counted()?
    {
        println!("{body}\t{instructions}\t{stage}");
    }
    Ok(())
}

/// Counts, and fails where something takes more than was agreed on.
pub(crate) fn check() -> Result<(), Box<dyn Error>> {
    let mut exceeded = Vec::new();
    for Counted {
        body,
        stage,
        instructions,
    } in counted()?
    {
        let agreed = agreed(body, stage)
            .ok_or_else(|| format!("benches/stages/counts.txt has no line for {body}, {stage}"))?;
        println!("{body:>5}  {stage:<18} {instructions:>10} of {agreed}");
        if instructions * 100 > agreed * (100 + TOLERANCE) {
            exceeded.push(format!(
                "{body}, {stage}: {instructions} instead of {agreed}"
            ));
        }
    }
    if exceeded.is_empty() {
        return Ok(());
    }
    Err(format!(
        "more instructions than agreed on, by over {TOLERANCE}%:\n  {}\n\
         find out why; if it is worth it, `cargo bench --profile gate --bench stages -- --counts` prints the new counts",
        exceeded.join("\n  ")
    )
    .into())
}

fn agreed(body: &str, stage: &str) -> Option<u64> {
    AGREED.lines().find_map(|line| {
        let mut fields = line.splitn(3, '\t');
        let (name, count) = (fields.next()?, fields.next()?);
        (name == body && fields.next()? == stage)
            .then(|| count.parse().ok())
            .flatten()
    })
}

fn counted() -> Result<Vec<Counted>, Box<dyn Error>> {
    let counter =
        Counter::find()?.ok_or("instructions are counted by valgrind, which is missing")?;
    let bodies: Vec<Body> = bodies::all()?;
    let mut counts = Vec::new();
    for body in bodies.iter().filter(|body| BODIES.contains(&body.name)) {
        for stage in STAGES {
            counts.push(Counted {
                body: body.name,
                stage: stage.name(),
                instructions: counter.count(stage, &body.bytes)?,
            });
        }
    }
    Ok(counts)
}
