//! Rules of the classifier as tables of provider and pattern.
//!
//! To add a wording:
//!
//! 1. Put the reply into `fixtures/replies`, or its words into `fixtures/wordings.jsonl`.
//! 2. Add a row here, and one in [`numbers`] if the wording states counts.
//!
//! The tests fail if a row, or any piece of a row, is not needed. Without a rebuild, the setting
//! `overflow.patterns` does the same.
//!
//! Patterns are matched against normalised text (`error_details::normalise`): lower case, single
//! spaces, straight apostrophes, digits without separators. The first column is for people; "any"
//! marks a wording that several providers share.

mod numbers;

/// Provider, and the pattern or code that it uses.
pub(super) type RuleRow = (&'static str, &'static str);

/// All rules of the classifier.
#[derive(Clone, Copy, Debug)]
pub(super) struct RuleTable {
    pub(super) vetoed_statuses: &'static [u16],
    pub(super) overflow_codes: &'static [RuleRow],
    pub(super) overflow_numbers: &'static [RuleRow],
    pub(super) byte_codes: &'static [RuleRow],
    pub(super) paths: &'static [RuleRow],
    pub(super) vetoes: &'static [RuleRow],
    pub(super) malformed: &'static [RuleRow],
    pub(super) bytes: &'static [RuleRow],
    pub(super) media: &'static [RuleRow],
    pub(super) overflows: &'static [RuleRow],
    pub(super) numbers: &'static [RuleRow],
    pub(super) output_part: &'static str,
}

/// The built-in rules.
pub(super) const TABLE: RuleTable = RuleTable {
    vetoed_statuses: VETOED_STATUSES,
    overflow_codes: OVERFLOW_CODES,
    overflow_numbers: OVERFLOW_NUMBERS,
    byte_codes: BYTE_CODES,
    paths: MESSAGE_PATHS,
    vetoes: VETOES,
    malformed: MALFORMED,
    bytes: BYTE_LIMITS,
    media: MEDIA_LIMITS,
    overflows: OVERFLOWS,
    numbers: numbers::NUMBERS,
    output_part: OUTPUT_PART,
};

/// Statuses, outer or inside the body, that are never about the size of a request. They report
/// credentials, credit, permission, throttling, overload, the path, the method, or the framing.
const VETOED_STATUSES: &[u16] = &[
    401, 402, 403, 404, 405, 406, 410, 411, 414, 415, 426, 429, 431, 529,
];

/// Codes and types that name an overflow.
const OVERFLOW_CODES: &[RuleRow] = &[
    ("OpenAI, OpenRouter", "context_length_exceeded"),
    ("OpenRouter", "token_limit_exceeded"),
    ("GitHub Copilot", "model_max_prompt_tokens_exceeded"),
    ("llama.cpp", "exceed_context_size_error"),
    ("GitHub Models", "tokens_limit_reached"),
    ("watsonx", "token_quantity_exceeded"),
];

/// Purely numeric codes that name an overflow.
const OVERFLOW_NUMBERS: &[RuleRow] = &[("z.ai", "1261"), ("Mistral", "3051")];

/// Codes and types that name a byte limit.
const BYTE_CODES: &[RuleRow] = &[
    ("Anthropic", "request_too_large"),
    ("OpenRouter", "payload_too_large"),
];

/// Paths in `param` that point into one message. Such an error is about that message, and may quote
/// it.
const MESSAGE_PATHS: &[RuleRow] = &[("OpenAI", r"^(messages|input)\W*\d")];

