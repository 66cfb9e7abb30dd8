//! Every setting, each defined once, in the order in which `longhaul defaults` prints them.
//!
//! To add a setting, add:
//!
//! - its entry here; settings without a section come first, and those of a section are adjacent;
//! - its documentation in `settings.txt`, which users read;
//! - a field in [`Config`](super::Config) or one of its groups, and the line that reads it there;
//! - a test of what it changes, a sentence in a page of `docs`, and an entry in `CHANGELOG.md`.
//!
//! `UPDATE=1 cargo test --test it generated::` then writes `config/default.toml` and the pages of
//! settings and commands.
//!
//! If a setting is empty by default, the profile or the window determines its number. A file can
//! therefore list all defaults without pinning the numbers of one profile.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;

use super::base_url::BaseUrl;
use super::choices::{
    Http2, LogFormat, LogLevel, Mode, PlacementSetting, RecallSetting, ResponsesWebSocket,
    SummaryApi, SummaryModel, SummaryStyle,
};
use super::locations::{CallerIdentity, ProxyUrl, StoreLocation};
use super::parse::{
    address, address_or_off, base_url, choice, count, integer, networks, optional, optional_path,
    overflow_patterns, proxy_url, scope_by, store_location, summary_model, switch, text, text_list,
};
use super::quantities::{MAX_TOKENS as MOST, bytes, cap, duration, threshold, tokens};
use super::setting::{Flag, Setting, settings};
use longhaul_core::cost::caps::Cap;
use longhaul_core::overflow::ClassifierRules;
use longhaul_core::policy::cache_price::CachePrice;
use longhaul_core::policy::{Profile, PruneTrigger, ThresholdSetting};
use longhaul_core::pruning::placeholder::Placeholder;
use longhaul_core::units::tokens::Tokens;

