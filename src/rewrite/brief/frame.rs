//! What a summary's call takes over from the client's request.

use crate::rewrite::conversation::{Conversation, OutputKey};
use crate::rewrite::stand_in::quote;
use crate::rewrite::tokens::Tokens;

/// What stands around the messages of a call of ours: the client's model and routing, to the byte.
/// A caller's data policy and provider preferences hold for the summary too.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RequestTemplate<'a> {
    /// The model, as a JSON literal.
    model: Option<String>,
    /// Keys and values as JSON.
    routing: Vec<(&'a str, &'a str)>,
    /// What keeps the model from reasoning, as JSON.
    reasoning: Vec<(&'a str, &'a str)>,
    output_key: Option<OutputKey>,
    prompt_cache_key: Option<String>,
    /// The client has it counted at the end of a stream, so that the upstream knows how.
    include_usage: bool,
}

impl<'a> RequestTemplate<'a> {
    /// The frame of the client's request, for the client's own model or for `model`.
    pub fn from_request(conversation: &Conversation<'a>, model: Option<&str>) -> Self {
        let envelope = conversation.params();
        let body = conversation.body();
        let own = || {
            envelope
                .model
                .map(|model| model.span().slice(body).to_owned())
        };
        Self {
            model: model.map(quote).or_else(own),
            routing: envelope
                .routing
                .iter()
                // A list of models to fall back to would overrule the one that was configured.
                .filter(|(key, _)| model.is_none() || key.decode(body) != "models")
                .map(|(key, value)| (key.span().slice(body), value.slice(body)))
                .collect(),
            reasoning: envelope
                .thinking
                .iter()
                // Another model may not know the key.
                .filter(|(key, value)| {
                    model.is_none() && reduces_reasoning(&key.decode(body), value.slice(body))
                })
                .map(|(key, value)| (key.span().slice(body), value.slice(body)))
                .collect(),
            output_key: envelope.output_limit.map(|output| output.key),
            // Never the client's own: an entry under it would evict the live conversation's.
            prompt_cache_key: envelope
                .prompt_cache_key
                .map(|key| quote(&format!("{}-longhaul", key.decode(body)))),
            include_usage: requests_usage(body),
        }
    }

    /// The same for an endpoint that is not the client's: routing and cache key say nothing there.
    #[must_use]
    pub fn for_other_endpoint(mut self) -> Self {
        self.routing.clear();
        self.prompt_cache_key = None;
        self.include_usage = false;
        self
    }

    /// A whole request body, asking for a stream: an idle connection is cut by many a proxy before
    /// a summary is done.
    pub(in crate::rewrite) fn render(&self, system: &str, user: &str, output: Tokens) -> String {
        let mut body = String::from("{");
        if let Some(model) = &self.model {
            body.extend(["\"model\":", model, ","]);
        }
        for (key, value) in self.routing.iter().chain(&self.reasoning) {
            body.extend([key, ":", value, ","]);
        }
        if let Some(key) = &self.prompt_cache_key {
            body.extend(["\"prompt_cache_key\":", key, ","]);
        }
        if let Some(key) = self.output_key {
            body.extend(["\"", key.name(), "\":", &output.to_string(), ","]);
        }
        if self.include_usage {
            body.push_str(INCLUDE_USAGE);
        }
        body.extend([
            "\"stream\":true,\"messages\":[{\"role\":\"system\",\"content\":",
            &quote(system),
            "},{\"role\":\"user\",\"content\":",
            &quote(user),
            "}]}",
        ]);
        body
    }
}

/// Has a stream say at its end what it was counted as: so a summary's cost is known.
const INCLUDE_USAGE: &str = "\"stream_options\":{\"include_usage\":true},";

/// Whether a client has its streams counted. Within a text the quotation marks would be escaped.
fn requests_usage(body: &str) -> bool {
    body.match_indices("\"include_usage\"").any(|(at, key)| {
        let behind = body.get(at + key.len()..).unwrap_or_default();
        let value = behind.trim_start().strip_prefix(':');
        value.is_some_and(|value| value.trim_start().starts_with("true"))
    })
}

/// Whether a client's wish about reasoning asks for less of it than a model does of itself. Then it
/// holds for a summary too: the upstream knows the key. What asks for more does not: thoughts count
/// as output, and a summary needs none.
fn reduces_reasoning(key: &str, value: &str) -> bool {
    let value: String = value
        .chars()
        .filter(|c| !c.is_ascii_whitespace())
        .collect::<String>()
        .to_lowercase();
    let names = |words: &[&str]| words.iter().any(|word| value.contains(word));
    match key {
        "enable_thinking" | "think" => value == "false",
        "reasoning_effort" => names(&LOW_EFFORTS),
        "reasoning" => {
            names(&["\"enabled\":false"]) || value.contains("\"effort\":") && names(&LOW_EFFORTS)
        }
        "thinking" => names(&["\"type\":\"disabled\""]),
        "chat_template_kwargs" => names(&["\"enable_thinking\":false", "\"thinking\":false"]),
        _ => false,
    }
}

/// Efforts below the one that models make unasked.
const LOW_EFFORTS: [&str; 3] = ["\"low\"", "\"minimal\"", "\"none\""];
