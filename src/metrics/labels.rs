//! The closed sets that counters are told apart by: what was done to requests, how they ended, and
//! what became of compactions, summaries and second sends.

use http::StatusCode;

use super::Label;

/// Defines a closed set of label values, each with its name.
macro_rules! labels {
    ($(#[$of:meta])* $name:ident { $($(#[$about:meta])* $value:ident = $label:literal,)+ }) => {
        $(#[$of])*
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        pub(crate) enum $name {
            $($(#[$about])* $value,)+
        }

        impl Label for $name {
            const ALL: &'static [Self] = &[$(Self::$value),+];

            fn label(self) -> &'static str {
                match self {
                    $(Self::$value => $label,)+
                }
            }

            fn index(self) -> usize {
                self as usize
            }
        }
    };
}

labels! {
    /// How a request ended, as the log line and the counter say it.
    Ending {
        /// The client left before it had its whole answer.
        ClientLeft = "client-left",
        /// The whole answer was handed over.
        Complete = "complete",
        /// The upstream broke off within its answer, and so did we.
        UpstreamBroke = "upstream-broke",
    }
}

labels! {
    /// Why a chat's body was streamed through unread.
    UnreadReason {
        /// It inflates by more than text does.
        Bomb = "bomb",
        /// It is not what its content coding says, or not all of it.
        Corrupt = "corrupt",
        /// The bodies being held take all the room there is.
        Crowded = "crowded",
        /// It is encoded in a way that is not read here.
        Encoded = "encoded",
        /// It is larger than one body may be, as it came or as it reads.
        Large = "large",
        /// Its sender stalled.
        Slow = "slow",
        /// It ends in trailers, which a body of known length cannot carry.
        Trailers = "trailers",
    }
}

labels! {
    /// How far the store behind memory was of use.
    DurableStoreOutcome {
        /// It answered.
        Answered = "answered",
        /// What was to be written was given up: too much was waiting already.
        Dropped = "dropped",
        /// It answered with a failure.
        Failed = "failed",
        /// It did not answer in time.
        Late = "late",
        /// It was not asked: it had just failed several times.
        Spared = "spared",
        /// What it had could not be read.
        Unreadable = "unreadable",
    }
}

labels! {
    /// One thing that was done to a chat.
    Action {
        /// Results of the newest batch were clipped.
        Clip = "clip",
        /// A digest stands for history.
        Digest = "digest",
        /// Images were replaced by markers.
        FewerBytes = "fewer-bytes",
        /// An overflow was met, and nothing would have fitted.
        GaveUp = "gave-up",
        /// Our rewrite was refused, and the original went.
        Original = "original",
        /// Old tool results were cleared.
        Prune = "prune",
        /// A second request was sent.
        Retry = "retry",
        /// Nothing was changed: this is what would have been.
        Shadow = "shadow",
        /// The output asked for was lowered.
        SmallerOutput = "smaller-output",
        /// A model's summary stands for history.
        Summary = "summary",
    }
}

labels! {
    /// The class of an answer's status.
    StatusClass {
        /// 400 to 499.
        ClientError = "4xx",
        /// 100 to 199: a switch to another protocol.
        Informational = "1xx",
        /// The client left before there was one.
        None = "none",
        /// 300 to 399.
        Redirection = "3xx",
        /// From 500 on.
        ServerError = "5xx",
        /// 200 to 299.
        Success = "2xx",
    }
}

impl StatusClass {
    /// The class of this status, if there was an answer.
    pub(crate) fn from_code(status: Option<StatusCode>) -> Self {
        match status.map(|status| status.as_u16()) {
            None => Self::None,
            Some(..200) => Self::Informational,
            Some(..300) => Self::Success,
            Some(..400) => Self::Redirection,
            Some(..500) => Self::ClientError,
            Some(_) => Self::ServerError,
        }
    }
}

labels! {
    /// What made a record come into use.
    CompactionTrigger {
        /// A limit on bytes.
        Bytes = "bytes",
        /// A request by hand.
        Manual = "manual",
        /// An overflow.
        Overflow = "overflow",
        /// A mark that the conversation had passed.
        Proactive = "proactive",
    }
}

labels! {
    /// Whose word the price of an answer is.
    PriceSource {
        /// The provider's own, in its answer: all that was charged.
        Provider = "provider",
        /// The embedded table's, of input alone.
        Table = "table",
    }
}

labels! {
    /// What a call of our own is for.
    AuxiliaryPurpose {
        /// What stands for history.
        Summary = "summary",
        /// What a conversation is called on the dashboard.
        Title = "title",
    }
}

labels! {
    /// Why the price of an answer is not known.
    UnpricedReason {
        /// Nobody said how many tokens it took.
        NotCounted = "not-counted",
        /// The table has no price for its model.
        NotListed = "not-listed",
    }
}

labels! {
    /// What became of a summary that was to be written.
    SummaryOutcome {
        /// Everyone who waited for it has left.
        Aborted = "aborted",
        /// It broke off at its cap.
        CutOff = "cut_off",
        /// Another process is writing it.
        Elsewhere = "elsewhere",
        /// Nothing was written.
        Empty = "empty",
        /// It was written and accepted.
        Made = "made",
        /// It is no smaller than what it would stand for.
        NotSmaller = "not_smaller",
        /// Every section says that there is nothing.
        NothingSaid = "nothing_said",
        /// There was nothing to tell.
        NothingToAsk = "nothing_to_ask",
        /// The upstream refused the call.
        Refused = "refused",
        /// It took too long.
        TimedOut = "timed_out",
        /// It is far over its budget.
        TooLong = "too_long",
        /// It calls tools.
        ToolCalls = "tool_calls",
        /// It has not the form that was asked for.
        Unformed = "unformed",
        /// No call came through.
        Unreachable = "unreachable",
    }
}

labels! {
    /// Why no summary was asked for where one was wanted.
    WithheldReason {
        /// Several in a row have failed there.
        Breaker = "breaker",
        /// Its caller has asked for as many as one may in an hour.
        Caller = "caller",
        /// The conversation has.
        Conversation = "conversation",
        /// The process has.
        Process = "process",
        /// Its caller's upstream has too much to do.
        Throttled = "throttled",
        /// None of the last that were made ahead was used.
        Unused = "unused",
    }
}

labels! {
    /// What was sent in second place.
    RetryKind {
        /// The conversation, compacted.
        Compacted = "compacted",
        /// The conversation with fewer images.
        FewerBytes = "fewer-bytes",
        /// What the client had sent.
        Original = "original",
        /// The conversation with a smaller output asked for.
        SmallerOutput = "smaller-output",
    }
}

labels! {
    /// What became of that.
    RetryOutcome {
        /// It was answered.
        Accepted = "accepted",
        /// Its reply broke off before it told.
        BrokeOff = "broke-off",
        /// It was an overflow again.
        Overflow = "overflow",
        /// It was refused otherwise.
        Refused = "refused",
        /// It did not come through; the first reply was relayed.
        Unreachable = "unreachable",
        /// It was not sound, and not sent; the first reply was relayed.
        Unsound = "unsound",
    }
}

/// The act that tells most of what was done to a request; none where nothing was.
impl Label for Option<Action> {
    const ALL: &'static [Self] = &[
        None,
        Some(Action::Clip),
        Some(Action::Digest),
        Some(Action::FewerBytes),
        Some(Action::GaveUp),
        Some(Action::Original),
        Some(Action::Prune),
        Some(Action::Retry),
        Some(Action::Shadow),
        Some(Action::SmallerOutput),
        Some(Action::Summary),
    ];

    fn label(self) -> &'static str {
        self.map_or("pass", Action::label)
    }

    fn index(self) -> usize {
        self.map_or(0, |act| act.index() + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_counted_by_its_hundred() {
        let of = |status| StatusClass::from_code(StatusCode::from_u16(status).ok()).label();
        let classes = [101, 204, 304, 429, 500, 999].map(of);
        assert_eq!(classes, ["1xx", "2xx", "3xx", "4xx", "5xx", "5xx"]);
        assert_eq!(StatusClass::from_code(None).label(), "none");
    }

    #[test]
    fn every_act_is_an_action_and_so_is_none() {
        assert_eq!(Option::<Action>::ALL.len(), Action::ALL.len() + 1);
    }
}