settings! { ALL_SETTINGS:
    LISTEN: SocketAddr = address, "listen" = "127.0.0.1:8484",
        flag = Some(flag("listen", "ADDR")), restart;
    MODE: Mode = choice, "mode" = "on", flag = Some(flag("mode", "on|shadow|off"));
    HEADERS_MAY_RAISE: bool = switch, "headers_may_raise" = "false";
    WINDOW: Option<Tokens> = optional!(tokens::<1_000, MOST>), "window" = "",
        flag = Some(flag("window", "TOKENS")), per_model;
    PROFILE: Profile = choice, "profile" = "auto",
        flag = Some(flag("profile", "auto|standard|local|frugal")), per_model;
    RECALL: RecallSetting = choice, "recall" = "off",
        flag = Some(flag("recall", "off|url|mcp")), bare = Some("url"), restart;
    RECALL_DISABLED: bool = switch, "recall_disabled" = "false",
        short_env = Some("DISABLE_RECALL"), restart;
    RECALL_URL: Option<BaseUrl> = optional!(base_url), "recall_url" = "", restart;
    COMPRESS_ENABLED: bool = switch, "compress_enabled" = "false";
    PUBLIC: bool = switch, "public" = "false", restart;
    ALLOWED_HOSTS: Vec<String> = text_list, "allowed_hosts" = "[]";
    CLIENT_TOKENS_FILE: Option<PathBuf> = optional_path, "client_tokens_file" = "";

    TLS_CERTIFICATE_FILE: Option<PathBuf> = optional_path, "tls.certificate_file" = "", restart;
    TLS_KEY_FILE: Option<PathBuf> = optional_path, "tls.key_file" = "", restart;

    UPSTREAM_BASE: BaseUrl = base_url, "upstream.base" = "https://api.openai.com/v1",
        short_env = Some("LONGHAUL_UPSTREAM"), flag = Some(flag("upstream", "URL")), restart;
    UPSTREAM_HTTP2: Http2 = choice, "upstream.http2" = "off", restart;
    UPSTREAM_MESSAGES: Option<BaseUrl> = optional!(base_url), "upstream.messages" = "", restart;
    UPSTREAM_API_KEY_FILE: Option<PathBuf> = optional_path, "upstream.api_key_file" = "";
    UPSTREAM_API_KEY: Option<String> = optional!(text), "upstream.api_key" = "", secret;
    UPSTREAM_KEY_PATHS: Vec<String> = text_list, "upstream.key_paths" = "[]";
    UPSTREAM_CA_FILE: Option<PathBuf> = optional_path, "upstream.ca_file" = "", restart;
    UPSTREAM_CONNECT: Duration = duration, "upstream.connect" = "10s", restart;
    UPSTREAM_UPGRADES: Vec<String> = text_list, "upstream.upgrades" = "websocket";
    UPSTREAM_ASK: bool = switch, "upstream.ask" = "true";

    RESPONSES_WEBSOCKET: ResponsesWebSocket = choice, "responses.websocket" = "refuse";

    PROXY_HTTPS: Option<ProxyUrl> = optional!(proxy_url), "proxy.https" = "",
        short_env = Some("HTTPS_PROXY"), restart;
    PROXY_HTTP: Option<ProxyUrl> = optional!(proxy_url), "proxy.http" = "",
        short_env = Some("HTTP_PROXY"), restart;
    PROXY_ALL: Option<ProxyUrl> = optional!(proxy_url), "proxy.all" = "",
        short_env = Some("ALL_PROXY"), restart;
    PROXY_EXCEPT: Option<String> = optional!(text), "proxy.except" = "",
        short_env = Some("NO_PROXY"), restart;

    PRUNE_DISABLED: bool = switch, "prune.disabled" = "false", short_env = Some("DISABLE_PRUNE");
    PRUNE_PROTECT: Option<Tokens> = optional!(tokens::<0, MOST>), "prune.protect_tokens" = "",
        per_model;
    PRUNE_MINIMUM: Option<Tokens> = optional!(tokens::<0, MOST>), "prune.minimum_tokens" = "",
        per_model;
    PRUNE_MIN_USER_TURNS: Option<u32> =
        optional!(integer::<0, 1_000_000>), "prune.min_user_turns" = "";
    PRUNE_WHEN: Option<PruneTrigger> = optional!(choice), "prune.when" = "";
    PRUNE_EXEMPT_TOOLS: Vec<String> = text_list, "prune.exempt_tools" = "[]";
    PRUNE_KEEP_ERRORS: bool = switch, "prune.keep_errors" = "false";
    PRUNE_CLIP_ABOVE: Option<Tokens> = optional!(tokens::<500, MOST>), "prune.clip_above" = "";
    PRUNE_PLACEHOLDER: Option<Placeholder> = optional!(choice), "prune.placeholder" = "";

    COMPACT_AUTO_DISABLED: bool = switch, "compact.auto_disabled" = "false",
        short_env = Some("DISABLE_AUTOCOMPACT");
    COMPACT_OVERFLOW_DISABLED: bool = switch, "compact.overflow_disabled" = "false",
        short_env = Some("DISABLE_COMPACT_ON_OVERFLOW");
    COMPACT_HARD: ThresholdSetting = threshold, "compact.hard" = "0.90", per_model;
    COMPACT_SOFT: ThresholdSetting = threshold, "compact.soft" = "0.85", per_model;
    COMPACT_RULE_FILES: Vec<String> = text_list, "compact.rule_files" = "[]";
    COMPACT_CACHE_PRICE: Option<CachePrice> =
        optional!(choice), "compact.cache_price" = "", per_model;
    COMPACT_KEEP_RECENT: Option<Tokens> =
        optional!(tokens::<0, MOST>), "compact.keep_recent_tokens" = "", per_model;
    MARK_HOSTS: Vec<String> = text_list, "compact.mark_hosts" = "[]";
    CACHE_MARK_DISABLED: bool = switch, "compact.cache_mark_disabled" = "false",
        short_env = Some("DISABLE_CACHE_MARK");

    THINKING_REMOVAL_DISABLED: bool = switch, "thinking.removal_disabled" = "false",
        short_env = Some("DISABLE_THINKING_REMOVAL");

    CAP_CONVERSATION: Option<Cap> = optional!(cap), "cap.conversation" = "";
    CAP_DAY: Option<Cap> = optional!(cap), "cap.day" = "";

    OVERFLOW_PATTERNS: ClassifierRules = overflow_patterns, "overflow.patterns" = "[]";

    SUMMARY_MODEL: SummaryModel = summary_model, "summary.model" = "own",
        flag = Some(flag("summary-model", "NAME|provider|none"));
    SUMMARY_WINDOW: Option<Tokens> = optional!(tokens::<1_000, MOST>), "summary.window" = "";
    SUMMARY_UPSTREAM: Option<BaseUrl> = optional!(base_url), "summary.upstream" = "";
    SUMMARY_UPSTREAM_API: SummaryApi = choice, "summary.upstream_api" = "same";
    SUMMARY_API_KEY_FILE: Option<PathBuf> = optional_path, "summary.api_key_file" = "";
    SUMMARY_STYLE: SummaryStyle = choice, "summary.style" = "transcript";
    SUMMARY_PLACEMENT: PlacementSetting = choice, "summary.placement" = "auto";
    SUMMARY_WAIT: Duration = duration, "summary.wait" = "20s";
    SUMMARY_PER_HOUR: usize = count::<1, 120>, "summary.max_per_hour" = "6", restart;
    SUMMARY_MAX_QUOTA: usize = count::<0, 100>, "summary.max_quota" = "90";
    SUMMARY_PROMPT: Option<PathBuf> = optional_path, "summary.prompt" = "";
    SUMMARY_UPDATE_PROMPT: Option<PathBuf> = optional_path, "summary.update_prompt" = "";

    STORE_AT: StoreLocation = store_location, "store.at" = "memory",
        short_env = Some("LONGHAUL_STORE"), flag = Some(flag("store", "memory|file:PATH|redis://…")), restart;
    STORE_LESSONS: bool = switch, "store.lessons" = "true", restart;
    STORE_TTL: Duration = duration, "store.ttl" = "168h", restart;
    STORE_WAIT: Duration = duration, "store.wait" = "50ms", restart;
    STORE_CA_FILE: Option<PathBuf> = optional_path, "store.ca_file" = "", restart;
    STORE_MAX_BYTES: u64 = bytes, "store.max_bytes" = "512MiB", restart;
    STORE_MEMORY: u64 = bytes, "store.memory" = "64MiB", restart;
    STORE_RECALL_TTL: Duration = duration, "store.recall_ttl" = "168h", restart;
    STORE_RECALL_MAX_BYTES: u64 = bytes, "store.recall_max_bytes" = "256MiB", restart;
    STORE_SCOPE: CallerIdentity = scope_by, "store.scope" = "credentials", restart;
    STORE_TRUSTED_HEADERS: Vec<String> = text_list, "store.trusted_headers" = "[]", restart;
    STORE_SCOPE_SECRET_FILE: Option<PathBuf> = optional_path, "store.scope_secret_file" = "",
        restart;
    STORE_SCOPE_SECRET: Option<String> = optional!(text), "store.scope_secret" = "", restart, secret;

    REPORT_HEADERS: bool = switch, "report.headers" = "true";

    LIMITS_BODY: u64 = bytes, "limits.body" = "256MiB";
    LIMITS_BUFFERED: u64 = bytes, "limits.buffered" = "1GiB", restart;
    LIMITS_CONNECTIONS: u32 = integer::<1, 1_000_000>, "limits.connections" = "16384", restart;
    LIMITS_REQUESTS: u32 = integer::<1, 1_000_000>, "limits.requests" = "8192", restart;
    LIMITS_CREDENTIALS: Vec<String> = text_list, "limits.credentials" = "[]", restart;
    LIMITS_TRUSTED_PROXIES: Vec<IpNet> = networks, "limits.trusted_proxies" = "[]", restart;
    LIMITS_DRAIN: Duration = duration, "limits.drain" = "30s", restart;
    LIMITS_DRAIN_DELAY: Duration = duration, "limits.drain_delay" = "0s", restart;

    ADMIN_LISTEN: Option<SocketAddr> = address_or_off, "admin.listen" = "127.0.0.1:8485",
        short_env = Some("LONGHAUL_ADMIN"), flag = Some(flag("admin", "ADDR|off")), restart;
    ADMIN_SHOW_CONTENT: bool = switch, "admin.show_content" = "false";
    ADMIN_COMMANDS: bool = switch, "admin.commands" = "true", restart;

    LOG_LEVEL: LogLevel = choice, "log.level" = "info", restart;
    LOG_FORMAT: LogFormat = choice, "log.format" = "auto", restart;
}

const fn flag(name: &'static str, value_name: &'static str) -> Flag {
    Flag { name, value_name }
}

/// Returns the settings that have a flag, in the order of the table.
pub(crate) fn settings_with_flags() -> impl Iterator<Item = (Flag, &'static Setting<()>)> {
    ALL_SETTINGS.iter().filter_map(|entry| Some((entry.flag?, entry)))
}

#[cfg(test)]
mod tests;
