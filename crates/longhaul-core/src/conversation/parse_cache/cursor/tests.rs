//! Cached parses compared with fresh ones.

use super::*;
use crate::conversation::Conversation;
use crate::conversation::parse_cache::Fingerprint;
use crate::conversation::parse_cache::parsed_messages::GENERATION_MESSAGES;
use crate::dialect::Dialect;
use crate::dialect::chat_completions::read;
use proptest::prelude::*;

fn scope(number: u8) -> Scope {
    Scope::new(&[number; 32], &[])
}

/// Formats all that was parsed, without the cache entries.
fn shown(conversation: &Conversation<'_>) -> String {
    let messages = conversation.messages().iter().map(|message| {
        let members = (conversation.parts(message), conversation.calls(message));
        let message = Message { cached: None, ..message.clone() };
        format!("{message:?} {members:?}")
    });
    messages.collect()
}

/// Returns the number of cached messages of `body`, and the number of pages among the hits. Then
/// reads `body` with the cache and checks that the result equals an uncached read.
fn count_hits(cache: &ParseCache, caller: u8, body: &str) -> (usize, usize) {
    let plain = read(body.as_bytes()).unwrap();
    let messages = plain.messages();
    let mut cursor = cache.cursor(scope(caller), Dialect::ChatCompletions);
    let (mut at, mut hits, mut pages) = (0, 0, 0);
    while let Some(message) = messages.get(at) {
        let start = message.span.start();
        let before = at;
        match cursor.lookup(&body[start..]) {
            None => {
                let fingerprint =
                    cache.fingerprint(scope(caller), message.span.slice(body).as_bytes());
                cursor.prefix_state = advanced(cursor.prefix_state, message.role, fingerprint);
                cursor.end_run();
                at += 1;
                continue;
            }
            Some(CacheHit::Message(_)) => {
                at += 1;
                // Skipped by `keep_page`: without cache entries no page is stored.
                let pieces = Pieces { messages: messages[..at].to_vec(), ..Pieces::default() };
                cursor.store_page(body, message.span.end(), &pieces);
            }
            Some(CacheHit::Page(page)) => {
                pages += 1;
                at = messages.partition_point(|it| it.span.start() < start + page.len());
            }
        }
        hits += at - before;
    }
    let cached =
        Dialect::ChatCompletions.read_cached(body.as_bytes(), scope(caller), cache).unwrap();
    assert_eq!(shown(&cached), shown(&plain));
    (hits, pages)
}

/// Like [`count_hits`], but returns only the number of cached messages.
fn check(cache: &ParseCache, caller: u8, body: &str) -> usize {
    count_hits(cache, caller, body).0
}

