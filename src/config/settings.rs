//! The table of settings: each defined once, in the order `longhaul defaults` prints them.
//!
//! To add one: a constant here or in [`conversations`], its name in [`ALL`], a field in
//! [`Config`](super::Config) and the line that reads it.

pub(super) mod conversations;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::kinds::{
    address, address_or_off, base_url, bytes, choice, duration, integer, optional_path,
    optional_text, switch,
};
use super::proxies::{ProxyUrl, optional_proxy_url};
use super::setting::{AnySetting, Flag, Setting};
use super::{BaseUrl, Http2, LogFormat, LogLevel, Mode};
use conversations::{
    COMPACT_AUTO_DISABLED, COMPACT_HARD, COMPACT_KEEP_RECENT, COMPACT_OVERFLOW_DISABLED,
    COMPACT_SOFT, OVERFLOW_PATTERNS, PROFILE, PRUNE_DISABLED, PRUNE_EXEMPT_TOOLS,
    PRUNE_KEEP_ERRORS, PRUNE_MIN_USER_TURNS, PRUNE_MINIMUM, PRUNE_PLACEHOLDER, PRUNE_PROTECT,
    PRUNE_WHEN, STORE_AT, STORE_CA_FILE, STORE_MAX_BYTES, STORE_MEMORY, STORE_SCOPE,
    STORE_SCOPE_SECRET, STORE_SCOPE_SECRET_FILE, STORE_TRUSTED_HEADERS, STORE_TTL, STORE_WAIT,
    SUMMARY_API_KEY_FILE, SUMMARY_MODEL, SUMMARY_PER_HOUR, SUMMARY_PLACEMENT, SUMMARY_PROMPT,
    SUMMARY_STYLE, SUMMARY_UPDATE_PROMPT, SUMMARY_UPSTREAM, SUMMARY_WAIT, SUMMARY_WINDOW, WINDOW,
};

/// Every setting. Those of one section stand together; those without a section come first.
pub(crate) const ALL_SETTINGS: &[&dyn AnySetting] = &[
    &LISTEN,
    &MODE,
    &WINDOW,
    &PROFILE,
    &PUBLIC,
    &CLIENT_TOKENS_FILE,
    &TLS_CERTIFICATE_FILE,
    &TLS_KEY_FILE,
    &UPSTREAM_BASE,
    &UPSTREAM_HTTP2,
    &UPSTREAM_API_KEY_FILE,
    &UPSTREAM_API_KEY,
    &UPSTREAM_CA_FILE,
    &UPSTREAM_CONNECT,
    &UPSTREAM_ASK,
    &PROXY_HTTPS,
    &PROXY_HTTP,
    &PROXY_ALL,
    &PROXY_EXCEPT,
    &PRUNE_DISABLED,
    &PRUNE_PROTECT,
    &PRUNE_MINIMUM,
    &PRUNE_MIN_USER_TURNS,
    &PRUNE_WHEN,
    &PRUNE_EXEMPT_TOOLS,
    &PRUNE_KEEP_ERRORS,
    &PRUNE_PLACEHOLDER,
    &COMPACT_AUTO_DISABLED,
    &COMPACT_OVERFLOW_DISABLED,
    &COMPACT_HARD,
    &COMPACT_SOFT,
    &COMPACT_KEEP_RECENT,
    &OVERFLOW_PATTERNS,
    &SUMMARY_MODEL,
    &SUMMARY_WINDOW,
    &SUMMARY_UPSTREAM,
    &SUMMARY_API_KEY_FILE,
    &SUMMARY_STYLE,
    &SUMMARY_PLACEMENT,
    &SUMMARY_WAIT,
    &SUMMARY_PER_HOUR,
    &SUMMARY_PROMPT,
    &SUMMARY_UPDATE_PROMPT,
    &STORE_AT,
    &STORE_TTL,
    &STORE_WAIT,
    &STORE_CA_FILE,
    &STORE_MAX_BYTES,
    &STORE_MEMORY,
    &STORE_SCOPE,
    &STORE_TRUSTED_HEADERS,
    &STORE_SCOPE_SECRET_FILE,
    &STORE_SCOPE_SECRET,
    &REPORT_HEADERS,
    &LIMITS_BODY,
    &LIMITS_BUFFERED,
    &LIMITS_CONNECTIONS,
    &LIMITS_DRAIN,
    &LIMITS_DRAIN_DELAY,
    &ADMIN_LISTEN,
    &ADMIN_SHOW_CONTENT,
    &UI_TITLE_MODEL,
    &LOG_LEVEL,
    &LOG_FORMAT,
];

