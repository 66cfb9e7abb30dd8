//! What is counted of a request beside its acts: how it was answered, and what became of
//! compactions, summaries and second sends.

use http::StatusCode;

use super::{Act, Label};

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
    /// The class of an answer's status.
    Status {
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

impl Status {
    /// The class of this status, if there was an answer.
    pub(crate) fn of(status: Option<StatusCode>) -> Self {
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
    Trigger {
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
    /// What became of a summary that was to be written.
    Summary {
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
    /// What was sent in second place.
    Again {
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
    AgainOutcome {
        /// It was answered.
        Accepted = "accepted",
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
impl Label for Option<Act> {
    const ALL: &'static [Self] = &[
        None,
        Some(Act::Clip),
        Some(Act::Digest),
        Some(Act::FewerBytes),
        Some(Act::GaveUp),
        Some(Act::Original),
        Some(Act::Prune),
        Some(Act::Retry),
        Some(Act::Shadow),
        Some(Act::SmallerOutput),
        Some(Act::Summary),
    ];

    fn label(self) -> &'static str {
        self.map_or("pass", Act::label)
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
        let of = |status| Status::of(StatusCode::from_u16(status).ok()).label();
        let classes = [101, 204, 304, 429, 500, 999].map(of);
        assert_eq!(classes, ["1xx", "2xx", "3xx", "4xx", "5xx", "5xx"]);
        assert_eq!(Status::of(None).label(), "none");
    }

    #[test]
    fn every_act_is_an_action_and_so_is_none() {
        assert_eq!(Option::<Act>::ALL.len(), Act::ALL.len() + 1);
    }
}
