//! The part of an original that a reader requests, and its text.

use std::fmt::Write as _;
use std::ops::Range;
use std::sync::Weak;
use std::time::{Duration, Instant};

use percent_encoding::percent_decode_str;
use regex::{Regex, RegexBuilder};

/// Maximum bytes of an answer. A result of the largest kept size fits.
pub(crate) const MAX_ANSWER_BYTES: usize = 1 << 20;
/// Maximum bytes of a pattern, and of its compiled form. The time of a search grows with both.
const MAX_PATTERN_BYTES: usize = 1 << 10;
const MAX_COMPILED_BYTES: usize = 1 << 17;
/// Maximum time of a search, checked before each piece of a line.
const MAX_SEARCH_TIME: Duration = Duration::from_millis(1_500);
/// Bytes of a line that are searched at once: 72 ms for `[ab]*a[ab]{400}c` in random `a` and `b`, unoptimised.
const PIECE_BYTES: usize = 16 << 10;
/// Bytes that two pieces share: each match of up to this length is found.
const SHARED_BYTES: usize = 4 << 10;
/// Maximum lines of an answer to a search.
const MAX_MATCHES: usize = 200;
/// Characters before and after a match in a long line.
const EXCERPT_CHARS: usize = 200;

/// Selection that a reader requests.
#[derive(Clone, Debug, Default)]
pub(crate) struct RecallQuery {
    /// Whether the reader requests the list of the conversation's units, not the original itself.
    pub(crate) is_outline: bool,
    /// Whether to search the whole conversation, not only the original itself.
    pub(crate) is_history: bool,
    /// Part of the words to keep.
    pub(crate) quote: Option<String>,
    /// Only lines that match.
    pub(crate) grep: Option<Pattern>,
    /// First and last line to show, from 1.
    pub(crate) lines: Option<(usize, usize)>,
}

/// Pattern of a search: a regular expression, or plain text if the pattern is none.
#[derive(Clone, Debug)]
pub(crate) struct Pattern(Regex);

impl Pattern {
    /// Compiles a pattern. `None` if the pattern is empty or too large.
    fn new(text: &str) -> Option<Self> {
        if text.is_empty() || text.len() > MAX_PATTERN_BYTES {
            return None;
        }
        let build = |text: &str| {
            let mut builder = RegexBuilder::new(text);
            builder.size_limit(MAX_COMPILED_BYTES).dfa_size_limit(MAX_COMPILED_BYTES);
            builder.build()
        };
        let built = match build(text) {
            Err(regex::Error::Syntax(_)) => build(&regex::escape(text)),
            built => built,
        };
        built.ok().map(Self)
    }

    /// Returns the first match in the piece of a line from `start` to `end`. Text around the piece counts
    /// for `^`, `$` and `\b`.
    fn find(&self, line: &str, start: usize, end: usize) -> Option<Range<usize>> {
        let found = self.0.find_at(line.get(..end)?, start)?;
        if found.end() < end || end == line.len() {
            return Some(found.range());
        }
        // The match may end here because the piece does.
        let further = line.ceil_char_boundary(end.saturating_add(SHARED_BYTES));
        let again = self.0.find_at(line.get(..further)?, found.start())?;
        (again.start() == found.start()).then(|| again.range())
    }
}

impl RecallQuery {
    /// Parses the query of a URL. Ignores keys that it does not know. `None` if a value is not valid.
    pub(crate) fn parse(query: &str) -> Option<Self> {
        let mut parsed = Self::default();
        for pair in query.split('&') {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = value.replace('+', " ");
            let value = percent_decode_str(&value).decode_utf8_lossy();
            match key {
                "grep" => parsed.grep = Some(Pattern::new(&value)?),
                "lines" => parsed.lines = Some(parse_lines(&value)?),
                "search" => {
                    parsed.is_history = true;
                    parsed.grep = Some(Pattern::new(&value)?);
                }
                "outline" => parsed.is_outline = true,
                "quote" => parsed.quote = Some(value.into_owned()),
                _ => {}
            }
        }
        Some(parsed)
    }
}

/// Parses lines: `3-7`, `3-`, `-7` or `3`, counted from 1. `None` for any other text.
fn parse_lines(text: &str) -> Option<(usize, usize)> {
    let number = |text: &str, empty: usize| match text {
        "" => Some(empty),
        text => text.parse().ok(),
    };
    let (first, last) = match text.split_once('-') {
        Some(("", "")) => return None,
        Some((first, last)) => (number(first, 1)?, number(last, usize::MAX)?),
        None => (number(text, 0)?, number(text, 0)?),
    };
    (first > 0 && first <= last).then_some((first, last))
}

