//! QUORATE EXPLAIN: what became of the last transaction of a connection, and why.
//!
//! Explained are EXEC, QUORATE TXN, and whatever else a reason was told for. The answer is a map (an array of fields and values in
//! RESP2): `request`, `outcome` (`done`, `nil`, `refused`, `unknown`, `error`), `message`, `took-ms`, `attempts`, `reasons-told`,
//! and `reasons`, the newest last. Each reason is a map as well: `cause`, `bucket`, `key`, `watched-version`,
//! `found-version`, `transaction`, `node`, `client`, `waited-ms`; what nobody knows is nil.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;
use quorate_api::{Outcome, Reason, ReasonKind, Refusal, Reply, UNKNOWN_MESSAGE};

use crate::local::TRANSACTION_NAME;
use crate::step::What;
use crate::{Session, Step, World};

/// So many reasons are kept, the newest.
const REASONS_MAX: usize = 8;

/// Of an EXEC that did nothing, if nobody said why.
const LOST: &str = "a watched key had changed; whoever found it is not there any more to say which";

/// A request under way, and what was told about it.
#[derive(Debug)]
pub(crate) struct Story {
    request: &'static str,
    began_us: u64,
    /// Attempts that came to nothing.
    failed: u64,
    told: u64,
    reasons: Vec<Reason>,
}

impl Story {
    pub(crate) fn new(request: &'static str, began_us: u64) -> Story {
        Story { request, began_us, failed: 0, told: 0, reasons: Vec::new() }
    }

    /// Keeps a reason. A wait that goes on is one reason.
    pub(crate) fn note(&mut self, reason: Reason) {
        self.failed += u64::from(reason.kind.ends_attempt());
        let waited = |one: &Reason| one.kind == ReasonKind::Waited && one.bucket == reason.bucket;
        if reason.kind == ReasonKind::Waited
            && let Some(last) = self.reasons.last_mut().filter(|last| waited(last))
        {
            *last = reason;
            return;
        }
        self.told += 1;
        if self.reasons.len() >= REASONS_MAX {
            self.reasons.remove(0);
        }
        self.reasons.push(reason);
    }

    /// Whether this command asked for it.
    pub(crate) fn is(&self, command: &str) -> bool {
        self.request == command
    }

    /// Whether it depends on watched keys and nobody said which of them had changed.
    fn lacks_key(&self) -> bool {
        let watches = self.is("exec") || self.is(TRANSACTION_NAME);
        watches && !self.reasons.iter().any(|reason| reason.kind == ReasonKind::Changed)
    }

    /// Whether it is worth remembering although it is no transaction of the client's own making.
    pub(crate) fn is_told(&self) -> bool {
        !self.reasons.is_empty()
    }
}

/// What became of a request.
#[derive(Debug)]
pub(crate) struct Explanation {
    story: Story,
    outcome: &'static str,
    message: Option<String>,
    took_us: u64,
    attempts: u64,
}

impl Explanation {
    /// A request has ended.
    pub(crate) fn new(story: Story, outcome: &Outcome, now_us: u64) -> Explanation {
        let (name, message) = match outcome {
            Outcome::Done(Reply::NilArray | Reply::Nil) => ("nil", story.lacks_key().then(|| LOST.into())),
            Outcome::Done(Reply::Error(error)) => ("error", Some(error.0.clone())),
            Outcome::Done(_) => ("done", None),
            Outcome::Refused(refusal) => ("refused", Some(refusal.message().into())),
            Outcome::Unknown => ("unknown", Some(UNKNOWN_MESSAGE.into())),
        };
        // Of a request that its client named there is one attempt.
        let last = u64::from(*outcome != Outcome::Refused(Refusal::Aborted) || story.failed == 0);
        let took_us = now_us.saturating_sub(story.began_us);
        Explanation { attempts: story.failed + last, story, outcome: name, message, took_us }
    }

    /// An EXEC that never got to the node.
    pub(crate) fn at_the_door(outcome: &'static str, message: &str) -> Explanation {
        let (story, message) = (Story::new("exec", 0), Some(message.into()));
        Explanation { story, outcome, message, took_us: 0, attempts: 0 }
    }

