//! The settings that say what is done with conversations.
//!
//! Where one is empty by default, the profile says its number, or the window does: the defaults
//! can then be written out in a file without pinning the numbers of one profile.

use std::path::PathBuf;
use std::time::Duration;

use super::super::kinds::{
    MAX_TOKENS as MOST, bytes, choice, count, duration, optional_base_url, optional_choice,
    optional_integer, optional_path, optional_text, optional_tokens, overflow_patterns, scope_by,
    store_location, summary_model, switch, text_list, threshold,
};
use super::super::setting::{Flag, Setting};
use super::super::{
    BaseUrl, CallerIdentity, PlacementSetting, StoreLocation, SummaryModel, SummaryStyle,
};
use crate::rewrite::overflow::ClassifierRules;
use crate::rewrite::placeholder::Placeholder;
use crate::rewrite::policy::{Profile, PruneTrigger, ThresholdSetting};
use crate::rewrite::tokens::Tokens;

pub(in super::super) const WINDOW: Setting<Option<Tokens>> = Setting {
    key: "window",
    default: "",
    short_env: None,
    flag: Some(Flag {
        name: "window",
        value_name: "TOKENS",
    }),
    doc: "How many tokens every model is taken to hold. Empty: what a refusal has shown, what the \
          upstream says when it is asked, or what the table of models has; and where none of them \
          says it, 200000, under the profile local 10000. Too large a number is corrected by the \
          first refusal; too small a one gives up what would have fitted.",
    parse: optional_tokens::<1_000, MOST>,
};

pub(in super::super) const PROFILE: Setting<Profile> = Setting {
    key: "profile",
    default: "auto",
    short_env: None,
    flag: Some(Flag {
        name: "profile",
        value_name: "auto|standard|local|frugal",
    }),
    doc: "The set of numbers to start from. auto: standard from a window of 100000 up; below, \
          results are cleared at the hard mark only, because a rule scaled down to a small window \
          breaks the prompt cache more often than it pays. standard: the numbers of OpenCode and \
          tunacode, always. local: small windows and no price on the prefix, for a model on one's \
          own machine. frugal: clears under pressure, in shares of the window, for the smallest \
          bill. Settings given beside it win.",
    parse: choice,
};

pub(in super::super) const PRUNE_DISABLED: Setting<bool> = Setting {
    key: "prune.disabled",
    default: "false",
    short_env: Some("DISABLE_PRUNE"),
    flag: None,
    doc: "Never clear old tool results, on an overflow neither. With compact.auto_disabled and \
          compact.overflow_disabled it is the mode off.",
    parse: switch,
};

pub(in super::super) const PRUNE_PROTECT: Setting<Option<Tokens>> = Setting {
    key: "prune.protect_tokens",
    default: "",
    short_env: None,
    flag: None,
    doc: "The newest tool results, up to so many tokens in sum, are not cleared; where a request \
          that was refused as too long would not fit so, only those up to a tenth of the window. \
          Empty: 40000, or what the profile says (local 2000; frugal, and auto below 100000, a \
          tenth of the window).",
    parse: optional_tokens::<0, MOST>,
};

pub(in super::super) const PRUNE_MINIMUM: Setting<Option<Tokens>> = Setting {
    key: "prune.minimum_tokens",
    default: "",
    short_env: None,
    flag: None,
    doc: "Results are cleared only if that frees more tokens than this: each clearing costs the \
          provider's prompt cache once. Empty: 20000, or what the profile says (local 500; frugal \
          a tenth of the window; auto below 100000 none).",
    parse: optional_tokens::<0, MOST>,
};

pub(in super::super) const PRUNE_MIN_USER_TURNS: Setting<Option<u32>> = Setting {
    key: "prune.min_user_turns",
    default: "",
    short_env: None,
    flag: None,
    doc: "Nothing is cleared before there are so many user messages: the results of the first task \
          are the ones being worked with. Empty: 2, or what the profile says (frugal, and auto \
          below 100000, none). An unattended agent is told everything in one message: set 1 for it.",
    parse: optional_integer::<0, 1_000_000>,
};

