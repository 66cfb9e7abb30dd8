//! Tool schemas of a request: their size, and the largest ones by name.

use crate::json::lenient::parse_object;
use crate::json::scanner::elements;
use crate::units::tokens::Tokens;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;

/// Number of schemas that are named.
const NAMED: usize = 3;
/// Maximum length of a name, in characters. Clients choose names.
const NAME_CHARS: usize = 38;

/// Sizes of the tool schemas of a request.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct ToolSchemas {
    /// Plain estimate of all schemas.
    pub tokens: Tokens,
    /// The largest schemas, each with its name and its plain estimate, the largest first.
    pub largest: Vec<(String, Tokens)>,
}

/// A schema in the forms of all APIs. A tool of the provider may have a type in place of a name.
#[derive(Deserialize)]
struct Schema {
    name: Option<String>,
    function: Option<Box<Self>>,
    r#type: Option<String>,
}

impl ToolSchemas {
    /// Measures the value of a `tools` key.
    pub(crate) fn measure(json: &str) -> Self {
        let mut schemas: Vec<&str> = elements(json).collect();
        schemas.sort_by_key(|schema| Reverse(schema.len()));
        let named = schemas.into_iter().filter_map(|json| {
            let schema: Schema = parse_object(json.as_bytes())?;
            let name = schema.function.and_then(|it| it.name).or(schema.name).or(schema.r#type)?;
            Some((name.chars().take(NAME_CHARS).collect(), Tokens::estimate_text(json)))
        });
        Self { tokens: Tokens::estimate_text(json), largest: named.take(NAMED).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_schemas_are_named_in_the_form_of_each_api() {
        let schema = |name: &str, chars: usize| match name {
            "chat" => format!(
                r#"{{"type":"function","function":{{"name":"chat","description":"{:x>chars$}"}}}}"#,
                ""
            ),
            "web_search" => format!(r#"{{"type":"web_search","filters":"{:x>chars$}"}}"#, ""),
            _ => format!(r#"{{"type":"custom","name":"{name}","description":"{:x>chars$}"}}"#, ""),
        };
        let names = ["small", "chat", "web_search", "Bash"];
        let tools = names.iter().zip([10, 400, 800, 200]).map(|(name, chars)| schema(name, chars));
        let tools = format!("[{}, 7]", tools.collect::<Vec<_>>().join(" ,\n"));
        let read = ToolSchemas::measure(&tools);
        let largest = read.largest.iter().map(|(name, tokens)| (&**name, tokens.get()));
        let expect = [("web_search", 208), ("chat", 115), ("Bash", 62)];
        assert_eq!(largest.collect::<Vec<_>>(), expect);
        assert_eq!(read.tokens, Tokens::estimate_text(&tools));
    }

    #[test]
    fn anything_but_schemas_is_measured_without_names() {
        for json in ["null", "{}", "[]", "[1,\"a\"]", r#"[{"name":1}]"#] {
            assert_eq!(ToolSchemas::measure(json).largest, []);
        }
    }
}
