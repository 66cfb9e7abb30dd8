//! Settings for conversations, summaries and the store.
//!
//! If a setting is empty by default, the profile or the window determines its number. A file can
//! therefore list all defaults without pinning the numbers of one profile.

use std::path::PathBuf;
use std::time::Duration;

use super::super::setting::{Flag, Setting};
use super::super::{
    BaseUrl, CallerIdentity, PlacementSetting, StoreLocation, SummaryModel, SummaryStyle,
};
use crate::config::parse::{
    MAX_TOKENS as MOST, bytes, choice, count, duration, optional_base_url, optional_choice,
    optional_integer, optional_path, optional_text, optional_tokens, overflow_patterns, scope_by,
    store_location, summary_model, switch, text_list, threshold,
};
use longhaul_core::overflow::ClassifierRules;
use longhaul_core::policy::{Profile, PruneTrigger, ThresholdSetting};
use longhaul_core::pruning::placeholder::Placeholder;
use longhaul_core::units::tokens::Tokens;

pub(crate) const WINDOW: Setting<Option<Tokens>> = Setting {
    key: "window",
    default: "",
    short_env: None,
    flag: Some(Flag {
        name: "window",
        value_name: "TOKENS",
    }),
    doc: "The context window, in tokens, to assume for every model. Empty: the window \
          learned from a refusal, reported by the upstream, or listed in the table of models; if \
          none of them gives it, 200000, or 10000 with the profile local. A number that is too \
          large is corrected by the first refusal; one that is too small wastes part of the \
          window.",
    parse: optional_tokens::<1_000, MOST>,
};

pub(crate) const PROFILE: Setting<Profile> = Setting {
    key: "profile",
    default: "auto",
    short_env: None,
    flag: Some(Flag {
        name: "profile",
        value_name: "auto|standard|local|frugal",
    }),
    doc: "The set of defaults to start from. auto: standard from a window of 100000 up; \
          below that, results are cleared at the hard mark only, because a rule scaled down to a \
          small window breaks the prompt cache more often than it pays. standard: the numbers of \
          OpenCode and tunacode, for any window. local: for a model on your own machine, with a \
          small window and no charge for an uncached prefix. frugal: clears under pressure, in \
          shares of the window, for the smallest bill. Other settings override the profile.",
    parse: choice,
};

pub(crate) const PRUNE_DISABLED: Setting<bool> = Setting {
    key: "prune.disabled",
    default: "false",
    short_env: Some("DISABLE_PRUNE"),
    flag: None,
    doc: "Never clear old tool results, not even on an overflow. Together with \
          compact.auto_disabled and compact.overflow_disabled, this has the same effect as mode \
          off.",
    parse: switch,
};

pub(crate) const PRUNE_PROTECT: Setting<Option<Tokens>> = Setting {
    key: "prune.protect_tokens",
    default: "",
    short_env: None,
    flag: None,
    doc: "The newest tool results, up to this many tokens in total, are not cleared. If a \
          request was refused as too long and would still not fit, only those up to a tenth of the \
          window are protected. Empty: 40000, or the profile's number (local 2000; frugal, and \
          auto below 100000, a tenth of the window).",
    parse: optional_tokens::<0, MOST>,
};

pub(crate) const PRUNE_MINIMUM: Setting<Option<Tokens>> = Setting {
    key: "prune.minimum_tokens",
    default: "",
    short_env: None,
    flag: None,
    doc: "Results are cleared only if that frees more tokens than this, because each \
          clearing costs the provider's prompt cache once. Empty: 20000, or the profile's number \
          (local 500; frugal a tenth of the window; auto below 100000 none).",
    parse: optional_tokens::<0, MOST>,
};

pub(crate) const PRUNE_MIN_USER_TURNS: Setting<Option<u32>> = Setting {
    key: "prune.min_user_turns",
    default: "",
    short_env: None,
    flag: None,
    doc: "Nothing is cleared before the conversation has this many user messages, because \
          the results of the first task are still in use. Empty: 2, or the profile's number \
          (frugal, and auto below 100000, none). Set 1 for an unattended agent that receives its \
          whole task in one message.",
    parse: optional_integer::<0, 1_000_000>,
};

