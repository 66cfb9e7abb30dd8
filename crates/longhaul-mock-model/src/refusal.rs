//! Refusals of requests that are too large, with the real numbers in a provider's wording.

use std::borrow::Cow;

/// The numbers of a request and its limit, in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverflowNumbers {
    /// The model's window.
    pub limit: u64,
    /// The tokens of messages and tools.
    pub prompt: u64,
    /// The requested output limit.
    pub output: u64,
}

impl OverflowNumbers {
    /// Whether a request with these numbers is too large.
    pub fn exceeds_limit(self) -> bool {
        self.total() > self.limit
    }

    fn total(self) -> u64 {
        self.prompt.saturating_add(self.output)
    }

    /// Returns each placeholder of a template with its number.
    fn numbers(self) -> [(&'static str, u64); 8] {
        let room = self.limit.saturating_sub(self.output);
        [
            ("<limit>", self.limit),
            ("<prompt>", self.prompt),
            ("<output>", self.output),
            ("<total>", self.total()),
            ("<excess>", self.total().saturating_sub(self.limit)),
            // Some servers stop counting one token past the limit and report that number.
            ("<floor>", room + 1),
            ("<least>", self.limit + 1),
            ("<room>", room),
        ]
    }
}

/// A reply that refuses a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusalReply {
    /// The status of the reply.
    pub status: u16,
    /// The content type; empty for none.
    pub content_type: Cow<'static, str>,
    /// The body. `<limit>`, `<prompt>`, `<output>`, `<total>`, `<excess>`, `<floor>`, `<least>` and
    /// `<room>` are replaced by numbers.
    pub body: Cow<'static, str>,
}

impl RefusalReply {
    /// Creates a reply from its parts.
    pub fn new(
        status: u16,
        content_type: impl Into<Cow<'static, str>>,
        body: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { status, content_type: content_type.into(), body: body.into() }
    }

    /// Converts a provider's recorded body into a template, with placeholders for its numbers.
    ///
    /// `requested` and `output` are the numbers that the body states as requested, if it does.
    /// `requested` is their sum if the body also states the prompt on its own.
    #[must_use]
    pub fn into_template(
        self,
        limit: Option<u64>,
        requested: Option<u64>,
        output: Option<u64>,
    ) -> Self {
        let named: Vec<u64> =
            numbers(&self.body).filter_map(|(_, text)| text.parse().ok()).collect();
        let prompt = requested.zip(output).and_then(|(sum, output)| sum.checked_sub(output));
        let prompt = prompt.filter(|prompt| *prompt > 0 && named.contains(prompt));
        let room = limit.zip(output).and_then(|(limit, output)| limit.checked_sub(output));
        let floor = room.map(|room| room + 1);
        let counted_to_the_floor = requested.is_some() && requested == floor;
        let name = |number: u64| {
            let number = Some(number);
            if number == limit {
                Some("<limit>")
            } else if number == prompt {
                Some("<prompt>")
            } else if number == requested && prompt.is_some() {
                Some("<total>")
            } else if number == requested {
                Some(if counted_to_the_floor { "<floor>" } else { "<prompt>" })
            } else if number == output {
                Some("<output>")
            } else if number == room {
                Some("<room>")
            } else if counted_to_the_floor && number == limit.map(|limit| limit + 1) {
                Some("<least>")
            } else {
                None
            }
        };
        Self { body: renamed(&self.body, name).into(), ..self }
    }

    /// Whether the reply is a stream of events.
    pub(crate) fn is_stream(&self) -> bool {
        self.content_type.starts_with("text/event-stream")
    }

    /// Returns the reply with the placeholders replaced by a request's numbers.
    pub(crate) fn with_numbers(&self, overflow: OverflowNumbers) -> Self {
        let fill =
            |body: String, (name, number): (&str, u64)| body.replace(name, &number.to_string());
        let body = overflow.numbers().into_iter().fold(self.body.clone().into_owned(), fill);
        Self { body: body.into(), ..self.clone() }
    }
}

/// Returns the whole numbers that stand alone in a text, with their positions.
fn numbers(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    text.split(move |letter| !word(letter))
        .filter(|word| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit()))
        .map(|number| (number.as_ptr().addr() - text.as_ptr().addr(), number))
}

fn renamed(text: &str, name: impl Fn(u64) -> Option<&'static str>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut from = 0;
    for (at, number) in numbers(text) {
        if let Some(name) = number.parse().ok().and_then(&name) {
            out.push_str(text.get(from..at).unwrap_or_default());
            out.push_str(name);
            from = at + number.len();
        }
    }
    out.push_str(text.get(from..).unwrap_or_default());
    out
}

/// The providers with built-in refusals, from `fixtures/replies`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorFamily {
    /// 400, `prompt is too long`, flat type.
    Anthropic,
    /// 400, an array with one error.
    Gemini,
    /// 400, no numbers.
    Groq,
    /// 400, numbers as separate members.
    LlamaCpp,
    /// 400, `context_length_exceeded`.
    OpenAi,
    /// 400, with the sum and its parts.
    OpenRouter,
    /// 200 and an error in the body.
    OpenRouterOk,
    /// 200, comments, and an error as the first event.
    OpenRouterStream,
    /// 200, an error as the first event, and the end of the stream.
    SgLangStream,
    /// 400, the prompt counted only up to the first token too many.
    Vllm,
    /// 400, `error` is a string.
    Xai,
}

