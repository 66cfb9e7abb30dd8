//! The table of all failures by stage and kind: the outcome for the client, and the tests that show
//! it.

use std::fmt::Write;

use Fault::{Dns, Drips, Garbage, HalfCloses, Refuses, Resets, Stalls, Tls};
use Stage::{Client, Store, Summariser, Upstream};

/// The party that fails.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Stage {
    Client,
    Upstream,
    Summariser,
    Store,
}

/// The stages in the order of the table, with their headings.
pub(crate) const STAGES: &[(Stage, &str)] = &[
    (Client, "The client"),
    (Upstream, "The upstream"),
    (Summariser, "The summariser, at an endpoint of its own"),
    (Store, "The store, at a server"),
];

/// A kind of failure.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Fault {
    Refuses,
    Resets,
    Stalls,
    HalfCloses,
    Garbage,
    Drips,
    Tls,
    Dns,
}

impl Fault {
    pub(crate) const ALL: &'static [Self] = &[
        Self::Refuses,
        Self::Resets,
        Self::Stalls,
        Self::HalfCloses,
        Self::Garbage,
        Self::Drips,
        Self::Tls,
        Self::Dns,
    ];

    fn words(self) -> &'static str {
        match self {
            Self::Refuses => "refuses the connection",
            Self::Resets => "resets it",
            Self::Stalls => "stalls",
            Self::HalfCloses => "half-closes it",
            Self::Garbage => "sends garbage",
            Self::Drips => "drips",
            Self::Tls => "fails in TLS",
            Self::Dns => "has no address",
        }
    }
}

/// A cell of the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) stage: Stage,
    pub(crate) fault: Fault,
    pub(crate) gets: Gets,
}

