//! What can go wrong: a `Fault` is the client's to see, a `Problem` the operator's.

use std::path::PathBuf;

use http::StatusCode;
use tracing::Level;

use crate::metrics::Label;

/// Why a request could not be served. One variant per answer a client may act on.
///
/// Replies of the upstream are never faults: they are relayed as they came.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Fault {
    /// The request body broke off or its framing is malformed.
    RequestBodyBroken,
    /// What is to be compacted is past a bound on one chat.
    ChatTooLarge,
    /// A tunnel was asked for, as of a forward proxy.
    NotAForwardProxy,
    /// The bodies being held leave no room for the one that is to be compacted.
    BuffersFull,
    /// The process has no descriptor left for a connection to the upstream.
    NoDescriptors,
    /// What is to be compacted is no chat completion that can be read.
    NotAChat,
    /// A page of another site asks, where longhaul would give its own key.
    ForeignPage,
    /// Plain HTTP came where TLS is spoken.
    PlainHttp,
    /// A path under the prefix that is ours names nothing.
    ReservedPath,
    /// Compaction was asked for where the mode is off.
    CompactionOff,
    /// The path and the upstream's base make no valid target together.
    InvalidTarget,
    /// A token is asked for, and none that is known was shown.
    InvalidToken,
    /// The upstream closed or reset the connection before it answered.
    UpstreamBroke,
    /// What the upstream sent is not HTTP.
    UpstreamMalformed,
    /// The proxy on the way to the upstream cannot be reached, or does not let through.
    UpstreamProxy,
    /// No connection to the upstream came about in time.
    UpstreamTimedOut,
    /// The upstream's certificate or TLS version was refused.
    UpstreamTls,
    /// Nobody answers at the upstream's address.
    UpstreamUnreachable,
    /// The upstream's name has no address.
    UpstreamUnresolved,
}

impl Label for Fault {
    const ALL: &'static [Self] = &[
        Self::RequestBodyBroken,
        Self::ChatTooLarge,
        Self::NotAForwardProxy,
        Self::BuffersFull,
        Self::NoDescriptors,
        Self::NotAChat,
        Self::ForeignPage,
        Self::PlainHttp,
        Self::ReservedPath,
        Self::CompactionOff,
        Self::InvalidTarget,
        Self::InvalidToken,
        Self::UpstreamBroke,
        Self::UpstreamMalformed,
        Self::UpstreamProxy,
        Self::UpstreamTimedOut,
        Self::UpstreamTls,
        Self::UpstreamUnreachable,
        Self::UpstreamUnresolved,
    ];

    fn label(self) -> &'static str {
        self.code()
    }

    fn index(self) -> usize {
        self as usize
    }
}

impl Fault {
    /// The status of the answer. The `OpenAI` SDKs repeat 408, 409, 429 and everything from 500 up,
    /// so what no repetition can mend is below that, or says so by [`Fault::retry`].
    pub(crate) fn status(self) -> StatusCode {
        match self {
            Self::RequestBodyBroken | Self::NotAChat | Self::PlainHttp | Self::InvalidTarget => {
                StatusCode::BAD_REQUEST
            }
            Self::ChatTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::NotAForwardProxy => StatusCode::METHOD_NOT_ALLOWED,
            Self::BuffersFull | Self::NoDescriptors => StatusCode::SERVICE_UNAVAILABLE,
            Self::ReservedPath => StatusCode::NOT_FOUND,
            Self::ForeignPage | Self::CompactionOff => StatusCode::FORBIDDEN,
            Self::InvalidToken => StatusCode::UNAUTHORIZED,
            Self::UpstreamBroke
            | Self::UpstreamMalformed
            | Self::UpstreamProxy
            | Self::UpstreamTls
            | Self::UpstreamUnreachable
            | Self::UpstreamUnresolved => StatusCode::BAD_GATEWAY,
            Self::UpstreamTimedOut => StatusCode::GATEWAY_TIMEOUT,
        }
    }

