//! Cache marks of the replacement text: marks that move there, and marks that longhaul adds.

use crate::conversation::{Conversation, PartKind, Role};
use crate::json::span::Span;
use memchr::memmem::Finder;
use std::ops::Range;

/// Maximum cache marks of a request. Source: Anthropic's documentation of prompt caching.
const MAX_CACHE_MARKS: u8 = 4;
/// Mark with the shortest lifetime. Marks with a longer one have to precede it.
pub(crate) const CACHE_MARK: &str = r#"{"type":"ephemeral"}"#;

impl<'a> Conversation<'a> {
    /// Whether a message carries a cache mark.
    pub fn has_cache_marks(&self) -> bool {
        !self.pieces.cache_marks.is_empty()
            || self.pieces.parts.iter().any(|part| part.cache_mark.is_some())
    }

    /// Returns the value of the last cache mark in a run of messages.
    ///
    /// One mark stands for all marks of the run: the provider allows few, and demands that those
    /// with a longer lifetime come first. The last one has the shortest.
    pub(crate) fn last_cache_mark(&self, messages: Range<usize>) -> Option<&'a str> {
        let before = self.pieces.cache_marks.partition_point(|(at, _)| *at < messages.end);
        let (at, mark) = self.pieces.cache_marks.get(before.checked_sub(1)?)?;
        messages.contains(at).then(|| mark.slice(self.body))
    }

    /// Returns the value of a mark that may be added in place of the messages `replaced`. `None` if the
    /// client marks no message, or if the request has all the marks that the provider allows.
    ///
    /// Marks with a longer lifetime must come first. The added mark therefore has the lifetime of the
    /// next mark after it, or else of the last one before it.
    pub(crate) fn added_cache_mark(&self, replaced: Range<usize>) -> Option<&'a str> {
        let may_add = self.dialect().facts().allows_added_cache_marks;
        if !may_add || self.count_cache_marks() >= MAX_CACHE_MARKS {
            return None;
        }
        let mut after = replaced.end..self.messages().len();
        let mut before = (0..replaced.start).rev();
        after
            .find_map(|at| self.cache_marks_of(at).first().copied())
            .or_else(|| before.find_map(|at| self.cache_marks_of(at).last().copied()))
    }

    /// Returns the value of a mark that may be added to the block of a result. `None` if the block names a
    /// mark, or if no mark may be added.
    pub(crate) fn added_result_mark(&self, at: usize) -> Option<&'a str> {
        let key = format!("\"{}\"", self.dialect().facts().cache_mark_key);
        let is_named = self.message(at)?.span.slice(self.body).contains(&key);
        (!is_named).then(|| self.added_cache_mark(at..at + 1))?
    }

    /// Returns the texts, each with its offset, that give two marks to a request without any. One stands behind the
    /// instructions, one behind the newest message that the next request surely repeats.
    ///
    /// A string becomes a text part wherever a mark stands or stood, so that the content keeps its form.
    pub(crate) fn marks_to_insert(&self) -> Vec<(usize, String)> {
        let role = |at: usize| self.message(at).map(|it| it.role).unwrap_or_default();
        let is_answered = self.messages().iter().any(|it| it.role == Role::Assistant);
        let is_repeated = is_answered || self.params().tool_schemas.is_some();
        let facts = self.dialect().facts();
        if !facts.allows_added_cache_marks || !is_repeated || self.count_cache_marks() > 0 {
            return Vec::new();
        }
        // Clients append words for one request to the results of a step, or to the words of the user.
        let may_stand = |at: &usize| {
            let before = at.checked_sub(1).map(role);
            let begins = before.is_none_or(|it| it == Role::Assistant || it.is_instruction());
            let ends = role(*at).is_tool_result() && !role(at + 1).is_tool_result();
            ends || begins && role(*at).is_user()
        };
        let places = (0..self.messages().len()).filter(may_stand);
        let mut places: Vec<Span> = places.filter_map(|at| self.mark_place(at)).collect();
        let newest = places.last().copied();
        let last = self.instructions_len().checked_sub(1);
        let head = self.instructions_place().or_else(|| self.mark_place(last?));
        places.extend(head);
        let insertions = places.into_iter().flat_map(|place| {
            let is_marked = [head, newest].contains(&Some(place));
            let mark = format!(",\"{}\":{CACHE_MARK}", facts.cache_mark_key);
            let mark = if is_marked { mark } else { String::new() };
            if place.slice(self.body).starts_with('"') {
                let open = ["[", facts.text_part_start].concat();
                return [(place.start(), open), (place.end(), mark + "}]")];
            }
            [(place.end() - 1, mark), (place.end(), String::new())]
        });
        insertions.collect()
    }

    /// Returns the string or the object at message `at` that may carry a mark.
    fn mark_place(&self, at: usize) -> Option<Span> {
        let message = self.message(at)?;
        let (text, last) = (self.texts(message).last(), self.parts(message).last());
        let is_blank = text.is_some_and(|it| it.decode(self.body).trim().is_empty());
        let is_fit = last.is_none_or(|it| matches!(it.kind, PartKind::Image | PartKind::Text));
        let block = self.container(at).map(|_| message.span).or_else(|| Some(last?.span));
        block.or_else(|| Some(text?.span())).filter(|_| is_fit && !is_blank)
    }

    /// Returns the instructions outside the messages: the string, or the array up to the end of its last block.
    fn instructions_place(&self) -> Option<Span> {
        let value = self.params().instructions?.span();
        let end = value.slice(self.body).rfind(['"', '}']).filter(|end| *end > 1)?;
        Span::new(value.start(), value.start() + end + 1)
    }

    /// Counts the marks of the body, wherever they are, up to [`MAX_CACHE_MARKS`]. A key of the same name
    /// elsewhere counts too.
    fn count_cache_marks(&self) -> u8 {
        let key = format!("\"{}\"", self.dialect().facts().cache_mark_key);
        let key = Finder::new(&key);
        let count = |span: Range<usize>| {
            let bytes = self.body.as_bytes().get(span).unwrap_or_default();
            // Few bytes stand between two messages.
            let marks = (bytes.len() >= key.needle().len()).then(|| key.find_iter(bytes));
            let marks = marks.into_iter().flatten();
            marks.zip(0..MAX_CACHE_MARKS).fold(0, |marks, _| marks + 1)
        };
        let (mut marks, mut end) = (0_u8, 0);
        for message in self.messages() {
            let span = message.span.start()..message.span.end();
            if span.start < end {
                return count(0..self.body.len());
            }
            let before = count(end..span.start);
            end = span.end;
            let own = match &message.cached {
                Some(entry) => *entry.memo().cache_marks.get_or_init(|| count(span)),
                None => count(span),
            };
            marks = (marks + before + own).min(MAX_CACHE_MARKS);
        }
        (marks + count(end..self.body.len())).min(MAX_CACHE_MARKS)
    }

    /// Returns the values of the cache marks of the message at `at`, in order.
    fn cache_marks_of(&self, at: usize) -> Vec<&'a str> {
        let own = self.pieces.cache_marks.iter().filter(|(of, _)| *of == at);
        let mut marks: Vec<&str> = own.map(|(_, mark)| mark.slice(self.body)).collect();
        if let Some(message) = self.message(at).filter(|_| marks.is_empty()) {
            let parts = self.parts(message).iter();
            marks.extend(parts.filter_map(|part| Some(part.cache_mark?.slice(self.body))));
        }
        marks
    }
}

