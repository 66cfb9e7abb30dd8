//! Sizes of tool definitions, which a client repeats with every request.

use crate::collections::two_generation_cache::ShardedCache;
use crate::conversation::parse_cache::{Fingerprint, ParseCursor};
use crate::conversation::tool_schemas::ToolSchemas;
use std::sync::Arc;

/// Definitions in one generation, by their first bytes: one client's agents often share those.
pub(super) const GENERATION_DEFINITIONS: usize = 4_096;

pub(super) type CachedDefinitions = ShardedCache<ToolDefinitions>;

/// The raw `tools` array of one body. Its end is found from its own bytes.
#[derive(Clone, Debug)]
pub(super) struct ToolDefinitions {
    fingerprint: Fingerprint,
    bytes: usize,
    schemas: Arc<ToolSchemas>,
}

impl ParseCursor<'_> {
    /// Returns the length of the definitions at the start of `rest`, in bytes, and their sizes. Returns
    /// `None` if they are not cached.
    pub(crate) fn lookup_tools(&self, rest: &str) -> Option<(usize, Arc<ToolSchemas>)> {
        let known = self.cache.tools.get(self.tools_key(rest))?;
        let bytes = rest.as_bytes().get(..known.bytes)?;
        let is_it = self.cache.fingerprint(self.scope, bytes) == known.fingerprint;
        is_it.then_some((known.bytes, known.schemas))
    }

    /// Stores the sizes of the definitions `tools` at the start of `rest`.
    pub(crate) fn store_tools(&self, rest: &str, tools: &str, schemas: Arc<ToolSchemas>) {
        let known = ToolDefinitions {
            fingerprint: self.cache.fingerprint(self.scope, tools.as_bytes()),
            bytes: tools.len(),
            schemas,
        };
        self.cache.tools.insert(self.tools_key(rest), known);
    }
}

#[cfg(test)]
mod tests {
    use crate::conversation::parse_cache::ParseCache;
    use crate::dialect::Dialect;
    use crate::units::scope::Scope;
    use crate::units::tokens::Tokens;

    fn scope(number: u8) -> Scope {
        Scope::new(&[number; 32], &[])
    }

    fn tools(last: &str) -> String {
        let tool = |name: &str| format!(r#"{{"name":"{name:_<80}","description":"\u00e9 [}}"}}"#);
        [r#"[{"type":"function"},"#, &tool("read"), " ,\n", &tool(last), "]"].concat()
    }

    /// Reads a body with these tools for a caller. Returns its estimate, and whether the cache had it.
    fn read(cache: &ParseCache, dialect: Dialect, caller: u8, tools: &str) -> (Tokens, bool) {
        let cursor = cache.cursor(scope(caller), dialect);
        let found = cursor.lookup_tools(&[tools, ",\"model\":\"m\"}"].concat());
        let key = if dialect == Dialect::Responses { "input" } else { "messages" };
        let body = format!(r#"{{"{key}":[],"tools":{tools},"model":"m"}}"#);
        let conversation = dialect.read(body.as_bytes()).unwrap();
        let fresh = conversation.params().tool_schemas.clone().unwrap();
        let cached = dialect.read_cached(body.as_bytes(), scope(caller), cache);
        assert_eq!(cached.unwrap().params().tool_schemas.as_ref(), Some(&fresh));
        (fresh.tokens, found.is_some_and(|found| found == (tools.len(), fresh)))
    }

    #[test]
    fn definitions_are_known_from_their_second_reading_on() {
        for dialect in [Dialect::ChatCompletions, Dialect::Messages, Dialect::Responses] {
            let cache = ParseCache::new(scope(0));
            let (one, other) = (tools("write"), tools("written"));
            assert!(!read(&cache, dialect, 1, &one).1);
            let (tokens, is_known) = read(&cache, dialect, 1, &one);
            assert!(is_known && tokens > Tokens::ZERO);
            assert!(!read(&cache, dialect, 2, &one).1, "another caller");
            // Only the newest of those with the same first bytes stays.
            assert!(!read(&cache, dialect, 1, &other).1);
            assert!(read(&cache, dialect, 1, &other).1);
            assert!(!read(&cache, dialect, 1, &one).1);
        }
    }

    #[test]
    fn a_body_truncated_within_its_tools_fails_as_without_a_cache() {
        let cache = ParseCache::new(scope(0));
        let body = format!(r#"{{"messages":[],"tools":{}}}"#, tools("write"));
        let read = |part: &[u8]| Dialect::ChatCompletions.read(part).err();
        let cached = |part| Dialect::ChatCompletions.read_cached(part, scope(1), &cache).err();
        assert_eq!(cached(body.as_bytes()), None);
        for end in 0..body.len() {
            let part = &body.as_bytes()[..end];
            assert_eq!(cached(part), read(part), "{end}");
        }
    }

    #[test]
    fn tools_in_another_shape_are_read_each_time() {
        let cache = ParseCache::new(scope(0));
        for tools in ["null", "12345", r#""text""#, "{}"] {
            for _ in 0..2 {
                assert!(!read(&cache, Dialect::ChatCompletions, 1, tools).1, "{tools}");
            }
        }
    }
}
