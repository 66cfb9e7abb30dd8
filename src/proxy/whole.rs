//! A chat's body, read whole: as it came and as it reads, and what is sent in its place.

use bytes::Bytes;

use super::headers::Hop;

/// A body that was read to its end.
pub(super) struct Whole {
    text: Bytes,
    /// What came, where that is another thing than the text.
    encoded: Option<Bytes>,
}

/// A body as it is sent, with the framing that goes with it.
pub(super) struct Sending {
    pub(super) bytes: Bytes,
    pub(super) hop: Hop,
}

impl Whole {
    /// A body that came as it reads.
    pub(super) fn plain(text: Bytes) -> Self {
        Self {
            text,
            encoded: None,
        }
    }

    /// A body that came as `encoded` and reads `text`.
    pub(super) fn decoded(text: Bytes, encoded: Bytes) -> Self {
        Self {
            text,
            encoded: Some(encoded),
        }
    }

    /// What it says.
    pub(super) fn text(&self) -> &Bytes {
        &self.text
    }

    /// The bytes that came, under the coding that they came in.
    pub(super) fn as_came(&self) -> Sending {
        let bytes = self.encoded.as_ref().unwrap_or(&self.text).clone();
        let hop = Hop::Counted(bytes.len());
        Sending { bytes, hop }
    }

    /// Another text in place of this one. It goes plain: the coding that came was the client's
    /// choice for its own bytes, and not every upstream that is sent none reads one.
    pub(super) fn replaced(&self, text: Bytes) -> Sending {
        let hop = if self.encoded.is_some() {
            Hop::Decoded(text.len())
        } else {
            Hop::Counted(text.len())
        };
        Sending { bytes: text, hop }
    }
}
