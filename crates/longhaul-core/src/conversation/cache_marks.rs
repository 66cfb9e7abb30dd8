//! Cache marks of the replacement text: marks that move there, and marks that longhaul adds.

use crate::conversation::Conversation;
use memchr::memmem::Finder;
use std::ops::Range;

/// Maximum cache marks of a request. Source: Anthropic's documentation of prompt caching.
const MAX_CACHE_MARKS: u8 = 4;

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
}
