//! The client span of one upstream call.

use std::borrow::Cow;

use http::{Method, Request, StatusCode, Uri};

use super::{ParentContext, TraceSpan, valid_model_name};
use crate::models::HostKind;
use longhaul_core::dialect::Dialect;
use longhaul_core::dialect::usage::Usage;
use longhaul_core::overflow::Verdict;

/// Error type of a call that was cancelled before its reply ended.
const CANCELLED: &str = "cancelled";
/// Error type of a call whose reply held no answer despite a successful status.
pub(crate) const NO_ANSWER: &str = "no_answer";

#[derive(Clone, Debug)]
pub(crate) enum Operation {
    /// A chat. Model and streaming are set once the body was read.
    Chat {
        dialect: Dialect,
        model: Option<Box<str>>,
        /// Whether the client requested a streamed answer.
        streaming: Option<bool>,
    },
    /// Any other operation, with its API route if known.
    Other(Option<Cow<'static, str>>),
}

impl Operation {
    /// Creates a chat with `model`; an implausible name is omitted.
    pub(super) fn chat(dialect: Dialect, model: &str, streaming: Option<bool>) -> Self {
        let model = valid_model_name(model).map(Into::into);
        Self::Chat { dialect, model, streaming }
    }

    /// Returns the span's name. The set of names is small, whatever clients request.
    pub(super) fn name(&self, method: &Method) -> String {
        let (what, of) = match self {
            Self::Chat { model, .. } => ("chat", model.as_deref()),
            Self::Other(route) => (standard_method(method).unwrap_or("HTTP"), route.as_deref()),
        };
        of.map_or_else(|| what.to_owned(), |of| format!("{what} {of}"))
    }

    pub(super) fn route(&self) -> Option<&str> {
        match self {
            Self::Chat { dialect, .. } => Some(dialect.path()),
            Self::Other(route) => route.as_deref(),
        }
    }

    pub(super) fn set_attributes(&self, span: &mut TraceSpan, method: &Method) {
        span.set("http.request.method", standard_method(method).unwrap_or("_OTHER"));
        if let Self::Chat { model, streaming, .. } = self {
            span.set("gen_ai.operation.name", "chat");
            span.set("gen_ai.request.model", model.as_deref());
            span.set("gen_ai.request.stream", *streaming);
        }
    }
}

/// Methods that HTTP defines; clients may invent others.
const STANDARD_METHODS: &[&str] =
    &["CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE"];

fn standard_method(method: &Method) -> Option<&str> {
    Some(method.as_str()).filter(|name| STANDARD_METHODS.contains(name))
}

/// An upstream call in progress; its span ends on drop.
#[derive(Debug)]
pub(crate) struct CallSpan {
    span: TraceSpan,
    /// Whether the reply has ended, or is known not to come.
    is_over: bool,
    error: Option<Cow<'static, str>>,
}

impl CallSpan {
    /// Begins the span of a call that sends `request` as this `attempt`; `None` if it is not
    /// recorded.
    pub(super) fn begin<B>(
        parent: &ParentContext,
        attempt: &'static str,
        asks: &Operation,
        request: &Request<B>,
    ) -> Option<Self> {
        let mut span = TraceSpan::start_call(parent)?;
        let uri = request.uri();
        span.set_name(asks.name(request.method()));
        asks.set_attributes(&mut span, request.method());
        span.set("longhaul.attempt", attempt);
        span.set("server.address", uri.host());
        span.set("server.port", port(uri).map(u32::from));
        if let (Operation::Chat { .. }, Some(host)) = (asks, uri.host()) {
            span.set("gen_ai.provider.name", provider_name(host));
        }
        Some(Self { span, is_over: false, error: None })
    }

    pub(crate) fn record_status(&mut self, status: StatusCode) {
        let code = u32::from(status.as_u16());
        self.span.set("http.response.status_code", code);
        if status.is_client_error() || status.is_server_error() {
            self.error = Some(status.as_str().to_owned().into());
        }
    }

    /// Records a verdict that the reply held no answer, whatever its status.
    pub(super) fn record_verdict(&mut self, verdict: Verdict) {
        let why = match verdict {
            Verdict::Failed => NO_ANSWER,
            Verdict::BodyTooLarge(_) => "too_many_bytes",
            Verdict::Fine | Verdict::Unexplained(_) => return,
            Verdict::Malformed => "refused_as_malformed",
            Verdict::Overflow(_) => "context_overflow",
            Verdict::OutputAboveCap(_) | Verdict::OutputTooLarge { .. } => "output_too_large",
            Verdict::StaleThinking => "stale_thinking",
            Verdict::TextTooLong { .. } => "text_too_long",
            Verdict::TooMuchMedia => "too_much_media",
        };
        self.error = Some(why.into());
    }

