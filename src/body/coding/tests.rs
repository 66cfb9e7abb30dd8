//! Bodies in every supported coding: valid, damaged, truncated and oversized.

use std::io::Write;

use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
use http::HeaderValue;
use proptest::prelude::*;

use super::*;

/// A text that no coding inflates beyond the bounds.
fn text() -> Vec<u8> {
    let lines =
        (0..4_000u32).map(|line| format!("{line}: {:x}\n", line.wrapping_mul(2_654_435_761)));
    lines.collect::<String>().into_bytes()
}

fn finished<W: Write>(mut encoder: W, text: &[u8], finish: impl FnOnce(W) -> Vec<u8>) -> Vec<u8> {
    encoder.write_all(text).unwrap();
    finish(encoder)
}

/// Encodes `text` in `coding`.
fn encode(coding: &str, text: &[u8]) -> Vec<u8> {
    let level = Compression::default();
    match coding {
        "br" => finished(
            brotli::CompressorWriter::new(Vec::new(), 4096, 5, 22),
            text,
            brotli::CompressorWriter::into_inner,
        ),
        "deflate" => {
            finished(ZlibEncoder::new(Vec::new(), level), text, |encoder| encoder.finish().unwrap())
        }
        "gzip" => {
            finished(GzEncoder::new(Vec::new(), level), text, |encoder| encoder.finish().unwrap())
        }
        "zstd" => zstd::encode_all(text, 3).unwrap(),
        codings => codings.split(", ").fold(text.to_vec(), |text, coding| encode(coding, &text)),
    }
}

const CODINGS_READ: [&str; 7] =
    ["br", "deflate", "gzip", "zstd", "gzip, br", "zstd, gzip", "deflate, zstd, br"];

fn named(codings: &[&str]) -> Option<Decoder> {
    let mut headers = HeaderMap::new();
    for coding in codings {
        headers.append(CONTENT_ENCODING, HeaderValue::from_str(coding).unwrap());
    }
    Decoder::from_headers(&headers)
}

fn decoder(codings: &str) -> Decoder {
    named(&[codings]).unwrap().with_max_bytes(64 << 20)
}

/// Decodes `encoded` in chunks of `chunk_bytes`; returns the text, and whether it may end here.
fn decode(
    mut decoder: Decoder,
    encoded: &[u8],
    chunk_bytes: usize,
) -> Result<(Vec<u8>, bool), DecodeError> {
    let mut plain = Vec::new();
    for mut chunk in encoded.chunks(chunk_bytes) {
        while let Some(piece) = decoder.decode_step(&mut chunk)? {
            assert!((1..=OUTPUT_CHUNK_BYTES).contains(&piece.len()));
            plain.extend_from_slice(piece);
        }
        assert!(chunk.is_empty(), "the whole chunk was consumed");
    }
    Ok((plain, decoder.is_ended()))
}

fn check(codings: &str, encoded: &[u8], expect: Result<(&[u8], bool), DecodeError>) {
    for chunk_bytes in [1, 997, usize::MAX] {
        let got = decode(decoder(codings), encoded, chunk_bytes);
        let got = got.as_ref().map(|(plain, ended)| (plain.as_slice(), *ended));
        assert!(got == expect.as_ref().map(|&expect| expect), "{codings} by {chunk_bytes}");
    }
}

#[test]
fn decodes_every_coding_in_any_chunking() {
    for codings in CODINGS_READ {
        for text in [text().as_slice(), b"{}", b""] {
            check(codings, &encode(codings, text), Ok((text, true)));
        }
    }
}

#[test]
fn undoes_several_codings_last_first_from_one_or_more_fields() {
    let text = text();
    let encoded = encode("gzip, zstd", &text);
    for fields in [&["gzip, zstd"][..], &["gzip", "zstd"], &["X-GZIP ,, identity", "", "\tZstd"]] {
        let got = decode(named(fields).unwrap(), &encoded, 100);
        assert!(got == Ok((text.clone(), true)), "{fields:?}");
    }
}

#[test]
fn passes_identity_coding_through_uncopied() {
    for fields in [&[][..], &["identity"], &["", "Identity, identity"]] {
        let mut decoder = named(fields).unwrap();
        assert!(decoder.is_identity() && decoder.is_ended());
        assert!(matches!(decoder.decode_chunk(b"x"), Some(Cow::Borrowed(b"x"))));
    }
}

