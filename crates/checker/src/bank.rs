//! Transfers keep the total.
//!
//! Accounts are counters. A transaction whose additions sum to zero is a transfer, one whose additions do not is a
//! deposit. A transaction that reads all accounts at once must find the sum of the deposits.

use std::collections::HashSet;

use quorate_api::history::{Check, Ending, Op};

use crate::linear::describe;
use crate::report::{SHOWN_MAX, Violation};
use crate::{Entry, History, Report};

/// A change of the total.
struct Deposit {
    amount: i128,
    start: u64,
    deadline: u64,
}

pub(crate) fn check(history: &History) -> Report {
    let entries = history.entries();
    let ops = entries.iter().flat_map(|entry| &entry.ops);
    let accounts: HashSet<&str> =
        ops.filter(|op| matches!(op, Op::Add { .. } | Op::Count { .. })).map(Op::key).collect();
    let deposits: Vec<Deposit> = entries.iter().filter_map(deposit).collect();
    let (mut violations, mut reads) = (Vec::new(), 0_usize);
    for entry in entries.iter().filter(|entry| entry.is_ok()) {
        let Some(total) = total_of(entry, &accounts) else { continue };
        reads += 1;
        let (low, high) = bounds(&deposits, entry);
        if (total < low || total > high) && violations.len() < SHOWN_MAX {
            let expected = if low == high { format!("{low}") } else { format!("from {low} to {high}") };
            let text =
                format!("the accounts sum to {total}, but should to {expected}\n  {}", describe(entry));
            violations.push(Violation { name: "wrong total", text, lines: vec![entry.line] });
        }
    }
    let hole = (reads == 0).then(|| {
        format!(
            "no transaction reads all {} accounts at once, so there is no total to compare",
            accounts.len()
        )
    });
    let looked_at = format!("{reads} reads of {} accounts", accounts.len());
    Report::new(Check::Bank, looked_at, violations, hole)
}

fn deposit(entry: &Entry) -> Option<Deposit> {
    let added = entry.ops.iter().map(|op| match op {
        Op::Add { amount, .. } => i128::from(*amount),
        _ => 0,
    });
    let amount: i128 = added.sum();
    let happened = entry.outcome != Ending::Fail && amount != 0;
    happened.then(|| Deposit { amount, start: entry.start, deadline: entry.deadline() })
}

/// The total that a transaction saw, if it looked at all accounts and changed none.
fn total_of(entry: &Entry, accounts: &HashSet<&str>) -> Option<i128> {
    let mut seen = HashSet::new();
    let mut total = 0_i128;
    for op in &entry.ops {
        let Op::Count { key, result: Some(balance) } = op else { return None };
        if seen.insert(key.as_str()) {
            total += i128::from(*balance);
        }
    }
    (seen.len() == accounts.len()).then_some(total)
}

/// The smallest and the largest total that `entry` may see: deposits that overlap it may count or not.
fn bounds(deposits: &[Deposit], entry: &Entry) -> (i128, i128) {
    let (mut low, mut high) = (0, 0);
    for deposit in deposits.iter().filter(|deposit| deposit.start <= entry.deadline()) {
        let is_certain = deposit.deadline < entry.start;
        low += if is_certain { deposit.amount } else { deposit.amount.min(0) };
        high += if is_certain { deposit.amount } else { deposit.amount.max(0) };
    }
    (low, high)
}
