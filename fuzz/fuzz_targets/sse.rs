//! Fuzzes the event splitter. Any split of any bytes must give the events of a plain, line-by-line
//! reading of the whole text by the WHATWG standard.

#![no_main]

use libfuzzer_sys::fuzz_target;
use longhaul_core::dialect::Dialect;
use longhaul_core::dialect::reply::EventInfo;
use longhaul_core::sse::{Event, Splitter};

use literal::Found;

#[path = "../../crates/longhaul-core/src/sse/tests/literal.rs"]
mod literal;

fuzz_target!(|input: &[u8]| {
    // The first byte selects how the rest is split.
    let Some((&cut, bytes)) = input.split_first() else {
        return;
    };
    let size = usize::from(cut) % 61 + 1;
    let mut found = Vec::new();
    let mut splitter = Splitter::default();
    for chunk in bytes.chunks(size) {
        splitter.push(chunk, |event| keep(&mut found, event));
    }
    splitter.finish(|event| keep(&mut found, event));
    assert_eq!(found, literal::events(bytes), "in chunks of {size}");
});

fn keep(found: &mut Vec<Found>, event: Event<'_>) {
    assert_eq!(event.dropped, 0, "inputs here are far below what an event may hold");
    let _: EventInfo = Dialect::ChatCompletions.classify_event(event);
    found.push((event.name.to_vec(), event.data.to_vec()));
}