#[test]
fn rejects_unknown_codings_and_more_than_three() {
    for fields in [&["compress"][..], &["gzip", "dcz"], &["gzip;q=1"], &["gzip, br", "gzip, br"]] {
        assert!(named(fields).is_none(), "{fields:?}");
    }
    assert!(named(&["gzip, br, zstd"]).is_some());
}

#[test]
fn decodes_raw_deflate_under_the_name_deflate() {
    for text in [text().as_slice(), b"{}", b""] {
        for level in [0, 9] {
            let bare = DeflateEncoder::new(Vec::new(), Compression::new(level));
            let bare = finished(bare, text, |encoder| encoder.finish().unwrap());
            check("deflate", &bare, Ok((text, true)));
        }
    }
}

#[test]
fn decodes_concatenated_gzip_members_and_zstd_frames() {
    for coding in ["gzip", "zstd"] {
        let two = [encode(coding, b"{\"a\":"), encode(coding, b""), encode(coding, b"1}")];
        check(coding, &two.concat(), Ok((b"{\"a\":1}", true)));
    }
}

#[test]
fn skips_every_optional_gzip_header_field() {
    let plain = encode("gzip", b"{}");
    let (head, rest) = plain.split_at(10);
    let fields: [(u8, &[u8]); 3] = [(4, b"\x03\x00abc"), (8, b"a name\0"), (16, b"\0")];
    for picked in 0..16 {
        let mut member = head.to_vec();
        for (at, (flag, field)) in fields.iter().enumerate() {
            if picked & (1 << at) != 0 {
                member[3] |= flag;
                member.extend_from_slice(field);
            }
        }
        if picked & 8 != 0 {
            member[3] |= 2;
            let mut crc = flate2::Crc::new();
            crc.update(&member);
            member.extend_from_slice(&crc.sum().to_le_bytes()[..2]);
        }
        member.extend_from_slice(rest);
        check("gzip", &member, Ok((b"{}", true)));
    }
}

#[test]
fn truncated_input_has_not_ended() {
    for codings in CODINGS_READ {
        let encoded = encode(codings, b"{\"messages\":[]}");
        for end in 0..encoded.len() {
            let got = decode(decoder(codings), &encoded[..end], 7);
            assert!(matches!(got, Ok((_, false))), "{codings}: {end} bytes");
        }
    }
}

#[test]
fn input_with_trailing_bytes_never_ends_cleanly() {
    for codings in CODINGS_READ {
        let longer = [encode(codings, b"{}"), b"x".to_vec()].concat();
        let got = decode(decoder(codings), &longer, usize::MAX);
        assert!(!matches!(got, Ok((_, true))), "{codings}");
    }
}

#[test]
fn damaged_or_unencoded_input_never_decodes_cleanly() {
    let mut encoded = encode("deflate", &text());
    *encoded.last_mut().unwrap() ^= 1;
    check("deflate", &encoded, Err(DecodeError::Corrupt));
    let mut encoded = encode("gzip", &text());
    *encoded.last_mut().unwrap() ^= 1;
    check("gzip", &encoded, Ok((&text(), false)));
    let more = [&*encoded, &encode("gzip", b"{}")].concat();
    check("gzip", &more, Err(DecodeError::Corrupt));
    check("gzip", &encode("gzip", b"").repeat(2_000), Err(DecodeError::Corrupt));
    for codings in CODINGS_READ {
        let got = decode(decoder(codings), b"{\"messages\": [], \"model\": \"m\"}", 5);
        assert!(!matches!(got, Ok((_, true))), "{codings}");
    }
}

#[test]
fn rejects_zstd_dictionaries_and_windows_over_8_mib() {
    let frame = |head: &[u8]| [b"\x28\xb5\x2f\xfd", head, b"\x11\0\0{}"].concat();
    check("zstd", &frame(b"\x00\x68"), Ok((b"{}", true)));
    check("zstd", &frame(b"\x00\x69"), Err(DecodeError::Corrupt));
    check("zstd", &frame(b"\x20\x02"), Ok((b"{}", true)));
    check("zstd", &frame(b"\x21\x07\x02"), Err(DecodeError::Corrupt));
}

#[test]
fn rejects_brotli_large_windows() {
    let params =
        brotli::enc::BrotliEncoderParams { large_window: true, lgwin: 28, ..Default::default() };
    let mut large = Vec::new();
    brotli::BrotliCompress(&mut text().as_slice(), &mut large, &params).unwrap();
    check("br", &large, Err(DecodeError::Corrupt));
}

