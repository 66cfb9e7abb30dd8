//! Facts about each API: its paths, headers, keys and rules.

use crate::units::tokens::Tokens;

/// Facts about one API. Chat completions have a table of them; the other dialects state what differs.
#[derive(Debug)]
pub struct DialectFacts {
    /// Path that clients append to a base URL. Gateways serve it below longer ones.
    pub path: &'static str,
    /// End that only this API's paths have: `path`, after the version if another API has a path that ends alike.
    pub distinct_path: &'static str,
    /// Endpoints that run models, for keys which longhaul adds. Each is relative to a base URL, and `/*` at its
    /// end stands for every path below.
    pub key_paths: &'static [&'static str],
    /// Headers that a server requires in each request, besides those of HTTP and the key.
    pub required_headers: &'static [(&'static str, &'static str)],
    /// Header, and the value in it, that a server requires beside a compaction of its own or the order to make
    /// one.
    pub compaction_header: Option<(&'static str, &'static str)>,
    /// Header in which a server expects a key without the word `Bearer`. `None` if the server expects a bearer
    /// token.
    pub key_header: Option<&'static str>,
    /// Whether clients may use the API over a WebSocket at the same path.
    pub has_websocket: bool,
    /// Whether the operator may set an upstream of its own for this API.
    pub may_have_own_upstream: bool,
    /// Bits of the form version by which records and cached parses of two dialects differ.
    pub(super) form: u32,
    /// Key of the messages in a body, or of the items of its input.
    pub(super) list_key: &'static str,
    pub(super) output_limit_keys: &'static [&'static str],
    /// Lowest output limit that longhaul sets in place of a larger one. A truncated tool call is useless, and
    /// compacting history can make room instead.
    pub min_output: Tokens,
    /// Whether a provider may keep the call of a result, so that the request has the result alone.
    pub(crate) may_keep_calls: bool,
    /// Whether a user message may follow a system message within the conversation.
    pub(crate) allows_user_behind_instructions: bool,
    /// Key of a mark up to which the provider caches the prompt. Agents move such marks between requests.
    pub(crate) cache_mark_key: &'static str,
    /// Whether longhaul may add such a mark.
    pub(crate) allows_added_cache_marks: bool,
    /// Whether a result may carry such a mark. Other APIs differ in the results that they accept.
    pub(crate) marks_results: bool,
    /// Beginning of a text part, up to its text.
    pub(crate) text_part_start: &'static str,
    /// Key of a signature of calls, which Gemini checks in the newest turn.
    pub(crate) call_signature: Option<&'static str>,
    /// Key of the array that has an element in answers only, at the top of a body.
    pub answer_key: &'static str,
    /// Keys, below that array, whose value is content if it is not empty, separated by spaces.
    pub(crate) content_keys: &'static str,
    /// Whether the first event of a stream counts the prompt, and the last one maybe the output alone.
    pub(crate) counts_prompt_first: bool,
    /// Maximum of bytes held of one reply, as received. Errors are small, and so is the head of a stream before
    /// its first content, unless it repeats the request.
    pub held_bytes: usize,
    /// Bytes kept of the start of each event in a stream. Zero if the last event is short enough to be kept
    /// whole.
    pub(crate) event_start_bytes: usize,
}