/// Collects the answer, text by text. The lines of texts without a place are counted together.
pub(crate) struct AnswerText<'q> {
    query: &'q RecallQuery,
    out: String,
    line: usize,
    matches: usize,
    is_cut: bool,
    /// Beginning of the search.
    started: Instant,
    /// Gone once the reader has left.
    reader: &'q Weak<()>,
}

impl<'q> AnswerText<'q> {
    /// Begins the answer to `query`. A search ends once `reader` is gone.
    pub(crate) fn new(query: &'q RecallQuery, reader: &'q Weak<()>) -> Self {
        Self {
            query,
            out: String::new(),
            line: 0,
            matches: 0,
            is_cut: false,
            started: Instant::now(),
            reader,
        }
    }

    /// Adds what the query selects of `text`. `place` is shown above the first line that matches, and the
    /// lines of a text with a place are counted from 1. Returns whether the answer takes more.
    pub(crate) fn add(&mut self, text: &str, place: Option<&str>) -> bool {
        if place.is_some() {
            self.line = 0;
        }
        let (first, last) = self.query.lines.unwrap_or((1, usize::MAX));
        if self.query.grep.is_none() && self.query.lines.is_none() {
            return self.push(text);
        }
        let mut place_to_show = place;
        for line in text.split_inclusive('\n') {
            self.line += 1;
            if self.is_over() {
                return false;
            }
            if self.line < first {
                continue;
            }
            // The lines of the next text with a place count from 1 again.
            if self.line > last {
                return place.is_some();
            }
            let takes_more = match &self.query.grep {
                None => self.push(line),
                Some(pattern) => self.push_matches(line, pattern, &mut place_to_show),
            };
            if !takes_more {
                return false;
            }
        }
        true
    }

    /// Returns the answer, with a note if it lacks something.
    pub(crate) fn finish(mut self) -> String {
        if self.is_cut {
            _ = write!(
                self.out,
                "\n[… more follows; select a part with lines=A-B or grep=PATTERN …]\n"
            );
        } else if self.query.grep.is_some() && self.matches == 0 {
            self.out.push_str("no line matches\n");
        }
        self.out
    }

    fn push(&mut self, text: &str) -> bool {
        let room = MAX_ANSWER_BYTES.saturating_sub(self.out.len()).min(text.len());
        let kept = text.get(..text.floor_char_boundary(room)).unwrap_or_default();
        self.out.push_str(kept);
        self.is_cut |= kept.len() < text.len();
        !self.is_cut
    }

    /// Whether the search has taken its time, or nobody waits for the answer.
    fn is_over(&mut self) -> bool {
        self.is_cut |= self.started.elapsed() > MAX_SEARCH_TIME || self.reader.strong_count() == 0;
        self.is_cut
    }

    /// Adds a line that matches, or of a long line the surroundings of each match. `place` is shown above
    /// the first match.
    fn push_matches(&mut self, line: &str, pattern: &Pattern, place: &mut Option<&str>) -> bool {
        let line = line.trim_end_matches('\n');
        let number = self.line;
        let mut shown = 0;
        // From the end of each excerpt: an iterator over all matches takes quadratic time.
        while let Some(found) = self.find(line, shown, pattern) {
            self.matches += 1;
            self.is_cut |= self.matches > MAX_MATCHES;
            if self.is_cut {
                break;
            }
            if let Some(place) = place.take() {
                self.push(&format!("--- {place}\n"));
            }
            if line.len() <= 2 * EXCERPT_CHARS {
                return self.push(&format!("{number}: {line}\n"));
            }
            let from = line.floor_char_boundary(found.start.saturating_sub(EXCERPT_CHARS));
            shown = line.ceil_char_boundary(found.end.saturating_add(EXCERPT_CHARS));
            let excerpt = line.get(from..shown).unwrap_or_default();
            if !self.push(&format!("{number}: …{excerpt}…\n")) || shown == line.len() {
                break;
            }
        }
        !self.is_cut
    }

