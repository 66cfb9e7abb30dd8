//! Cost of all recorded sessions at a window of 32,000, by profile and cache rule.

use crate::caches::{Charge, Prompt, Rule};
use crate::options::Options;
use crate::player::Player;
use crate::requests::{Marks, Requests};
use crate::sessions::{Failure, Session};
use crate::workers;
use longhaul_core::policy::{CompactionSettings, Policy};
use longhaul_core::units::tokens::Tokens;
use std::fmt::Write as _;

const WINDOW: Tokens = Tokens::new(32_000);

/// Renders a row for each profile: the cost over that of no proxy and a window without end.
pub(crate) fn page(sessions: &[Session], options: &Options) -> Result<String, Failure> {
    let mut text = "## All sessions at 32,000\n\n| profile |".to_owned();
    for rule in Rule::ALL {
        _ = write!(text, " {} |", rule.title());
    }
    text.push_str(" compactions | refused |\n|---|--:|--:|--:|--:|--:|--:|\n");
    for &(name, profile) in &options.profiles {
        let settings = CompactionSettings { profile, ..CompactionSettings::default() };
        let policy = Policy::new(&settings, WINDOW);
        let all = workers::each(name, sessions, |session| bill(session, &policy))?;
        _ = write!(text, "| `{name}` |");
        for (at, rule) in Rule::ALL.into_iter().enumerate() {
            let cost = |of: fn(&Bill) -> &[Charge]| -> u64 {
                let charges = all.iter().filter_map(|bill| of(bill).get(at));
                charges.map(|charge| charge.cost(rule)).sum()
            };
            let (with, without) = (cost(|bill| &bill.with), cost(|bill| &bill.without));
            let thousandths = with * 1_000 / without.max(1);
            let (whole, rest) = (thousandths / 1_000, thousandths % 1_000);
            _ = write!(text, " {whole}.{rest:03} |");
        }
        let compactions: usize = all.iter().map(|bill| bill.compactions).sum();
        let refused: usize = all.iter().map(|bill| bill.refused).sum();
        _ = writeln!(text, " {compactions} | {refused} |");
    }
    Ok(text)
}

/// Charges of a session, by rule.
struct Bill {
    with: Vec<Charge>,
    without: Vec<Charge>,
    compactions: usize,
    refused: usize,
}

fn bill(session: &Session, policy: &Policy) -> Result<Bill, Failure> {
    let requests = Requests::read(str::from_utf8(&session.body)?)?;
    let wholes = Prompt::read(&session.body)?.tokens_by_message();
    let counts: Vec<usize> = session.replay.requests().map(|it| it.messages()).collect();
    let mut bill = Bill {
        with: vec![Charge::default(); Rule::ALL.len()],
        without: vec![Charge::default(); Rule::ALL.len()],
        compactions: 0,
        refused: 0,
    };
    // Only a client of a provider with marks sends marks.
    for (marks, rules) in [
        (Marks::None, &[Rule::Steps, Rule::Local, Rule::Messages][..]),
        (Marks::Three, &[Rule::Marks]),
    ] {
        let mut player = Player::new(policy.clone(), rules);
        let mut before = 0;
        for &count in &counts {
            let body = requests.body(count, marks)?;
            let played = player.send(body.as_bytes())?;
            if marks == Marks::None {
                bill.compactions += usize::from(played.compacted);
                bill.refused += usize::from(played.refused);
            }
            let whole = count.checked_sub(1).and_then(|at| wholes.get(at));
            let whole = whole.copied().unwrap_or(before);
            for (rule, charge) in played.charges {
                let at = Rule::ALL.iter().position(|it| *it == rule);
                let add = |sums: &mut Vec<Charge>, charge: Charge| {
                    if let Some(sum) = at.and_then(|at| sums.get_mut(at)) {
                        sum.new += charge.new;
                        sum.cached += charge.cached;
                    }
                };
                add(&mut bill.with, charge);
                let without = Charge { new: whole - before, cached: before };
                add(&mut bill.without, without);
            }
            before = whole;
        }
    }
    Ok(bill)
}