    fn reply(&self) -> Reply {
        let reasons = self.story.reasons.iter().map(of_reason).collect();
        let fields = [
            ("request", Reply::bulk(self.story.request.replace('|', " "))),
            ("outcome", Reply::bulk(self.outcome)),
            ("message", self.message.clone().map_or(Reply::Nil, Reply::bulk)),
            ("took-ms", int(self.took_us / 1_000)),
            ("attempts", int(self.attempts)),
            ("reasons-told", int(self.story.told)),
            ("reasons", Reply::Array(reasons)),
        ];
        map(fields)
    }
}

fn of_reason(reason: &Reason) -> Reply {
    let by = &reason.by;
    let name = by.transaction.map(|name| format!("{}.{}.{}", name.age_ms, name.origin, name.sequence));
    let versions = |pick: fn((u64, u64)) -> u64| {
        let both = reason.versions.map(|(watched, found)| (watched.0, found.0));
        both.map(pick).map_or(Reply::Nil, int)
    };
    let number = |number: Option<u64>| number.map_or(Reply::Nil, |number| Reply::bulk(format!("{number}")));
    let changed = if by.expiry { "expired" } else { reason.kind.name() };
    map([
        ("cause", Reply::bulk(changed)),
        ("bucket", int(reason.bucket.0.into())),
        ("key", reason.key.clone().map_or(Reply::Nil, Reply::Bulk)),
        ("watched-version", versions(|(watched, _)| watched)),
        ("found-version", versions(|(_, found)| found)),
        ("transaction", name.map_or(Reply::Nil, Reply::bulk)),
        // These may be longer than an integer of the protocol.
        ("node", number(by.node)),
        ("client", number(by.client)),
        ("waited-ms", int(reason.waited_ms)),
    ])
}

fn int(number: u64) -> Reply {
    Reply::Int(i64::try_from(number).unwrap_or(i64::MAX))
}

fn map<const N: usize>(fields: [(&'static str, Reply); N]) -> Reply {
    Reply::Map(fields.into_iter().map(|(name, value)| (Reply::bulk(name), value)).collect())
}

impl Session {
    /// The command itself. It waits for the ends of earlier ones: one of them may be what it asks about.
    pub(crate) fn explain(&mut self, _: &[Bytes], _: &dyn World) -> Step {
        Step::Behind(self.then(What::Explain))
    }

    /// What is known of the last transaction; nil if there was none.
    pub(crate) fn explanation(&self) -> Reply {
        self.explanation.as_ref().map_or(Reply::Nil, Explanation::reply)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_api::{Bucket, Culprit};

    fn reason(kind: ReasonKind, bucket: u16, waited_ms: u64) -> Reason {
        Reason { kind, bucket: Bucket(bucket), key: None, versions: None, by: Culprit::default(), waited_ms }
    }

    #[test]
    fn waits_that_go_on_are_one_reason_and_the_newest_few_are_kept() {
        let mut story = Story::new("exec", 5_000);
        story.note(reason(ReasonKind::Waited, 1, 50));
        story.note(reason(ReasonKind::Waited, 1, 90));
        story.note(reason(ReasonKind::Waited, 2, 70));
        assert_eq!(story.reasons.iter().map(|one| one.waited_ms).collect::<Vec<_>>(), [90, 70]);
        (0..20).for_each(|ms| story.note(reason(ReasonKind::GaveUp, 1, ms)));
        assert_eq!((story.reasons.len(), story.told, story.failed), (REASONS_MAX, 22, 20));
        assert_eq!(story.reasons.last().map(|one| one.waited_ms), Some(19));
        let explanation = Explanation::new(story, &Outcome::Done(Reply::Array(Vec::new())), 9_999);
        assert_eq!((explanation.attempts, explanation.took_us, explanation.outcome), (21, 4_999, "done"));
    }

    #[test]
    fn a_name_is_attempted_once() {
        let mut story = Story::new("quorate|txn", 0);
        story.note(reason(ReasonKind::Lost, 1, 0));
        assert_eq!(Explanation::new(story, &Outcome::Refused(Refusal::Aborted), 0).attempts, 1);
        let unheard = Story::new("quorate|txn", 0);
        assert_eq!(Explanation::new(unheard, &Outcome::Refused(Refusal::Aborted), 0).attempts, 1);
    }
}