pub(crate) const PRUNE_WHEN: Setting<Option<PruneTrigger>> = Setting {
    key: "prune.when",
    default: "",
    short_env: None,
    flag: None,
    doc: "When clearing is considered. always: on every request. pressure: above 60% of the \
          tokens that the window leaves to the conversation. mark: at compact.hard only. Empty: \
          always, or the profile's choice (frugal pressure; auto below 100000 mark).",
    parse: optional_choice,
};

pub(crate) const PRUNE_EXEMPT_TOOLS: Setting<Vec<String>> = Setting {
    key: "prune.exempt_tools",
    default: "[]",
    short_env: None,
    flag: None,
    doc: "Names of tools whose results are never cleared; separated by commas in the \
          environment.",
    parse: text_list,
};

pub(crate) const PRUNE_KEEP_ERRORS: Setting<bool> = Setting {
    key: "prune.keep_errors",
    default: "false",
    short_env: None,
    flag: None,
    doc: "Never clear a result that reports a failure. An agent that no longer sees what \
          went wrong tries it again.",
    parse: switch,
};

pub(crate) const PRUNE_PLACEHOLDER: Setting<Placeholder> = Setting {
    key: "prune.placeholder",
    default: "fixed",
    short_env: None,
    flag: None,
    doc: "The text that replaces a cleared result. fixed: the same words every time. \
          described: adds the tool's name, its main argument and the size. index: also adds the \
          identifiers in the result, in at most a tenth of its size.",
    parse: choice,
};

pub(crate) const COMPACT_AUTO_DISABLED: Setting<bool> = Setting {
    key: "compact.auto_disabled",
    default: "false",
    short_env: Some("DISABLE_AUTOCOMPACT"),
    flag: None,
    doc: "Neither create nor adopt a summary before an overflow. Summaries created on an \
          overflow stay in use.",
    parse: switch,
};

pub(crate) const COMPACT_OVERFLOW_DISABLED: Setting<bool> = Setting {
    key: "compact.overflow_disabled",
    default: "false",
    short_env: Some("DISABLE_COMPACT_ON_OVERFLOW"),
    flag: None,
    doc: "Do nothing about an overflow: no reply is held back and no request is retried.",
    parse: switch,
};

pub(crate) const COMPACT_HARD: Setting<ThresholdSetting> = Setting {
    key: "compact.hard",
    default: "0.90",
    short_env: None,
    flag: None,
    doc: "The mark at which a summary replaces old history: a share of the tokens that the \
          window leaves to the conversation (0.9 or 90%), or a number of tokens (150000), for huge \
          windows that are expensive long before they are full. The tenth above the default share \
          leaves room for one more tool result and for estimation errors; a small window keeps \
          this room whatever number is given.",
    parse: threshold,
};

pub(crate) const COMPACT_SOFT: Setting<ThresholdSetting> = Setting {
    key: "compact.soft",
    default: "0.85",
    short_env: None,
    flag: None,
    doc: "The mark at which a summary is prepared in the background, so that no request \
          waits for one at compact.hard: a share or a number of tokens, at most compact.hard. If \
          this is a share and compact.hard is a number of tokens, the mark is at most 95% of that \
          number. A lower mark would pay for summaries that are never used.",
    parse: threshold,
};

pub(crate) const COMPACT_KEEP_RECENT: Setting<Option<Tokens>> = Setting {
    key: "compact.keep_recent_tokens",
    default: "",
    short_env: None,
    flag: None,
    doc: "The number of recent tokens that a summary leaves verbatim. Empty: 20000, but at \
          most 11% of the tokens that the window leaves to the conversation. If set, at most half \
          of those tokens.",
    parse: optional_tokens::<0, MOST>,
};

pub(crate) const OVERFLOW_PATTERNS: Setting<ClassifierRules> = Setting {
    key: "overflow.patterns",
    default: "[]",
    short_env: None,
    flag: None,
    doc: "Additional patterns for overflow errors: regular expressions in the syntax of the \
          Rust crate regex, one per line in the environment. They are matched against the text of \
          an error in lower case, with single spaces, straight apostrophes and no thousands \
          separators. A match is an overflow, unless a built-in veto (throttling, credit, ...) \
          matches too. The groups limit, input, output, total and excess extract the numbers that \
          the text contains: 'window full: (?<input>\\d+) of (?<limit>\\d+) tokens'. At most 64, \
          of 1024 bytes each.",
    parse: overflow_patterns,
};