/// Wordings of errors that are not about the window, whatever else the text says.
const VETOES: &[RuleRow] = &[
    ("OpenAI, batches", r"enqueued token"),
    // Throttling.
    ("any", r"rate[ _]?limit"),
    ("any", r"per (second|min|hour|day|week|month)"),
    ("any", r"\b(hourly|daily|weekly|monthly)\b"),
    ("any", r"\btpm\b"),
    ("any", r"too many requests"),
    ("Bedrock", r"throttl"),
    ("Bedrock", r"please wait before"),
    ("Anthropic", r"overloaded"),
    // Money and credentials.
    ("any", r"quota"),
    ("OpenRouter", r"\bcredits\b"),
    (
        "OpenRouter, credit-based cap",
        r"prompt tokens limit exceeded",
    ),
    ("any", r"insufficient (balance|funds)|payment_required"),
    ("OpenAI", r"incorrect api key|invalid_api_key"),
    // Content policy.
    (
        "Azure, OpenRouter",
        r"content_filter|content management policy|content_policy_violation",
    ),
    // Single items that are too large, or too many items.
    ("MiniMax", r"media exceeds size"),
    (
        "OpenAI, OpenRouter",
        r"(string|array)[_ ]too[_ ]long|array_above_max_length",
    ),
    ("OpenAI", r"^invalid (value for )?'(messages|input)\W*\d"),
    // Schema violations, which quote the request and may therefore contain any words.
    ("vLLM, FastAPI", r"\bloc\W{1,6}body\b"),
    ("SGLang, pydantic", r"\binput_value="),
    (
        "OpenAI of 2023",
        r"is not (of type '\w+'|valid under any of the given schemas) - '",
    ),
    ("DeepSeek, axum", r"failed to deserialize the json body"),
    ("llama.cpp", r"failed to parse messages: "),
    (
        "OpenAI",
        r"(unknown parameter|(invalid|unsupported) value): '",
    ),
    ("OpenAI", r"unrecognized request arguments? supplied: "),
    // The range of an output parameter.
    (
        "OpenAI",
        r"max_tokens is too large|unsupported[ _]parameter",
    ),
    ("OpenRouter", r"^max_tokens_exceeded$"),
    ("Anthropic", r"maximum allowed number of output tokens"),
    ("Groq", r"max_tokens` must be less than"),
    ("Gemini", r"maxoutputtokens"),
    ("DeepSeek, DashScope", r"range of max_tokens"),
    ("Cohere", r"max tokens must be less than"),
];

/// Wordings that refuse a message list: pairing, order, ids, signatures.
const MALFORMED: &[RuleRow] = &[
    (
        "OpenAI, DeepSeek, DashScope",
        r"must be followed by tool messages",
    ),
    ("OpenAI", r"must be a response to a prec\w+ message"),
    (
        "OpenAI Responses",
        r"no tool output found for function call",
    ),
    (
        "OpenAI Responses",
        r"no tool call found for function call output",
    ),
    ("OpenAI Responses", r"without its required 'reasoning' item"),
    ("OpenAI Responses", r"duplicate item found with id"),
    (
        "OpenAI Responses",
        r"one of .input. or .previous_response_id.* must be provided",
    ),
    ("OpenAI Responses", r"without its required following item"),
    (
        "OpenAI Responses",
        r"encrypted content .*could not be verified",
    ),
    ("Anthropic", r"tool_use` ids were found without"),
    ("Anthropic", r"unexpected `tool_use_id"),
    ("Anthropic", r"must have non-empty content"),
    ("Anthropic", r"conversation must end with a user message"),
    ("Anthropic", r"maximum of \d+ blocks with cache_control"),
    (
        "Anthropic",
        r"blocks in the latest assistant message cannot be modified",
    ),
    ("Anthropic", r"thinking\.signature: field required"),
    (
        "Anthropic, Bedrock, Vertex",
        r"expected `thinking` or `redacted_thinking`",
    ),
    ("Anthropic", r"roles must alternate between"),
    ("Bedrock", r"conversation must alternate between"),
    ("Gemini", r"number of function response parts is equal to"),
    ("Gemini", r"function call turn comes immediately after"),
    ("Gemini", r"multiturn requests alternate between"),
    (
        "Gemini",
        r"missing a thought_signature|corrupted thought signature",
    ),
    (
        "Mistral",
        r"not the same number of function calls and responses",
    ),
    ("Mistral", r"unexpected role '\w+' after role"),
    ("Mistral", r"^invalid_request_message_order$"),
    ("Mistral", r"tool call id was .* but must be"),
    ("Qwen templates", r"system message must be at the beginning"),
    (
        "Llama, Gemma templates",
        r"conversation roles must alternate",
    ),
    (
        "Perplexity",
        r"user and assistant roles should be alternating|should alternate with assistant message",
    ),
    (
        "DeepSeek",
        r"does not support successive user or assistant messages",
    ),
    (
        "DeepSeek",
        r"reasoning_content` in the thinking mode must be passed back",
    ),
    (
        "DeepSeek, Moonshot",
        r"missing `reasoning_content|reasoning_content is missing",
    ),
];

/// Wordings of a byte limit under a status other than 413.
const BYTE_LIMITS: &[RuleRow] = &[
    ("nginx", r"request entity too large"),
    ("Anthropic", r"request exceeds the maximum size"),
    ("Gemini", r"payload size exceeds the limit"),
    ("any", r"(payload|content) too large"),
    ("Moonshot", r"total message size \d+ exceeds limit"),
];

/// Wordings of a limit on the number, the pages or the size of images and documents.
const MEDIA_LIMITS: &[RuleRow] = &[
    ("Anthropic", r"image exceeds"),
    (
        "Anthropic, Bedrock",
        r"image( dimensions)? exceed max allowed size",
    ),
    ("Anthropic", r"maximum of \d+ pdf pages"),
    ("Anthropic", r"too much media: "),
    ("any", r"too many images"),
    ("Meta", r"request contains \d+ images, exceeding"),
    ("vLLM", r"at most \d+ image\(s\) may be provided"),
];

