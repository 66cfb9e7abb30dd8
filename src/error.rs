//! Errors: a [`Fault`] is reported to the client, a [`Problem`] to the operator.

use std::path::PathBuf;

use http::StatusCode;
use tracing::Level;

use crate::metrics::Label;

/// Defines the faults, each an entry of this form:
///
/// ```text
/// /// Cause.
/// Variant = "code", STATUS, RetryAdvice, "message, with {origin} for the upstream";
/// ```
macro_rules! faults {
    ($(
        $(#[doc = $doc:literal])+
        $name:ident = $code:literal, $status:ident, $retry:ident, $message:literal;
    )+) => {
        /// Reason why a request could not be served. Each variant is an error that a client can act
        /// on.
        ///
        /// Error replies of the upstream are not faults: they are relayed unchanged.
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        pub(crate) enum Fault {
            $($(#[doc = $doc])+ $name),+
        }

        impl Label for Fault {
            const ALL: &'static [Self] = &[$(Self::$name),+];

            fn label(self) -> &'static str {
                self.code()
            }

            fn index(self) -> usize {
                self as usize
            }
        }

        impl Fault {
            /// Returns the entry's columns: code, status, advice and message.
            const fn entry(self) -> (&'static str, StatusCode, RetryAdvice, &'static str) {
                match self {
                    $(Self::$name => ($code, StatusCode::$status, RetryAdvice::$retry, $message)),+
                }
            }
        }
    };
}

// The `OpenAI` SDKs retry 408, 409, 429 and everything from 500 up. A fault that no retry can fix
// therefore has a status below 500, or forbids retries through [`RetryAdvice::Useless`].
faults! {
    /// The request body ended early, or its framing is invalid.
    RequestBodyBroken = "request_body_broken", BAD_REQUEST, Useless,
        "the request body ended early, stalled, or has invalid HTTP framing";

    /// The body arrived slowly, and no slot was left for another request.
    SlowBody = "slow_body", REQUEST_TIMEOUT, MayHelp,
        "the request body arrived at less than 2 KiB a second, and longhaul had no slot left for other \
         requests (limits.requests); send the request again, faster";

    /// The request has a transfer coding other than `chunked`.
    TransferCoding = "transfer_coding", BAD_REQUEST, Useless,
        "the only transfer coding that longhaul accepts is a single `Transfer-Encoding: chunked`; \
         servers read others differently";

    /// The process has as many requests under way as it may, or the caller its share of them.
    TooManyRequests = "too_many_requests", SERVICE_UNAVAILABLE, MayHelp,
        "too many requests are in flight (limits.requests), or large heads (limits.buffered), or your \
         share of them; retry when fewer are in flight, or raise the limit";

    /// The chat to compact exceeds a limit on chats.
    ChatTooLarge = "chat_too_large", PAYLOAD_TOO_LARGE, Useless,
        "the chat exceeds limits.body, as sent or decoded, or has too many messages; raise \
         limits.body, or send a smaller chat";

    /// The client sent CONNECT, as to a forward proxy.
    NotAForwardProxy = "not_a_forward_proxy", METHOD_NOT_ALLOWED, Useless,
        "longhaul is not a forward proxy: set its address as the base URL (OPENAI_BASE_URL), not \
         as HTTP_PROXY or HTTPS_PROXY";

    /// Bodies already buffered leave no room for the chat to compact.
    BuffersFull = "crowded", SERVICE_UNAVAILABLE, MayHelp,
        "buffered request bodies take up all of limits.buffered; retry when fewer requests are in \
         flight, or raise it";

    /// The process has no file descriptor left for a connection to the upstream.
    NoDescriptors = "no_descriptors", SERVICE_UNAVAILABLE, MayHelp,
        "longhaul has reached its limit on open files and cannot connect to the upstream \
         {origin}; retry when fewer requests are in flight, or raise the limit (ulimit -n)";

    /// The body to compact is not a readable request of a chat.
    NotAChat = "not_a_chat", BAD_REQUEST, Useless,
        "the body is not a valid request of a chat: expected a JSON object, as an agent sends to its \
         API";

    /// A web page of another site sent the request, and no client token protects longhaul.
    ForeignPage = "foreign_page", FORBIDDEN, Useless,
        "longhaul serves no web pages of other sites; add the site's host to allowed_hosts, or set \
         client_tokens_file and give the page one of the tokens as its API key";

    /// The request names a host that anybody could have made to point to this machine, and no
    /// client token protects longhaul.
    UnknownHost = "unknown_host", FORBIDDEN, Useless,
        "longhaul does not know the host that the request names; use 127.0.0.1 or localhost, or \
         add the name to allowed_hosts";

    /// A client with a token requests a path that receives no key of the settings.
    KeyPath = "key_path", FORBIDDEN, Useless,
        "longhaul sends its API key only to the endpoints under upstream.base that run models; to \
         allow this path, add it to upstream.key_paths";

    /// The client would speak the Responses API over a WebSocket.
    WebSocketRefused = "websocket_refused", UPGRADE_REQUIRED, Useless,
        "longhaul keeps conversations inside the window over HTTP only; send the request with POST, \
         or set responses.websocket = \"tunnel\"";

    /// The client sent plain HTTP to a TLS listener.
    PlainHttp = "plain_http", BAD_REQUEST, Useless,
        "this address requires TLS: begin the base URL with https://";

    /// No endpoint has this path under longhaul's reserved prefix.
    ReservedPath = "reserved_path", NOT_FOUND, Useless,
        "paths under /__longhaul__/ are reserved: POST a chat completion request to \
         /__longhaul__/compact to compact it, or leave out the prefix to reach the upstream";

    /// The store of originals does not answer.
    RecallUnavailable = "recall_unavailable", SERVICE_UNAVAILABLE, MayHelp,
        "the store of originals does not answer; retry, and check store.at if this happens again";

    /// A query about an original is not valid.
    RecallQuery = "recall_query", BAD_REQUEST, Useless,
        "the query is not valid: lines takes A-B, A-, -B or A, counted from 1; grep and search take \
         a pattern of 1 to 1024 bytes";

    /// No original has the ID, or the original has expired or made room.
    RecallUnknown = "recall_unknown", NOT_FOUND, Useless,
        "longhaul keeps no original under this ID: the ID is wrong, or the original has expired or \
         made room for newer ones";

    /// The agent wants to keep what may not be kept, or more than fits.
    KeepRefused = "keep_refused", BAD_REQUEST, Useless,
        "only words of the user or of the agent can be kept, at most 4,000 characters of one step, and \
         32 texts or 8 KiB of a conversation: quote a part, name the ID of another step, or take a \
         text back";

    /// Compaction was requested, but the mode or a switch turns it off.
    CompactionOff = "compaction_off", FORBIDDEN, Useless,
        "compaction is disabled; set LONGHAUL_MODE=on and DISABLE_AUTOCOMPACT=0, or leave out \
         x-longhaul-mode: off";

    /// The request path and the upstream's base URL do not form a valid target.
    InvalidTarget = "invalid_target", BAD_REQUEST, Useless,
        "the request path and the upstream's base URL do not form a valid URL; shorten or encode \
         the path";

    /// A token is required, and the client presented no valid one.
    InvalidToken = "invalid_token", UNAUTHORIZED, Useless,
        "longhaul requires a client token: send one from its client_tokens_file as the API key";

    /// The upstream closed or reset the connection before it responded.
    UpstreamBroke = "upstream_broke", BAD_GATEWAY, MayHelp,
        "the upstream {origin} closed the connection before it responded; longhaul did not resend \
         the request, but you can";

    /// The upstream's reply is not HTTP, or has transfer codings that leave its end open to doubt.
    UpstreamMalformed = "upstream_malformed", BAD_GATEWAY, Useless,
        "the upstream {origin} did not respond in valid HTTP; check the scheme and port in \
         upstream.base";

    /// The proxy to the upstream is unreachable, or refused the connection.
    UpstreamProxy = "upstream_proxy", BAD_GATEWAY, MayHelp,
        "the proxy to the upstream {origin} is unreachable or refused the connection; check \
         HTTPS_PROXY, HTTP_PROXY and ALL_PROXY (proxy.https, proxy.http, proxy.all), or add the \
         upstream's host to NO_PROXY (proxy.except)";

    /// Connecting to the upstream timed out.
    UpstreamTimedOut = "upstream_timeout", GATEWAY_TIMEOUT, MayHelp,
        "connecting to the upstream {origin} timed out; check the network and upstream.base, or \
         raise upstream.connect";

    /// The upstream's certificate or TLS version was refused.
    UpstreamTls = "upstream_tls", BAD_GATEWAY, Useless,
        "the TLS handshake with the upstream {origin} failed: its certificate or protocol was \
         refused; for a private certificate authority set upstream.ca_file, for a plain HTTP \
         server use http://";

    /// No connection to the upstream's address could be opened.
    UpstreamUnreachable = "upstream_unreachable", BAD_GATEWAY, MayHelp,
        "connecting to the upstream {origin} failed; check that the server is running \
         and that the upstream's URL has the right port";

    /// The upstream's name has no address.
    UpstreamUnresolved = "upstream_unresolved", BAD_GATEWAY, MayHelp,
        "the host name of the upstream {origin} cannot be resolved; check the upstream's \
         URL and the DNS resolver";
}

impl Fault {
    /// Returns the machine-readable code: `error.code`, `x-longhaul-fault`, and the metric's label.
    pub(crate) fn code(self) -> &'static str {
        self.entry().0
    }

    pub(crate) fn status(self) -> StatusCode {
        self.entry().1
    }

    /// Returns whether a retry may succeed; the `OpenAI` SDKs obey `x-should-retry: false`.
    pub(crate) fn retry_advice(self) -> RetryAdvice {
        self.entry().2
    }

    /// Returns what failed and what to do about it. `origin` is the upstream's scheme, host and
    /// port.
    pub(crate) fn message(self, origin: &str) -> String {
        self.entry().3.replace("{origin}", origin)
    }

    /// Returns the level at which the fault is logged: a warning unless the client caused it.
    pub(crate) fn level(self) -> Level {
        if self.status().is_server_error() {
            Level::WARN
        } else {
            Level::INFO
        }
    }
}

/// Whether repeating an unchanged request can help.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum RetryAdvice {
    /// A retry may succeed.
    MayHelp,
    /// No retry can succeed.
    Useless,
}