pub(in super::super) const PRUNE_WHEN: Setting<Option<PruneTrigger>> = Setting {
    key: "prune.when",
    default: "",
    short_env: None,
    flag: None,
    doc: "When clearing is thought of. always: at every request. pressure: above 60% of what the \
          window leaves to the conversation. mark: at compact.hard only. Empty: always, or what \
          the profile says (frugal pressure; auto below 100000 mark).",
    parse: optional_choice,
};

pub(in super::super) const PRUNE_EXEMPT_TOOLS: Setting<Vec<String>> = Setting {
    key: "prune.exempt_tools",
    default: "[]",
    short_env: None,
    flag: None,
    doc: "Names of tools whose results are never cleared; in the environment separated by commas.",
    parse: text_list,
};

pub(in super::super) const PRUNE_KEEP_ERRORS: Setting<bool> = Setting {
    key: "prune.keep_errors",
    default: "false",
    short_env: None,
    flag: None,
    doc: "Never clear a result that reports a failure: an agent that no longer sees what went wrong \
          tries it again.",
    parse: switch,
};

pub(in super::super) const PRUNE_PLACEHOLDER: Setting<Placeholder> = Setting {
    key: "prune.placeholder",
    default: "fixed",
    short_env: None,
    flag: None,
    doc: "What stands in place of a cleared result. fixed: the same words for each. described: they also \
          name the tool, its main argument and the size. index: and the identifiers of the result, \
          in at most a tenth of its size.",
    parse: choice,
};

pub(in super::super) const COMPACT_AUTO_DISABLED: Setting<bool> = Setting {
    key: "compact.auto_disabled",
    default: "false",
    short_env: Some("DISABLE_AUTOCOMPACT"),
    flag: None,
    doc: "Neither make nor adopt a summary before an overflow; what an overflow made stays in use.",
    parse: switch,
};

pub(in super::super) const COMPACT_OVERFLOW_DISABLED: Setting<bool> = Setting {
    key: "compact.overflow_disabled",
    default: "false",
    short_env: Some("DISABLE_COMPACT_ON_OVERFLOW"),
    flag: None,
    doc: "Do nothing about an overflow: no reply is held back and none is asked for twice.",
    parse: switch,
};

pub(in super::super) const COMPACT_HARD: Setting<ThresholdSetting> = Setting {
    key: "compact.hard",
    default: "0.90",
    short_env: None,
    flag: None,
    doc: "Where a summary takes the place of old history: a share of what the window leaves to the \
          conversation (0.9 or 90%), or a number of tokens (150000), for huge windows that are dear \
          long before they are full. The tenth above the share is room for one more tool result and \
          for what a plain estimate gets wrong; a small window keeps it whatever number is given.",
    parse: threshold,
};

pub(in super::super) const COMPACT_SOFT: Setting<ThresholdSetting> = Setting {
    key: "compact.soft",
    default: "0.85",
    short_env: None,
    flag: None,
    doc: "Where a summary is prepared in the background, so that nobody waits at compact.hard; a \
          share or a number of tokens, at most that. As a share beside a hard mark in tokens, it \
          stands at 95% of that one at most. Earlier would pay for summaries that are never used.",
    parse: threshold,
};

pub(in super::super) const COMPACT_KEEP_RECENT: Setting<Option<Tokens>> = Setting {
    key: "compact.keep_recent_tokens",
    default: "",
    short_env: None,
    flag: None,
    doc: "How much of the newest history a summary leaves as it is. Empty: 20000, and at most 11% \
          of what the window leaves to the conversation; a number counts as half of that at most.",
    parse: optional_tokens::<0, MOST>,
};

pub(in super::super) const OVERFLOW_PATTERNS: Setting<ClassifierRules> = Setting {
    key: "overflow.patterns",
    default: "[]",
    short_env: None,
    flag: None,
    doc: "Further wordings of an overflow, as regular expressions in the syntax of the Rust crate \
          regex; in the environment one a line. They meet the text of an error in lower case, \
          white space as single spaces, apostrophes straight, numbers without thousands \
          separators. What one matches is an overflow, unless a built-in veto (throttling, credit, \
          ...) matches too. The groups limit, input, output, total and excess give the numbers, \
          where it says them: 'window full: (?<input>\\d+) of (?<limit>\\d+) tokens'. At most 64, \
          of 1024 bytes each.",
    parse: overflow_patterns,
};

