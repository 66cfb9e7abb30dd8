//! Measures the memory of a process: idle, with idle streams, and while a large body passes.
//!
//! `hold ADDRESS PID STREAMS BODY_MB`

use bytes::Bytes;
use http_body_util::BodyExt;
use longhaul_bench::{Connection, Failure, Process, block_on};

/// A stream whose second event comes after an hour.
const IDLE: &str = "events=2&pause_us=3600000000";
const CHAT: &str =
    r#"{"model":"gpt-4o","stream":true,"messages":[{"role":"user","content":"hello"}]}"#;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, process, streams, megabytes] = arguments.as_slice() else {
        return Err("usage: hold ADDRESS PID STREAMS BODY_MB".into());
    };
    let process = Process(process.parse()?);
    let (streams, megabytes) = (streams.parse()?, megabytes.parse()?);
    println!("idle: {:.1} MB", megabytes_of(process, "VmRSS")?);
    block_on(idle_streams(address, process, streams))??;
    block_on(large_body(address, process, megabytes))?
}

/// Holds `streams` streams open, each after its first event.
async fn idle_streams(address: &str, process: Process, streams: usize) -> Result<(), Failure> {
    let before = process.memory_kib("VmRSS")?;
    let mut held = Vec::new();
    for at in 1..=streams {
        let mut connection = Connection::open(address).await?;
        let mut reply = connection.send(IDLE, Bytes::from_static(CHAT.as_bytes())).await?;
        reply.body_mut().frame().await.ok_or("no first event")??;
        held.push((connection, reply));
        if at == 1 || at == streams {
            let now = process.memory_kib("VmRSS")?;
            println!(
                "{at} idle streams: {:.1} MB, {:.1} KB a stream",
                now as f64 / 1024.0,
                now.saturating_sub(before) as f64 / at as f64,
            );
        }
    }
    Ok(())
}

/// Sends one chat of `megabytes` megabytes.
async fn large_body(address: &str, process: Process, megabytes: usize) -> Result<(), Failure> {
    let text = "a line of a long log, as tools print them. ";
    let content = text.repeat(megabytes * 1_000_000 / text.len());
    let body = CHAT.replace("hello", &content);
    let before = megabytes_of(process, "VmHWM")?;
    let mut connection = Connection::open(address).await?;
    connection.exchange("", body.into()).await?;
    let peak = megabytes_of(process, "VmHWM")?;
    println!("a body of {megabytes} MB: peak {peak:.1} MB, {before:.1} MB before");
    Ok(())
}

fn megabytes_of(process: Process, figure: &str) -> Result<f64, Failure> {
    Ok(process.memory_kib(figure)? as f64 / 1024.0)
}
