//! The table of settings, each defined once, in the order in which `longhaul defaults` prints them.
//!
//! To add a setting, add:
//!
//! - a constant here or in [`conversations`];
//! - its name in [`ALL_SETTINGS`];
//! - a field in [`Config`](super::Config), and the line that reads it.

pub(super) mod conversations;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::proxies::{ProxyUrl, optional_proxy_url};
use super::setting::{AnySetting, Flag, Setting};
use super::{BaseUrl, Http2, LogFormat, LogLevel, Mode};
use crate::config::parse::{
    address, address_or_off, base_url, bytes, choice, duration, integer, optional_path,
    optional_text, switch,
};
use conversations::{
    COMPACT_AUTO_DISABLED, COMPACT_HARD, COMPACT_KEEP_RECENT, COMPACT_OVERFLOW_DISABLED,
    COMPACT_SOFT, OVERFLOW_PATTERNS, PROFILE, PRUNE_DISABLED, PRUNE_EXEMPT_TOOLS,
    PRUNE_KEEP_ERRORS, PRUNE_MIN_USER_TURNS, PRUNE_MINIMUM, PRUNE_PLACEHOLDER, PRUNE_PROTECT,
    PRUNE_WHEN, STORE_AT, STORE_CA_FILE, STORE_MAX_BYTES, STORE_MEMORY, STORE_SCOPE,
    STORE_SCOPE_SECRET, STORE_SCOPE_SECRET_FILE, STORE_TRUSTED_HEADERS, STORE_TTL, STORE_WAIT,
    SUMMARY_API_KEY_FILE, SUMMARY_MODEL, SUMMARY_PER_HOUR, SUMMARY_PLACEMENT, SUMMARY_PROMPT,
    SUMMARY_STYLE, SUMMARY_UPDATE_PROMPT, SUMMARY_UPSTREAM, SUMMARY_WAIT, SUMMARY_WINDOW, WINDOW,
};

/// Every setting. Settings without a section come first; those of a section are adjacent.
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

/// Returns the settings that have a flag, in the order of the table.
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
    doc: "The address that agents connect to. Port 0 picks a free port. 127.0.0.1 is \
          reachable from this machine only; any other address requires TLS, client tokens or the \
          setting `public`.",
    parse: address,
};

pub(super) const PUBLIC: Setting<bool> = Setting {
    key: "public",
    default: "false",
    short_env: None,
    flag: None,
    doc: "Whether longhaul may listen in plain HTTP and without client tokens on an address \
          that other machines can reach: in a container, or behind a firewall that admits only \
          clients you trust. If longhaul holds an API key, client tokens are required there \
          regardless of this setting.",
    parse: switch,
};

pub(super) const TLS_CERTIFICATE_FILE: Setting<Option<PathBuf>> = Setting {
    key: "tls.certificate_file",
    default: "",
    short_env: None,
    flag: None,
    doc: "A PEM file with the listener's certificate, followed by its intermediate \
          certificates. If set, clients must use TLS. The file is read again when it changes. \
          Empty: plain HTTP.",
    parse: optional_path,
};

pub(super) const TLS_KEY_FILE: Setting<Option<PathBuf>> = Setting {
    key: "tls.key_file",
    default: "",
    short_env: None,
    flag: None,
    doc: "A PEM file with the unencrypted private key of that certificate.",
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
    doc: "Whether chats are read and changed. on: both. shadow: chats are read, and the \
          changes that on would make are reported, but every request is forwarded unchanged. off: \
          no body is held or parsed. Setting all three of DISABLE_PRUNE, DISABLE_AUTOCOMPACT and \
          DISABLE_COMPACT_ON_OVERFLOW has the same effect as off.",
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
    doc: "The base URL that the agent would use without longhaul. OPENAI_BASE_URL is never \
          read: in the agent's shell it points to longhaul.",
    parse: base_url,
};

