//! Measures the cost of a turn as a conversation grows past a hundred windows.
//!
//! `grow ADDRESS PID BODIES`: adds history in steps of ten megabytes, up to eighty. After each
//! step, it sends some turns that add two short messages each. For each quarter of the growth, it
//! prints the processor time of these turns divided by the bytes of their bodies.

use bytes::Bytes;
use longhaul_bench::{Connection, Failure, Process, block_on};
use std::path::Path;

const HEAD: &str = r#"{"model":"gpt-4o","messages":["#;
const TAIL: &str = "]}";
/// Number of growth steps, and the copies of the one-megabyte body that each step adds.
const STEPS: usize = 8;
const COPIES: usize = 10;
/// Turns sent after each step.
const TURNS: usize = 5;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, process, bodies] = arguments.as_slice() else {
        return Err("usage: grow ADDRESS PID BODIES".into());
    };
    let body = std::fs::read_to_string(Path::new(bodies).join("1m.json"))?;
    let messages = body
        .strip_prefix(HEAD)
        .and_then(|rest| rest.strip_suffix(TAIL))
        .ok_or("the body of a megabyte has another shape")?;
    let process = Process(process.parse()?);
    let turns = block_on(session(address, process, messages))??;
    println!("| history | ns a byte of a turn's body |\n|---|--:|");
    let mut medians = Vec::new();
    for quarter in turns.chunks(STEPS * TURNS / 4) {
        let mut figures: Vec<f64> = quarter.iter().map(|turn| turn.per_byte).collect();
        figures.sort_unstable_by(f64::total_cmp);
        let median = figures.get(figures.len() / 2).copied().unwrap_or_default();
        let upto = quarter.last().map_or(0.0, |turn| turn.megabytes);
        println!("| up to {upto:.0} MB | {median:.2} |");
        medians.push(median);
    }
    if let [first, .., last] = medians.as_slice() {
        println!("\nthe last quarter over the first: {:.2}", last / first);
    }
    Ok(())
}

/// A measured turn.
struct Turn {
    megabytes: f64,
    per_byte: f64,
}

async fn session(address: &str, process: Process, messages: &str) -> Result<Vec<Turn>, Failure> {
    let mut connection = Connection::open(address).await?;
    let mut history = r#"{"role":"user","content":"begin"}"#.to_owned();
    let mut turns = Vec::new();
    for step in 0..STEPS {
        for _ in 0..COPIES {
            history.push(',');
            history.push_str(messages);
        }
        say(&mut history, "user", &format!("that was part {step}"));
        connection.exchange("", whole(&history)).await?;
        for _ in 0..TURNS {
            say(&mut history, "assistant", "I see.");
            say(&mut history, "user", "go on");
            let body = whole(&history);
            let bytes = body.len() as f64;
            let before = process.processor_time()?;
            connection.exchange("", body).await?;
            let spent = process.processor_time()?.saturating_sub(before);
            turns
                .push(Turn { megabytes: bytes / 1e6, per_byte: spent.as_secs_f64() * 1e9 / bytes });
        }
    }
    Ok(turns)
}

fn whole(history: &str) -> Bytes {
    [HEAD, history, TAIL].concat().into()
}

fn say(history: &mut String, role: &str, text: &str) {
    history.push_str(&format!(r#",{{"role":"{role}","content":"{text}"}}"#));
}
