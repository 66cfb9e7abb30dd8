//! A log of every request by number: the intended fate, the requests that the upstream received,
//! and the client's result.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The intended fate of a request. Both sides derive it from the request's number.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Fate {
    /// The upstream resets the connection before its reply.
    BreaksFirst,
    /// The upstream resets the connection within its reply.
    BreaksMidway,
    /// The client leaves within the reply.
    Leaves,
    /// The upstream states sizes in its reply that nothing has.
    Lies,
    /// The client reads a large reply slowly.
    ReadsSlowly,
    /// The upstream sends nothing for a while within its reply.
    Stalls,
    /// An ordinary exchange.
    Whole,
}

impl Fate {
    pub(crate) fn of(number: usize) -> Self {
        match number % 50 {
            7 => Self::BreaksFirst,
            13 => Self::BreaksMidway,
            21 | 22 => Self::Leaves,
            28 => Self::Stalls,
            33 => Self::ReadsSlowly,
            41 => Self::Lies,
            _ => Self::Whole,
        }
    }
}

/// A client's result.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Got {
    /// A reply that broke off.
    Broken,
    /// longhaul's own 502 for an upstream that broke off.
    Fault,
    /// The part of the reply that the client waited for before it left.
    Left,
    /// No byte: the connection was closed after the request.
    Nothing,
    /// Anything else.
    Odd,
    /// A reply to another request.
    Others,
    /// The whole reply.
    Whole,
}

impl Got {
    const ALL: [(Self, &'static str); 7] = [
        (Self::Whole, "whole"),
        (Self::Left, "left by their clients"),
        (Self::Broken, "broken off by the upstream"),
        (Self::Fault, "answered 502"),
        (Self::Nothing, "refused unseen while it ended"),
        (Self::Odd, "odd"),
        (Self::Others, "answered with another's reply"),
    ];
}

/// The record of both sides, shared by agents and upstream.
#[derive(Debug, Default)]
pub(crate) struct Tally(Mutex<Record>);

#[derive(Debug, Default)]
struct Record {
    next: usize,
    seen: HashMap<usize, usize>,
    got: HashMap<usize, Got>,
    /// Number after which requests overlap the program's shutdown.
    ending: Option<usize>,
}

impl Tally {
    /// Starts a request; returns its number.
    pub(crate) fn begin(&self) -> usize {
        let mut record = self.lock();
        record.next += 1;
        record.next
    }

    /// Returns the number of requests started.
    pub(crate) fn begun(&self) -> usize {
        self.lock().next
    }

    /// Records that the upstream has read request `number`.
    pub(crate) fn saw(&self, number: usize) {
        *self.lock().seen.entry(number).or_default() += 1;
    }

    /// Records the client's result for request `number`.
    pub(crate) fn got(&self, number: usize, got: Got) {
        self.lock().got.insert(number, got);
    }

    /// Permits unanswered requests from the next one on, if the upstream has not received them.
    pub(crate) fn may_refuse(&self) {
        let mut record = self.lock();
        let next = record.next;
        record.ending.get_or_insert(next);
    }

    /// Counts the requests by result.
    pub(crate) fn counts(&self) -> Vec<(&'static str, usize)> {
        let record = self.lock();
        let count = |what| record.got.values().filter(|got| **got == what).count();
        Got::ALL.map(|(got, name)| (name, count(got))).into()
    }

    /// Lists the requests that were lost, duplicated or given another's reply.
    pub(crate) fn wrong(&self) -> Vec<String> {
        const SHOWN: usize = 20;
        let record = self.lock();
        let mut wrong: Vec<String> = (1..=record.next)
            .filter_map(|number| {
                let seen = record.seen.get(&number).copied().unwrap_or_default();
                let got = record.got.get(&number).copied();
                let fate = Fate::of(number);
                let refused = record.ending.is_some_and(|from| number > from);
                let right = match got {
                    // A client can safely resend a request that the upstream has not received.
                    Some(Got::Nothing) => refused && seen == 0,
                    got => seen == 1 && got == Some(expected(fate)),
                };
                (!right)
                    .then(|| format!("request {number}, {fate:?}: seen {seen} times, got {got:?}"))
            })
            .collect();
        let more = wrong.len().saturating_sub(SHOWN);
        wrong.truncate(SHOWN);
        if more > 0 {
            wrong.push(format!("and {more} more"));
        }
        wrong
    }

    fn lock(&self) -> MutexGuard<'_, Record> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the correct result for a fate.
fn expected(fate: Fate) -> Got {
    match fate {
        Fate::BreaksFirst => Got::Fault,
        Fate::BreaksMidway => Got::Broken,
        Fate::Leaves => Got::Left,
        Fate::Lies | Fate::ReadsSlowly | Fate::Stalls | Fate::Whole => Got::Whole,
    }
}
