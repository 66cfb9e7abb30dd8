//! Likelihood of recorded steps after a history, compared with that after the whole history.

use std::collections::BTreeMap;

use serde::Serialize;

use super::paired::Z;
use super::step_request::scored_prompt::ScoredPrompt;
use longhaul_core::conversation::Conversation;

/// Likelihood of steps after a history.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Likelihood {
    pub(crate) steps: u32,
    /// Tokens of all histories, as the model counts them.
    pub(crate) tokens: usize,
    /// Tokens of all whole histories.
    pub(crate) whole_tokens: usize,
    /// Nats a token of the steps above the whole history.
    pub(crate) loss: f64,
    /// The interval of 95% of the loss. `None` for one session, because steps of one session are alike.
    pub(crate) interval: Option<[f64; 2]>,
}

impl Likelihood {
    /// Compares steps, each with its session and its scores after the history and after the whole one. `None`
    /// without steps.
    ///
    /// The interval is that of a ratio of sums, with sessions as units (Cochran, Sampling Techniques, 1977,
    /// chapter 6).
    pub(crate) fn new(steps: &[(&str, [&ScoredPrompt; 2])]) -> Option<Self> {
        let (mut found, mut sessions) = (Self::default(), BTreeMap::<&str, (f64, f64)>::new());
        for (session, [own, whole]) in steps {
            found.steps += 1;
            found.tokens += own.before;
            found.whole_tokens += whole.before;
            let sums = sessions.entry(session).or_default();
            for ((_, own), (_, whole)) in own.tokens.iter().zip(&whole.tokens) {
                *sums = (sums.0 + whole - own, sums.1 + 1.0);
            }
        }
        let tokens: f64 = sessions.values().map(|sums| sums.1).sum();
        found.loss = sessions.values().map(|sums| sums.0).sum::<f64>() / tokens;
        let square = |(nats, tokens): &(f64, f64)| (nats - found.loss * tokens).powi(2);
        let squares: f64 = sessions.values().map(square).sum();
        let count: f64 = sessions.values().map(|_| 1.0).sum();
        let half = Z * (squares * count / (count - 1.0)).sqrt() / tokens;
        found.interval = (count > 1.0).then_some([found.loss - half, found.loss + half]);
        (found.steps > 0).then_some(found)
    }
}

/// Returns the body of `whole` with its first user message and its newest units alone, in at least the size of `like`.
pub(crate) fn newest(whole: &Conversation<'_>, like: &Conversation<'_>) -> Option<String> {
    let (body, messages) = (whole.body(), whole.messages());
    let next = messages.iter().position(|message| message.role.is_user())? + 1;
    let of_newest = |from: usize| whole.tokens_of(from..messages.len());
    let size = of_newest(next) + like.tokens() - whole.tokens();
    let mut cuts = whole.boundaries().iter().copied().rev();
    let cut = cuts.find(|cut| of_newest(*cut) >= size).unwrap_or_default().max(next);
    let (first, newest) = (messages.get(next - 1)?, messages.get(cut)?);
    Some(format!("{},{}", body.get(..first.span.end())?, body.get(newest.span.start()..)?))
}

#[cfg(test)]
mod tests;
