//! Every setting, each defined once, in the order in which `longhaul defaults` prints them.
//!
//! To add a setting, add:
//!
//! - its entry here; settings without a section come first, and those of a section are adjacent;
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
use super::parse::{
    address, address_or_off, base_url, choice, count, integer, networks, optional_base_url,
    optional_choice, optional_integer, optional_path, optional_text, overflow_patterns, scope_by,
    store_location, summary_model, switch, text_list,
};
use super::proxies::{ProxyUrl, optional_proxy_url};
use super::quantities::{MAX_TOKENS as MOST, bytes, duration, optional_tokens, threshold};
use super::setting::{Flag, Setting, settings};
use super::store_location::{CallerIdentity, StoreLocation};
use longhaul_core::overflow::ClassifierRules;
use longhaul_core::policy::cache_price::CachePrice;
use longhaul_core::policy::{Profile, PruneTrigger, ThresholdSetting};
use longhaul_core::pruning::placeholder::Placeholder;
use longhaul_core::units::tokens::Tokens;

settings! { ALL_SETTINGS:
    /// The address that agents connect to. Port 0 picks a free port. A port alone, like :8484, is one
    /// of 127.0.0.1, which is reachable from this machine only. Any other address requires TLS, client
    /// tokens or the setting `public`.
    LISTEN: SocketAddr = address, "listen" = "127.0.0.1:8484", flag("listen", "ADDR"), restart;

    /// on: compact chats; shadow: only report what would change; off: forward every request unread. In
    /// shadow, chats are read and forwarded unchanged. In off, no body is held or parsed. Setting all
    /// three of DISABLE_PRUNE, DISABLE_AUTOCOMPACT and DISABLE_COMPACT_ON_OVERFLOW has the same effect
    /// as off.
    MODE: Mode = choice, "mode" = "on", flag("mode", "on|shadow|off");

    /// Whether the headers x-longhaul-mode and x-longhaul-compact of a request may do more than mode and
    /// compact.auto_disabled allow. Such a request needs a key of its own, and no key of longhaul, client
    /// token or summary.upstream may be set. By default, headers only lower.
    HEADERS_MAY_RAISE: bool = switch, "headers_may_raise" = "false";

    /// The context window, in tokens (32768, 32k or 1M), to assume for every model. Empty: the window learned from a
    /// refusal, reported by the upstream, or listed in the table of models. If none of them gives
    /// it, 200000, or 10000 with the profile local. A number that is too large is corrected by the
    /// first refusal; one that is too small wastes part of the window.
    WINDOW: Option<Tokens> = optional_tokens::<1_000, MOST>, "window" = "",
        flag("window", "TOKENS"), per_model;

    /// The set of defaults: auto, standard (the numbers of OpenCode), local (a model on your own machine)
    /// or frugal (the smallest bill). auto: the numbers of standard from a window of 100000 up,
    /// if clearing is likely to pay. Below 100000, auto clears results at the hard threshold only.
    /// standard: the numbers of OpenCode and tunacode, for any window. local: for a small window and
    /// no charge for an uncached prefix. frugal: compacts at its own threshold, long before a large
    /// window is full, for the smallest bill. Other settings override the profile.
    PROFILE: Profile = choice, "profile" = "auto",
        flag("profile", "auto|standard|local|frugal"), per_model;

    /// How a model reads what was cleared or summarised: by URL (url), by a tool (mcp), or not at all
    /// (off). A line after each cleared result and each summary shows how to read the original. off:
    /// no line, and no original is kept. url: the line names a URL of longhaul, or the command
    /// `longhaul recall ID` if the port changes at each start. mcp: the line names a tool of
    /// `longhaul mcp`. store.at sets where originals are kept.
    RECALL: RecallSetting = choice, "recall" = "off",
        bare_flag("recall", "off|url|mcp", "url"), restart;

    /// Neither add lines for recall nor keep originals, whatever the value of recall.
    RECALL_DISABLED: bool = switch, "recall_disabled" = "false", env("DISABLE_RECALL"), restart;

    /// The base URL by which agents reach longhaul, for the lines of recall = "url" and for `longhaul
    /// recall`. `longhaul run` sets it for its command. Empty: the address of listen, on this machine.
    RECALL_URL: Option<BaseUrl> = optional_base_url, "recall_url" = "", restart;

    /// Whether longhaul may listen in plain HTTP and without client tokens on an address that other
    /// machines can reach. Meant for a container, or for a network whose firewall admits only
    /// clients you trust. If longhaul holds an API key, client tokens are required there regardless
    /// of this setting.
    PUBLIC: bool = switch, "public" = "false", restart;

    /// Host names, without port, under which requests may reach longhaul on 127.0.0.1, and whose
    /// web pages may call it. Addresses, localhost, names without dots, and names under .localhost
    /// and .internal are always allowed. Requests for other names, and from pages of other sites, are
    /// refused: any web page could send them. Neither is checked if client_tokens_file is set. If public
    /// is set and longhaul holds no key, no name is checked, and a page of another site needs a
    /// credential header. Separated by commas in the environment.
    ALLOWED_HOSTS: Vec<String> = text_list, "allowed_hosts" = "[]";

    /// A file with one token per line, each of 32 or more characters. Clients must send one of them
    /// as their API key. longhaul then removes authorization, api-key, x-api-key and x-goog-api-key
    /// from every request. Since that includes a client's own key, set upstream.api_key_file as
    /// well. Other headers, such as those that a gateway requires, are forwarded. A browser's CORS
    /// preflight, which cannot carry a token, is forwarded without a key. Empty: no token is
    /// required.
    CLIENT_TOKENS_FILE: Option<PathBuf> = optional_path, "client_tokens_file" = "";

    /// A PEM file with the listener's certificate, followed by its intermediate certificates. If
    /// set, clients must use TLS. The file is read again when it changes. Empty: plain HTTP.
    TLS_CERTIFICATE_FILE: Option<PathBuf> = optional_path, "tls.certificate_file" = "", restart;

    /// A PEM file with the unencrypted private key of that certificate.
    TLS_KEY_FILE: Option<PathBuf> = optional_path, "tls.key_file" = "", restart;

    /// The base URL that the agent would use without longhaul. A host without a scheme gets https://,
    /// or http:// on this machine and its network. OPENAI_BASE_URL is never read: in the agent's shell
    /// it points to longhaul.
    UPSTREAM_BASE: BaseUrl = base_url, "upstream.base" = "https://api.openai.com/v1",
        env("LONGHAUL_UPSTREAM"), flag("upstream", "URL"), restart;

    /// off: HTTP/1.1, with one connection for each request in flight. auto: HTTP/2 if an https
    /// upstream offers it. Requests then share one connection and queue at its stream limit.
    UPSTREAM_HTTP2: Http2 = choice, "upstream.http2" = "off", restart;

    /// The base URL for requests of the Messages API. Such a request goes to /messages, has a header
    /// anthropic-version or anthropic-beta, or carries a key or login of Anthropic. The key of
    /// upstream.api_key_file is not sent there. Empty:
    /// https://api.anthropic.com/v1 if upstream.base is OpenAI's API, else upstream.base.
    UPSTREAM_MESSAGES: Option<BaseUrl> = optional_base_url, "upstream.messages" = "", restart;

    /// A file with the key for the upstream, sent as a bearer token in place of the client's
    /// credentials. Empty: the client's own key is forwarded, or no key if client_tokens_file is
    /// set.
    UPSTREAM_API_KEY_FILE: Option<PathBuf> = optional_path, "upstream.api_key_file" = "";

    /// The key itself, for use in the environment. Never shown.
    UPSTREAM_API_KEY: Option<String> = optional_text, "upstream.api_key" = "", secret;

    /// Paths under upstream.base that receive that key in addition to the model endpoints. The
    /// model endpoints are audio/*, chat/completions, completions, embeddings, images/*, messages,
    /// messages/count_tokens, models, models/*, moderations, realtime, rerank, responses,
    /// responses/*, also below openai/deployments/NAME. `/*` at the end stands for everything
    /// below. Other paths are forwarded without the key, or refused if client_tokens_file is set.
    /// Separated by commas in the environment.
    UPSTREAM_KEY_PATHS: Vec<String> = text_list, "upstream.key_paths" = "[]";

    /// A PEM file of certificates to trust in addition to the system's, for an upstream with a
    /// private certificate authority. Empty: none.
    UPSTREAM_CA_FILE: Option<PathBuf> = optional_path, "upstream.ca_file" = "", restart;

    /// The timeout for name resolution, connection and TLS handshake together. Three lost packets
    /// in a row take about 7 s. Replies have no timeout except the client's own.
    UPSTREAM_CONNECT: Duration = duration, "upstream.connect" = "10s", restart;

    /// Protocols that a connection may switch to (Upgrade). After the switch, bytes pass unread in
    /// both directions. A request for another protocol is served without the switch.
    UPSTREAM_UPGRADES: Vec<String> = text_list, "upstream.upgrades" = "websocket";

    /// Whether longhaul queries the upstream for a model's context window if neither a setting nor
    /// a refusal gives it. The query is GET /models with the credentials of a chat that the
    /// upstream has answered. It runs in the background, at most once an hour for each model. A
    /// server on this machine or its network is also queried through its own endpoints: /props,
    /// /api/v0/models, /api/ps, /info.
    UPSTREAM_ASK: bool = switch, "upstream.ask" = "true";

    /// refuse: a WebSocket for the Responses API is answered with status 426. Codex then speaks HTTP,
    /// where longhaul can keep its history inside the window. A client that retries without an HTTP
    /// request in between is tunnelled. tunnel: every WebSocket goes to the upstream untouched.
    RESPONSES_WEBSOCKET: ResponsesWebSocket = choice, "responses.websocket" = "refuse";

    /// The proxy for https:// upstreams, used as a tunnel: an http://, https:// or socks5:// URL,
    /// with user and password if required. An upstream on this machine is always reached directly.
    /// Empty: as proxy.all. The environment variable is also read in lower case.
    PROXY_HTTPS: Option<ProxyUrl> = optional_proxy_url, "proxy.https" = "",
        env("HTTPS_PROXY"), restart;

    /// Like proxy.https, for http:// upstreams. This proxy can read the requests.
    PROXY_HTTP: Option<ProxyUrl> = optional_proxy_url, "proxy.http" = "",
        env("HTTP_PROXY"), restart;

    /// The proxy for both kinds of upstream, unless one has its own. Empty: none.
    PROXY_ALL: Option<ProxyUrl> = optional_proxy_url, "proxy.all" = "", env("ALL_PROXY"), restart;

    /// Hosts that are reached without a proxy, separated by commas: names, which include their
    /// subdomains, addresses, networks like 10.0.0.0/8, or * for all.
    PROXY_EXCEPT: Option<String> = optional_text, "proxy.except" = "", env("NO_PROXY"), restart;

    /// Never clear old tool results, not even on an overflow. Together with compact.auto_disabled
    /// and compact.overflow_disabled, this has the same effect as mode off.
    PRUNE_DISABLED: bool = switch, "prune.disabled" = "false", env("DISABLE_PRUNE");

    /// The newest tool results, up to this many tokens in total, are not cleared. If a request was
    /// refused as too long and would still not fit, only those up to a tenth of the window are
    /// protected. Empty: 40000, or the profile's number (local 2000; frugal, and auto below 100000,
    /// at most a tenth of the window).
    PRUNE_PROTECT: Option<Tokens> = optional_tokens::<0, MOST>, "prune.protect_tokens" = "",
        per_model;

    /// Results are cleared only if that frees more tokens than this, because each clearing costs
    /// the provider's prompt cache once. Empty: 20000, or the profile's number (local 500; frugal,
    /// and auto below 100000, none). If this, prune.protect_tokens and prune.when are empty, auto
    /// also waits until the session's past makes it likely that clearing pays.
    PRUNE_MINIMUM: Option<Tokens> = optional_tokens::<0, MOST>, "prune.minimum_tokens" = "",
        per_model;

    /// Nothing is cleared before the conversation has this many user messages, because the results
    /// of the first task are still in use. Empty: 2, or the profile's number (frugal, and auto
    /// below 100000, none). Set 1 for an unattended agent that receives its whole task in one
    /// message.
    PRUNE_MIN_USER_TURNS: Option<u32> =
        optional_integer::<0, 1_000_000>, "prune.min_user_turns" = "";

    /// When clearing is considered. always: on every request. mark: at compact.hard only. Empty:
    /// always, or the profile's choice (frugal, and auto below 100000, mark).
    PRUNE_WHEN: Option<PruneTrigger> = optional_choice, "prune.when" = "";

    /// Names of tools whose results are never cleared; separated by commas in the environment.
    PRUNE_EXEMPT_TOOLS: Vec<String> = text_list, "prune.exempt_tools" = "[]";

    /// Never clear a result that reports a failure. An agent that no longer sees what went wrong
    /// tries it again.
    PRUNE_KEEP_ERRORS: bool = switch, "prune.keep_errors" = "false";

    /// The text that replaces a cleared result. fixed: the same words every time. described: the
    /// tool's name, its main argument and the size. Empty: fixed.
    PRUNE_PLACEHOLDER: Option<Placeholder> = optional_choice, "prune.placeholder" = "";

    /// Neither create nor adopt a summary before an overflow. Summaries created on an overflow stay
    /// in use.
    COMPACT_AUTO_DISABLED: bool = switch, "compact.auto_disabled" = "false",
        env("DISABLE_AUTOCOMPACT");

    /// Do nothing about an overflow: no reply is held back and no request is retried.
    COMPACT_OVERFLOW_DISABLED: bool = switch, "compact.overflow_disabled" = "false",
        env("DISABLE_COMPACT_ON_OVERFLOW");

    /// The threshold at which a summary or a digest replaces old history. A share (0.9 or 90%) is a
    /// share of the tokens that the window leaves to the conversation. A number of tokens (150000) suits
    /// huge windows that are expensive long before they are full. The tenth above the default share
    /// leaves room for one more tool result and for estimation errors. A small window keeps this
    /// room whatever number is given.
    COMPACT_HARD: ThresholdSetting = threshold, "compact.hard" = "0.90", per_model;

    /// The threshold at which a summary is prepared in the background, so that the summary is ready
    /// at compact.hard. It is a share or a number of tokens. The threshold lies at least 3000 tokens below
    /// compact.hard, or a tenth of compact.hard if that is less. If this is a share and compact.hard
    /// is a number of tokens, the threshold is at most 95% of that number. A lower threshold prepares
    /// more of the summaries in time, and pays for more that are never used.
    COMPACT_SOFT: ThresholdSetting = threshold, "compact.soft" = "0.85", per_model;

    /// Names of files of rules, in addition to the usual ones (AGENTS.md, CLAUDE.md and the like); separated
    /// by commas in the environment. The sentences of such a file that read as rules stay in a summary, if a
    /// tool read the file at the root of the workspace or above.
    COMPACT_RULE_FILES: Vec<String> = text_list, "compact.rule_files" = "[]";

    /// The price of input from the provider's cache, as a share of other input: fiftieth, tenth,
    /// quarter or half. The profile frugal compacts at the size that costs least at this price, and
    /// keeps the price within a conversation. Empty: by the list price of the model, or tenth if
    /// none is known.
    COMPACT_CACHE_PRICE: Option<CachePrice> =
        optional_choice, "compact.cache_price" = "", per_model;

    /// The number of recent tokens that a summary leaves verbatim. Empty: 20000, but at most 7% of
    /// the tokens that the window leaves to the conversation. If set, at most half of those tokens.
    COMPACT_KEEP_RECENT: Option<Tokens> =
        optional_tokens::<0, MOST>, "compact.keep_recent_tokens" = "", per_model;

    /// Never add a cache mark after a summary. By default, longhaul adds a mark if the client sends
    /// marks, and fewer than the four that Anthropic allows.
    CACHE_MARK_DISABLED: bool = switch, "compact.cache_mark_disabled" = "false",
        env("DISABLE_CACHE_MARK");

    /// Never remove thinking that a provider binds to the bytes before it. If the provider refuses
    /// an edit because of such thinking, the original is sent instead, if it fits.
    THINKING_REMOVAL_DISABLED: bool = switch, "thinking.removal_disabled" = "false",
        env("DISABLE_THINKING_REMOVAL");

    /// Additional patterns for overflow errors: regular expressions in the syntax of the Rust crate
    /// regex, one per line in the environment. They are matched against the text of an error in
    /// lower case, with single spaces, straight apostrophes and no thousands separators. A match is
    /// an overflow, unless a built-in veto (throttling, credit, ...) matches too. The groups limit,
    /// input, output, total and excess extract the numbers that the text contains: `window full:
    /// (?<input>\d+) of (?<limit>\d+) tokens`. At most 64, of 1024 bytes each.
    OVERFLOW_PATTERNS: ClassifierRules = overflow_patterns, "overflow.patterns" = "[]";

    /// The model that writes summaries, called with the caller's key: own, the name of another
    /// model of the same upstream, or none. own: the conversation's own model. none: a digest built
    /// by rules replaces old history, without a call or a cost.
    SUMMARY_MODEL: SummaryModel = summary_model, "summary.model" = "own",
        flag("summary-model", "NAME|none");

    /// The context window, in tokens, of summary.model. The history sent to the model is cut to
    /// fit, in at most eight calls. Empty: the window learned from its refusals, or the setting
    /// window; for the conversation's own model, that conversation's window.
    SUMMARY_WINDOW: Option<Tokens> = optional_tokens::<1_000, MOST>, "summary.window" = "";

    /// The base URL of a separate endpoint for summaries, such as a model on your own machine;
    /// summary.model names its model. It receives the content of conversations, but no key or
    /// header of a caller. Empty: the conversation's upstream.
    SUMMARY_UPSTREAM: Option<BaseUrl> = optional_base_url, "summary.upstream" = "";

    /// The API of summary.upstream. same: that of the conversation, so the endpoint has to serve
    /// the API of every client. chat-completions, messages, responses: that API for every
    /// conversation.
    SUMMARY_UPSTREAM_API: SummaryApi = choice, "summary.upstream_api" = "same";

    /// A file with the key for summary.upstream, sent as a bearer token; a key of Anthropic's as
    /// x-api-key for the API messages. Empty: none is sent.
    SUMMARY_API_KEY_FILE: Option<PathBuf> = optional_path, "summary.api_key_file" = "";

    /// The form in which the summary model receives the history. transcript: the history written
    /// out, with long results clipped; none of it is in a provider's cache. cached: the
    /// conversation as it was forwarded, followed by one message with the instructions; the part in
    /// the provider's cache costs a tenth. cached applies to the conversation's own model, to
    /// summaries that no request waits for, and to histories that fit together with the answer.
    /// Otherwise the transcript is used.
    SUMMARY_STYLE: SummaryStyle = choice, "summary.style" = "transcript";

    /// Where the text that replaces old history goes. separate: into a separate user message.
    /// merge: into the adjacent user messages, for chat templates that require user and assistant
    /// messages to alternate. auto: separate, or merge for a model that has refused it.
    SUMMARY_PLACEMENT: PlacementSetting = choice, "summary.placement" = "auto";

    /// How long a request may wait for summaries in total. After that a digest is used, and the
    /// summary is finished in the background. The OpenAI SDKs wait ten minutes; people do not. An
    /// explicit compaction request may wait two minutes, or this long if it is longer.
    SUMMARY_WAIT: Duration = duration, "summary.wait" = "20s";

    /// How many summaries one conversation may request in an hour; beyond that, digests are used. A
    /// conversation that fills its window more often than every ten minutes is stuck, or its window
    /// is too small. At most 120. All conversations together request at most 240 an hour.
    SUMMARY_PER_HOUR: usize = count::<1, 120>, "summary.max_per_hour" = "6", restart;

    /// A file whose text replaces the built-in prompt for a first summary; `longhaul defaults
    /// --prompts` prints that prompt. {words} in it is replaced by the maximum number of words. If
    /// the prompt shows headings (## ...), a reply must contain two of them to be accepted, or one
    /// if the prompt shows only one. The text around the history, and the parts of a summary that
    /// are built by rules, stay the same. At most 64 KiB. Empty: the built-in prompt.
    SUMMARY_PROMPT: Option<PathBuf> = optional_path, "summary.prompt" = "";

    /// Like summary.prompt, for a summary that continues the previous one with new history.
    SUMMARY_UPDATE_PROMPT: Option<PathBuf> = optional_path, "summary.update_prompt" = "";

    /// Where summaries and other records are kept: in memory until the process ends, in a file, or on
    /// Redis servers. memory: in this process; they are lost on restart. file:PATH: in a file that only this process uses, created if missing.
    /// redis://USER:PASSWORD@HOST:PORT/DB, rediss:// for TLS, redis+cluster://HOST:PORT,HOST:PORT
    /// for a Cluster: on Redis or Valkey servers that replicas share. A summary is paid for, and
    /// the provider's prompt cache depends on its exact bytes; a stored one is made only once.
    STORE_AT: StoreLocation = store_location, "store.at" = "memory",
        env("LONGHAUL_STORE"), flag("store", "memory|file:PATH|redis://…"), restart;

    /// While store.at is memory, serve and run keep learned windows and token ratios, but no text, in
    /// the user's state folder for the next start. The first process has the file; others at the
    /// same time go without it. While store.at is redis://, serve keeps the totals by day there, one
    /// file for each port. The folder is $XDG_STATE_HOME/longhaul, or
    /// ~/.local/state/longhaul.
    STORE_LESSONS: bool = switch, "store.lessons" = "true", restart;

    /// How long a record is kept after its last use. The default is a week, so that a session left
    /// on Friday continues on Monday.
    STORE_TTL: Duration = duration, "store.ttl" = "168h", restart;

    /// How long a request waits for the store, in total; after that, it continues with the records
    /// in this process. A nearby server answers in one or two milliseconds.
    STORE_WAIT: Duration = duration, "store.wait" = "50ms", restart;

    /// A PEM file with the only certificates to trust for a store with TLS. Empty: the system's
    /// authorities, or Mozilla's if it has none.
    STORE_CA_FILE: Option<PathBuf> = optional_path, "store.ca_file" = "", restart;

    /// The maximum bytes of entries in the file of file:PATH; the caller that holds the most loses
    /// its least recently used ones first. The file itself may be three times as large. A Redis
    /// server has its own limit, maxmemory.
    STORE_MAX_BYTES: u64 = bytes, "store.max_bytes" = "512MiB", restart;

    /// The maximum bytes of summaries and other records kept in memory; the caller that holds the
    /// most loses its least recently used ones first. A record for a window of 200000 tokens has at
    /// most about 240 KiB of ASCII: room for 270 of the largest.
    STORE_MEMORY: u64 = bytes, "store.memory" = "64MiB", restart;

    /// How long an original is kept for recall after its last use. The default is that of store.ttl: a
    /// line outlives its original only in a session that rests for a week.
    STORE_RECALL_TTL: Duration = duration, "store.recall_ttl" = "168h", restart;

    /// The maximum bytes of originals kept for recall: in memory, in a file next to
    /// file:PATH, or of each caller at a Redis server. The caller that holds the most makes room
    /// first. A session of a million tokens has about 4 MiB.
    STORE_RECALL_MAX_BYTES: u64 = bytes, "store.recall_max_bytes" = "256MiB", restart;

    /// How callers are distinguished; no caller ever sees another's summary. credentials: by every
    /// header and query key that carries a credential or an account. header:NAME: by that header,
    /// for credentials that change by the hour. The header is not forwarded, and must be listed in
    /// store.trusted_headers.
    STORE_SCOPE: CallerIdentity = scope_by, "store.scope" = "credentials", restart;

    /// Headers that something in front of longhaul sets, and that no client can set itself.
    STORE_TRUSTED_HEADERS: Vec<String> = text_list, "store.trusted_headers" = "[]", restart;

    /// A file with the secret that record keys are derived from: 32 or more characters, the same on
    /// every replica (openssl rand -hex 32). Anyone who has it and the store's content can tell
    /// whose conversation a record belongs to. A Redis store requires one; a file store creates its
    /// own next to its file, unless one is set.
    STORE_SCOPE_SECRET_FILE: Option<PathBuf> = optional_path, "store.scope_secret_file" = "",
        restart;

    /// The secret itself, for use in the environment. Never shown.
    STORE_SCOPE_SECRET: Option<String> = optional_text, "store.scope_secret" = "", restart, secret;

    /// Whether replies report what was done to their requests, in x-longhaul-action,
    /// x-longhaul-tokens-before, x-longhaul-tokens-after, x-longhaul-request and
    /// x-longhaul-conversation. The upstream's replies to unchanged requests never carry these
    /// headers, and longhaul's own errors always carry x-longhaul-request. The log contains the
    /// report in any case.
    REPORT_HEADERS: bool = switch, "report.headers" = "true";

    /// The maximum bytes of a chat body that longhaul reads. A larger body is streamed through
    /// unchanged. A million tokens are about 4 MB of text; the rest is room for images.
    LIMITS_BODY: u64 = bytes, "limits.body" = "256MiB";

    /// The maximum bytes of all buffered chat bodies, large heads and held replies together: four of the
    /// largest bodies. A body that does not fit is streamed through unchanged. One credential may hold
    /// as much as is free, so at most half. A request counts against each credential that it carries: a
    /// client token, the header of store.scope, or the fields that upstreams read (limits.credentials).
    /// Until an upstream has accepted the credentials, all such callers at one address have one share
    /// too. An address leaves an eighth to addresses that hold less.
    LIMITS_BUFFERED: u64 = bytes, "limits.buffered" = "1GiB", restart;

    /// The maximum number of concurrent client connections; further ones wait to be accepted. Each
    /// uses up to two file descriptors, so raise the process's limit (ulimit -n) as well.
    LIMITS_CONNECTIONS: u32 = integer::<1, 1_000_000>, "limits.connections" = "16384", restart;

    /// The maximum number of concurrent requests, each stream of HTTP/2 included; further ones are
    /// answered 503. A credential may have as many as are free, so at most half, as for limits.buffered.
    /// If none is left, the slowest body of the largest holder is ended with 408, if one arrives at
    /// less than 2 KiB a second. Each request uses a connection to the upstream.
    LIMITS_REQUESTS: u32 = integer::<1, 1_000_000>, "limits.requests" = "8192", restart;

    /// Header fields and query parameters by which your upstream authenticates callers. Those of the known
    /// APIs and gateways, such as authorization, x-api-key and key, need no entry. A request counts
    /// against each of its credentials, so that made-up ones gain nothing.
    LIMITS_CREDENTIALS: Vec<String> = text_list, "limits.credentials" = "[]", restart;

    /// The reverse proxies in front of longhaul, as addresses or networks like 10.0.0.0/8. A request from
    /// one of them counts against the last address in X-Forwarded-For that is none of them. Otherwise,
    /// all clients of a proxy count as one address.
    LIMITS_TRUSTED_PROXIES: Vec<IpNet> = networks, "limits.trusted_proxies" = "[]", restart;

    /// How long requests in flight may run after SIGTERM or SIGINT; a second signal ends them at
    /// once. Kubernetes kills after 30 s.
    LIMITS_DRAIN: Duration = duration, "limits.drain" = "30s", restart;

    /// How long new connections are still accepted after that signal, while /readyz already reports
    /// the shutdown: for a load balancer that polls it. Not needed if Kubernetes sleeps before the
    /// signal (preStop).
    LIMITS_DRAIN_DELAY: Duration = duration, "limits.drain_delay" = "0s", restart;

    /// The address of the dashboard and of /livez, /readyz, /metrics and /config, in `longhaul
    /// serve`; off: none. `longhaul run` has them only if the flag is given. The default is skipped if its port is taken; an address that you set
    /// must be free. If other machines can reach it, they get health and metrics, but no settings.
    ADMIN_LISTEN: Option<SocketAddr> = address_or_off, "admin.listen" = "127.0.0.1:8485",
        env("LONGHAUL_ADMIN"), flag("admin", "ADDR|off"), restart;

    /// Whether the dashboard shows the text of summaries and the beginnings of newly cleared
    /// results, to this machine only. The beginnings of a conversation's first and last user
    /// message are always shown.
    ADMIN_SHOW_CONTENT: bool = switch, "admin.show_content" = "false";

    /// The minimum severity written to standard error: off, error, warn, info, debug, trace. info is
    /// one line per request. No level writes contents, keys or header values.
    LOG_LEVEL: LogLevel = choice, "log.level" = "info", restart;

    /// auto, console, text or json. console is for people: time in UTC, model, conversation, actions,
    /// sizes, cache, cost, status, duration. console has colours on a terminal unless NO_COLOR is set.
    /// text has every field as name=value, json as an object per line. auto is console on a terminal
    /// and text elsewhere.
    LOG_FORMAT: LogFormat = choice, "log.format" = "auto", restart;
}

/// Returns the settings that have a flag, in the order of the table.
pub(crate) fn settings_with_flags() -> impl Iterator<Item = (Flag, &'static Setting<()>)> {
    ALL_SETTINGS
        .iter()
        .filter_map(|entry| Some((entry.flag?, entry)))
}

#[cfg(test)]
mod tests;
