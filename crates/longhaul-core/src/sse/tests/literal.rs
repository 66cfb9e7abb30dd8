//! Oracle of the event splitter, for tests and the fuzzer: a literal implementation of the WHATWG
//! standard, line by line over a complete text.

/// Name and data of an event.
pub(crate) type Found = (Vec<u8>, Vec<u8>);

/// Returns the events of a complete text by the letter of the standard, with two exceptions. An event cut off by
/// the end of the text counts. A field `error` is data of an event of that name.
pub(crate) fn events(bytes: &[u8]) -> Vec<Found> {
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
        } else if field == b"data" || field == b"error" {
            if field == b"error" {
                name = field.to_vec();
            }
            data = Some(match data.take() {
                Some(before) => [&before[..], b"\n", value].concat(),
                None => value.to_vec(),
            });
        }
    }
    found
}

/// Splits a text at CRLF, LF or CR.
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
