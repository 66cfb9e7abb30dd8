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
    Shown {
        what: &'static str,
        by: &'static [&'static str],
    },
}

const fn row(stage: Stage, fault: Fault, what: &'static str, by: &'static [&'static str]) -> Row {
    Row {
        stage,
        fault,
        gets: Gets::Shown { what, by },
    }
}

const fn never(stage: Stage, fault: Fault, why: &'static str) -> Row {
    Row {
        stage,
        fault,
        gets: Gets::Never(why),
    }
}

/// The outcome when the store fails.
const NOTHING: &str = "its reply, to the same bytes as with a memory store; a line in the log";
/// The outcome when the summariser fails.
const DIGEST: &str = "its reply, at once, to a request with a digest in place of the summary";
const DIGEST_LATER: &str = "the same, once it has waited as long as `summary.wait` says (20 s)";

pub(crate) const FAULTS: &[Row] = &[
    never(Client, Refuses, "the client is who connects"),
    row(
        Client,
        Resets,
        "nothing more; what it asked for ends at the upstream too, and in a body that is read whole the upstream never hears of it; bytes of its own that nobody has read hide that it left: those behind its request, and those of a passing body that waits for its upstream",
        &[
            "a_client_that_resets_ends_what_it_asked_for",
            "a_client_that_dies_within_its_body_reaches_nobody",
        ],
    ),
    row(
        Client,
        Stalls,
        "in its TLS handshake or its head: the end of the connection after 75 s; in a chat's body: what came of it goes on to the upstream after 60 s, and the rest as it comes; in a reply: the upstream is held back as long",
        &[
            "a_client_that_stalls_in_its_handshake_is_let_go",
            "a_client_that_stalls_in_its_head_is_let_go",
            "a_client_that_stalls_within_its_chat_has_it_streamed_on",
            "every_line_of_the_contract_holds",
        ],
    ),
    row(
        Client,
        HalfCloses,
        "nothing more: it counts as one that left, as it does for nginx, and its upstream request ends",
        &["a_client_that_half_closes_has_left"],
    ),
    row(
        Client,
        Garbage,
        "`400` and the end of the connection; in the framing of a chat's body `400 request_body_broken`",
        &[
            "a_client_that_speaks_something_else_is_refused_and_closed",
            "a_body_that_is_framed_wrong_is_refused_in_the_apis_shape",
        ],
    ),
    row(
        Client,
        Drips,
        "its reply: a body that comes byte by byte is waited for, a head has its 75 s",
        &["a_client_that_drips_is_waited_for"],
    ),
    row(
        Client,
        Tls,
        "`400` and the end of the connection where longhaul listens in plain HTTP, `400 plain_http` where it listens in TLS and the client does not",
        &[
            "a_client_that_speaks_tls_is_refused_and_closed",
            "a_client_that_speaks_plain_http_is_told_to_speak_tls",
        ],
    ),
    never(Client, Dns, "nobody looks a client up"),
    row(
        Upstream,
        Refuses,
        "`502 upstream_unreachable`; where a proxy on the way does, or lets nobody through, `502 upstream_proxy`",
        &[
            "an_upstream_that_refuses_is_unreachable",
            "a_proxy_that_does_not_let_through_is_a_fault_of_its_own",
        ],
    ),
    row(
        Upstream,
        Resets,
        "before its head `502 upstream_broke`, and no second request; where it answers early and resets what is still being sent, that answer; behind its head, the end of the connection before the end of the reply",
        &[
            "an_upstream_that_breaks_before_its_head_is_a_502_of_the_apis_shape",
            "an_upstream_that_closes_before_its_answer_broke_and_is_not_asked_again",
            "a_refusal_of_an_upstream_that_resets_within_the_request_is_heard",
            "an_upstream_that_breaks_off_breaks_the_client_off",
            "a_reply_that_lies_about_its_length_breaks_off_for_the_client_too",
        ],
    ),
    row(
        Upstream,
        Stalls,
        "while connecting `504 upstream_timeout` within 10 s, in which every address of its name has its turn; later nothing, for as long as it waits: the client's own deadline holds, and ends the upstream's request; on a connection in HTTP/2 that is dead, `502 upstream_broke` after at most 65 s without a byte",
        &[
            "an_upstream_connection_that_is_dead_is_found_out_and_another_takes_its_place",
            "an_upstream_that_hangs_in_its_handshake_times_out",
            "a_client_may_leave_an_upstream_that_hangs",
            "a_client_that_leaves_ends_what_goes_out_to_an_upstream_that_stalls",
        ],
    ),
    row(
        Upstream,
        HalfCloses,
        "as where it resets; a reply that its connection ends is whole",
        &["an_upstream_that_half_closes_has_broken_off"],
    ),
    row(
        Upstream,
        Garbage,
        "`502 upstream_malformed` where it is no HTTP; a body that is no answer passes as it is",
        &[
            "an_upstream_that_speaks_something_else_is_malformed",
            "replies_that_are_no_answers_pass_as_they_are",
        ],
    ),
    row(
        Upstream,
        Drips,
        "its reply, byte by byte as it comes",
        &["an_upstream_that_drips_is_relayed_as_it_drips"],
    ),
    row(
        Upstream,
        Tls,
        "`502 upstream_tls`, which says that repeating is useless",
        &[
            "an_unknown_authority_is_not",
            "a_plain_upstream_asked_for_tls_says_so_and_that_repeating_is_useless",
        ],
    ),
    row(
        Upstream,
        Dns,
        "`502 upstream_unresolved`",
        &["a_name_without_an_address_is_unresolved"],
    ),
    row(
        Summariser,
        Refuses,
        DIGEST,
        &["a_summariser_that_refuses_is_done_without"],
    ),
    row(
        Summariser,
        Resets,
        DIGEST,
        &["a_summariser_that_resets_is_done_without"],
    ),
    row(
        Summariser,
        Stalls,
        DIGEST_LATER,
        &[
            "a_summariser_that_stalls_is_waited_for_as_long_as_was_said",
            "a_request_waits_for_a_summary_as_long_as_was_said_and_the_call_goes_on_behind_it",
        ],
    ),
    row(
        Summariser,
        HalfCloses,
        DIGEST,
        &["a_summariser_that_half_closes_is_done_without"],
    ),
    row(
        Summariser,
        Garbage,
        DIGEST,
        &["a_summariser_that_speaks_something_else_is_done_without"],
    ),
    row(
        Summariser,
        Drips,
        DIGEST_LATER,
        &[
            "a_summariser_that_drips_is_waited_for_as_long_as_was_said",
            "a_request_waits_for_a_summary_as_long_as_was_said_and_the_call_goes_on_behind_it",
        ],
    ),
    row(
        Summariser,
        Tls,
        DIGEST,
        &["a_summariser_that_cannot_be_trusted_is_told_nothing"],
    ),
    row(
        Summariser,
        Dns,
        DIGEST,
        &["a_summariser_without_an_address_is_done_without"],
    ),
    row(
        Store,
        Refuses,
        NOTHING,
        &[
            "a_store_that_refuses_costs_no_client_anything",
            "a_start_without_the_server_is_told_of_and_costs_no_client_anything",
        ],
    ),
    row(
        Store,
        Resets,
        NOTHING,
        &[
            "a_store_that_resets_costs_no_client_anything",
            "one_process_forwards_the_same_whatever_becomes_of_its_server",
        ],
    ),
    row(
        Store,
        Stalls,
        "the same; the first three requests 50 ms later, 100 ms where they compact, and then one a second",
        &[
            "a_store_that_stalls_costs_no_client_anything",
            "replicas_go_on_alone_without_their_server_and_no_client_sees_it",
        ],
    ),
    row(
        Store,
        HalfCloses,
        NOTHING,
        &["a_store_that_half_closes_costs_no_client_anything"],
    ),
    row(
        Store,
        Garbage,
        NOTHING,
        &[
            "a_store_that_speaks_something_else_costs_no_client_anything",
            "what_is_damaged_is_not_there_and_gives_way",
        ],
    ),
    row(
        Store,
        Drips,
        "the same; the first three requests 50 ms later, 100 ms where they compact, and then one a second",
        &["a_store_that_drips_costs_no_client_anything"],
    ),
    row(
        Store,
        Tls,
        NOTHING,
        &["a_store_that_cannot_be_trusted_costs_no_client_anything"],
    ),
    row(
        Store,
        Dns,
        NOTHING,
        &["a_store_without_an_address_costs_no_client_anything"],
    ),
];

/// Renders the table for docs/reference/faults.md.
pub(crate) fn markdown() -> String {
    let mut page = String::new();
    for (stage, heading) in STAGES {
        let _ = write!(
            page,
            "## {heading}\n\n| it … | the client gets | shown by |\n|---|---|---|\n"
        );
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
