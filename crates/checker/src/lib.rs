//! Judges histories: linearizability, strict serializability, bank and ring invariants, sessions, durability.
//!
//! It does not believe the code it judges: of the project it knows only the words of `quorate-api`. It never says
//! that a history is fine when it could not decide; it then says [`Verdict::GaveUp`].
//!
//! The format of histories is described in `FORMAT.md`; [`History::read`] reads it, [`check`] judges.
//!
//! # Glossary
//! - *required* operation: acknowledged, so it took effect between its start and its end.
//! - *optional* operation: of unknown outcome; it took effect at some time after its start, or never.
//! - *version order*: the order in which the values of one key followed each other.

mod bank;
mod cycle;
mod durable;
mod history;
mod linear;
mod report;
mod serial;
mod session;

pub use history::{Entry, History, ReadError};
pub use linear::Limits;
pub use report::{Report, Verdict, Violation};

use quorate_api::history::{Check, Op};

/// Judges `history` for one property.
pub fn check(history: &History, check: Check) -> Report {
    check_within(history, check, &Limits::default())
}

/// Judges `history` for one property with other limits for how hard to try.
pub fn check_within(history: &History, check: Check, limits: &Limits) -> Report {
    match check {
        Check::Linear => linear::check(history, limits),
        Check::Serial => serial::check(history),
        Check::Bank => bank::check(history),
        Check::Cycle => cycle::check(history),
        Check::Session => session::check(history),
        Check::Durable => durable::check(history),
    }
}

/// The checks that suit the operations of a history whose writer did not say what it is for.
pub fn suggest(history: &History) -> Vec<Check> {
    let (mut transactions, mut lists_only, mut finals) = (false, true, false);
    for entry in history.entries() {
        transactions |= entry.ops.len() > 1;
        finals |= entry.is_final;
        lists_only &= entry.ops.iter().all(|op| matches!(op, Op::Append { .. } | Op::List { .. }));
    }
    let mut checks = Vec::new();
    if !transactions {
        checks.push(Check::Linear);
    }
    if lists_only {
        checks.push(Check::Serial);
    }
    if finals {
        checks.push(Check::Durable);
    }
    if checks.is_empty() {
        checks.push(Check::Linear);
    }
    checks
}