/// The outcome of a failure.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Gets {
    /// Impossible, with the reason.
    Never(&'static str),
    /// The outcome for the client, and the tests that show it.
    Shown { what: &'static str, by: &'static [&'static str] },
}

const fn row(stage: Stage, fault: Fault, what: &'static str, by: &'static [&'static str]) -> Row {
    Row { stage, fault, gets: Gets::Shown { what, by } }
}

const fn never(stage: Stage, fault: Fault, why: &'static str) -> Row {
    Row { stage, fault, gets: Gets::Never(why) }
}

/// The outcome when the store fails.
const NOTHING: &str = "its reply, to the same bytes as with a memory store; a line in the log";
/// The outcome when the summariser fails.
const DIGEST: &str = "its reply, at once, to a request with a digest in place of the summary";
const DIGEST_LATER: &str = "the same, once it has waited as long as `summary.wait` says (20 s)";

pub(crate) const FAULTS: &[Row] = &[
    never(Client, Refuses, "the client opens the connection"),
    row(
        Client,
        Resets,
        "nothing more; what it asked for ends at the upstream too, and in a body that is read whole the upstream never hears of it; bytes of its own that nobody has read hide that it left: those behind its request, and those of a passing body that waits for its upstream",
        &[
            "client_reset_ends_its_upstream_request",
            "chat_aborted_within_its_body_is_not_forwarded",
        ],
    ),
    row(
        Client,
        Stalls,
        "in its TLS handshake or its head: the end of the connection after 75 s; in a chat's body: what came of it goes on to the upstream after 60 s, and the rest as it comes; in a reply: the upstream is held back as long",
        &[
            "closes_a_client_that_stalls_in_the_tls_handshake",
            "closes_a_client_that_stalls_in_its_request_head",
            "stalled_chat_body_is_streamed_on_to_the_upstream",
            "both_sides_receive_the_same_bytes_except_for_listed_exceptions",
        ],
    ),
    row(
        Client,
        HalfCloses,
        "nothing more: it counts as one that left, as it does for nginx, and its upstream request ends",
        &["half_closed_client_counts_as_disconnected"],
    ),
    row(
        Client,
        Garbage,
        "`400` and the end of the connection; in the framing of a chat's body `400 request_body_broken`",
        &[
            "rejects_and_closes_a_client_that_does_not_speak_http",
            "misframed_body_is_refused_with_an_api_error",
        ],
    ),
    row(
        Client,
        Drips,
        "its reply: a body that comes byte by byte is waited for, a head has its 75 s",
        &["slowly_sent_chat_is_waited_for"],
    ),
    row(
        Client,
        Tls,
        "`400` and the end of the connection where longhaul listens in plain HTTP, `400 plain_http` where it listens in TLS and the client does not",
        &[
            "rejects_and_closes_a_client_that_speaks_tls",
            "rejects_plain_http_on_the_tls_listener_with_a_hint",
        ],
    ),
    never(Client, Dns, "nobody looks a client up"),
    row(
        Upstream,
        Refuses,
        "`502 upstream_unreachable`; where a proxy on the way does, or lets nobody through, `502 upstream_proxy`",
        &[
            "upstream_that_refuses_connections_is_reported_unreachable",
            "failing_forward_proxy_yields_the_upstream_proxy_fault",
        ],
    ),
    row(
        Upstream,
        Resets,
        "before its head `502 upstream_broke`, and no second request; where it answers early and resets what is still being sent, that answer; behind its head, the end of the connection before the end of the reply",
        &[
            "upstream_failure_before_its_head_is_a_502_api_error",
            "upstream_closing_before_its_reply_is_a_fault_and_not_retried",
            "relays_the_refusal_of_an_upstream_that_resets_mid_request",
            "upstream_reset_ends_the_reply_without_a_last_chunk",
            "reply_shorter_than_its_length_breaks_off_for_the_client",
        ],
    ),
    row(
        Upstream,
        Stalls,
        "while connecting `504 upstream_timeout` within 10 s, in which every address of its name has its turn; later nothing, for as long as it waits: the client's own deadline holds, and ends the upstream's request; on a connection in HTTP/2 that is dead, `502 upstream_broke` after at most 65 s without a byte",
        &[
            "dead_upstream_connection_is_detected_and_replaced",
            "upstream_that_hangs_in_the_tls_handshake_times_out",
            "leaving_client_ends_the_request_to_a_hanging_upstream",
            "client_reset_ends_an_upload_to_a_stalled_upstream",
        ],
    ),
    row(
        Upstream,
        HalfCloses,
        "as where it resets; a reply that its connection ends is whole",
        &["half_closed_upstream_counts_as_broken_unless_eof_ends_the_reply"],
    ),
    row(
        Upstream,
        Garbage,
        "`502 upstream_malformed` where it is no HTTP; a body that is no answer passes as it is",
        &[
            "upstream_that_does_not_speak_http_is_reported_malformed",
            "replies_that_are_no_completions_pass_unchanged",
        ],
    ),
    row(
        Upstream,
        Drips,
        "its reply, byte by byte as it comes",
        &["relays_a_slow_reply_byte_by_byte"],
    ),
    row(
        Upstream,
        Tls,
        "`502 upstream_tls`, which says that repeating is useless",
        &[
            "rejects_an_upstream_certificate_of_an_unknown_ca",
            "https_to_a_plain_upstream_is_a_tls_fault_marked_not_retryable",
        ],
    ),
    row(
        Upstream,
        Dns,
        "`502 upstream_unresolved`",
        &["host_name_without_an_address_is_reported_unresolved"],
    ),
    row(
        Summariser,
        Refuses,
        DIGEST,
        &["digest_replaces_the_summary_if_the_summariser_refuses_connections"],
    ),
    row(Summariser, Resets, DIGEST, &["digest_replaces_the_summary_if_the_summariser_resets"]),
    row(
        Summariser,
        Stalls,
        DIGEST_LATER,
        &[
            "waits_for_a_stalled_summariser_no_longer_than_configured",
            "request_stops_waiting_after_the_set_time_and_the_call_continues",
        ],
    ),
    row(
        Summariser,
        HalfCloses,
        DIGEST,
        &["digest_replaces_the_summary_if_the_summariser_half_closes"],
    ),
    row(
        Summariser,
        Garbage,
        DIGEST,
        &["digest_replaces_the_summary_if_the_summariser_sends_garbage"],
    ),
    row(
        Summariser,
        Drips,
        DIGEST_LATER,
        &[
            "waits_for_a_dripping_summariser_no_longer_than_configured",
            "request_stops_waiting_after_the_set_time_and_the_call_continues",
        ],
    ),
    row(Summariser, Tls, DIGEST, &["digest_replaces_the_summary_if_the_certificate_is_untrusted"]),
    row(Summariser, Dns, DIGEST, &["digest_replaces_the_summary_if_the_summariser_has_no_address"]),
    row(
        Store,
        Refuses,
        NOTHING,
        &[
            "store_that_refuses_connections_affects_no_request",
            "start_without_the_server_is_logged_and_affects_no_client",
        ],
    ),
    row(
        Store,
        Resets,
        NOTHING,
        &[
            "store_that_resets_connections_affects_no_request",
            "single_process_forwards_the_same_bytes_if_its_server_fails",
        ],
    ),
    row(
        Store,
        Stalls,
        "the same; the first three requests 50 ms later, 100 ms where they compact, and then one a second",
        &[
            "store_that_stalls_affects_no_request",
            "a_gateway_gets_the_same_messages_if_the_store_stalls",
            "replicas_continue_without_their_server_and_no_client_notices",
        ],
    ),
    row(Store, HalfCloses, NOTHING, &["store_that_half_closes_affects_no_request"]),
    row(
        Store,
        Garbage,
        NOTHING,
        &[
            "store_that_sends_garbage_affects_no_request",
            "damaged_entries_count_as_absent_and_are_overwritten",
        ],
    ),
    row(
        Store,
        Drips,
        "the same; the first three requests 50 ms later, 100 ms where they compact, and then one a second",
        &["store_that_drips_its_reply_affects_no_request"],
    ),
    row(Store, Tls, NOTHING, &["store_with_an_untrusted_certificate_affects_no_request"]),
    row(Store, Dns, NOTHING, &["store_without_an_address_affects_no_request"]),
];

/// Renders the table for docs/reference/faults.md.
pub(crate) fn markdown() -> String {
    let mut page = String::new();
    for (stage, heading) in STAGES {
        let _ =
            write!(page, "## {heading}\n\n| it … | the client gets | shown by |\n|---|---|---|\n");
        for row in FAULTS.iter().filter(|row| row.stage == *stage) {
            let fault = row.fault.words();
            let (what, by) = match row.gets {
                Gets::Never(why) => (format!("cannot happen: {why}"), String::new()),
                Gets::Shown { what, by } => {
                    let names: Vec<String> = by.iter().map(|name| format!("`{name}`")).collect();
                    (what.to_owned(), names.join(", "))
                }
            };
            let _ = writeln!(page, "| {fault} | {what} | {by} |");
        }
        page.push('\n');
    }
    page
}