/// The settings that have a flag, in the order of the table.
pub(crate) fn settings_with_flags() -> impl Iterator<Item = (Flag, &'static dyn AnySetting)> {
    ALL_SETTINGS
        .iter()
        .filter_map(|entry| Some((entry.flag()?, *entry)))
}

pub(super) const LISTEN: Setting<SocketAddr> = Setting {
    key: "listen",
    default: "127.0.0.1:8484",
    short_env: None,
    flag: Some(Flag {
        name: "listen",
        value_name: "ADDR",
    }),
    doc: "The address agents are pointed at. Port 0 takes a free one. Only this machine can reach \
          127.0.0.1; on any other address clients are served in TLS or asked for tokens, or `public` says \
          that neither is needed.",
    parse: address,
};

pub(super) const PUBLIC: Setting<bool> = Setting {
    key: "public",
    default: "false",
    short_env: None,
    flag: None,
    doc: "Whether longhaul may listen where other machines can connect, in plain HTTP and with nobody \
          asked for a token: in a container, or behind a firewall that lets in only whom you trust. A \
          key that longhaul itself holds is not served so, whatever this says.",
    parse: switch,
};

pub(super) const TLS_CERTIFICATE_FILE: Setting<Option<PathBuf>> = Setting {
    key: "tls.certificate_file",
    default: "",
    short_env: None,
    flag: None,
    doc: "A file of PEM certificates, the listener's own first and then those that vouch for it: \
          clients are then served in TLS alone. It is read again when it changes. Empty: plain HTTP.",
    parse: optional_path,
};

pub(super) const TLS_KEY_FILE: Setting<Option<PathBuf>> = Setting {
    key: "tls.key_file",
    default: "",
    short_env: None,
    flag: None,
    doc: "The file with that certificate's private key, in PEM and not encrypted.",
    parse: optional_path,
};

pub(super) const MODE: Setting<Mode> = Setting {
    key: "mode",
    default: "on",
    short_env: None,
    flag: Some(Flag {
        name: "mode",
        value_name: "on|shadow|off",
    }),
    doc: "Whether chats are read and changed. on: both. shadow: they are read, and what would be \
          done is reported, but every request goes on as it came. off: a plain wire, where no body \
          is held or parsed; so it is too with all three of DISABLE_PRUNE, DISABLE_AUTOCOMPACT and \
          DISABLE_COMPACT_ON_OVERFLOW.",
    parse: choice,
};

pub(super) const UPSTREAM_BASE: Setting<BaseUrl> = Setting {
    key: "upstream.base",
    default: "https://api.openai.com/v1",
    short_env: Some("LONGHAUL_UPSTREAM"),
    flag: Some(Flag {
        name: "upstream",
        value_name: "URL",
    }),
    doc: "The base URL that the agent would have used without longhaul. OPENAI_BASE_URL is never \
          read for it: in the agent's shell that one points here.",
    parse: base_url,
};

pub(super) const UPSTREAM_HTTP2: Setting<Http2> = Setting {
    key: "upstream.http2",
    default: "off",
    short_env: None,
    flag: None,
    doc: "off: HTTP/1.1, a connection for each request under way. auto: HTTP/2 where an https \
          upstream offers it; then requests share one connection and queue behind its stream limit.",
    parse: choice,
};

pub(super) const CLIENT_TOKENS_FILE: Setting<Option<PathBuf>> = Setting {
    key: "client_tokens_file",
    default: "",
    short_env: None,
    flag: None,
    doc: "A file with a token a line, of 32 or more characters. A client must show one of them as its \
          API key. Nothing goes upstream then of authorization, api-key, x-api-key and \
          x-goog-api-key, a key of its own included: give longhaul the key, by \
          upstream.api_key_file. What a gateway asks for beside them goes on. A browser's CORS preflight, which can show \
          none, goes on without a key. Empty: nobody is asked for a token.",
    parse: optional_path,
};

