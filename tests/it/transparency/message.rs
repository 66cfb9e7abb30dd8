//! Splits the bytes received on a socket into HTTP/1 messages, keeping every byte: the contract's
//! oracle.
//!
//! This reader is written from RFC 9112 for this purpose alone. It shares nothing with the program
//! or its libraries, and never corrects its input.

/// The kind of a message, which decides its end together with its own fields.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    Request,
    /// A reply to any request but HEAD.
    Reply,
    /// A reply to HEAD, which never has a body, regardless of its fields.
    ReplyToHead,
}

/// A message exactly as received.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Message {
    /// The request line or status line.
    pub(super) start: Vec<u8>,
    /// The field lines, with their spelling and spacing.
    pub(crate) fields: Vec<Vec<u8>>,
    /// All bytes after the head, including chunk sizes and trailers.
    pub(super) wire: Vec<u8>,
    /// The content that `wire` carries.
    pub(super) content: Vec<u8>,
    /// The trailer lines of a chunked message.
    pub(super) trailers: Vec<Vec<u8>>,
    /// Whether the message ended according to its framing.
    pub(super) complete: bool,
}

impl Message {
    /// Returns the values of every field called `name`, in lower case.
    pub(super) fn values(&self, name: &str) -> Vec<String> {
        let fields = self.fields.iter().filter(|line| is_named(line, name));
        fields.map(|line| value(line).to_ascii_lowercase()).collect()
    }

    pub(crate) fn drop_fields(&mut self, name: &str) {
        self.fields.retain(|line| !is_named(line, name));
    }

    pub(super) fn is_chunked(&self) -> bool {
        self.values("transfer-encoding").iter().any(|codings| codings.ends_with("chunked"))
    }

    /// Returns the status of a reply.
    pub(super) fn status(&self) -> &[u8] {
        self.start.split(|byte| *byte == b' ').nth(1).unwrap_or_default()
    }

    fn method(&self) -> &[u8] {
        self.start.split(|byte| *byte == b' ').next().unwrap_or_default()
    }

    /// Returns the kind of the reply to this request.
    pub(super) fn reply_kind(&self) -> Kind {
        if self.method() == b"HEAD" { Kind::ReplyToHead } else { Kind::Reply }
    }

    fn is_interim(&self) -> bool {
        self.status().first() == Some(&b'1') && self.status() != b"101"
    }
}

/// Returns the length of the first message in `bytes` if it is complete. `None` for a message that
/// only the end of the connection ends.
pub(super) fn whole(bytes: &[u8], kind: Kind) -> Option<usize> {
    let (message, length) = first(bytes, kind)?;
    message.complete.then_some(length)
}

/// Splits `bytes` into messages; the last may be incomplete. `kinds` lists the kind of each final
/// reply; its last element applies to all further ones.
pub(crate) fn split(mut bytes: &[u8], kinds: &[Kind]) -> Vec<Message> {
    let mut messages = Vec::new();
    let mut kinds = kinds.iter();
    let mut kind = *kinds.next().expect("at least one kind");
    while !bytes.is_empty() {
        let Some((message, length)) = first(bytes, kind) else {
            messages.push(Message { start: bytes.to_vec(), ..Message::default() });
            break;
        };
        if !message.is_interim() {
            kind = *kinds.next().unwrap_or(&kind);
        }
        messages.push(message);
        bytes = &bytes[length..];
    }
    messages
}

/// Returns the first message and its length in bytes; `None` if its head is incomplete.
fn first(bytes: &[u8], kind: Kind) -> Option<(Message, usize)> {
    let head = find(bytes, b"\r\n\r\n")?;
    let mut lines = lines(&bytes[..head]).into_iter();
    let start = lines.next().unwrap_or_default();
    let mut message = Message { start, fields: lines.collect(), ..Message::default() };
    let rest = &bytes[head + 4..];
    let length = read_body(&mut message, rest, kind);
    message.wire = rest[..length].to_vec();
    Some((message, head + 4 + length))
}