impl ErrorFamily {
    /// Every family.
    pub const ALL: [Self; 11] = [
        Self::Anthropic,
        Self::Gemini,
        Self::Groq,
        Self::LlamaCpp,
        Self::OpenAi,
        Self::OpenRouter,
        Self::OpenRouterOk,
        Self::OpenRouterStream,
        Self::SgLangStream,
        Self::Vllm,
        Self::Xai,
    ];

    /// Returns the family's refusal of a prompt that is too large.
    pub fn refusal(self) -> RefusalReply {
        let json = |status, body| RefusalReply::new(status, "application/json", body);
        let events = |body| RefusalReply::new(200, "text/event-stream", body);
        match self {
            Self::Anthropic => json(400, ANTHROPIC),
            Self::Gemini => json(400, GEMINI),
            Self::Groq => json(400, GROQ),
            Self::LlamaCpp => json(400, LLAMA_CPP),
            Self::OpenAi => json(400, OPENAI),
            Self::OpenRouter => json(400, OPENROUTER),
            Self::OpenRouterOk => json(200, OPENROUTER),
            Self::OpenRouterStream => events(OPENROUTER_STREAM),
            Self::SgLangStream => events(SGLANG_STREAM),
            Self::Vllm => json(400, VLLM),
            Self::Xai => json(400, XAI),
        }
    }

    /// Returns the family's refusal of a prompt that fits alone, but not together with the
    /// requested output.
    pub fn sum_refusal(self) -> RefusalReply {
        let json = |body| RefusalReply::new(400, "application/json", body);
        match self {
            Self::Anthropic => json(ANTHROPIC_SUM),
            Self::OpenAi => json(OPENAI_SUM),
            Self::Gemini
            | Self::Groq
            | Self::LlamaCpp
            | Self::OpenRouter
            | Self::OpenRouterOk
            | Self::OpenRouterStream
            | Self::SgLangStream
            | Self::Vllm
            | Self::Xai => self.refusal(),
        }
    }
}

const ANTHROPIC: &str = r#"{"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: <prompt> tokens > <limit> maximum"}}"#;
const ANTHROPIC_SUM: &str = r#"{"type": "error", "error": {"type": "invalid_request_error", "message": "input length and `max_tokens` exceed context limit: <prompt> + <output> > <limit>, decrease input length or `max_tokens` and try again"}}"#;
const GEMINI: &str = r#"[{"error": {"code": 400, "message": "The input token count (<prompt>) exceeds the maximum number of tokens allowed (<limit>).", "errors": [{"message": "The input token count (<prompt>) exceeds the maximum number of tokens allowed (<limit>).", "domain": "global", "reason": "badRequest"}], "status": "INVALID_ARGUMENT"}}]"#;
const GROQ: &str = r#"{"error": {"message": "Please reduce the length of the messages or completion.", "type": "invalid_request_error", "param": "messages", "code": "context_length_exceeded"}}"#;
const LLAMA_CPP: &str = r#"{"error": {"code": 400, "message": "request (<prompt> tokens) exceeds the available context size (<limit> tokens), try increasing it", "type": "exceed_context_size_error", "n_prompt_tokens": <prompt>, "n_ctx": <limit>}}"#;
const OPENAI: &str = r#"{"error": {"message": "This model's maximum context length is <limit> tokens. However, your messages resulted in <prompt> tokens. Please reduce the length of the messages.", "type": "invalid_request_error", "param": "messages", "code": "context_length_exceeded"}}"#;
const OPENAI_SUM: &str = r#"{"error": {"message": "This model's maximum context length is <limit> tokens. However, you requested <total> tokens (<prompt> in the messages, <output> in the completion). Please reduce the length of the messages or completion.", "type": "invalid_request_error", "param": "messages", "code": "context_length_exceeded"}}"#;
const OPENROUTER: &str = r#"{"error": {"message": "This endpoint's maximum context length is <limit> tokens. However, you requested about <total> tokens (<prompt> of text input, <output> in the output). Please reduce the length of either one, or use the \"middle-out\" transform to compress your prompt automatically.", "code": 400, "metadata": {"provider_name": null}}}"#;
const OPENROUTER_STREAM: &str = concat!(
    ": OPENROUTER PROCESSING\n\n: OPENROUTER PROCESSING\n\n",
    r#"data: {"id":"gen-1","object":"chat.completion.chunk","created":1790000000,"choices":[],"error":{"message":"prompt is too long: <prompt> tokens > <limit> maximum","code":400}}"#,
    "\n\n",
);
const SGLANG_STREAM: &str = concat!(
    r#"data: {"error": {"object": "error", "message": "The input (<prompt> tokens) is longer than the model's context length (<limit> tokens).", "type": "BadRequestError", "param": null, "code": 400}}"#,
    "\n\ndata: [DONE]\n\n",
);
const VLLM: &str = r#"{"error": {"message": "This model's maximum context length is <limit> tokens. However, you requested <output> output tokens and your prompt contains at least <floor> input tokens, for a total of at least <least> tokens. Please reduce the length of the input prompt or the number of requested output tokens. (parameter=input_tokens, value=<floor>)", "type": "BadRequestError", "param": "input_tokens", "code": 400}}"#;
const XAI: &str = r#"{"code": "Client specified an invalid argument", "error": "This model's maximum prompt length is <limit> but the request contains <prompt> tokens."}"#;

#[cfg(test)]
mod tests;