    /// Returns the next match in a line, from byte `start` on; `None` if there is none, or if the search is
    /// over.
    fn find(&mut self, line: &str, mut start: usize, pattern: &Pattern) -> Option<Range<usize>> {
        while !self.is_over() {
            let end = line.floor_char_boundary(start.saturating_add(PIECE_BYTES));
            let found = pattern.find(line, start, end);
            if found.is_some() || end == line.len() {
                return found;
            }
            start = line.floor_char_boundary(end.saturating_sub(SHARED_BYTES));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn answer(query: &str, texts: &[&str]) -> String {
        let reader = Arc::new(());
        answer_to(&Arc::downgrade(&reader), query, texts)
    }

    fn answer_to(reader: &Weak<()>, query: &str, texts: &[&str]) -> String {
        let query = RecallQuery::parse(query).unwrap();
        let mut answer = AnswerText::new(&query, reader);
        _ = texts.iter().all(|text| answer.add(text, None));
        answer.finish()
    }

    #[test]
    fn lines_and_patterns_select_a_part_with_the_numbers_of_the_whole() {
        let texts = ["one\ntwo\n", "three\nfour"];
        assert_eq!(answer("", &texts), "one\ntwo\nthree\nfour");
        assert_eq!(answer("lines=2-3", &texts), "two\nthree\n");
        assert_eq!(answer("lines=4", &texts), "four");
        assert_eq!(answer("lines=-1", &texts), "one\n");
        assert_eq!(answer("lines=3-", &texts), "three\nfour");
        assert_eq!(answer("grep=t", &texts), "2: two\n3: three\n");
        assert_eq!(answer("grep=%5Et%28w|h%29", &texts), "2: two\n3: three\n");
        assert_eq!(answer("grep=o&lines=2-", &texts), "2: two\n4: four\n");
        assert_eq!(answer("grep=x&colour=blue", &texts), "no line matches\n");
    }

    #[test]
    fn a_pattern_that_is_no_expression_is_plain_text() {
        let texts = ["call f(x\n", "f x\n"];
        assert_eq!(answer("grep=f(x", &texts), "1: call f(x\n");
        assert_eq!(answer("grep=f+x", &texts), "2: f x\n");
    }

    #[test]
    fn wrong_values_are_refused() {
        let huge = "x".repeat(MAX_PATTERN_BYTES + 1);
        for query in [
            "lines=",
            "lines=0",
            "lines=3-2",
            "lines=a",
            "lines=-",
            "lines=1-2-3",
            "grep=",
            "search=",
            &format!("grep={huge}"),
            "grep=(a{1000}){1000}{1000}",
        ] {
            let parsed = RecallQuery::parse(query);
            // Text that is not an expression within the bounds is searched literally.
            assert!(parsed.is_none() || query.contains("{1000}"), "{query}");
        }
    }

    #[test]
    fn an_answer_has_a_bound_and_says_that_more_follows() {
        let long = "é".repeat(MAX_ANSWER_BYTES);
        let reply = answer("", &[&long, "never reached"]);
        assert!(reply.len() < MAX_ANSWER_BYTES + 100 && reply.contains("more follows"));
        let lines = "match\n".repeat(MAX_MATCHES + 1);
        let reply = answer("grep=match", &[&lines]);
        assert_eq!(reply.matches("match\n").count(), MAX_MATCHES);
        assert!(reply.contains("more follows"));
    }

    #[test]
    fn a_match_in_a_long_line_is_shown_with_its_surroundings() {
        let long =
            format!("{}needle{}needle{}", "a".repeat(9_000), "é".repeat(9_000), "b".repeat(9_000));
        let reply = answer("grep=needle", &[&long]);
        assert_eq!(reply.lines().count(), 2);
        assert!(
            reply.lines().all(|line| line.starts_with("1: …")
                && line.contains("needle")
                && line.len() < 1_000)
        );
    }

    /// Long lines are searched in pieces, which no answer shows.
    #[test]
    fn a_piece_of_a_line_is_not_taken_for_a_line() {
        let found = |query: &str, line: &str| {
            let reply = answer(query, &[line]);
            assert!(!reply.contains("more follows"), "{query}");
            reply.matches("1: ").count()
        };
        let letters = |count: usize| "a".repeat(count);
        for before in PIECE_BYTES - 6..=PIECE_BYTES + 1 {
            let line = format!("{}needle{}", letters(before), letters(PIECE_BYTES));
            assert_eq!(found("grep=needle", &line), 1, "{before}");
            assert_eq!(found("grep=n%5Ba-z%5D{5}", &line), 1, "{before}");
            let words = format!("{} needle {}", letters(before), letters(PIECE_BYTES));
            assert_eq!(found("grep=%5Cbneedle%5Cb", &words), 1, "{before}");
        }
        let line = format!("{}b{}", letters(3 * PIECE_BYTES), letters(3 * PIECE_BYTES));
        assert_eq!(found("grep=aa$", &line), 1);
        assert_eq!(found("grep=^aa", &line), 1);
        assert_eq!(found("grep=b$", &line), 0);
        assert_eq!(found("grep=^b", &line), 0);
        assert_eq!(found("grep=a%5Cb", &line), 1);
        let umlauts = "ü".repeat(PIECE_BYTES);
        assert_eq!(found("grep=x", &format!("{umlauts}x")), 1);
        assert_eq!(found("grep=^$", ""), 0);
        assert_eq!(answer("grep=^$", &["a\n\nb\n"]), "2: \n");
    }

    #[test]
    fn a_search_without_a_reader_ends() {
        let line = "a".repeat(1_000);
        let reply = answer_to(&Weak::new(), "grep=a", &[&line]);
        assert_eq!(reply.matches("1: ").count(), 0);
    }
}