    /// The machine's word for it: `error.code`, `x-longhaul-fault`, the metric's label.
    pub(crate) fn code(self) -> &'static str {
        match self {
            Self::RequestBodyBroken => "request_body_broken",
            Self::ChatTooLarge => "chat_too_large",
            Self::NotAForwardProxy => "not_a_forward_proxy",
            Self::BuffersFull => "crowded",
            Self::NoDescriptors => "no_descriptors",
            Self::NotAChat => "not_a_chat",
            Self::ForeignPage => "foreign_page",
            Self::PlainHttp => "plain_http",
            Self::ReservedPath => "reserved_path",
            Self::CompactionOff => "compaction_off",
            Self::InvalidTarget => "invalid_target",
            Self::InvalidToken => "invalid_token",
            Self::UpstreamBroke => "upstream_broke",
            Self::UpstreamMalformed => "upstream_malformed",
            Self::UpstreamProxy => "upstream_proxy",
            Self::UpstreamTimedOut => "upstream_timeout",
            Self::UpstreamTls => "upstream_tls",
            Self::UpstreamUnreachable => "upstream_unreachable",
            Self::UpstreamUnresolved => "upstream_unresolved",
        }
    }

    /// How loud the operator hears of it.
    pub(crate) fn level(self) -> Level {
        match self {
            Self::RequestBodyBroken
            | Self::ChatTooLarge
            | Self::NotAForwardProxy
            | Self::NotAChat
            | Self::ForeignPage
            | Self::PlainHttp
            | Self::ReservedPath
            | Self::CompactionOff
            | Self::InvalidTarget
            | Self::InvalidToken => Level::INFO,
            Self::BuffersFull
            | Self::NoDescriptors
            | Self::UpstreamBroke
            | Self::UpstreamMalformed
            | Self::UpstreamProxy
            | Self::UpstreamTimedOut
            | Self::UpstreamTls
            | Self::UpstreamUnreachable
            | Self::UpstreamUnresolved => Level::WARN,
        }
    }

    /// Whether a second try may go better; the `OpenAI` SDKs obey `x-should-retry: false`.
    pub(crate) fn retry_advice(self) -> RetryAdvice {
        match self {
            Self::RequestBodyBroken
            | Self::ChatTooLarge
            | Self::NotAForwardProxy
            | Self::NotAChat
            | Self::ForeignPage
            | Self::PlainHttp
            | Self::ReservedPath
            | Self::CompactionOff
            | Self::InvalidTarget
            | Self::InvalidToken
            | Self::UpstreamMalformed
            | Self::UpstreamTls => RetryAdvice::Useless,
            Self::BuffersFull
            | Self::NoDescriptors
            | Self::UpstreamBroke
            | Self::UpstreamProxy
            | Self::UpstreamTimedOut
            | Self::UpstreamUnreachable
            | Self::UpstreamUnresolved => RetryAdvice::MayHelp,
        }
    }

    /// What was tried and what to do about it. `origin` is the upstream's scheme, host and port.
    pub(crate) fn message(self, origin: &str) -> String {
        match self {
            Self::RequestBodyBroken => {
                "the request body broke off, stood still or is not framed as HTTP asks".into()
            }
            Self::ChatTooLarge => {
                "the chat is larger than limits.body, as it came or as it decodes, or has more \
                 messages than are read; raise limits.body, or give less of it"
                    .into()
            }
            Self::NotAForwardProxy => {
                "longhaul is no forward proxy: give its address as the base URL \
                 (OPENAI_BASE_URL), not as HTTP_PROXY or HTTPS_PROXY"
                    .into()
            }
            Self::BuffersFull => {
                "the bodies being held take all of limits.buffered; try again when \
                 fewer requests are under way, or raise it"
                    .into()
            }
            Self::NoDescriptors => format!(
                "this longhaul has as many files and connections open as it may, and none for the \
                 upstream {origin}; try again when fewer requests are under way, or raise its limit on \
                 open files (ulimit -n)"
            ),
            Self::NotAChat => {
                "what is to be compacted is no chat completion that can be read: give a \
                 JSON object with messages, as a request to /v1/chat/completions has it"
                    .into()
            }
            Self::PlainHttp => {
                "this longhaul is reached over TLS: begin its base URL with https://".into()
            }
            Self::ForeignPage => {
                "this longhaul gives its own key, and to no page of another site, nor to a \
                 browser that asks for another host than localhost or an IP address; set \
                 client_tokens_file, and give the page one of its tokens as the API key"
                    .into()
            }
            Self::ReservedPath => {
                "paths under /__longhaul__/ are longhaul's own: POST a chat's body to \
                 /__longhaul__/compact to have it compacted; ask without that prefix to reach the \
                 upstream"
                    .into()
            }
            Self::CompactionOff => {
                "compaction is switched off with the mode; set LONGHAUL_MODE=on, or \
                 leave out x-longhaul-mode: off"
                    .into()
            }
            Self::InvalidTarget => {
                "the request's path does not make a valid URL with the upstream's base; \
                 shorten or encode it"
                    .into()
            }
            Self::InvalidToken => {
                "this longhaul asks its clients for a token: give one that is in its \
                 client_tokens_file as the API key"
                    .into()
            }
            Self::UpstreamBroke => format!(
                "the upstream {origin} closed the connection before it answered; nothing was sent \
                 a second time, and trying again is up to you"
            ),
            Self::UpstreamMalformed => format!(
                "the upstream {origin} does not answer in HTTP; check the scheme and the port of \
                 upstream.base"
            ),
            Self::UpstreamProxy => format!(
                "the proxy on the way to the upstream {origin} cannot be reached or does not let \
                 through; check HTTPS_PROXY, HTTP_PROXY and ALL_PROXY (proxy.https, proxy.http, \
                 proxy.all), or name the upstream's host in NO_PROXY (proxy.except)"
            ),
            Self::UpstreamTimedOut => format!(
                "no connection to the upstream {origin} came about in time; check the network and \
                 upstream.base, or raise upstream.connect"
            ),
            Self::UpstreamTls => format!(
                "no TLS session with the upstream {origin}: its certificate or protocol was \
                 refused; for a private authority set upstream.ca_file, for a plain server use \
                 http://"
            ),
            Self::UpstreamUnreachable => format!(
                "the upstream {origin} cannot be reached: connecting failed; check that it runs \
                 and that upstream.base names its port"
            ),
            Self::UpstreamUnresolved => format!(
                "the name of the upstream {origin} cannot be resolved; check the spelling of \
                 upstream.base and the resolver"
            ),
        }
    }
}