/// Reason why longhaul cannot do what it was started for. All problems are reported at once; the
/// first one determines the exit code.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The certificate file of `upstream.ca_file` cannot be used.
    #[error(
        "upstream.ca_file {}: {reason}; expected a file of PEM certificates", path.display()
    )]
    CaFile {
        /// Path of the file.
        path: PathBuf,
        /// Reason why the file cannot be used.
        reason: String,
    },
    /// A command's input is not a chat that the command can process.
    #[error("{}: {reason}", path.display())]
    InvalidInput {
        /// Path of the file.
        path: PathBuf,
        /// Expected content.
        reason: String,
    },
    /// The listener's certificate or key cannot be used.
    #[error("{key} {}: {reason}", path.display())]
    Certificate {
        /// Key of the setting.
        key: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// Reason why the file cannot be used, and the expected content.
        reason: String,
    },
    /// The command line does not parse; the text comes from the parser.
    #[error("{0}")]
    CommandLine(String),
    /// The configuration file cannot be read.
    #[error("configuration file {}: {reason}; check the path given by --config or LONGHAUL_CONFIG", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Error from the operating system, or the limit exceeded.
        reason: String,
    },
    /// A command's input cannot be read.
    #[error("cannot read {}: {reason}; give a file, or - for standard input", path.display())]
    Input {
        /// Path of the file.
        path: PathBuf,
        /// Error from the operating system.
        reason: String,
    },
    /// The listener cannot bind its address.
    #[error("{0}")]
    Listen(String),
    /// The upstream is longhaul's own listener.
    #[error(
        "upstream {base} is longhaul's own listener {listen}; set --upstream (LONGHAUL_UPSTREAM) \
         to the endpoint that the agent would use without longhaul"
    )]
    SelfLoop {
        /// Base URL of the upstream, as configured.
        base: String,
        /// Address of the listener.
        listen: std::net::SocketAddr,
    },
    /// The store to inspect does not exist.
    #[error(
        "store.at: there is no store at {}; name the file that longhaul uses, with --store file:PATH",
        _0.display()
    )]
    NoStore(PathBuf),
    /// Writing to standard output failed, for a reason other than a closed pipe.
    #[error("cannot write to standard output: {0}")]
    Output(String),
    /// The store that `store.at` names cannot be used.
    #[error("{0}")]
    Store(String),
    /// Another process uses the file of the store.
    #[error("{0}")]
    StoreInUse(String),
    /// The configuration file is not valid TOML.
    #[error("{place}: {reason}")]
    Syntax {
        /// File and line.
        place: String,
        /// Error from the parser.
        reason: String,
    },
    /// A running longhaul does not answer, or does not have what was requested.
    #[error("{0}")]
    Unanswered(String),
    /// Threads could not be spawned, or signal handlers not installed.
    #[error("{0}")]
    System(String),
    /// No setting has this name.
    #[error("{place}: no setting is called {key}{}", near.as_ref().map_or_else(
        || "; `longhaul defaults` lists them".to_owned(), |near| format!("; did you mean {near}?")))]
    UnknownKey {
        /// Origin of the name.
        place: String,
        /// The unknown name.
        key: String,
        /// A setting with a similar name.
        near: Option<String>,
    },
    /// The value of a setting is invalid.
    #[error("{key} from {place}: {reason}")]
    InvalidValue {
        /// Key of the setting.
        key: String,
        /// Origin of the value.
        place: String,
        /// The value found, and the values expected.
        reason: String,
    },
}

