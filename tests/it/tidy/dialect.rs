//! The keys, paths and headers of an API stand in the dialect room of the core, and nowhere else in
//! the product.
//!
//! Code that names a key reads or writes one dialect only. Everything else goes through `Dialect`,
//! so that the compiler lists what a new dialect must provide.

use longhaul_core::dialect::Dialect;

use super::{File, check, files, has_ending};

const CORE: &str = "crates/longhaul-core/src/";
/// Words that occur nowhere but in a body or a path of an API.
const KEYS: [&str; 30] = [
    "[DONE]",
    "cache_control",
    "cache_reference",
    "chat/completions",
    "choices",
    "completion_tokens",
    "count_tokens",
    "finish_reason",
    "function_call",
    "function_call_output",
    "image_url",
    "include_usage",
    "input_schema",
    "input_text",
    "max_completion_tokens",
    "max_output_tokens",
    "max_tokens",
    "output_text",
    "previous_response_id",
    "prompt_cache_breakpoint",
    "prompt_cache_key",
    "prompt_tokens",
    "reasoning_content",
    "reasoning_details",
    "stream_options",
    "thinking_blocks",
    "tool_call_id",
    "tool_calls",
    "tool_reference",
    "tool_use_id",
];
/// Keys that are common words. They count if they are a whole literal, or quoted within one.
const COMMON_KEYS: [&str; 4] = ["content", "delta", "messages", "role"];
/// Start of a path, and the words that files there may use: every word if none is listed.
type Exemption = (&'static str, &'static [&'static str]);

const EXEMPT: &[Exemption] = &[
    // An agent of the demonstration, which speaks to the proxy like any client.
    ("crates/longhaul-lab/src/play/", &[]),
    // Requests for the next step of an evaluation, and the step in a reply: no request of an agent takes
    // this way.
    ("crates/longhaul-lab/src/evaluation/step_request", &[]),
    // The logs of agents, in forms of their own.
    ("crates/longhaul-lab/src/client_logs", &[]),
    // Names of the demonstration's sessions.
    ("crates/longhaul-lab/src/recorded_session.rs", &["messages"]),
    // Headings of tables.
    ("src/explanation/table.rs", &["role"]),
    ("src/cli/store.rs", &["messages"]),
    ("crates/longhaul-lab/src/demo/table/rows.rs", &["messages"]),
    // Headers in which some service takes a credential, whether longhaul reads its API or not.
    ("src/request/scope.rs", &["x-api-key"]),
    // A label of a metric.
    ("src/metrics/labels.rs", &["tool_calls"]),
    // Keys of errors of any API, below which the request or the output stands.
    (
        "crates/longhaul-core/src/overflow/error_details.rs",
        &["choices", "content", "messages", "role"],
    ),
];

fn is_exempt(path: &str, word: &str, exemption: &Exemption) -> bool {
    let (start, words) = exemption;
    path.starts_with(start) && (words.is_empty() || words.contains(&word))
}

/// Returns the source files of the product, without those that consist of tests.
fn product() -> Vec<File> {
    let mut found = files("src");
    found.extend(files(CORE.trim_end_matches('/')));
    found.extend(files("crates/longhaul-lab/src"));
    found.retain(|file| {
        let path = &*file.path;
        let is_test = path.contains("/tests/") || path.contains("/tests.rs");
        let in_room = path.starts_with(&format!("{CORE}dialect"));
        has_ending(path, "rs") && !is_test && !in_room && !path.ends_with("/test_support.rs")
    });
    found
}

/// The product's code in a file: without its tests, and without comments on lines of their own.
fn code(file: &File) -> String {
    let tests = file.text.split_once("#[cfg(test)]\nmod tests {");
    let product = tests.map_or(&*file.text, |(product, _)| product);
    let lines = product.lines();
    let code = lines.filter(|line| !line.trim_start().starts_with("//"));
    code.collect::<Vec<_>>().join("\n")
}

/// Returns the texts of all string and byte-string literals, with quotation marks unescaped.
fn literals(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = code;
    while let Some(at) = rest.find(['"', '\'']) {
        let (before, from) = rest.split_at(at);
        if from.starts_with('\'') {
            // A quotation mark may be a character; any other apostrophe is passed alone.
            let quotation = ["'\"'", "'\\\"'"].into_iter().find(|it| from.starts_with(it));
            rest = &from[quotation.map_or(1, str::len)..];
            continue;
        }
        let hashes = before.len() - before.trim_end_matches('#').len();
        let is_raw = before[..at - hashes].ends_with('r');
        let text = &from[1..];
        let end = if is_raw {
            text.find(&format!("\"{}", "#".repeat(hashes)))
        } else {
            let mut escaped = false;
            text.find(|letter| {
                let ends = letter == '"' && !escaped;
                escaped = letter == '\\' && !escaped;
                ends
            })
        };
        let end = end.unwrap_or(text.len());
        found.push(text[..end].replace("\\\"", "\""));
        rest = text.get(end + 1..).unwrap_or_default();
    }
    found
}

/// Whether `text` contains `word` with no letter, digit or underscore on either side.
fn has_word(text: &str, word: &str) -> bool {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    text.match_indices(word).any(|(at, word)| {
        let (before, behind) = (&text[..at], &text[at + word.len()..]);
        !before.ends_with(is_part) && !behind.starts_with(is_part)
    })
}

/// Returns the names by which code reaches past `Dialect`: its variants, and their modules.
fn names() -> impl Iterator<Item = String> {
    Dialect::ALL.into_iter().flat_map(|dialect| {
        let module = dialect.name().replace('-', "_");
        [format!("Dialect::{dialect:?}"), format!("dialect::{module}"), format!("{module}::read")]
    })
}

/// Returns the paths of the dialects, and the headers of their requests.
fn paths_and_headers() -> impl Iterator<Item = &'static str> {
    Dialect::ALL.into_iter().flat_map(|dialect| {
        let headers = dialect.facts().required_headers.iter().map(|(name, _)| *name);
        let key = dialect.facts().key_header;
        headers.chain(key).chain([dialect.path()])
    })
}

/// Returns the words of a dialect that a file of the product uses: keys, paths and headers in
/// literals, keys as fields that serde reads, and names of the dialect itself.
fn words(file: &File) -> Vec<String> {
    let code = code(file);
    let literals = literals(&code);
    let in_literal = |key: &str| literals.iter().any(|text| has_word(text, key));
    let alone = |key: &str| {
        let quoted = format!("\"{key}\"");
        let is = |text: &String| text == key || text.contains(&quoted);
        literals.iter().any(is)
    };
    let has_serde = code.contains("Deserialize");
    let field = |key: &str| {
        let begins = format!("{key}: ");
        has_serde && code.lines().any(|line| line.trim_start().starts_with(&begins))
    };
    // The version of an API may precede a path, and a longer name may follow it.
    let within_path = |word: &str| {
        let mut ends = literals.iter().flat_map(|text| text.split(word).skip(1));
        ends.any(|end| !end.starts_with(|letter: char| letter.is_alphanumeric()))
    };
    let mut found: Vec<&str> = Vec::new();
    found.extend(KEYS.iter().filter(|key| in_literal(key) || field(key)));
    found.extend(COMMON_KEYS.iter().filter(|key| alone(key)));
    found.extend(paths_and_headers().filter(|word| within_path(word)));
    let names = names().filter(|name| code.contains(name));
    found.into_iter().map(str::to_owned).chain(names).collect()
}

#[test]
fn dialect_keys_occur_only_in_dialect_modules() {
    check(&product(), |file| {
        let is_exempt = |word: &String| EXEMPT.iter().any(|it| is_exempt(&file.path, word, it));
        let wrong = words(file).into_iter().filter(|word| !is_exempt(word));
        wrong.map(|word| format!("names {word:?}")).collect()
    });
}

#[test]
fn every_exemption_of_a_key_is_in_use() {
    let product = product();
    for exemption in EXEMPT {
        let uses = |file: &File| {
            let mut words = words(file).into_iter();
            words.any(|word| is_exempt(&file.path, &word, exemption))
        };
        assert!(product.iter().any(uses), "{exemption:?}");
    }
}

#[test]
fn finds_dialect_keys_in_every_form_of_literal_and_nowhere_else() {
    let found = |text: &str| words(&File { path: "src/chat.rs".to_owned(), text: text.to_owned() });
    for (text, expect) in [
        (r#"let key = "max_tokens";"#, "max_tokens"),
        (r#"let key = b"\"finish_reason\"";"#, "finish_reason"),
        (r##"let part = r#"{"image_url":"x"}"#;"##, "image_url"),
        (r#"let message = "{\"role\":1}";"#, "role"),
        (r#"value.get("content")"#, "content"),
        (r#"let quotation = ('"', b'"', '\"', "delta");"#, "delta"),
        (r#"fn of<'a>(text: &'a str) { take("choices") }"#, "choices"),
        ("let path = \"/v1/messages?x\";", "/messages"),
        ("let path = \"/v1/responses/\";", "/responses"),
        (r#"let key = headers.get("x-api-key");"#, "x-api-key"),
        (r#"let path = "chat/completions";"#, "chat/completions"),
        ("#[derive(Deserialize)]\nstruct Reply {\n    choices: X,\n}", "choices"),
        ("if dialect == Dialect::Messages {", "Dialect::Messages"),
        ("use crate::dialect::responses::PATH;", "dialect::responses"),
        ("let all = chat_completions::read(body);", "chat_completions::read"),
    ] {
        assert_eq!(found(text), [expect], "{text}");
    }
    for text in [
        "// Not \"max_tokens\".",
        "let tool_calls = 1;",
        r#"let label = "longhaul_max_tokens_total";"#,
        r#"let words = "the role of messages";"#,
        r#"let path = "/serving/open-responses";"#,
        r#"let path = "/responsesx";"#,
        "struct Reply {\n    choices: X,\n}",
        "#[cfg(test)]\nmod tests {\n    let key = \"max_tokens\";\n}",
    ] {
        assert_eq!(found(text), [""; 0], "{text}");
    }
}