/// Whether repeating a request unchanged can help.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum RetryAdvice {
    /// It may.
    MayHelp,
    /// It cannot.
    Useless,
}

/// What keeps longhaul from doing what it was started for. All are told at once; what the process ends
/// with, the first one says.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The certificate file cannot be used.
    #[error(
        "upstream.ca_file {}: {reason}; give a file of PEM certificates", path.display()
    )]
    CaFile {
        /// The file.
        path: PathBuf,
        /// What stands in the way.
        reason: String,
    },
    /// What a command works on is no chat that it can work on.
    #[error("{}: {reason}", path.display())]
    InvalidInput {
        /// The file.
        path: PathBuf,
        /// What it should be.
        reason: String,
    },
    /// The listener's certificate or its key cannot be used.
    #[error("{key} {}: {reason}", path.display())]
    Certificate {
        /// The setting.
        key: &'static str,
        /// The file.
        path: PathBuf,
        /// What stands in the way, and what should be there.
        reason: String,
    },
    /// The command line does not parse; the text is the parser's own.
    #[error("{0}")]
    CommandLine(String),
    /// The configuration file cannot be read.
    #[error("configuration file {}: {reason}; check the path given by --config or LONGHAUL_CONFIG", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// What a command works on cannot be read.
    #[error("cannot read {}: {reason}; give a file, or - for standard input", path.display())]
    Input {
        /// The file.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// An address cannot be listened at.
    #[error("{0}")]
    Listen(String),
    /// The upstream is this very listener.
    #[error(
        "upstream {base} is longhaul's own listener {listen}; set --upstream (LONGHAUL_UPSTREAM) \
         to the endpoint the agent would have used"
    )]
    SelfLoop {
        /// The upstream as configured.
        base: String,
        /// The listener's address.
        listen: std::net::SocketAddr,
    },
    /// There is no store to look into.
    #[error(
        "store.at: there is no store at {}; give the one that longhaul keeps, with --store file:PATH",
        _0.display()
    )]
    NoStore(PathBuf),
    /// Standard output takes no more, for a reason other than its reader's having left.
    #[error("cannot write to standard output: {0}")]
    Output(String),
    /// What `store.at` names cannot be used.
    #[error("{0}")]
    Store(String),
    /// The configuration file is no TOML.
    #[error("{place}: {reason}")]
    Syntax {
        /// File and line.
        place: String,
        /// What the parser said.
        reason: String,
    },
    /// The system gives no threads, or no signals.
    #[error("{0}")]
    System(String),
    /// A setting of that name does not exist.
    #[error("{place}: no setting is called {key}{}", near.as_ref().map_or_else(
        || "; `longhaul defaults` lists them".to_owned(), |near| format!("; did you mean {near}?")))]
    UnknownKey {
        /// Where it was found.
        place: String,
        /// Its name as found.
        key: String,
        /// A setting with nearly that name.
        near: Option<String>,
    },
    /// A setting's value does not fit its kind.
    #[error("{key} from {place}: {reason}")]
    InvalidValue {
        /// The setting.
        key: String,
        /// Where the value came from.
        place: String,
        /// What was found and what was expected.
        reason: String,
    },
}

impl Problem {
    /// What the process ends with, by the numbers of sysexits.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::CaFile { .. }
            | Self::Certificate { .. }
            | Self::CommandLine(_)
            | Self::File { .. }
            | Self::SelfLoop { .. }
            | Self::Store(_)
            | Self::Syntax { .. }
            | Self::UnknownKey { .. }
            | Self::InvalidValue { .. } => 64,
            Self::InvalidInput { .. } => 65,
            Self::Input { .. } | Self::NoStore(_) => 66,
            Self::Listen(_) => 69,
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
    fn what_a_second_try_may_mend_has_a_status_that_sdks_repeat() {
        for fault in Fault::ALL
            .iter()
            .filter(|fault| fault.retry_advice() == RetryAdvice::MayHelp)
        {
            assert!(fault.status().is_server_error(), "{fault:?}");
        }
    }

    #[test]
    fn labels_are_distinct_and_indexed_by_position() {
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
