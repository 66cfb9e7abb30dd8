//! Closed sets of label values: actions, endings, and outcomes of compactions, summaries and
//! retries.

use http::StatusCode;

use super::Label;

/// Defines closed sets of label values with their texts.
macro_rules! labels {
    ($($(#[$of:meta])* $name:ident {
        $($(#[$about:meta])* $value:ident = $label:literal,)+
    })+) => {$(
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
        }
    )+};
}

labels! {
    /// Ending of a request, in the log line and the metric.
    Ending {
        /// The client left before it had the whole response.
        ClientLeft = "client-left",
        /// The whole response was delivered.
        Complete = "complete",
        /// The upstream broke off within its reply, so longhaul did too.
        UpstreamBroke = "upstream-broke",
    }

    /// Cause that reasoning behind an edit is lost.
    LostBy {
        /// A model of this name may be bound, and the provider may have dropped it.
        PossiblyProvider = "possibly-provider",
        /// The provider drops it without an error.
        Provider = "provider",
        /// longhaul removed it, because the provider refuses it.
        Removal = "removal",
    }

    /// Reason why a chat's body was streamed through unread.
    UnreadReason {
        /// The body inflates by more than text does.
        Bomb = "bomb",
        /// The body does not match its content coding, or is incomplete.
        Corrupt = "corrupt",
        /// Buffered bodies use the whole memory budget.
        Crowded = "crowded",
        /// The body has an unsupported content coding.
        Encoded = "encoded",
        /// The body exceeds the size limit, encoded or decoded.
        Large = "large",
        /// The caller's buffered bodies use its share of the memory budget.
        Share = "share",
        /// The sender stalled, or sent less than the minimum rate.
        Slow = "slow",
        /// The body ends in trailers, which a body of known length cannot carry.
        Trailers = "trailers",
    }

    DurableStoreOutcome {
        /// The store answered.
        Answered = "answered",
        /// A write was dropped: too many were waiting already.
        Dropped = "dropped",
        /// The store answered with a failure.
        Failed = "failed",
        /// The store did not answer in time.
        Late = "late",
        /// The store was not called: it had just failed several times.
        Spared = "spared",
        /// The stored value could not be read.
        Unreadable = "unreadable",
    }

    /// An action applied to a chat, from the most to the least significant for a request.
    Action {
        /// The chat was not changed; the action is hypothetical.
        Shadow = "shadow",
        /// The upstream reported an overflow, and no rewrite would have fitted.
        GaveUp = "gave-up",
        /// The upstream refused the rewrite, and the original was sent.
        Original = "original",
        /// The requested output limit was lowered.
        SmallerOutput = "smaller-output",
        /// Images were replaced by markers.
        FewerBytes = "fewer-bytes",
        /// The request was sent again.
        Retry = "retry",
        /// Results of the newest batch, or results longer than a text may be, were clipped.
        Clip = "clip",
        /// A model's summary replaces history.
        Summary = "summary",
        /// A digest replaces history.
        Digest = "digest",
        /// Old tool results were cleared.
        Prune = "prune",
        /// Thinking that the provider binds to other bytes was removed.
        WithoutThinking = "without-thinking",
    }

    /// Class of a response's status.
    StatusClass {
        /// 400 to 499.
        ClientError = "4xx",
        /// 100 to 199: a switch to another protocol.
        Informational = "1xx",
        /// The client left before there was a response.
        None = "none",
        /// 300 to 399.
        Redirection = "3xx",
        /// 500 and above.
        ServerError = "5xx",
        /// 200 to 299.
        Success = "2xx",
    }

    /// Event that brought a record into use.
    CompactionTrigger {
        /// A limit on bytes, on the length of a text, or on images and documents.
        Bytes = "bytes",
        /// An explicit compaction request.
        Manual = "manual",
        /// An overflow.
        Overflow = "overflow",
        /// The conversation had passed a token threshold.
        Proactive = "proactive",
    }

    PriceSource {
        /// The provider's reply: the total charge.
        Provider = "provider",
        /// The operator's prices: input, and output if its price is set.
        Setting = "setting",
        /// The embedded price table: input only.
        Table = "table",
    }

    /// Reason why a cost is unknown.
    UnpricedReason {
        /// The number of tokens is unknown.
        NotCounted = "not-counted",
        /// The table has no price for the model.
        NotListed = "not-listed",
    }

    SummaryOutcome {
        /// Every request that waited for it has left.
        Aborted = "aborted",
        /// The text reached its length limit.
        CutOff = "cut_off",
        /// Another process is writing the summary.
        Elsewhere = "elsewhere",
        /// The model wrote nothing.
        Empty = "empty",
        /// The summary was written and accepted.
        Made = "made",
        /// The summary is not smaller than the history it would replace.
        NotSmaller = "not_smaller",
        /// Every section is stated to be empty.
        NothingSaid = "nothing_said",
        /// There was nothing to summarise.
        NothingToAsk = "nothing_to_ask",
        /// The upstream refused the call.
        Refused = "refused",
        /// The call timed out.
        TimedOut = "timed_out",
        /// The summary is far over its budget.
        TooLong = "too_long",
        /// The reply calls tools.
        ToolCalls = "tool_calls",
        /// The summary does not have the requested format.
        Unformed = "unformed",
        /// No call reached the upstream.
        Unreachable = "unreachable",
    }

    /// Reason why a wanted summary was not requested.
    WithheldReason {
        /// Several summaries in a row have failed in this conversation.
        Breaker = "breaker",
        /// The caller has reached its hourly limit.
        Caller = "caller",
        /// The conversation has reached its hourly limit.
        Conversation = "conversation",
        /// The process has reached its hourly limit.
        Process = "process",
        /// The share of the login's quota is above that of the setting.
        Quota = "quota",
        /// The caller's upstream is rate-limited or overloaded.
        Throttled = "throttled",
        /// The last few summaries made ahead of need were not used.
        Unused = "unused",
    }

    /// Reason for a retry, by what is sent instead.
    RetryReason {
        /// The conversation with its longest texts clipped.
        ClippedTexts = "clipped-texts",
        /// The compacted conversation.
        Compacted = "compacted",
        /// The conversation with fewer images.
        FewerBytes = "fewer-bytes",
        /// The client's original request.
        Original = "original",
        /// The conversation with a lower output limit.
        SmallerOutput = "smaller-output",
        /// The rewritten conversation without the thinking after its edits.
        WithoutStaleThinking = "without-stale-thinking",
    }

    RetryOutcome {
        /// The upstream answered.
        Accepted = "accepted",
        /// The reply broke off before its outcome was known.
        BrokeOff = "broke-off",
        /// The retry overflowed again.
        Overflow = "overflow",
        /// The upstream refused the retry for another reason.
        Refused = "refused",
        /// The retry failed to reach the upstream; the first reply was relayed.
        Unreachable = "unreachable",
        /// The rewrite was unsound and not sent; the first reply was relayed.
        Unsound = "unsound",
    }
}

impl StatusClass {
    /// Returns the class of `status`; `None` if there was no response.
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

impl RetryReason {
    /// Returns the action that a retry for this reason is reported as.
    pub(crate) fn action(self) -> Action {
        match self {
            Self::Compacted | Self::WithoutStaleThinking => Action::Retry,
            Self::ClippedTexts => Action::Clip,
            Self::FewerBytes => Action::FewerBytes,
            Self::Original => Action::Original,
            Self::SmallerOutput => Action::SmallerOutput,
        }
    }
}

/// The principal action applied to a request; `None` if there was no action.
impl Label for Option<Action> {
    #[expect(clippy::indexing_slicing, reason = "the compiler evaluates the indices")]
    const ALL: &'static [Self] = &{
        let mut all = [None; Action::ALL.len() + 1];
        let mut at = 0;
        while at < Action::ALL.len() {
            all[at + 1] = Some(Action::ALL[at]);
            at += 1;
        }
        all
    };

    fn label(self) -> &'static str {
        self.map_or("pass", Action::label)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_counted_by_class() {
        let of = |status| StatusClass::from_code(StatusCode::from_u16(status).ok()).label();
        let classes = [101, 204, 304, 429, 500, 999].map(of);
        assert_eq!(classes, ["1xx", "2xx", "3xx", "4xx", "5xx", "5xx"]);
        assert_eq!(StatusClass::from_code(None).label(), "none");
    }

    #[test]
    fn optional_action_has_one_more_label_than_action() {
        assert_eq!(Option::<Action>::ALL.len(), Action::ALL.len() + 1);
    }
}
