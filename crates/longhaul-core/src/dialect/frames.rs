//! Frames of `application/vnd.amazon.eventstream`, in which a cloud sends the events of this API.
//!
//! A frame has the lengths of itself and of its headers, a checksum of both, the headers, the payload and a
//! checksum of all. Checksums are not verified: nobody depends on a frame that longhaul reads but longhaul.

/// Bytes before the headers.
const PRELUDE: usize = 12;
/// Bytes behind the payload.
const CHECKSUM: usize = 4;
/// Type of a header whose value is text: two bytes of length, and the text.
const TEXT: u8 = 7;

/// A first frame.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Frame<'b> {
    Event,
    /// An error in place of events: its type, and its payload, an object of JSON.
    Exception(&'b [u8], &'b [u8]),
    /// No frame, or a frame of another kind.
    Unknown,
}

/// Reads the frame at the beginning of `bytes`. Returns `None` if the end of the frame is not there yet.
pub(crate) fn first_frame(bytes: &[u8]) -> Option<Frame<'_>> {
    let number = |at: usize| {
        let digits = bytes.get(at..at + 4)?.try_into().ok()?;
        usize::try_from(u32::from_be_bytes(digits)).ok()
    };
    let (length, headers) = (number(0)?, number(4)?);
    if length < PRELUDE + CHECKSUM || headers > length - PRELUDE - CHECKSUM {
        return Some(Frame::Unknown);
    }
    let frame = bytes.get(..length)?;
    Some(read(frame, PRELUDE + headers).unwrap_or(Frame::Unknown))
}

/// Reads a whole frame whose payload begins at `payload`. Returns `None` if a header is malformed.
fn read(frame: &[u8], payload: usize) -> Option<Frame<'_>> {
    let mut headers = frame.get(PRELUDE..payload)?;
    let payload = frame.get(payload..frame.len() - CHECKSUM)?;
    let (mut message, mut exception) = (&[][..], &[][..]);
    while let Some(length) = headers.split_off_first() {
        let name = headers.split_off(..usize::from(*length))?;
        let kind = headers.split_off_first()?;
        let length = headers.split_off(..2).filter(|_| *kind == TEXT)?.try_into().ok()?;
        let value = headers.split_off(..usize::from(u16::from_be_bytes(length)))?;
        match name {
            b":message-type" => message = value,
            b":exception-type" => exception = value,
            _ => {}
        }
    }
    match message {
        b"event" => Some(Frame::Event),
        b"exception" => Some(Frame::Exception(exception, payload)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(headers: &[(&str, &str)], payload: &str) -> Vec<u8> {
        let mut head = Vec::new();
        for (name, value) in headers {
            head.push(u8::try_from(name.len()).unwrap());
            head.extend_from_slice(name.as_bytes());
            head.push(TEXT);
            head.extend_from_slice(&u16::try_from(value.len()).unwrap().to_be_bytes());
            head.extend_from_slice(value.as_bytes());
        }
        let length = PRELUDE + head.len() + payload.len() + CHECKSUM;
        let number = |length: usize| u32::try_from(length).unwrap().to_be_bytes();
        let parts = [&number(length), &number(head.len()), &[0; 4][..], &head, payload.as_bytes()];
        [parts.concat(), vec![0; CHECKSUM]].concat()
    }

    #[test]
    fn a_first_frame_is_read_once_it_is_whole() {
        let kind = (":exception-type", "validationException");
        let refused = frame(&[kind, (":message-type", "exception")], "{}");
        let expect = Frame::Exception(b"validationException", b"{}");
        for end in 0..refused.len() {
            assert_eq!(first_frame(&refused[..end]), None, "{end}");
        }
        assert_eq!(first_frame(&[&refused[..], b"more"].concat()), Some(expect));
        let event = frame(&[(":message-type", "event"), (":event-type", "chunk")], "{}");
        assert_eq!(first_frame(&event), Some(Frame::Event));
    }

    #[test]
    fn malformed_frames_are_unknown() {
        let event = frame(&[(":message-type", "event")], "{}");
        for (at, byte) in [(3, 15), (4, 1), (7, 200), (7, 5), (PRELUDE, 250), (PRELUDE + 14, 6)] {
            let mut broken = event.clone();
            broken[at] = byte;
            assert_eq!(first_frame(&broken), Some(Frame::Unknown), "{at}");
        }
        assert_eq!(first_frame(&frame(&[], "{}")), Some(Frame::Unknown));
        assert_eq!(first_frame(&frame(&[(":message-type", "error")], "")), Some(Frame::Unknown));
    }
}