/// Wordings of an overflow.
const OVERFLOWS: &[RuleRow] = &[
    ("any", r"(prompt|context|conversation|input) (is )?too long"),
    (
        "any",
        r"exceeds?( the| this)?( model's| model)?( maximum)? context (window|length|size|limit)",
    ),
    ("any", r"maximum (context|prompt) length is \d+"),
    ("any", r"reduce the length of the messages"),
    ("any", r"context[ _](length|window|limit|size)[ _]exceeded"),
    ("any", r"maximum context length:? \d+"),
    ("any", r"maximum context limit"),
    ("any", r"maximum input length is \d+"),
    (
        "any",
        r"is longer than the (model's context length|maximum model length)",
    ),
    (
        "any",
        r"(prompt|input) length \(?\d+\)? exceeds (the )?maximum",
    ),
    ("any", r"token limit exceeded"),
    ("OpenAI, Bedrock", r"input tokens exceed"),
    ("Cohere, Bedrock", r"too many (input )?tokens"),
    ("Bedrock", r"prompt tokens \(\d+\) exceed model maximum"),
    ("Gemini", r"input token count.*exceeds the maximum"),
    (
        "Vertex",
        r"input token count is \d+ but model only supports up to \d+",
    ),
    (
        "Mistral",
        r"too large for model with \d+ maximum context length",
    ),
    ("Moonshot", r"exceeded model token limit"),
    ("z.ai", r"prompt exceeds max length|prompt 超长"),
    ("MiniMax", r"context window exceeds limit"),
    ("DashScope", r"range of input length should be"),
    ("SiliconFlow", r"exceeded max_prompt_tokens"),
    (
        "SiliconFlow",
        r"prompt_tokens \(\d+\) must be less than max_seq_len",
    ),
    ("Volcengine", r"exceed max message tokens"),
    (
        "Sophnet",
        r"prompt length \d+ must less than the maximum input length",
    ),
    ("Snowflake Cortex", r"max tokens of \d+ exceeded"),
    ("kiro-gateway", r"conversation size exceeds model capacity"),
    (
        "GitHub Copilot",
        r"prompt token count of \d+ exceeds the limit of \d+",
    ),
    (
        "GitHub Models",
        r"request body too large for .* model\. max size: \d+ tokens",
    ),
    ("LiteLLM", r"contextwindowexceedederror"),
    ("Hugging Face TGI", r"tokens \+ `max_new_tokens` must be <="),
    ("Hugging Face TGI", r"must have less than \d+ tokens"),
    ("vLLM", r"too long to fit into the model"),
    ("vLLM", r"the model's context length is only \d+"),
    ("vLLM", r"cannot be greater than max_model_len"),
    ("vLLM", r"prompt length \d+ exceeds the max_model_len"),
    // Window minus prompt, when nothing is left. A client's own mistake, such as -1, has only one
    // digit.
    (
        "NVIDIA NIM, vLLM",
        r"max_tokens must be at least 1, got -\d\d",
    ),
    (
        "llama.cpp",
        r"exceeds the available context size|context size has been exceeded",
    ),
    (
        "SGLang",
        r"input length \(\d+ tokens\).* exceeds the maximum allowed length",
    ),
    (
        "SambaNova",
        r"maximum supported sequence length is just \d+",
    ),
    ("TensorRT-LLM", r"should not exceed max_num_tokens"),
    ("OpenVINO", r"prompt tokens: \d+ exceeds model max length"),
    ("mistral.rs", r"prompt sequence length is greater than \d+"),
    ("MLC-LLM", r"larger than the model input length limit"),
    ("vMLX", r"max prompt/context tokens is \d+"),
    (
        "watsonx",
        r"input tokens \d+ cannot exceed the total tokens limit",
    ),
    ("kronk", r"context window is full"),
    (
        "LM Studio",
        r"does not fit in context length|is greater than the context length",
    ),
    (
        "LM Studio",
        r"keep the first \d+ tokens when context|n_keep \(\d+\) >= n_ctx",
    ),
    ("LM Studio", r"reached context length of \d+ tokens"),
    ("Ollama", r"prompt is longer than the context length"),
    ("Cloudflare", r"exceeded this model context window limit"),
    ("ds4", r"but the configured context size is \d+"),
    (
        "Databricks",
        r"tokens in request more than max tokens allowed",
    ),
];

/// Pattern for the output in an enumeration of parts.
const OUTPUT_PART: &str = r"(\d+) (?:in|for) the (?:completion|output)";
