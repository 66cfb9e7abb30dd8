//! Tells JSON from a stream of events by the first byte.
//!
//! Content types are not asked: they are wrong too often.

/// What a reply is by its first byte.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum BodyFormat {
    /// A JSON text.
    Json,
    /// Nothing that is read here.
    Other,
    /// Events.
    Stream,
}

impl BodyFormat {
    /// The form of what begins with `chunk`, and what follows the blank bytes of it; none where only
    /// white space has come, as some gateways send to keep a connection, or bytes of a byte order mark.
    pub(super) fn detect(chunk: &[u8]) -> Option<(Self, &[u8])> {
        let is_blank = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, 0xef | 0xbb | 0xbf);
        let start = chunk.iter().position(|byte| !is_blank(byte))?;
        let rest = chunk.get(start..)?;
        let form = match rest.first()? {
            b'{' | b'[' => Self::Json,
            // A comment, or one of the four fields.
            b':' | b'd' | b'e' | b'i' | b'r' => Self::Stream,
            _ => Self::Other,
        };
        Some((form, rest))
    }
}
