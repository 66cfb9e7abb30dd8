//! Every request by its number: what was meant to come of it, what the upstream saw of it and what
//! its client got.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What a request is meant to meet, which both sides know by its number.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Fate {
    /// The upstream resets it before its reply.
    BreaksFirst,
    /// The upstream resets it within its reply.
    BreaksMidway,
    /// The client leaves within its reply.
    Leaves,
    /// The client reads a large reply slowly.
    ReadsSlowly,
    /// Nothing.
    Whole,
}

impl Fate {
    pub(crate) fn of(number: usize) -> Self {
        match number % 50 {
            7 => Self::BreaksFirst,
            13 => Self::BreaksMidway,
            21 | 22 => Self::Leaves,
            33 => Self::ReadsSlowly,
            _ => Self::Whole,
        }
    }
}

/// What a client got.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Got {
    /// Its reply broke off.
    Broken,
    /// longhaul's own word that the upstream broke off.
    Fault,
    /// What it waited for before it left.
    Left,
    /// Not a byte: the connection was closed under its request.
    Nothing,
    /// Something that is none of these.
    Odd,
    /// A reply, but to another request.
    Others,
    /// Its reply, whole.
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

/// The record of both sides.
#[derive(Debug, Default)]
pub(crate) struct Tally(Mutex<Record>);

#[derive(Debug, Default)]
struct Record {
    next: usize,
    seen: HashMap<usize, usize>,
    got: HashMap<usize, Got>,
    /// Requests past this number are on their way while the program is told to end.
    ending: Option<usize>,
}

impl Tally {
    /// The number of the next request.
    pub(crate) fn begin(&self) -> usize {
        let mut record = self.lock();
        record.next += 1;
        record.next
    }

    /// How many were begun.
    pub(crate) fn begun(&self) -> usize {
        self.lock().next
    }

    /// The upstream has read this one.
    pub(crate) fn saw(&self, number: usize) {
        *self.lock().seen.entry(number).or_default() += 1;
    }

    /// The client got this.
    pub(crate) fn got(&self, number: usize, got: Got) {
        self.lock().got.insert(number, got);
    }

    /// From the next request on connections may be closed under those that were not seen.
    pub(crate) fn may_refuse(&self) {
        let mut record = self.lock();
        let next = record.next;
        record.ending.get_or_insert(next);
    }

    /// How many got what.
    pub(crate) fn counts(&self) -> Vec<(&'static str, usize)> {
        let record = self.lock();
        let count = |what| record.got.values().filter(|got| **got == what).count();
        Got::ALL.map(|(got, name)| (name, count(got))).into()
    }

    /// What must not be: lost, doubled, crossed.
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
                    // One that nobody saw can be sent again by whoever sent it.
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

/// What a fate comes to where nothing goes wrong.
fn expected(fate: Fate) -> Got {
    match fate {
        Fate::BreaksFirst => Got::Fault,
        Fate::BreaksMidway => Got::Broken,
        Fate::Leaves => Got::Left,
        Fate::ReadsSlowly | Fate::Whole => Got::Whole,
    }
}