pub(super) const UPSTREAM_API_KEY_FILE: Setting<Option<PathBuf>> = Setting {
    key: "upstream.api_key_file",
    default: "",
    short_env: None,
    flag: None,
    doc: "A file with the key for the upstream, sent as a bearer token in place of what the client \
          has. Empty: the client's own goes on as it came, and under client_tokens_file none does.",
    parse: optional_path,
};

pub(super) const UPSTREAM_API_KEY: Setting<Option<String>> = Setting {
    key: "upstream.api_key",
    default: "",
    short_env: None,
    flag: None,
    doc: "The key itself, for the environment. Never shown.",
    parse: optional_text,
};

pub(super) const UPSTREAM_CA_FILE: Setting<Option<PathBuf>> = Setting {
    key: "upstream.ca_file",
    default: "",
    short_env: None,
    flag: None,
    doc: "A file of PEM certificates to trust beside the machine's own, for an upstream with a \
          private authority. Empty: none.",
    parse: optional_path,
};

pub(super) const UPSTREAM_ASK: Setting<bool> = Setting {
    key: "upstream.ask",
    default: "true",
    short_env: None,
    flag: None,
    doc: "Whether the upstream is asked what its models hold, where neither a setting nor a refusal \
          says so: GET /models with the credentials of a chat that it has answered, behind that \
          chat, at most once an hour for each model. A server on this machine or its network is also \
          asked in its own way: /props, /api/v0/models, /api/ps, /info.",
    parse: switch,
};

pub(super) const UPSTREAM_CONNECT: Setting<Duration> = Setting {
    key: "upstream.connect",
    default: "10s",
    short_env: None,
    flag: None,
    doc: "How long name, connection and TLS session may take together. Three lost packets in a row \
          take about 7 s. There is no deadline for the answer: the client's own holds.",
    parse: duration,
};

pub(super) const PROXY_HTTPS: Setting<Option<ProxyUrl>> = Setting {
    key: "proxy.https",
    default: "",
    short_env: Some("HTTPS_PROXY"),
    flag: None,
    doc: "The proxy through which an https:// upstream is reached, by a tunnel: http://, https:// or \
          socks5://, with user and password where it asks for them. An upstream on this machine is \
          reached without any. Empty: as proxy.all. The variable counts in small letters too.",
    parse: optional_proxy_url,
};

pub(super) const PROXY_HTTP: Setting<Option<ProxyUrl>> = Setting {
    key: "proxy.http",
    default: "",
    short_env: Some("HTTP_PROXY"),
    flag: None,
    doc: "The same for an http:// upstream, whose requests the proxy reads.",
    parse: optional_proxy_url,
};

pub(super) const PROXY_ALL: Setting<Option<ProxyUrl>> = Setting {
    key: "proxy.all",
    default: "",
    short_env: Some("ALL_PROXY"),
    flag: None,
    doc: "The proxy for both, where they have none of their own. Empty: none.",
    parse: optional_proxy_url,
};

pub(super) const PROXY_EXCEPT: Setting<Option<String>> = Setting {
    key: "proxy.except",
    default: "",
    short_env: Some("NO_PROXY"),
    flag: None,
    doc: "Hosts that are reached without a proxy, with commas between them: names, which stand for \
          those below them too, addresses, networks like 10.0.0.0/8, or * for all.",
    parse: optional_text,
};

pub(super) const REPORT_HEADERS: Setting<bool> = Setting {
    key: "report.headers",
    default: "true",
    short_env: None,
    flag: None,
    doc: "Whether a reply says what was done to its request, in x-longhaul-action, \
          x-longhaul-tokens-before and x-longhaul-tokens-after. One to which nothing was done never \
          says anything; the log does either way.",
    parse: switch,
};

pub(super) const LIMITS_BODY: Setting<u64> = Setting {
    key: "limits.body",
    default: "256MiB",
    short_env: None,
    flag: None,
    doc: "Bytes of one chat body that is read. A larger one is streamed through untouched. A \
          million tokens are about 4 MB of text; the rest is room for images.",
    parse: bytes,
};

pub(super) const LIMITS_BUFFERED: Setting<u64> = Setting {
    key: "limits.buffered",
    default: "1GiB",
    short_env: None,
    flag: None,
    doc: "Bytes of all chat bodies held at once: four of the largest. What does not fit is streamed \
          through untouched.",
    parse: bytes,
};