fn user(text: &str) -> String {
    format!(r#"{{"role":"user","content":"{text:.<128}"}}"#)
}

fn body(messages: &[String]) -> String {
    format!(r#"{{"model":"m","messages":[{}]}}"#, messages.join(" , "))
}

const PARTS: &str = r#"{"role":"user", "content":[{"type":"text","text":"look \n at 😀 this picture, which shows all that there is to say"},{"type":"image_url","image_url":{"url":"x"},"cache_control":{"type":"ephemeral"}}],"name":"é"}"#;
const CALLS: &str = r#"{"role":"assistant","content":null,"reasoning":"none to speak of","tool_calls":[{"id":"a","type":"function","function":{"name":"read","arguments":"{\"path\":\"a\"}"}},{"id":"b","type":"function","function":{"name":"b","arguments":"{}"}}]}"#;
const RESULT: &str = r#"{"role":"tool","tool_call_id":"a","content":"a line of what the tool found, and then another one \\ \" \u0041, and so on and on"}"#;

#[test]
fn repeated_messages_hit_the_cache_even_at_another_offset() {
    let cache = ParseCache::new(scope(0));
    let history = [user("one"), PARTS.into(), CALLS.into(), RESULT.into()];
    assert_eq!(check(&cache, 1, &body(&history)), 0);
    assert_eq!(check(&cache, 1, &body(&history)), 4);
    let longer = [&history[..], &[user("two")]].concat();
    assert_eq!(check(&cache, 1, &body(&longer)), 4);
    let further_on = body(&longer).replace(r#"{"model""#, r#"{ "temperature": 0.5, "model""#);
    assert_eq!(check(&cache, 1, &further_on), 5);
}

#[test]
fn a_message_that_differs_in_any_byte_is_parsed_again() {
    let cache = ParseCache::new(scope(0));
    let history = |end: &str| body(&[user("one"), user(end), CALLS.into()]);
    assert_eq!(check(&cache, 1, &history("two")), 0);
    // Messages after a change are stored under a different prefix.
    assert_eq!(check(&cache, 1, &history("too")), 1);
    assert_eq!(check(&cache, 1, &history("two")), 3);
    let at_the_end = history("two").replace(r#".."}"#, r#".x"}"#);
    assert_eq!(check(&cache, 1, &at_the_end), 0);
}

#[test]
fn messages_after_changed_head_instructions_hit_the_cache() {
    let cache = ParseCache::new(scope(0));
    let dated = |date: &str| {
        let instructions = user(date).replace("user", "system");
        body(&[instructions, user("one"), CALLS.into()])
    };
    assert_eq!(check(&cache, 1, &dated("monday")), 0);
    assert_eq!(check(&cache, 1, &dated("tuesday")), 2);
}

#[test]
fn callers_do_not_share_cache_entries() {
    let cache = ParseCache::new(scope(0));
    assert_eq!(check(&cache, 1, &body(&[user("one")])), 0);
    assert_eq!(check(&cache, 2, &body(&[user("one")])), 0);
    assert_eq!(check(&cache, 1, &body(&[user("one")])), 1);
}

#[test]
fn a_truncated_body_fails_as_without_a_cache() {
    let cache = ParseCache::new(scope(0));
    let whole = body(&[user("one"), CALLS.into()]);
    assert_eq!(check(&cache, 1, &whole), 0);
    for end in 0..whole.len() {
        let part = whole.get(..end).unwrap().as_bytes();
        let result = Dialect::ChatCompletions.read_cached(part, scope(1), &cache);
        assert_eq!(result.err(), read(part).err());
    }
}

#[test]
fn keeps_recently_used_messages_within_a_bounded_size() {
    let cache = ParseCache::new(scope(0));
    let first = body(&[user("first")]);
    assert_eq!(check(&cache, 1, &first), 0);
    for number in 0..3 * GENERATION_MESSAGES {
        let body = body(&[user(&number.to_string())]);
        Dialect::ChatCompletions.read_cached(body.as_bytes(), scope(1), &cache).unwrap();
        if number % (GENERATION_MESSAGES / 16) == 0 {
            Dialect::ChatCompletions.read_cached(first.as_bytes(), scope(1), &cache).unwrap();
        }
    }
    assert_eq!(check(&cache, 1, &first), 1);
    let hits = (0..3 * GENERATION_MESSAGES).filter(|number| {
        let message = user(&number.to_string());
        cache.cursor(scope(1), Dialect::ChatCompletions).lookup(&format!("{message}]}}")).is_some()
    });
    let hits = hits.count();
    assert!((GENERATION_MESSAGES / 2..=2 * GENERATION_MESSAGES).contains(&hits), "{hits}");
}

#[test]
fn a_part_of_a_cache_keeps_that_part_of_the_messages() {
    let cache = ParseCache::with_fraction(scope(0), 64);
    let texts: Vec<String> = (0..1_000).map(|number| user(&number.to_string())).collect();
    let whole = body(&texts);
    // One body adds a quarter of a generation.
    assert_eq!(check(&cache, 1, &whole), 0);
    assert_eq!(check(&cache, 1, &whole), GENERATION_MESSAGES / 64 / 4);
    for number in 0..GENERATION_MESSAGES / 16 {
        let one = body(&[user(&format!("other {number}"))]);
        let read = Dialect::ChatCompletions.read_cached(one.as_bytes(), scope(1), &cache);
        read.unwrap();
    }
    assert_eq!(check(&cache, 1, &body(&texts[..1])), 0, "it was evicted");
}

/// A message with this many parts and calls.
fn of_members(parts: usize, calls: usize) -> String {
    let parts = vec![r#"{"type":"text","text":"a part"}"#; parts].join(",");
    let call = r#"{"id":"a","type":"function","function":{"name":"read","arguments":"{}"}}"#;
    let calls = vec![call; calls].join(",");
    format!(r#"{{"role":"assistant","content":[{parts}],"tool_calls":[{calls}]}}"#)
}

#[test]
fn a_message_with_more_than_sixteen_parts_and_calls_is_not_cached() {
    for (parts, calls, hits) in
        [(16, 0, 1), (0, 16, 1), (8, 8, 1), (17, 0, 0), (0, 17, 0), (8, 9, 0)]
    {
        let cache = ParseCache::new(scope(0));
        let body = body(&[of_members(parts, calls)]);
        assert_eq!(check(&cache, 1, &body), 0);
        assert_eq!(check(&cache, 1, &body), hits, "{parts} parts, {calls} calls");
    }
}

#[test]
fn a_cached_message_keeps_its_memo() {
    let cache = ParseCache::new(scope(0));
    let body = body(&[user("one"), CALLS.into()]);
    for notes in [None, Some(true)] {
        let conversation =
            Dialect::ChatCompletions.read_cached(body.as_bytes(), scope(1), &cache).unwrap();
        for message in conversation.messages() {
            let points = &message.memo().unwrap().is_reference;
            assert_eq!(points.get().copied(), notes);
            points.get_or_init(|| true);
        }
    }
}

#[test]
fn a_thousand_messages_of_equal_length_do_not_collide() {
    let cache = ParseCache::new(scope(0));
    let bodies: Vec<String> = (0..1_000).map(|number| body(&[user(&number.to_string())])).collect();
    for body in &bodies {
        Dialect::ChatCompletions.read_cached(body.as_bytes(), scope(1), &cache).unwrap();
    }
    for body in &bodies {
        assert_eq!(check(&cache, 1, body), 1, "{body}");
    }
}

/// The bits that differ between any two of these.
fn varying(prints: impl Iterator<Item = Fingerprint> + Clone) -> u128 {
    let first = prints.clone().next().unwrap_or_default();
    prints.fold(0, |varying, fingerprint| varying | (fingerprint ^ first))
}

#[test]
fn every_fingerprint_bit_depends_on_message_and_caller() {
    let cache = ParseCache::new(scope(0));
    let of_messages = (0..=u8::MAX).map(|number| cache.fingerprint(scope(1), &[number]));
    assert_eq!(varying(of_messages), u128::MAX);
    let of_callers = (0..=u8::MAX).map(|number| cache.fingerprint(scope(number), b"one"));
    assert_eq!(varying(of_callers), u128::MAX);
}

#[test]
fn debug_output_shows_neither_key_nor_entries() {
    let cache = ParseCache::new(scope(0));
    assert_eq!(check(&cache, 1, &body(&[user("one")])), 0);
    assert_eq!(format!("{cache:?}"), "ParseCache { .. }");
}

/// A history of this many messages, cycling through every kind.
fn history(messages: usize) -> Vec<String> {
    let nth = |at: usize| match at % 4 {
        0 => user(&at.to_string()),
        1 => CALLS.replace("to speak of", &at.to_string()),
        2 => RESULT.replace("a line", &at.to_string()),
        _ => PARTS.replace("look", &at.to_string()),
    };
    (0..messages).map(nth).collect()
}

/// A history of two and a half pages, read twice.
fn with_two_pages() -> (ParseCache, Vec<String>) {
    let cache = ParseCache::new(scope(0));
    let history = history(2 * PAGE_MESSAGES + PAGE_MESSAGES / 2);
    assert_eq!(count_hits(&cache, 1, &body(&history)), (0, 0));
    assert_eq!(count_hits(&cache, 1, &body(&history)), (history.len(), 0));
    (cache, history)
}

#[test]
fn a_page_of_repeated_messages_is_one_hit() {
    let (cache, mut history) = with_two_pages();
    let all = history.len();
    assert_eq!(count_hits(&cache, 1, &body(&history)), (all, 2));
    let further_on = body(&history).replace(r#"{"model""#, r#"{ "temperature": 0.5, "model""#);
    assert_eq!(count_hits(&cache, 1, &further_on), (all, 2));
    assert_eq!(count_hits(&cache, 2, &body(&history)), (0, 0));
    history.extend((0..PAGE_MESSAGES).map(|more| user(&format!("more {more}"))));
    assert_eq!(count_hits(&cache, 1, &body(&history)), (all, 2));
    assert_eq!(count_hits(&cache, 1, &body(&history)), (history.len(), 2));
    assert_eq!(count_hits(&cache, 1, &body(&history)), (history.len(), 3));
}

#[test]
fn stores_a_page_only_for_enough_consecutive_messages() {
    let cache = ParseCache::new(scope(0));
    for (messages, pages) in [(PAGE_MESSAGES - 1, 0), (PAGE_MESSAGES, 1)] {
        let body = body(&history(messages));
        for _ in 0..2 {
            count_hits(&cache, 1, &body);
        }
        assert_eq!(count_hits(&cache, 1, &body), (messages, pages));
    }
}

#[test]
fn a_changed_page_is_read_by_message_and_stored_again() {
    let (cache, history) = with_two_pages();
    let all = history.len();
    for (at, hits) in
        [(0, 0), (PAGE_MESSAGES / 2, PAGE_MESSAGES / 2), (PAGE_MESSAGES - 1, PAGE_MESSAGES - 1)]
    {
        let mut changed = history.clone();
        changed[at] = user("something else");
        // Messages after the change are stored under a different prefix.
        let pages = |body: &str| count_hits(&cache, 1, body);
        assert_eq!(pages(&body(&changed)), (hits, 0), "{at}");
        assert_eq!(pages(&body(&changed)).0, all, "{at}");
        assert_eq!(pages(&body(&changed)), (all, 2), "{at}");
    }
    let spaced = body(&history).replacen(" , ", ",", 1);
    assert_eq!(count_hits(&cache, 1, &spaced), (all, 1));
    assert_eq!(count_hits(&cache, 1, &spaced), (all, 2));
}

#[test]
fn a_page_hits_after_changed_head_instructions() {
    let cache = ParseCache::new(scope(0));
    let dated = |day: &str| {
        let head = format!(r#"{{"role":"system","content":"It is {day:.<100}"}}"#);
        body(&[vec![head], history(PAGE_MESSAGES)].concat())
    };
    assert_eq!(count_hits(&cache, 1, &dated("monday")), (0, 0));
    assert_eq!(count_hits(&cache, 1, &dated("monday")), (PAGE_MESSAGES + 1, 0));
    assert_eq!(count_hits(&cache, 1, &dated("tuesday")), (PAGE_MESSAGES, 1));
}

#[test]
fn a_page_may_contain_instructions() {
    let cache = ParseCache::new(scope(0));
    let mut history = history(PAGE_MESSAGES);
    history[PAGE_MESSAGES / 2] =
        format!(r#"{{"role":"developer","content":"{:.<100}"}}"#, "be brief");
    let body = body(&history);
    assert_eq!(count_hits(&cache, 1, &body), (0, 0));
    assert_eq!(count_hits(&cache, 1, &body), (PAGE_MESSAGES, 0));
    assert_eq!(count_hits(&cache, 1, &body), (PAGE_MESSAGES, 1));
}

#[test]
fn a_body_truncated_within_a_page_fails_as_without_a_cache() {
    let (cache, history) = with_two_pages();
    let whole = body(&history);
    for end in (0..whole.len()).step_by(7) {
        let part = whole.get(..end).map(str::as_bytes).unwrap_or_default();
        let result = Dialect::ChatCompletions.read_cached(part, scope(1), &cache);
        assert_eq!(result.err(), read(part).err());
    }
}

proptest! {
    #[test]
    fn an_edited_history_parses_as_without_a_cache(
        edits in prop::collection::vec((0..2 * PAGE_MESSAGES, 0..4_u8), 1..12),
    ) {
        let (cache, mut history) = with_two_pages();
        for (at, kind) in edits {
            let at = at % history.len();
            match kind {
                0 => history[at] = user("something else"),
                1 => drop(history.remove(at)),
                2 => history.insert(at, RESULT.into()),
                _ => history[at].push(' '),
            }
            for _ in 0..2 {
                count_hits(&cache, 1, &body(&history));
            }
        }
    }
}

#[test]
fn a_cleared_cache_parses_anew_and_stores_again() {
    let cache = ParseCache::new(scope(0));
    let body = body(&[user("one"), user("two")]);
    assert_eq!(check(&cache, 1, &body), 0);
    assert_eq!(check(&cache, 1, &body), 2);
    cache.clear();
    assert_eq!(check(&cache, 1, &body), 0);
    assert_eq!(check(&cache, 1, &body), 2);
}