#[cfg(test)]
mod tests {
    use crate::conversation::parse_cache::ParseCache;
    use crate::dialect::Dialect;
    use crate::planning::splice::Splice;
    use crate::units::scope::Scope;

    #[test]
    fn an_added_mark_lives_as_long_as_the_first_mark_after_it() {
        let hour = r#"{"type":"ephemeral","ttl":"1h"}"#;
        let short = r#"{"type":"ephemeral"}"#;
        let body = format!(
            r#"{{"messages":[{{"role":"user","content":"a"}},{{"role":"assistant","content":"b"}},
            {{"role":"user","content":[{{"type":"text","text":"c","cache_control":{hour}}},
            {{"type":"text","text":"d","cache_control":{short}}}]}}]}}"#
        );
        for dialect in [Dialect::ChatCompletions, Dialect::Messages] {
            let conversation = dialect.read(body.as_bytes()).unwrap();
            assert_eq!(conversation.added_cache_mark(0..2), Some(hour));
        }
        let conversation = Dialect::Responses.read(br#"{"input":[]}"#).unwrap();
        assert_eq!(conversation.added_cache_mark(0..0), None);
    }

    #[test]
    fn marks_count_wherever_they_are_with_and_without_a_cache() {
        let mark = r#""cache_control":{"type":"ephemeral"}"#;
        let text =
            |text: &str, more: &str| format!(r#"{{"type":"text","text":"{text:.<80}"{more}}}"#);
        let marked = |name: &str| text(name, &[",", mark].concat());
        let chat = |system: &str, first: &str, last: &str, after: &str| {
            format!(
                r#"{{"system":[{system}],"messages":[{{"role":"user","content":[{first},{first}]}},
                {{"role":"assistant","content":[{last}]}},{{"role":"user","content":[{last}]}}]{after}}}"#
            )
        };
        let (plain, own) = (text("a", ""), marked("a"));
        let tools = format!(r#","tools":[{{"name":"t",{mark}}}]"#);
        let scope = Scope::new(&[1; 32], &[]);
        for (body, expected) in [
            (chat(&plain, &plain, &plain, ""), 0),
            (chat(&own, &plain, &plain, ""), 1),
            (chat(&plain, &own, &plain, ""), 2),
            (chat(&own, &plain, &own, ""), 3),
            (chat(&own, &plain, &own, &tools), 4),
            (chat(&own, &own, &own, &tools), 4),
            (chat(&plain, &text(r#"\"cache_control\""#, ""), &plain, &tools), 1),
        ] {
            let cache = ParseCache::new(scope);
            for dialect in [Dialect::ChatCompletions, Dialect::Messages] {
                for _ in 0..3 {
                    let conversation = dialect.read_cached(body.as_bytes(), scope, &cache);
                    let conversation = conversation.unwrap();
                    assert_eq!(conversation.count_cache_marks(), expected, "{body}");
                }
            }
        }
    }

    /// Forwards a body with the marks that longhaul adds, each written as `<mark>`.
    fn marked(dialect: Dialect, body: &str) -> String {
        let conversation = dialect.read(body.as_bytes()).unwrap();
        let Some(splice) = Splice::with_cache_marks(&conversation) else {
            return "as it came".to_owned();
        };
        let marked = String::from_utf8(splice.apply()).unwrap();
        assert_eq!(splice.corrupted_bytes([marked.as_bytes()]), 0);
        marked.replace(r#","cache_control":{"type":"ephemeral"}"#, "<mark>")
    }

    #[test]
    fn marks_stand_behind_the_instructions_and_the_newest_repeated_message() {
        let step = |id: u8| {
            format!(
                r#"{{"role":"assistant","tool_calls":[{{"id":"{id}","type":"function","function":{{"name":"f","arguments":"{{}}"}}}}]}},{{"role":"tool","tool_call_id":"{id}","content":"r{id}"}}"#
            )
        };
        let part = |text: &str, mark: &str| {
            format!(r#""content":[{{"type":"text","text":"{text}"{mark}}}]"#)
        };
        let head = r#"{"role":"system","content":"s"},{"role":"user","content":"a"}"#;
        let once = r#"{"role":"user","content":"for this request alone"}"#;
        let body = format!(r#"{{"messages":[{head},{},{},{once}]}}"#, step(1), step(2));
        let expect = body
            .replace(r#""content":"s""#, &part("s", "<mark>"))
            .replace(r#""content":"a""#, &part("a", ""))
            .replace(r#""content":"r1""#, &part("r1", ""))
            .replace(r#""content":"r2""#, &part("r2", "<mark>"));
        assert_eq!(marked(Dialect::ChatCompletions, &body), expect);
        // An empty text carries no mark.
        let empty = body.replace(r#""content":"r2""#, r#""content":"""#);
        let expect = expect
            .replace(&part("r1", ""), &part("r1", "<mark>"))
            .replace(&part("r2", "<mark>"), r#""content":"""#);
        assert_eq!(marked(Dialect::ChatCompletions, &empty), expect);
    }

    #[test]
    fn marks_of_messages_stand_on_blocks_and_never_within_results() {
        let system = r#""system":[{"type":"text","text":"s"},{"type":"text","text":"t"}]"#;
        let step = |content: &str| {
            format!(
                r#"{{"role":"assistant","content":[{{"type":"tool_use","id":"1","name":"f","input":{{}}}}]}},{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"1","content":{content}}},{{"type":"text","text":"once"}}]}}"#
            )
        };
        for content in
            [r#""r""#, r#"[{"type":"text","text":"r"}]"#, r#"[{"type":"image","source":{}}]"#]
        {
            let body = format!(
                r#"{{"messages":[{{"role":"user","content":"a"}},{}],{system}}}"#,
                step(content)
            );
            let expect = body
                .replace(r#""content":"a""#, r#""content":[{"type":"text","text":"a"}]"#)
                .replace(
                    &format!(r#""content":{content}}}"#),
                    &format!(r#""content":{content}<mark>}}"#),
                )
                .replace(r#""text":"t""#, r#""text":"t"<mark>"#);
            assert_eq!(marked(Dialect::Messages, &body), expect);
            let strings = body.replace(system, r#""system":"s""#);
            let expect = expect.replace(
                r#""system":[{"type":"text","text":"s"},{"type":"text","text":"t"<mark>}]"#,
                r#""system":[{"type":"text","text":"s"<mark>}]"#,
            );
            assert_eq!(marked(Dialect::Messages, &strings), expect);
        }
    }

    #[test]
    fn a_request_that_nothing_repeats_and_one_with_a_mark_stay_as_they_came() {
        let once = r#"{"messages":[{"role":"user","content":"a"}],"system":"s"}"#;
        let tools = once.replace("{\"messages", r#"{"tools":[{"name":"f"}],"messages"#);
        let own = tools.replace(r#""name":"f""#, r#""name":"f","cache_control":null"#);
        for dialect in [Dialect::ChatCompletions, Dialect::Messages] {
            assert_eq!(marked(dialect, once), "as it came");
            assert!(marked(dialect, &tools).contains("<mark>"));
            assert_eq!(marked(dialect, &own), "as it came");
        }
        let responses = r#"{"input":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"}]}"#;
        assert_eq!(marked(Dialect::Responses, responses), "as it came");
    }
}
