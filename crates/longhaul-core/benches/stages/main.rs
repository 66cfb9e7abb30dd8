//! The cost of a request, stage by stage, next to the cost of finding its messages with
//! `serde_json`.
//!
//! `cargo bench --bench stages` prints times and, if valgrind is installed, instruction counts.
//! Further options:
//!
//! - `-- --bodies DIR` writes the bodies to `DIR` and measures nothing.
//! - `-- --gate` fails if a stage takes more instructions than agreed.
//! - `-- --counts` prints the current counts.

mod bodies;
mod count;
mod gate;
mod stage;
mod table;
mod time;

use bodies::Body;
use stage::Stage;
use std::error::Error;
use std::path::Path;
use table::Row;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["--bodies", folder, ..] => write_bodies(Path::new(folder)),
        ["--counts", ..] => gate::print(),
        ["--gate", ..] => gate::check(),
        [count::CHILD, stage, path, file, ..] => count::in_child(stage, path, Path::new(file)),
        _ => measure(),
    }
}

fn write_bodies(folder: &Path) -> Result<(), Box<dyn Error>> {
    std::fs::create_dir_all(folder)?;
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.join(name).with_extension("json");
        println!("{} bytes  {}", bytes.len(), path.display());
        std::fs::write(&path, bytes)
    };
    let all = bodies::all()?;
    for body in all.iter().chain(&bodies::recorded()?) {
        write(body.name, &body.bytes)?;
    }
    // No recording is this large; these bodies show whether the cost of a request is linear in its
    // bytes.
    let largest = all.last().ok_or("there are no bodies")?;
    write("16m", &largest.repeated(4)?)?;
    write("64m", &largest.repeated(16)?)?;
    Ok(())
}

fn measure() -> Result<(), Box<dyn Error>> {
    let counter = count::Counter::find()?;
    if counter.is_none() {
        println!("valgrind is not installed: no instruction counts\n");
    }
    let all = bodies::all()?;
    for body in all.iter().chain(&bodies::recorded()?) {
        let rows = rows(body, &Stage::ALL, counter.as_ref())?;
        println!("{}", table::render(body, &rows));
    }
    let largest = all.last().ok_or("there are no bodies")?;
    let body = Body {
        name: "16m",
        dialect: largest.dialect,
        bytes: largest.repeated(4)?,
        messages: 4 * largest.messages,
    };
    let rows = rows(&body, &Stage::LINEAR, counter.as_ref())?;
    println!("{}", table::render(&body, &rows));
    Ok(())
}

fn rows(
    body: &Body,
    stages: &[Stage],
    counter: Option<&count::Counter>,
) -> Result<Vec<Row>, Box<dyn Error>> {
    let mut rows = Vec::new();
    for &stage in stages {
        let Some(mut pass) = stage.pass(body.dialect, &body.bytes)? else {
            continue;
        };
        rows.push(Row {
            stage,
            time: time::median(&mut *pass),
            instructions: counter.map(|counter| counter.count(stage, body)).transpose()?,
        });
    }
    Ok(rows)
}
