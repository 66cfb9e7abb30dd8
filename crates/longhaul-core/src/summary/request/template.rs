//! Fields that a summary call takes over from the client's request.

use crate::conversation::{Conversation, OutputKey};
use crate::dialect::content_json::quote;
use crate::units::tokens::Tokens;

/// Template for the body of a summary call, with the client's model and routing byte for byte. The
/// caller's data policy and provider preferences thus apply to the summary too.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RequestTemplate<'a> {
    /// The model, as a JSON literal.
    model: Option<String>,
    /// Keys and values of the routing fields, as JSON.
    routing: Vec<(&'a str, &'a str)>,
    /// Keys and values that reduce reasoning, as JSON.
    reasoning: Vec<(&'a str, &'a str)>,
    output_key: Option<OutputKey>,
    prompt_cache_key: Option<String>,
    /// Whether to request usage at the end of the stream. Set if the client does so, because then
    /// the upstream supports the option.
    include_usage: bool,
}

impl<'a> RequestTemplate<'a> {
    /// Takes the template from the client's request, for `model` or else for the client's own
    /// model.
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
                // A list of fallback models would override the configured model.
                .filter(|(key, _)| model.is_none() || key.decode(body) != "models")
                .map(|(key, value)| (key.span().slice(body), value.slice(body)))
                .collect(),
            reasoning: envelope
                .thinking
                .iter()
                // Another model may not support the key.
                .filter(|(key, value)| {
                    model.is_none() && reduces_reasoning(&key.decode(body), value.slice(body))
                })
                .map(|(key, value)| (key.span().slice(body), value.slice(body)))
                .collect(),
            output_key: envelope.output_limit.map(|output| output.key),
            // Under the client's own key, the entry would evict that of the live conversation.
            prompt_cache_key: envelope
                .prompt_cache_key
                .map(|key| quote(&format!("{}-longhaul", key.decode(body)))),
            include_usage: requests_usage(body),
        }
    }

    /// Adapts the template to an endpoint other than the client's, where routing and cache key are
    /// meaningless.
    #[must_use]
    pub fn for_other_endpoint(mut self) -> Self {
        self.routing.clear();
        self.prompt_cache_key = None;
        self.include_usage = false;
        self
    }

    /// Returns a whole request body. The body requests a stream, because many proxies close a
    /// connection that stays idle while a summary is generated.
    pub(crate) fn render(&self, system: &str, user: &str, output: Tokens) -> String {
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

/// Makes a stream report its usage at the end, so that the summary's cost is known.
const INCLUDE_USAGE: &str = "\"stream_options\":{\"include_usage\":true},";

/// Whether the client requests usage for its streams. A match inside a text is impossible, because
/// the quotation marks would be escaped.
fn requests_usage(body: &str) -> bool {
    body.match_indices("\"include_usage\"").any(|(at, key)| {
        let behind = body.get(at + key.len()..).unwrap_or_default();
        let value = behind.trim_start().strip_prefix(':');
        value.is_some_and(|value| value.trim_start().starts_with("true"))
    })
}

/// Whether a reasoning option reduces the model's default reasoning. Such an option applies to the
/// summary too, since the upstream supports the key. Options for more reasoning are dropped:
/// reasoning counts as output, and a summary needs none.
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

/// Efforts below the default of models.
const LOW_EFFORTS: [&str; 3] = ["\"low\"", "\"minimal\"", "\"none\""];