pub(in super::super) const SUMMARY_MODEL: Setting<SummaryModel> = Setting {
    key: "summary.model",
    default: "own",
    short_env: None,
    flag: Some(Flag {
        name: "summary-model",
        value_name: "NAME|none",
    }),
    doc: "The model that writes summaries, asked with the caller's key: own for the conversation's \
          own, a name for another of the same upstream, none for no model at all. With none a \
          digest made by rule stands for old history: no call, no cost.",
    parse: summary_model,
};

pub(in super::super) const SUMMARY_WINDOW: Setting<Option<Tokens>> = Setting {
    key: "summary.window",
    default: "",
    short_env: None,
    flag: None,
    doc: "How many tokens the model of summary.model holds: what it is shown of a history is cut to \
          that, in at most eight calls. Empty: what it has shown by its refusals, or the setting \
          window; for the conversation's own model, that conversation's window.",
    parse: optional_tokens::<1_000, MOST>,
};

pub(in super::super) const SUMMARY_UPSTREAM: Setting<Option<BaseUrl>> = Setting {
    key: "summary.upstream",
    default: "",
    short_env: None,
    flag: None,
    doc: "The base URL of another endpoint that writes the summaries, such as a model on one's own \
          machine; summary.model names its model. No key and no header of a caller goes there, but \
          what their conversations say does. Empty: the upstream of the conversation.",
    parse: optional_base_url,
};

pub(in super::super) const SUMMARY_API_KEY_FILE: Setting<Option<PathBuf>> = Setting {
    key: "summary.api_key_file",
    default: "",
    short_env: None,
    flag: None,
    doc: "A file with the key for summary.upstream, sent as a bearer token. Empty: none is sent.",
    parse: optional_path,
};

pub(in super::super) const SUMMARY_STYLE: Setting<SummaryStyle> = Setting {
    key: "summary.style",
    default: "transcript",
    short_env: None,
    flag: None,
    doc: "What a summariser is shown. transcript: the history written out, long results clipped; \
          none of it is in a provider's cache. cached: the conversation itself as it was forwarded, \
          with one message behind it that asks; what a provider has in its cache costs a tenth. \
          It is for the conversation's own model, for summaries that nobody waits for, and for \
          histories that fit beside the answer; for all others the transcript serves.",
    parse: choice,
};

pub(in super::super) const SUMMARY_PLACEMENT: Setting<PlacementSetting> = Setting {
    key: "summary.placement",
    default: "auto",
    short_env: None,
    flag: None,
    doc: "Where what stands for old history goes. separate: a user message of its own. merge: into \
          the user messages beside it, for chat templates that demand that user and assistant \
          alternate. auto: separate, and merge for a model that has refused it.",
    parse: choice,
};

pub(in super::super) const SUMMARY_WAIT: Setting<Duration> = Setting {
    key: "summary.wait",
    default: "20s",
    short_env: None,
    flag: None,
    doc: "How long a request may wait for a summary in all; then a digest serves, and the summary \
          is finished behind it. The OpenAI SDKs wait ten minutes; people do not. Who asks for a \
          compaction and nothing else may wait two minutes, or this if it is longer.",
    parse: duration,
};

pub(in super::super) const SUMMARY_PER_HOUR: Setting<usize> = Setting {
    key: "summary.max_per_hour",
    default: "6",
    short_env: None,
    flag: None,
    doc: "How many summaries one conversation asks for in an hour; past it digests serve. One that \
          fills its window more often than every ten minutes is stuck, or its window too small. A \
          process asks for 120.",
    parse: count::<1, 120>,
};

pub(in super::super) const SUMMARY_PROMPT: Setting<Option<PathBuf>> = Setting {
    key: "summary.prompt",
    default: "",
    short_env: None,
    flag: None,
    doc: "A file whose text asks for a first summary in place of the built-in one, which `longhaul \
          defaults --prompts` prints. {words} in it becomes the words that a summary may have; of \
          the headings (## ...) that it shows two must be there for an answer to be taken, as far \
          as it shows any. What stands around the history that is shown, and the parts of a summary \
          that are made by rule, stay as they are. At most 64 KiB. Empty: the built-in one.",
    parse: optional_path,
};