pub(super) const UPSTREAM_HTTP2: Setting<Http2> = Setting {
    key: "upstream.http2",
    default: "off",
    short_env: None,
    flag: None,
    doc: "off: HTTP/1.1, with one connection for each request in flight. auto: HTTP/2 if an \
          https upstream offers it; requests then share one connection and queue at its stream \
          limit.",
    parse: choice,
};

pub(super) const CLIENT_TOKENS_FILE: Setting<Option<PathBuf>> = Setting {
    key: "client_tokens_file",
    default: "",
    short_env: None,
    flag: None,
    doc: "A file with one token per line, each of 32 or more characters. Clients must send \
          one of them as their API key. longhaul then removes authorization, api-key, x-api-key \
          and x-goog-api-key from every request, including a client's own key, so set \
          upstream.api_key_file as well. Other headers, such as those that a gateway requires, are \
          forwarded. A browser's CORS preflight, which cannot carry a token, is forwarded without \
          a key. Empty: no token is required.",
    parse: optional_path,
};

pub(super) const UPSTREAM_API_KEY_FILE: Setting<Option<PathBuf>> = Setting {
    key: "upstream.api_key_file",
    default: "",
    short_env: None,
    flag: None,
    doc: "A file with the key for the upstream, sent as a bearer token in place of the \
          client's credentials. Empty: the client's own key is forwarded, or no key if \
          client_tokens_file is set.",
    parse: optional_path,
};

pub(super) const UPSTREAM_API_KEY: Setting<Option<String>> = Setting {
    key: "upstream.api_key",
    default: "",
    short_env: None,
    flag: None,
    doc: "The key itself, for use in the environment. Never shown.",
    parse: optional_text,
};

pub(super) const UPSTREAM_CA_FILE: Setting<Option<PathBuf>> = Setting {
    key: "upstream.ca_file",
    default: "",
    short_env: None,
    flag: None,
    doc: "A PEM file of certificates to trust in addition to the system's, for an upstream \
          with a private certificate authority. Empty: none.",
    parse: optional_path,
};

pub(super) const UPSTREAM_ASK: Setting<bool> = Setting {
    key: "upstream.ask",
    default: "true",
    short_env: None,
    flag: None,
    doc: "Whether longhaul queries the upstream for a model's context window if neither a \
          setting nor a refusal gives it. The query is GET /models with the credentials of a chat \
          that the upstream has answered, in the background, at most once an hour for each model. \
          A server on this machine or its network is also queried through its own endpoints: \
          /props, /api/v0/models, /api/ps, /info.",
    parse: switch,
};

pub(super) const UPSTREAM_CONNECT: Setting<Duration> = Setting {
    key: "upstream.connect",
    default: "10s",
    short_env: None,
    flag: None,
    doc: "The timeout for name resolution, connection and TLS handshake together. Three lost \
          packets in a row take about 7 s. Replies have no timeout except the client's own.",
    parse: duration,
};

pub(super) const PROXY_HTTPS: Setting<Option<ProxyUrl>> = Setting {
    key: "proxy.https",
    default: "",
    short_env: Some("HTTPS_PROXY"),
    flag: None,
    doc: "The proxy for https:// upstreams, used as a tunnel: an http://, https:// or \
          socks5:// URL, with user and password if required. An upstream on this machine is always \
          reached directly. Empty: as proxy.all. The environment variable is also read in lower \
          case.",
    parse: optional_proxy_url,
};

pub(super) const PROXY_HTTP: Setting<Option<ProxyUrl>> = Setting {
    key: "proxy.http",
    default: "",
    short_env: Some("HTTP_PROXY"),
    flag: None,
    doc: "Like proxy.https, for http:// upstreams. This proxy can read the requests.",
    parse: optional_proxy_url,
};

pub(super) const PROXY_ALL: Setting<Option<ProxyUrl>> = Setting {
    key: "proxy.all",
    default: "",
    short_env: Some("ALL_PROXY"),
    flag: None,
    doc: "The proxy for both kinds of upstream, unless one has its own. Empty: none.",
    parse: optional_proxy_url,
};

