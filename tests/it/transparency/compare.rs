//! Compares the transcripts with and without a proxy, and shows the first difference.

use super::exceptions::{Certainty, entry};
use super::exchange::Transcript;
use super::message::Message;

/// Bytes of each side that a failure message shows.
const SHOWN: usize = 1_500;

/// Describes the first difference that the named exceptions do not cover, or the first exception
/// that was not needed.
pub(crate) fn judge(
    direct: &Transcript,
    proxied: &Transcript,
    allowed: &[&'static str],
) -> Result<(), String> {
    if let Some(difference) = difference(direct, proxied, allowed) {
        return Err(difference);
    }
    for name in allowed.iter().filter(|name| entry(name).certainty == Certainty::Sure) {
        let others: Vec<_> = allowed.iter().copied().filter(|other| other != name).collect();
        if is_enough(direct, proxied, &others) {
            return Err(format!("the exception `{name}` is allowed here and not needed"));
        }
    }
    Ok(())
}

/// Whether the two transcripts are equal except for the named exceptions.
pub(crate) fn is_enough(direct: &Transcript, proxied: &Transcript, allowed: &[&str]) -> bool {
    difference(direct, proxied, allowed).is_none()
}

fn forgive(left: &mut Transcript, right: &mut Transcript, allowed: &[&str]) {
    for name in allowed {
        (entry(name).forgive)(left);
        (entry(name).forgive)(right);
    }
}

/// Describes the first difference that the named exceptions do not cover. Unused exceptions are
/// fine: another proxy need not make every change that longhaul may make.
pub(crate) fn difference(
    direct: &Transcript,
    proxied: &Transcript,
    allowed: &[&str],
) -> Option<String> {
    let mut left = direct.clone();
    let mut right = proxied.clone();
    forgive(&mut left, &mut right, allowed);
    parted(&left, &right)
}

fn parted(direct: &Transcript, proxied: &Transcript) -> Option<String> {
    differing("upstream", &direct.requests, &proxied.requests)
        .or_else(|| differing("the client", &direct.replies, &proxied.replies))
        .or_else(|| {
            (direct.end != proxied.end).then(|| {
                format!(
                    "the client's connection ended in {:?} directly and in {:?} through the proxy",
                    direct.end, proxied.end
                )
            })
        })
}

fn differing(who: &str, direct: &[Message], proxied: &[Message]) -> Option<String> {
    if direct.len() != proxied.len() {
        return Some(format!(
            "{who} heard {} messages directly and {} through the proxy:\n{}\n--- through the proxy\n{}",
            direct.len(),
            proxied.len(),
            direct.iter().map(show).collect::<String>(),
            proxied.iter().map(show).collect::<String>(),
        ));
    }
    let (left, right) = direct.iter().zip(proxied).find(|(left, right)| !same(left, right))?;
    Some(format!("{who} heard\n{}--- and through the proxy\n{}", show(left), show(right)))
}

fn same(left: &Message, right: &Message) -> bool {
    left.start == right.start
        && left.fields == right.fields
        && left.wire == right.wire
        && left.complete == right.complete
}

fn show(message: &Message) -> String {
    let head: Vec<_> = [&message.start]
        .into_iter()
        .chain(&message.fields)
        .map(|line| format!("  {}\n", &line[..line.len().min(SHOWN)].escape_ascii()))
        .collect();
    let head = head.concat();
    let body = &message.wire[..message.wire.len().min(SHOWN)];
    let whole = if message.complete { "whole" } else { "broken off" };
    format!("{head}  [{} bytes, {whole}] {}\n", message.wire.len(), body.escape_ascii())
}