pub(in super::super) const SUMMARY_UPDATE_PROMPT: Setting<Option<PathBuf>> = Setting {
    key: "summary.update_prompt",
    default: "",
    short_env: None,
    flag: None,
    doc: "The same for a summary that carries on from the one before and from what is new.",
    parse: optional_path,
};

pub(in super::super) const STORE_AT: Setting<StoreLocation> = Setting {
    key: "store.at",
    default: "memory",
    short_env: Some("LONGHAUL_STORE"),
    flag: Some(Flag {
        name: "store",
        value_name: "memory|file:PATH|redis://…",
    }),
    doc: "Where summaries and other records are kept. memory: in this process; a restart forgets \
          them. file:PATH: in a file of this process alone, made if it is not there. \
          redis://USER:PASSWORD@HOST:PORT/DB, rediss:// with TLS, redis+cluster://HOST:PORT,HOST:PORT \
          for a Cluster: at Redis or Valkey servers that replicas share. A summary is paid for, and the provider's prompt cache hangs on its \
          bytes: kept, each is made once.",
    parse: store_location,
};

pub(in super::super) const STORE_TTL: Setting<Duration> = Setting {
    key: "store.ttl",
    default: "168h",
    short_env: None,
    flag: None,
    doc: "How long a record is kept from its last use: a week, so that a session left on Friday goes \
          on on Monday.",
    parse: duration,
};

pub(in super::super) const STORE_WAIT: Setting<Duration> = Setting {
    key: "store.wait",
    default: "50ms",
    short_env: None,
    flag: None,
    doc: "How long a request waits for the store, in all; then it goes on with what this process knows. \
          A server beside it answers in one or two.",
    parse: duration,
};

pub(in super::super) const STORE_CA_FILE: Setting<Option<PathBuf>> = Setting {
    key: "store.ca_file",
    default: "",
    short_env: None,
    flag: None,
    doc: "A file of PEM certificates to trust as a store with TLS, and no others. Empty: the \
          machine's authorities, or Mozilla's where it has none.",
    parse: optional_path,
};

pub(in super::super) const STORE_MAX_BYTES: Setting<u64> = Setting {
    key: "store.max_bytes",
    default: "512MiB",
    short_env: None,
    flag: None,
    doc: "Bytes of entries in the file of file:PATH; those used least recently go first. The file \
          itself may be three times as large. A Redis server has its own bound, maxmemory.",
    parse: bytes,
};

pub(in super::super) const STORE_SCOPE: Setting<CallerIdentity> = Setting {
    key: "store.scope",
    default: "credentials",
    short_env: None,
    flag: None,
    doc: "What tells callers apart, none of whom ever sees another's summary. credentials: their \
          own key, organisation and project, as they send them. header:NAME: that header, for \
          credentials that change by the hour; it is not forwarded, and must be one of \
          store.trusted_headers.",
    parse: scope_by,
};

pub(in super::super) const STORE_TRUSTED_HEADERS: Setting<Vec<String>> = Setting {
    key: "store.trusted_headers",
    default: "[]",
    short_env: None,
    flag: None,
    doc: "Headers that something in front of longhaul sets, and that no client can send past it.",
    parse: text_list,
};

pub(in super::super) const STORE_SCOPE_SECRET_FILE: Setting<Option<PathBuf>> = Setting {
    key: "store.scope_secret_file",
    default: "",
    short_env: None,
    flag: None,
    doc: "A file with the secret that keys of records are made with, 32 or more characters, the same \
          on every replica (openssl rand -hex 32). Who has it and the store's content can tell \
          whose conversation a record is of. A Redis store needs one; a file store makes its own \
          beside itself unless one is set.",
    parse: optional_path,
};

pub(in super::super) const STORE_SCOPE_SECRET: Setting<Option<String>> = Setting {
    key: "store.scope_secret",
    default: "",
    short_env: None,
    flag: None,
    doc: "The secret itself, for the environment. Never shown.",
    parse: optional_text,
};

pub(in super::super) const STORE_MEMORY: Setting<u64> = Setting {
    key: "store.memory",
    default: "64MiB",
    short_env: None,
    flag: None,
    doc: "Bytes of summaries and other records kept in memory; the least used go first. One for a \
          window of 200000 tokens is at most about 260 KiB of ASCII: room for 250 of the largest.",
    parse: bytes,
};