pub(crate) const SUMMARY_MODEL: Setting<SummaryModel> = Setting {
    key: "summary.model",
    default: "own",
    short_env: None,
    flag: Some(Flag {
        name: "summary-model",
        value_name: "NAME|none",
    }),
    doc: "The model that writes summaries, called with the caller's key: own for the \
          conversation's own model, a name for another model of the same upstream, none for no \
          model at all. With none, a digest built by rules replaces old history: no call, no \
          cost.",
    parse: summary_model,
};

pub(crate) const SUMMARY_WINDOW: Setting<Option<Tokens>> = Setting {
    key: "summary.window",
    default: "",
    short_env: None,
    flag: None,
    doc: "The context window, in tokens, of summary.model. The history sent to the model is \
          cut to fit, in at most eight calls. Empty: the window learned from its refusals, or the \
          setting window; for the conversation's own model, that conversation's window.",
    parse: optional_tokens::<1_000, MOST>,
};

pub(crate) const SUMMARY_UPSTREAM: Setting<Option<BaseUrl>> = Setting {
    key: "summary.upstream",
    default: "",
    short_env: None,
    flag: None,
    doc: "The base URL of a separate endpoint for summaries, such as a model on your own \
          machine; summary.model names its model. It receives the content of conversations, but no \
          key or header of a caller. Empty: the conversation's upstream.",
    parse: optional_base_url,
};

pub(crate) const SUMMARY_API_KEY_FILE: Setting<Option<PathBuf>> = Setting {
    key: "summary.api_key_file",
    default: "",
    short_env: None,
    flag: None,
    doc: "A file with the key for summary.upstream, sent as a bearer token. Empty: none is \
          sent.",
    parse: optional_path,
};

pub(crate) const SUMMARY_STYLE: Setting<SummaryStyle> = Setting {
    key: "summary.style",
    default: "transcript",
    short_env: None,
    flag: None,
    doc: "The form in which the summary model receives the history. transcript: the history \
          written out, with long results clipped; none of it is in a provider's cache. cached: the \
          conversation as it was forwarded, followed by one message with the instructions; the \
          part in the provider's cache costs a tenth. cached applies to the conversation's own \
          model, to summaries that no request waits for, and to histories that fit beside the \
          answer; otherwise the transcript is used.",
    parse: choice,
};

pub(crate) const SUMMARY_PLACEMENT: Setting<PlacementSetting> = Setting {
    key: "summary.placement",
    default: "auto",
    short_env: None,
    flag: None,
    doc: "Where the text that replaces old history goes. separate: into a user message of \
          its own. merge: into the adjacent user messages, for chat templates that require user \
          and assistant messages to alternate. auto: separate, or merge for a model that has \
          refused it.",
    parse: choice,
};

pub(crate) const SUMMARY_WAIT: Setting<Duration> = Setting {
    key: "summary.wait",
    default: "20s",
    short_env: None,
    flag: None,
    doc: "How long a request may wait for summaries in total. After that a digest is used, \
          and the summary is finished in the background. The OpenAI SDKs wait ten minutes; people \
          do not. An explicit compaction request may wait two minutes, or this long if it is \
          longer.",
    parse: duration,
};

pub(crate) const SUMMARY_PER_HOUR: Setting<usize> = Setting {
    key: "summary.max_per_hour",
    default: "6",
    short_env: None,
    flag: None,
    doc: "How many summaries one conversation may request in an hour; beyond that, digests \
          are used. A conversation that fills its window more often than every ten minutes is \
          stuck, or its window is too small. A process requests at most 120.",
    parse: count::<1, 120>,
};

pub(crate) const SUMMARY_PROMPT: Setting<Option<PathBuf>> = Setting {
    key: "summary.prompt",
    default: "",
    short_env: None,
    flag: None,
    doc: "A file whose text replaces the built-in prompt for a first summary, which \
          `longhaul defaults --prompts` prints. {words} in it is replaced by the maximum number of \
          words. If the prompt shows headings (## ...), a reply must contain two of them to be \
          accepted, or one if the prompt shows only one. The text around the history, and the \
          parts of a summary that are built by rules, stay the same. At most 64 KiB. Empty: the \
          built-in prompt.",
    parse: optional_path,
};

