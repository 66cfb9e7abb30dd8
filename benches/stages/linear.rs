//! Whether what a request costs goes by its bytes, up to bodies far larger than any window.

use crate::bodies;
use crate::count::Counter;
use crate::stage::Stage;
use std::error::Error;

/// How often the messages of the largest body are repeated.
const TIMES: [usize; 3] = [1, 4, 16];
/// What every request passes. Past a window it is planned from its record, which is no stage here.
const STAGES: [Stage; 3] = [Stage::ReadNew, Stage::Read, Stage::Chain];

/// Prints the instructions a byte of each stage as a table.
pub(crate) fn print() -> Result<(), Box<dyn Error>> {
    let counter = Counter::find()?.ok_or("valgrind is not installed")?;
    let names: Vec<&str> = STAGES.iter().map(|stage| stage.name()).collect();
    println!("| bytes | {} |", names.join(" | "));
    println!("|--:|{}", "--:|".repeat(STAGES.len()));
    let all = bodies::all()?;
    let [.., smaller, largest] = all.as_slice() else {
        return Err("there are too few bodies".into());
    };
    let mut sizes = vec![smaller.bytes.clone()];
    for times in TIMES {
        sizes.push(largest.repeated(times)?);
    }
    for body in &sizes {
        print!("| {} |", body.len());
        for stage in STAGES {
            let hundredths = counter.count(stage, body)? * 100 / body.len() as u64;
            print!(" {}.{:02} |", hundredths / 100, hundredths % 100);
        }
        println!();
    }
    Ok(())
}
