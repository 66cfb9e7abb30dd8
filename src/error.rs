//! Errors: a [`Fault`] is reported to the client, a [`Problem`] to the operator.

use std::path::PathBuf;

use http::StatusCode;

use crate::metrics::Label;
use longhaul_console::paragraphs::paragraph;

/// Defines the faults, each an entry of this form:
///
/// ```text
/// Variant = "code", STATUS, RetryAdvice;
/// ```
///
/// `faults.txt` has its message.
macro_rules! faults {
    ($(
        $name:ident = $code:literal, $status:ident, $retry:ident;
    )+) => {
        /// Reason why a request could not be served. Each variant is an error that a client can act
        /// on.
        ///
        /// Error replies of the upstream are not faults: they are relayed unchanged.
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        pub(crate) enum Fault {
            $($name),+
        }

        impl Label for Fault {
            const ALL: &'static [Self] = &[$(Self::$name),+];

            /// Returns the machine-readable code: `error.code`, `x-longhaul-fault`, and the metric's label.
            fn label(self) -> &'static str {
                self.entry().0
            }
        }

        impl Fault {
            /// Returns the entry's columns: code, status and advice.
            const fn entry(self) -> (&'static str, StatusCode, RetryAdvice) {
                match self {
                    $(Self::$name => ($code, StatusCode::$status, RetryAdvice::$retry)),+
                }
            }
        }
    };
}

// The `OpenAI` SDKs retry 408, 409, 429 and everything from 500 up. A fault that no retry can fix
// therefore has a status below 500, or forbids retries through [`RetryAdvice::Useless`].
faults! {
    RequestBodyBroken = "request_body_broken", BAD_REQUEST, Useless;
    SlowBody = "slow_body", REQUEST_TIMEOUT, MayHelp;
    TransferCoding = "transfer_coding", BAD_REQUEST, Useless;
    TooManyRequests = "too_many_requests", SERVICE_UNAVAILABLE, MayHelp;
    ChatTooLarge = "chat_too_large", PAYLOAD_TOO_LARGE, Useless;
    ConversationCap = "conversation_cap", BAD_REQUEST, Useless;
    DayCap = "day_cap", BAD_REQUEST, Useless;
    NotAForwardProxy = "not_a_forward_proxy", METHOD_NOT_ALLOWED, Useless;
    BuffersFull = "crowded", SERVICE_UNAVAILABLE, MayHelp;
    NoDescriptors = "no_descriptors", SERVICE_UNAVAILABLE, MayHelp;
    NotAChat = "not_a_chat", BAD_REQUEST, Useless;
    ForeignSignature = "foreign_signature", FORBIDDEN, Useless;
    ForeignPage = "foreign_page", FORBIDDEN, Useless;
    UnknownHost = "unknown_host", FORBIDDEN, Useless;
    KeyPath = "key_path", FORBIDDEN, Useless;
    WebSocketRefused = "websocket_refused", UPGRADE_REQUIRED, Useless;
    PlainHttp = "plain_http", BAD_REQUEST, Useless;
    ReservedPath = "reserved_path", NOT_FOUND, Useless;
    RecallUnavailable = "recall_unavailable", SERVICE_UNAVAILABLE, MayHelp;
    RecallQuery = "recall_query", BAD_REQUEST, Useless;
    RecallUnknown = "recall_unknown", NOT_FOUND, Useless;
    KeepRefused = "keep_refused", BAD_REQUEST, Useless;
    CompactionOff = "compaction_off", FORBIDDEN, Useless;
    InvalidTarget = "invalid_target", BAD_REQUEST, Useless;
    InvalidToken = "invalid_token", UNAUTHORIZED, Useless;
    UpstreamBroke = "upstream_broke", BAD_GATEWAY, MayHelp;
    UpstreamMalformed = "upstream_malformed", BAD_GATEWAY, Useless;
    UpstreamProxy = "upstream_proxy", BAD_GATEWAY, MayHelp;
    UpstreamTimedOut = "upstream_timeout", GATEWAY_TIMEOUT, MayHelp;
    UpstreamTls = "upstream_tls", BAD_GATEWAY, Useless;
    UpstreamUnreachable = "upstream_unreachable", BAD_GATEWAY, MayHelp;
    UpstreamUnresolved = "upstream_unresolved", BAD_GATEWAY, MayHelp;
}

impl Fault {
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
        paragraph(include_str!("faults.txt"), self.label()).replace("{origin}", origin)
    }

    /// Whether longhaul could not reach the upstream, or could not read its answer.
    pub(crate) fn is_of_upstream(self) -> bool {
        self.label().starts_with("upstream_")
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
    /// A command's input is not a chat that the command can process.
    #[error("{}: {reason}", path.display())]
    InvalidInput {
        /// Path of the file.
        path: PathBuf,
        /// Expected content.
        reason: String,
    },
    /// The command line does not parse, or names what the command cannot do.
    #[error("{0}")]
    CommandLine(String),
    /// A command's input cannot be read.
    #[error("cannot read {}: {reason}", path.display())]
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
    #[error("{0}")]
    SelfLoop(String),
    /// A setting, or a file that a setting names, cannot be used.
    #[error("{0}")]
    Setting(String),
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
    /// A running longhaul does not answer, or does not have what was requested.
    #[error("{0}")]
    Unanswered(String),
    /// Threads could not be spawned, or signal handlers not installed.
    #[error("{0}")]
    System(String),
}

impl Problem {
    /// Returns the exit code, numbered as in sysexits.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::CommandLine(_)
            | Self::SelfLoop(_)
            | Self::Setting(_)
            | Self::Store(_)
            | Self::StoreInUse(_) => 64,
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
        for fault in Fault::ALL.iter().filter(|fault| fault.retry_advice() == RetryAdvice::MayHelp)
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
            assert_ne!(fault.message(""), "", "{fault:?}");
            assert_eq!(Fault::ALL.iter().filter(|f| f.label() == fault.label()).count(), 1);
        }
    }
}