pub(crate) const SUMMARY_UPDATE_PROMPT: Setting<Option<PathBuf>> = Setting {
    key: "summary.update_prompt",
    default: "",
    short_env: None,
    flag: None,
    doc: "Like summary.prompt, for a summary that continues the previous one with new \
          history.",
    parse: optional_path,
};

pub(crate) const STORE_AT: Setting<StoreLocation> = Setting {
    key: "store.at",
    default: "memory",
    short_env: Some("LONGHAUL_STORE"),
    flag: Some(Flag {
        name: "store",
        value_name: "memory|file:PATH|redis://…",
    }),
    doc: "Where summaries and other records are kept. memory: in this process; they are lost \
          on restart. file:PATH: in a file that only this process uses, created if missing. \
          redis://USER:PASSWORD@HOST:PORT/DB, rediss:// for TLS, \
          redis+cluster://HOST:PORT,HOST:PORT for a Cluster: on Redis or Valkey servers that \
          replicas share. A summary is paid for, and the provider's prompt cache depends on its \
          exact bytes; a stored one is made only once.",
    parse: store_location,
};

pub(crate) const STORE_TTL: Setting<Duration> = Setting {
    key: "store.ttl",
    default: "168h",
    short_env: None,
    flag: None,
    doc: "How long a record is kept after its last use. The default is a week, so that a \
          session left on Friday continues on Monday.",
    parse: duration,
};

pub(crate) const STORE_WAIT: Setting<Duration> = Setting {
    key: "store.wait",
    default: "50ms",
    short_env: None,
    flag: None,
    doc: "How long a request waits for the store, in total; after that, it continues with \
          the records in this process. A nearby server answers in one or two milliseconds.",
    parse: duration,
};

pub(crate) const STORE_CA_FILE: Setting<Option<PathBuf>> = Setting {
    key: "store.ca_file",
    default: "",
    short_env: None,
    flag: None,
    doc: "A PEM file with the only certificates to trust for a store with TLS. Empty: the \
          system's authorities, or Mozilla's if it has none.",
    parse: optional_path,
};

pub(crate) const STORE_MAX_BYTES: Setting<u64> = Setting {
    key: "store.max_bytes",
    default: "512MiB",
    short_env: None,
    flag: None,
    doc: "The maximum bytes of entries in the file of file:PATH; the least recently used are \
          removed first. The file itself may be three times as large. A Redis server has its own \
          limit, maxmemory.",
    parse: bytes,
};

pub(crate) const STORE_SCOPE: Setting<CallerIdentity> = Setting {
    key: "store.scope",
    default: "credentials",
    short_env: None,
    flag: None,
    doc: "How callers are told apart; no caller ever sees another's summary. credentials: by \
          their own key, organisation and project, as they send them. header:NAME: by that header, \
          for credentials that change by the hour. The header is not forwarded, and must be listed \
          in store.trusted_headers.",
    parse: scope_by,
};

pub(crate) const STORE_TRUSTED_HEADERS: Setting<Vec<String>> = Setting {
    key: "store.trusted_headers",
    default: "[]",
    short_env: None,
    flag: None,
    doc: "Headers that something in front of longhaul sets, and that no client can set \
          itself.",
    parse: text_list,
};

pub(crate) const STORE_SCOPE_SECRET_FILE: Setting<Option<PathBuf>> = Setting {
    key: "store.scope_secret_file",
    default: "",
    short_env: None,
    flag: None,
    doc: "A file with the secret that record keys are derived from: 32 or more characters, \
          the same on every replica (openssl rand -hex 32). Anyone who has it and the store's \
          content can tell whose conversation a record belongs to. A Redis store requires one; a \
          file store creates its own next to its file, unless one is set.",
    parse: optional_path,
};

pub(crate) const STORE_SCOPE_SECRET: Setting<Option<String>> = Setting {
    key: "store.scope_secret",
    default: "",
    short_env: None,
    flag: None,
    doc: "The secret itself, for use in the environment. Never shown.",
    parse: optional_text,
};

pub(crate) const STORE_MEMORY: Setting<u64> = Setting {
    key: "store.memory",
    default: "64MiB",
    short_env: None,
    flag: None,
    doc: "The maximum bytes of summaries and other records kept in memory; the least used \
          are removed first. A record for a window of 200000 tokens has at most about 260 KiB of \
          ASCII: room for 250 of the largest.",
    parse: bytes,
};