/// Reads a body from the front of `rest`; returns its length in bytes.
fn read_body(message: &mut Message, rest: &[u8], kind: Kind) -> usize {
    let status = message.status().to_vec();
    let bodiless = match kind {
        Kind::Request => false,
        Kind::Reply => status == b"204" || status == b"304" || message.is_interim(),
        Kind::ReplyToHead => true,
    };
    if bodiless {
        message.complete = true;
        return 0;
    }
    let switches = match kind {
        Kind::Request => !message.values("upgrade").is_empty(),
        Kind::Reply | Kind::ReplyToHead => status == b"101",
    };
    if switches {
        // The bytes of the other protocol, up to the end of the connection.
        message.content = rest.to_vec();
        message.complete = true;
        return rest.len();
    }
    if message.is_chunked() {
        return read_chunks(message, rest);
    }
    let length = message.values("content-length").first().and_then(|value| value.parse().ok());
    let length: usize = match (length, kind) {
        (Some(length), _) => length,
        (None, Kind::Request) => 0,
        (None, Kind::Reply | Kind::ReplyToHead) => {
            message.content = rest.to_vec();
            return rest.len();
        }
    };
    message.complete = rest.len() >= length;
    let length = length.min(rest.len());
    message.content = rest[..length].to_vec();
    length
}

/// Reads chunks and trailers (RFC 9112, 7.1) from the front of `rest`; returns their length in
/// bytes.
fn read_chunks(message: &mut Message, rest: &[u8]) -> usize {
    let mut at = 0;
    while let Some(line) = find(&rest[at..], b"\r\n") {
        let text = String::from_utf8_lossy(&rest[at..at + line]).into_owned();
        let size = text.split(';').next().unwrap_or_default().trim();
        let size = usize::from_str_radix(size, 16).expect("a chunk size in hexadecimal");
        let from = at + line + 2;
        if size == 0 {
            return read_trailers(message, rest, from);
        }
        let to = (from + size).min(rest.len());
        message.content.extend_from_slice(&rest[from..to]);
        if rest.len() < from + size + 2 {
            return rest.len();
        }
        assert_eq!(&rest[from + size..from + size + 2], b"\r\n", "a chunk ends with CRLF");
        at = from + size + 2;
    }
    rest.len()
}

fn read_trailers(message: &mut Message, rest: &[u8], from: usize) -> usize {
    let section = &rest[from..];
    if section.starts_with(b"\r\n") {
        message.complete = true;
        return from + 2;
    }
    let Some(end) = find(section, b"\r\n\r\n") else {
        return rest.len();
    };
    message.trailers = lines(&section[..end]);
    message.complete = true;
    from + end + 4
}

fn lines(section: &[u8]) -> Vec<Vec<u8>> {
    let mut lines = Vec::new();
    let mut rest = section;
    while let Some(end) = find(rest, b"\r\n") {
        lines.push(rest[..end].to_vec());
        rest = &rest[end + 2..];
    }
    lines.push(rest.to_vec());
    lines
}

/// Returns the index of the first `needle` in `bytes`.
pub(super) fn find(bytes: &[u8], needle: &[u8]) -> Option<usize> {
    memchr::memmem::find(bytes, needle)
}

/// Returns the name of a field line, in lower case.
pub(super) fn name(line: &[u8]) -> String {
    let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
    String::from_utf8_lossy(name).to_ascii_lowercase()
}

/// Returns the value of a field line, without surrounding white space.
pub(super) fn value(line: &[u8]) -> String {
    let value = find(line, b":").map_or(&line[..0], |colon| &line[colon + 1..]);
    String::from_utf8_lossy(value.trim_ascii()).into_owned()
}

fn is_named(line: &[u8], wanted: &str) -> bool {
    name(line) == wanted
}