    /// Records the token counts that the provider reported.
    pub(crate) fn record_usage(&mut self, usage: &Usage) {
        let span = &mut self.span;
        span.set("gen_ai.usage.input_tokens", usage.input);
        span.set("gen_ai.usage.output_tokens", usage.output);
        span.set("gen_ai.usage.cache_read.input_tokens", usage.cached);
    }

    /// Records that the reply ended normally.
    pub(crate) fn finish(&mut self) {
        self.is_over = true;
    }

    /// Records that the reply is missing or incomplete.
    pub(crate) fn fail(&mut self, why: &'static str) {
        self.is_over = true;
        self.error = Some(why.into());
    }
}

impl Drop for CallSpan {
    fn drop(&mut self) {
        if let Some(why) = &self.error {
            self.span.set("error.type", why.as_ref());
            self.span.fail();
        } else if !self.is_over {
            self.span.set("error.type", CANCELLED);
        }
    }
}

/// Returns the port of a target, explicit or by its scheme.
fn port(uri: &Uri) -> Option<u16> {
    uri.port_u16().or_else(|| match uri.scheme_str()? {
        "https" => Some(443),
        "http" => Some(80),
        _ => None,
    })
}

/// Trace context of summary calls, possibly long after the request was answered.
#[derive(Clone, Debug)]
pub(crate) struct CallContext {
    parent: ParentContext,
    operation: Operation,
}

impl CallContext {
    pub(crate) fn new(parent: ParentContext, dialect: Dialect, model: &str) -> Self {
        Self { parent, operation: Operation::chat(dialect, model, None) }
    }

    /// Begins the span of a call that sends `request`; `None` if it is not recorded.
    pub(crate) fn begin_call<B>(&self, request: &Request<B>) -> Option<CallSpan> {
        CallSpan::begin(&self.parent, "summary", &self.operation, request)
    }
}

/// Returns a provider by its name in the convention, which differs from that in the model table for some. For an
/// unknown host, the convention uses the name of the provider whose API dialect the server speaks: here `OpenAI`.
fn provider_name(host: &str) -> &'static str {
    match HostKind::from_host(host) {
        HostKind::Local | HostKind::Unknown => "openai",
        HostKind::Provider("azure") => "azure.ai.openai",
        HostKind::Provider("bedrock") => "aws.bedrock",
        HostKind::Provider("google") => "gcp.gemini",
        HostKind::Provider("mistral") => "mistral_ai",
        HostKind::Provider("vertex") => "gcp.vertex_ai",
        HostKind::Provider("xai") => "x_ai",
        HostKind::Provider(provider) => provider,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the name of a span of `asks` with `method`.
    fn check(asks: &Operation, method: &str, expect: &str) {
        assert_eq!(asks.name(&method.parse().unwrap()), expect);
    }

    #[test]
    fn chat_span_is_named_by_its_model_if_valid() {
        check(
            &Operation::chat(Dialect::ChatCompletions, "openai/gpt-5", None),
            "POST",
            "chat openai/gpt-5",
        );
        for none in ["", &"m".repeat(129)] {
            check(&Operation::chat(Dialect::ChatCompletions, none, Some(true)), "POST", "chat");
        }
    }

    #[test]
    fn client_chosen_method_is_not_in_the_span_name() {
        check(&Operation::Other(Some("/models".into())), "GET", "GET /models");
        check(&Operation::Other(Some("/models".into())), "MADEUP", "HTTP /models");
        check(&Operation::Other(None), "MADEUP", "HTTP");
    }

    #[test]
    fn port_defaults_by_scheme() {
        for (target, expect) in [
            ("https://x/v1", Some(443)),
            ("http://x/v1", Some(80)),
            ("https://x:8443/v1", Some(8443)),
            ("/v1", None),
        ] {
            assert_eq!(port(&target.parse().unwrap()), expect, "{target}");
        }
    }
}

#[cfg(test)]
mod provider_tests {
    use super::*;

    #[test]
    fn provider_names_follow_the_convention() {
        assert_eq!(provider_name("api.openai.com"), "openai");
        assert_eq!(provider_name("x.openai.azure.com"), "azure.ai.openai");
        assert_eq!(provider_name("api.x.ai"), "x_ai");
        assert_eq!(provider_name("api.groq.com"), "groq");
        assert_eq!(provider_name("openrouter.ai"), "openrouter");
    }

    #[test]
    fn unknown_provider_is_named_by_the_dialect() {
        assert_eq!(provider_name("127.0.0.1"), "openai");
        assert_eq!(provider_name("llm.example.com"), "openai");
    }
}
