//! The event splitter: any chunking of any bytes gives the events of a plain reading of the
//! WHATWG standard, line by line over the whole text.

#![no_main]

use libfuzzer_sys::fuzz_target;
use longhaul::rewrite::sse::{Event, Splitter, glance};

/// Name and data of one event.
type Found = (Vec<u8>, Vec<u8>);

fuzz_target!(|input: &[u8]| {
    // The first byte says how the rest is cut.
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
    assert_eq!(found, literal(bytes), "in chunks of {size}");
});

fn keep(found: &mut Vec<Found>, event: Event<'_>) {
    assert_eq!(
        event.dropped, 0,
        "inputs here are far below what an event may hold"
    );
    let _: longhaul::rewrite::sse::Glance = glance(event);
    found.push((event.name.to_vec(), event.data.to_vec()));
}

/// The events of a whole text, by the letter of the standard but for its last rule: an event that
/// the end of the text cut off is one.
fn literal(bytes: &[u8]) -> Vec<Found> {
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let mut found = Vec::new();
    let (mut name, mut data): (Vec<u8>, Option<Vec<u8>>) = (Vec::new(), None);
    for line in lines(text).into_iter().chain([&b""[..]]) {
        if line.is_empty() {
            if let Some(data) = data.take() {
                found.push((name.clone(), data));
            }
            name.clear();
            continue;
        }
        let mut halves = line.splitn(2, |&byte| byte == b':');
        let field = halves.next().unwrap_or_default();
        let value = halves.next().unwrap_or_default();
        let value = value.strip_prefix(b" ").unwrap_or(value);
        if field == b"event" {
            name = value[..value.len().min(256)].to_vec();
        } else if field == b"data" {
            data = Some(match data.take() {
                Some(before) => [&before[..], b"\n", value].concat(),
                None => value.to_vec(),
            });
        }
    }
    found
}

/// Lines that end in CR LF, LF or CR.
fn lines(text: &[u8]) -> Vec<&[u8]> {
    let mut lines = Vec::new();
    let (mut start, mut at) = (0, 0);
    while at < text.len() {
        let width = match &text[at..] {
            [b'\r', b'\n', ..] => 2,
            [b'\r' | b'\n', ..] => 1,
            _ => 0,
        };
        if width > 0 {
            lines.push(&text[start..at]);
            start = at + width;
        }
        at += width.max(1);
    }
    lines.push(&text[start..]);
    lines
}
