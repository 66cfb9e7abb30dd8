//! Error bodies in markup: web pages, and the texts of XML.

/// Whether a body in markup is a web page, which names no cause that longhaul could cure.
pub(super) fn is_web_page(bytes: &[u8]) -> bool {
    let head = bytes.get(..bytes.len().min(256)).unwrap_or_default();
    let head = head.to_ascii_lowercase();
    [&b"<html"[..], b"<!doctype html"]
        .iter()
        .any(|mark| head.windows(mark.len()).any(|part| part == *mark))
}

/// Returns the texts of an XML document, one per line.
pub(super) fn without_tags(xml: &str) -> String {
    let parts = xml.split('<').map(|part| part.split_once('>').map_or("", |(_, text)| text));
    let texts = parts.map(str::trim).filter(|text| !text.is_empty());
    texts.collect::<Vec<_>>().join("\n")
}
