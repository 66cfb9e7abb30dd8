//! Fuzzes the end of a relayed reply: the result depends only on the retained bytes, not on how the
//! reply is split.

#![no_main]

use libfuzzer_sys::fuzz_target;
use longhaul_core::dialect::Dialect;
use longhaul_core::overflow::{ClassifierRules, ReplyEnd, ReplyTail};

fuzz_target!(|input: &[u8]| {
    let end = input.windows(4).position(|four| four == b"\r\n\r\n");
    let body = end.map_or(input, |end| &input[end + 4..]);
    let whole = read(body, body.len().max(1));
    for size in [1, 7, 4096] {
        assert_eq!(read(body, size), whole, "in chunks of {size}");
    }
});

fn read(body: &[u8], size: usize) -> ReplyEnd {
    let mut tail = ReplyTail::new(Dialect::ChatCompletions);
    for chunk in body.chunks(size) {
        tail.push(chunk);
    }
    tail.finish(ClassifierRules::standard(), None)
}
