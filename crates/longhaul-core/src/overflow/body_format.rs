//! Distinguishes JSON, an event stream and binary frames by the first byte.
//!
//! Content types are ignored, because they are wrong too often.

/// Format of a reply body, by its first byte.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum BodyFormat {
    /// A stream of binary frames, whose first byte is that of a length below 16 MiB.
    Frames,
    Json,
    /// Any other text, such as an HTML page; it is not read.
    Other,
    /// A stream of server-sent events.
    Stream,
}

impl BodyFormat {
    /// Detects the format of a body that begins with `chunk`, and returns the rest of `chunk` after
    /// its blank bytes.
    ///
    /// Returns `None` if the chunk holds only white space, which some gateways send as a
    /// keep-alive, or bytes of a byte order mark.
    pub(super) fn detect(chunk: &[u8]) -> Option<(Self, &[u8])> {
        let is_blank = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, 0xef | 0xbb | 0xbf);
        let start = chunk.iter().position(|byte| !is_blank(byte))?;
        let rest = chunk.get(start..)?;
        let form = match rest.first()? {
            0 => Self::Frames,
            b'{' | b'[' => Self::Json,
            // A comment, or one of the four SSE fields.
            b':' | b'd' | b'e' | b'i' | b'r' => Self::Stream,
            _ => Self::Other,
        };
        Some((form, rest))
    }
}