pub(super) const LIMITS_CONNECTIONS: Setting<u32> = Setting {
    key: "limits.connections",
    default: "16384",
    short_env: None,
    flag: None,
    doc: "Client connections at once; more wait to be accepted. Each takes up to two descriptors, \
          so raise the process's limit (ulimit -n) with it.",
    parse: integer::<1, 1_000_000>,
};

pub(super) const LIMITS_DRAIN: Setting<Duration> = Setting {
    key: "limits.drain",
    default: "30s",
    short_env: None,
    flag: None,
    doc: "How long requests under way may take to end after SIGTERM or SIGINT; a second signal ends \
          them at once. Kubernetes kills after 30 s.",
    parse: duration,
};

pub(super) const LIMITS_DRAIN_DELAY: Setting<Duration> = Setting {
    key: "limits.drain_delay",
    default: "0s",
    short_env: None,
    flag: None,
    doc: "How long after that signal connections are still taken, while /readyz says already that \
          the process ends: for a load balancer that goes by it. Where Kubernetes sleeps before the \
          signal (preStop), none is needed.",
    parse: duration,
};

pub(super) const ADMIN_SHOW_CONTENT: Setting<bool> = Setting {
    key: "admin.show_content",
    default: "false",
    short_env: None,
    flag: None,
    doc: "Whether the dashboard shows the text of summaries, to this machine alone. The beginnings \
          of a conversation's first and last user message are shown in any case.",
    parse: switch,
};

pub(super) const UI_TITLE_MODEL: Setting<Option<String>> = Setting {
    key: "ui.title_model",
    default: "",
    short_env: None,
    flag: None,
    doc: "A small model that says what each conversation is called on the dashboard, from the beginnings \
          of three of its messages. It is asked behind the first answered request of a conversation, \
          and again when that has four times as many messages; where summaries are asked for, with \
          the caller's own credentials or those of summary.upstream; at most 240 times an hour. \
          Empty: the user's own words stand there.",
    parse: optional_text,
};

pub(super) const ADMIN_LISTEN: Setting<Option<SocketAddr>> = Setting {
    key: "admin.listen",
    default: "127.0.0.1:8485",
    short_env: Some("LONGHAUL_ADMIN"),
    flag: Some(Flag {
        name: "admin",
        value_name: "ADDR|off",
    }),
    doc: "The address of the dashboard and of /livez, /readyz, /metrics and /config, for `longhaul serve` alone; off: \
          nowhere. The default gives way to whoever has its port; an address that is set must be \
          free. Where others can reach it they are told health and numbers, and no settings.",
    parse: address_or_off,
};

pub(super) const LOG_LEVEL: Setting<LogLevel> = Setting {
    key: "log.level",
    default: "info",
    short_env: None,
    flag: None,
    doc: "The least important line written to standard error: off, error, warn, info, debug, \
          trace. info is one line a request. No level writes contents, keys or header values.",
    parse: choice,
};

pub(super) const LOG_FORMAT: Setting<LogFormat> = Setting {
    key: "log.format",
    default: "text",
    short_env: None,
    flag: None,
    doc: "text for people, json for machines.",
    parse: choice,
};

#[cfg(test)]
mod tests {
    use super::super::layers::RawValue;
    use super::*;

    #[test]
    fn every_default_is_a_value_its_own_reader_accepts() {
        for entry in ALL_SETTINGS {
            assert_eq!(
                entry.check(&RawValue::Text(entry.default().into())),
                Ok(()),
                "{}",
                entry.key()
            );
        }
    }

    #[test]
    fn keys_and_environment_names_are_distinct() {
        let mut names: Vec<String> = ALL_SETTINGS.iter().map(|entry| entry.env_name()).collect();
        names.extend(
            ALL_SETTINGS
                .iter()
                .filter_map(|entry| entry.short_env().map(str::to_owned)),
        );
        let all = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all);
    }

    #[test]
    fn settings_of_one_section_stand_together() {
        let mut sections: Vec<&str> = ALL_SETTINGS
            .iter()
            .map(|entry| entry.key().split_once('.').map_or("", |(s, _)| s))
            .collect();
        sections.dedup();
        let runs = sections.len();
        sections.sort_unstable();
        sections.dedup();
        assert_eq!(sections.len(), runs);
        assert!(
            !ALL_SETTINGS[0].key().contains('.'),
            "a key without a section must precede the first one"
        );
    }
}