impl Problem {
    /// Returns the exit code, numbered as in sysexits.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::CaFile { .. }
            | Self::Certificate { .. }
            | Self::CommandLine(_)
            | Self::File { .. }
            | Self::SelfLoop { .. }
            | Self::Store(_)
            | Self::StoreInUse(_)
            | Self::Syntax { .. }
            | Self::UnknownKey { .. }
            | Self::InvalidValue { .. } => 64,
            Self::InvalidInput { .. } => 65,
            Self::Input { .. } | Self::NoStore(_) => 66,
            Self::Listen(_) | Self::Unanswered(_) => 69,
            Self::System(_) => 71,
            Self::Output(_) => 74,
        }
    }
}

impl From<Problem> for Vec<Problem> {
    fn from(problem: Problem) -> Self {
        vec![problem]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retryable_faults_have_a_status_that_clients_retry() {
        for fault in Fault::ALL
            .iter()
            .filter(|fault| fault.retry_advice() == RetryAdvice::MayHelp)
        {
            let status = fault.status();
            let is_retried = status.is_server_error() || status == StatusCode::REQUEST_TIMEOUT;
            assert!(is_retried, "{fault:?}");
        }
    }

    #[test]
    fn fault_codes_are_distinct_and_indexed_by_position() {
        for (at, fault) in Fault::ALL.iter().enumerate() {
            assert_eq!(fault.index(), at);
            assert_eq!(
                Fault::ALL
                    .iter()
                    .filter(|f| f.code() == fault.code())
                    .count(),
                1
            );
        }
    }
}
