//! Patterns that extract the counts from an overflow.

use crate::overflow::table::RuleRow;

/// Rows in order of precedence: the first match wins. Each pattern uses some of these groups:
///
/// - `limit`, `input`, `output`
/// - `total`: input and output
/// - `parts`: an enumeration of the parts of the total
/// - `excess`: tokens beyond the limit
/// - `floor`: takes part in the match if `input` is only a lower bound
pub(super) const NUMBERS: &[RuleRow] = &[
    (
        "OpenAI, OpenRouter, DeepSeek, vLLM to 0.8",
        r"maximum context length is (?<limit>\d+) tokens[.,] however,? you requested (about )?(?<total>\d+) tokens \((?<parts>[^)]*)\)",
    ),
    (
        "vLLM 2026",
        r"maximum context length is (?<limit>\d+) tokens\. however, you requested (?<output>\d+) output tokens and your prompt contains (?<floor>at least )?(?<input>\d+) input tokens",
    ),
    (
        "vLLM 0.10 to 0.17",
        r"maximum context length is (?<limit>\d+) tokens\. however, your request has (?<input>\d+) input tokens",
    ),
    (
        "vLLM from 0.18, output alone too large",
        r"=(?<output>\d+) cannot be greater than max_model_len=max_total_tokens=(?<limit>\d+)",
    ),
    (
        "vLLM, prompt counted in characters",
        r"maximum context length is (?<limit>\d+) tokens\. however, you requested (?<output>\d+) output tokens and your prompt contains \d+ characters",
    ),
    (
        "OpenAI",
        r"maximum context length is (?<limit>\d+) tokens\. however, your messages resulted in (?<input>\d+) tokens",
    ),
    (
        "vLLM to 0.8",
        r"maximum context length is (?<limit>\d+) tokens\. however, you requested (?<input>\d+) tokens in the messages",
    ),
    (
        "vLLM from 0.9",
        r"is too large: (?<output>\d+)\. this model's maximum context length is (?<limit>\d+) tokens and your request has (?<input>\d+) input tokens",
    ),
    (
        "vLLM 0.16",
        r"you passed (?<input>\d+) input tokens and requested (?<output>\d+) output tokens\. however, the model's context length is only (?<limit>\d+) tokens",
    ),
    (
        "OpenAI, GPT-5",
        r"configured limit of (?<limit>\d+) tokens\. your messages resulted in (?<input>\d+)",
    ),
    ("Anthropic", r"(?<input>\d+) tokens > (?<limit>\d+) maximum"),
    (
        "Anthropic",
        r"exceed context limit: (?<input>\d+) \+ (?<output>\d+) > (?<limit>\d+)",
    ),
    (
        "SGLang",
        r"maximum context length of (?<limit>\d+) tokens\. you requested a total of (?<total>\d+) tokens: (?<input>\d+) tokens from the input messages and (?<output>\d+) tokens for the completion",
    ),
    (
        "SGLang",
        r"input length \((?<input>\d+) tokens\).* exceeds the (maximum allowed|model's context) length \((?<limit>\d+) tokens\)",
    ),
    (
        "SambaNova",
        r"requested generation length (?<output>\d+) is not possible! the provided prompt is (?<input>\d+) tokens long.* length is just (?<limit>\d+)",
    ),
    (
        "watsonx",
        r"input tokens (?<input>\d+) cannot exceed the total tokens limit (?<limit>\d+)",
    ),
    (
        "Gemini",
        r"input token count \((?<input>\d+)\) exceeds the maximum number of tokens allowed \((?<limit>\d+)\)",
    ),
    (
        "xAI",
        r"maximum prompt length is (?<limit>\d+) but the request contains (?<input>\d+)",
    ),
    (
        "Cerebras",
        r"current length is (?<input>\d+) while limit is (?<limit>\d+)",
    ),
    (
        "Mistral",
        r"prompt contains (?<input>\d+) tokens.*too large for model with (?<limit>\d+)",
    ),
    (
        "Hugging Face TGI",
        r"must be <= (?<limit>\d+)\. given: (?<input>\d+) .inputs. tokens and (?<output>\d+)",
    ),
    (
        "Hugging Face TGI",
        r"must have less than (?<limit>\d+) tokens\. given: (?<input>\d+)",
    ),
    (
        "Together, SGLang",
        r"input \((?<input>\d+) tokens\) is longer than the model's context length \((?<limit>\d+) tokens\)",
    ),
    (
        "Fireworks",
        r"prompt is too long: (?<input>\d+), model maximum context length: (?<limit>\d+)",
    ),
    (
        "DeepInfra, TensorRT-LLM, Poolside, Volcengine",
        r"length \(?(?<input>\d+)\)? exceeds (the |model's )?maximum (context |allowed input |input |sequence )?length (of )?\(?(?<limit>\d+)",
    ),
    (
        "GitHub Copilot",
        r"prompt token count of (?<input>\d+) exceeds the limit of (?<limit>\d+)",
    ),
    (
        "Moonshot",
        r"model token limit: (?<limit>\d+) \(requested: (?<input>\d+)",
    ),
    (
        "DashScope",
        r"range of input length should be \[\d+, (?<limit>\d+)\]",
    ),
    (
        "SiliconFlow",
        r"input tokens \((?<input>\d+)\) ha(s|ve) exceeded max_prompt_tokens \((?<limit>\d+)\)",
    ),
    (
        "SiliconFlow",
        r"prompt_tokens \((?<input>\d+)\) must be less than max_seq_len \((?<limit>\d+)\)",
    ),
    ("Sophnet", r"prompt length (?<input>\d+) must less than"),
    ("Snowflake Cortex", r"max tokens of (?<limit>\d+) exceeded"),
    (
        "Bedrock",
        r"prompt tokens \((?<input>\d+)\) exceed model maximum \((?<limit>\d+)\)",
    ),
    (
        "Bedrock, Titan",
        r"max input tokens: (?<limit>\d+), request input token count: (?<input>\d+)",
    ),
    ("GitHub Models", r"max size: (?<limit>\d+) tokens"),
    (
        "vLLM",
        r"\((total )?length (?<input>\d+)\) is (longer than the maximum model length of|too long to fit into the model \(context length) (?<limit>\d+)",
    ),
    (
        "vLLM",
        r"prompt length (?<input>\d+) exceeds the max_model_len (?<limit>\d+)",
    ),
    (
        "NVIDIA NIM, vLLM",
        r"max_tokens must be at least 1, got -(?<excess>\d+)",
    ),
    (
        "TensorRT-LLM",
        r"prompt length \((?<input>\d+)[^)]*\), query length \(0\) should not exceed max_num_tokens \((?<limit>\d+)",
    ),
    (
        "OpenVINO",
        r"prompt tokens: (?<input>\d+) exceeds model max length: (?<limit>\d+)",
    ),
    (
        "mistral.rs",
        r"prompt sequence length is greater than (?<limit>\d+)",
    ),
    (
        "MLC-LLM",
        r"prompt has (?<input>\d+) tokens in total, larger than the model input length limit (?<limit>\d+)",
    ),
    (
        "vMLX",
        r"prompt has (?<input>\d+) tokens, max prompt/context tokens is (?<limit>\d+)",
    ),
    (
        "llama.cpp",
        r"request \((?<input>\d+) tokens\) exceeds the available context size \((?<limit>\d+) tokens\)",
    ),
    (
        "TabbyAPI",
        r"prompt length (?<input>\d+) exceeds the available context size of (?<limit>\d+)",
    ),
    (
        "LM Studio 0.4",
        r"input has (?<input>\d+) tokens, but the context length only supports (?<limit>\d+)",
    ),
    (
        "LM Studio, the head of the prompt only",
        r"(?<floor>n_keep):? \(?(?<input>\d+)\)? ?>= n_ctx:? \(?(?<limit>\d+)",
    ),
    (
        "LM Studio, older, the head of the prompt only",
        r"(?<floor>keep the first) (?<input>\d+) tokens when context the overflows\. however, the model is loaded with context length of only (?<limit>\d+)",
    ),
    (
        "LM Studio",
        r"reached context length of (?<limit>\d+) tokens",
    ),
    (
        "Cloudflare",
        r"input and maximum output tokens \((?<total>\d+)\) exceeded this model context window limit \((?<limit>\d+)\)",
    ),
    (
        "oMLX, Atlas",
        r"prompt too long: (?<input>\d+) tokens exceeds max( context window of|_seq_len) (?<limit>\d+)",
    ),
    (
        "ds4",
        r"prompt has (?<input>\d+) tokens, but the configured context size is (?<limit>\d+)",
    ),
    (
        "Vertex",
        r"input token count is (?<input>\d+) but model only supports up to (?<limit>\d+)",
    ),
    (
        "llama-cpp-python",
        r"requested tokens \((?<input>\d+)\) exceed context window of (?<limit>\d+)",
    ),
    (
        "Cohere",
        r"tokens in the prompt cannot exceed (?<limit>\d+) - received (?<input>\d+)",
    ),
    (
        "Cohere",
        r"\(prompt and prediction\) cannot exceed (?<limit>\d+) - received (?<total>\d+)",
    ),
    (
        "Ollama, Cohere",
        r"(exceeded max context length by|size limit exceeded by) (?<excess>\d+) tokens",
    ),
    ("any", r"maximum context length (is|of) (?<limit>\d+)"),
];