pub(super) const PROXY_EXCEPT: Setting<Option<String>> = Setting {
    key: "proxy.except",
    default: "",
    short_env: Some("NO_PROXY"),
    flag: None,
    doc: "Hosts that are reached without a proxy, separated by commas: names, which include \
          their subdomains, addresses, networks like 10.0.0.0/8, or * for all.",
    parse: optional_text,
};

pub(super) const REPORT_HEADERS: Setting<bool> = Setting {
    key: "report.headers",
    default: "true",
    short_env: None,
    flag: None,
    doc: "Whether replies report what was done to their requests, in x-longhaul-action, \
          x-longhaul-tokens-before and x-longhaul-tokens-after. Replies to unchanged requests \
          never carry these headers. The log contains the report in any case.",
    parse: switch,
};

pub(super) const LIMITS_BODY: Setting<u64> = Setting {
    key: "limits.body",
    default: "256MiB",
    short_env: None,
    flag: None,
    doc: "The maximum bytes of a chat body that longhaul reads. A larger body is streamed \
          through unchanged. A million tokens are about 4 MB of text; the rest is room for \
          images.",
    parse: bytes,
};

pub(super) const LIMITS_BUFFERED: Setting<u64> = Setting {
    key: "limits.buffered",
    default: "1GiB",
    short_env: None,
    flag: None,
    doc: "The maximum bytes of all buffered chat bodies together: four of the largest. A \
          body that does not fit is streamed through unchanged.",
    parse: bytes,
};

pub(super) const LIMITS_CONNECTIONS: Setting<u32> = Setting {
    key: "limits.connections",
    default: "16384",
    short_env: None,
    flag: None,
    doc: "The maximum number of concurrent client connections; further ones wait to be \
          accepted. Each uses up to two file descriptors, so raise the process's limit (ulimit -n) \
          as well.",
    parse: integer::<1, 1_000_000>,
};

pub(super) const LIMITS_DRAIN: Setting<Duration> = Setting {
    key: "limits.drain",
    default: "30s",
    short_env: None,
    flag: None,
    doc: "How long requests in flight may run after SIGTERM or SIGINT; a second signal ends \
          them at once. Kubernetes kills after 30 s.",
    parse: duration,
};

pub(super) const LIMITS_DRAIN_DELAY: Setting<Duration> = Setting {
    key: "limits.drain_delay",
    default: "0s",
    short_env: None,
    flag: None,
    doc: "How long new connections are still accepted after that signal, while /readyz \
          already reports the shutdown: for a load balancer that polls it. Not needed if \
          Kubernetes sleeps before the signal (preStop).",
    parse: duration,
};

pub(super) const ADMIN_SHOW_CONTENT: Setting<bool> = Setting {
    key: "admin.show_content",
    default: "false",
    short_env: None,
    flag: None,
    doc: "Whether the dashboard shows the text of summaries, to this machine only. The \
          beginnings of a conversation's first and last user message are always shown.",
    parse: switch,
};

pub(super) const UI_TITLE_MODEL: Setting<Option<String>> = Setting {
    key: "ui.title_model",
    default: "",
    short_env: None,
    flag: None,
    doc: "A small model that titles conversations on the dashboard, from the beginnings of \
          three of their messages. It is called in the background after the first answered request \
          of a conversation, and again when the conversation has four times as many messages. \
          Calls go to the same endpoint as summary calls, with the caller's own credentials or \
          those of summary.upstream, at most 240 times an hour. Empty: the dashboard shows the \
          user's own words.",
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
    doc: "The address of the dashboard and of /livez, /readyz, /metrics and /config, in \
          `longhaul serve` only; off: none. The default is skipped if its port is taken; an \
          address that you set must be free. If other machines can reach it, they get health and \
          metrics, but no settings.",
    parse: address_or_off,
};

pub(super) const LOG_LEVEL: Setting<LogLevel> = Setting {
    key: "log.level",
    default: "info",
    short_env: None,
    flag: None,
    doc: "The least severe level written to standard error: off, error, warn, info, debug, \
          trace. info is one line per request. No level writes contents, keys or header values.",
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