#[test]
fn expansion_beyond_that_of_text_is_a_bomb() {
    let spaces = vec![b' '; 32 << 20];
    for codings in CODINGS_READ {
        let bomb = encode(codings, &spaces);
        for chunk_bytes in [11, usize::MAX] {
            let got = decode(decoder(codings), &bomb, chunk_bytes);
            assert_eq!(got, Err(DecodeError::Bomb), "{codings}");
        }
    }
}

#[test]
fn detects_a_bomb_in_any_of_several_codings() {
    // Very many skippable frames, which hold no content.
    let skipped = [b"\x50\x2a\x4d\x18\x00\x00\x80\x00", vec![0; 8 << 20].as_slice()].concat();
    let bomb = encode("gzip", &[skipped, encode("zstd", b"{}")].concat());
    check("zstd, gzip", &bomb, Err(DecodeError::Bomb));
}

#[test]
fn short_repetitive_text_is_no_bomb() {
    let spaces = vec![b' '; 60_000];
    for codings in CODINGS_READ {
        check(codings, &encode(codings, &spaces), Ok((&spaces, true)));
    }
}

#[test]
fn refuses_output_beyond_the_byte_limit() {
    let text = text();
    let bytes = text.len() as u64;
    for codings in CODINGS_READ {
        let encoded = encode(codings, &text);
        let within = |bytes| decode(decoder(codings).with_max_bytes(bytes), &encoded, 64);
        assert!(within(bytes.max(encoded.len() as u64 + 1_000)).is_ok(), "{codings}");
        assert_eq!(within(bytes - 1), Err(DecodeError::TooLarge), "{codings}");
    }
}

/// Returns the bytes sent once the encoder was flushed after `event`, with the stream still open.
fn flushed(coding: &str, event: &[u8]) -> Vec<u8> {
    fn sent<W: Write>(mut encoder: W, event: &[u8], sent: impl Fn(&W) -> &Vec<u8>) -> Vec<u8> {
        encoder.write_all(event).unwrap();
        encoder.flush().unwrap();
        sent(&encoder).clone()
    }
    let level = Compression::default();
    match coding {
        "br" => sent(
            brotli::CompressorWriter::new(Vec::new(), 4096, 5, 22),
            event,
            brotli::CompressorWriter::get_ref,
        ),
        "deflate" => sent(ZlibEncoder::new(Vec::new(), level), event, ZlibEncoder::get_ref),
        "gzip" => sent(GzEncoder::new(Vec::new(), level), event, GzEncoder::get_ref),
        "zstd" => {
            let encoder = zstd::Encoder::new(Vec::new(), 3).unwrap();
            sent(encoder, event, zstd::Encoder::get_ref)
        }
        codings => {
            codings.split(", ").fold(event.to_vec(), |event, coding| flushed(coding, &event))
        }
    }
}

#[test]
fn decodes_a_flushed_event_without_waiting_for_more() {
    let long = text();
    for codings in CODINGS_READ {
        for event in [b"data: {}\n\n".as_slice(), &long] {
            let mut decoder = decoder(codings);
            let sent = flushed(codings, event);
            let plain = decoder.decode_chunk(&sent).unwrap();
            assert!(plain == event, "{codings}: {} of {}", plain.len(), event.len());
            assert!(!decoder.is_ended(), "{codings}");
        }
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_after_a_valid_prefix_stay_within_the_byte_limit(
        codings in prop::sample::select(&CODINGS_READ[..]),
        sound: prop::sample::Index,
        bytes in prop::collection::vec(any::<u8>(), 0..2_000),
        chunk_bytes in 1..300usize,
    ) {
        let encoded = encode(codings, b"{\"messages\":[{\"role\":\"user\",\"content\":\"hello, hello\"}]}");
        let bytes = [&encoded[..sound.index(encoded.len())], &bytes].concat();
        let got = decode(decoder(codings).with_max_bytes(100_000), &bytes, chunk_bytes);
        prop_assert!(got.is_err() || got.is_ok_and(|(plain, _)| plain.len() <= 100_000));
    }

    #[test]
    fn damaged_input_decodes_alike_in_any_chunking(
        codings in prop::sample::select(&CODINGS_READ[..]),
        at in any::<prop::sample::Index>(),
        flip in 1..=u8::MAX,
        chunk_bytes in 1..300usize,
    ) {
        let mut encoded = encode(codings, b"{\"messages\":[{\"role\":\"user\",\"content\":\"hello, hello\"}]}");
        let at = at.index(encoded.len());
        encoded[at] ^= flip;
        let whole = decode(decoder(codings), &encoded, usize::MAX);
        prop_assert_eq!(decode(decoder(codings), &encoded, chunk_bytes), whole);
    }
}
