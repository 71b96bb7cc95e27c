//! Why requests did nothing or waited, for whoever asks: told beside their answers by the primary that found it.
//!
//! None of it is replicated. A primary that was just elected, or a reply that is repeated, tells nothing.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use bytes::Bytes;
use quorate_api::{Bucket, Culprit, Reason, ReasonKind, Request, SessionId, TransactionName, Version};
use quorate_commit::{Attempt, Cause, LogId, Refusal, TransactionId, Wait};
use quorate_kernel::wire;
use serde::{Deserialize, Serialize};

use crate::Mutant;
use crate::batch::decode_batch;
use crate::machine::{Out, Output, Shard};
use crate::part::Place;
use crate::view::{VERSION_OVER, View};

/// Which request a reason is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Asked {
    /// One that goes through the log.
    Request {
        /// Whose.
        session: SessionId,
        /// Its number.
        seq: u64,
    },
    /// A strict read.
    Read {
        /// The name under which it was asked, with others.
        name: u64,
        /// Which of them, from 0.
        place: u32,
    },
    /// A transaction.
    Transaction(TransactionId),
}

/// A watched key that has changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Moved {
    key: Bytes,
    pub(crate) watched: Version,
    pub(crate) found: Version,
}

impl View<'_> {
    /// The first of the watched keys that has another version by now.
    pub(crate) fn moved(&mut self, watched: &[(Bytes, Version)]) -> Option<Moved> {
        let moved = watched.iter().find_map(|(key, watched)| {
            let found = self.version(key);
            (found != *watched).then(|| Moved { key: key.clone(), watched: *watched, found })
        })?;
        if self.limits.breaks(Mutant::ReasonsMadeUp) {
            let (key, watched) = watched.first().cloned()?;
            let found = Version(self.version(&key).0 + 1);
            return Some(Moved { key, watched, found });
        }
        Some(moved)
    }
}

/// Who gave the newest versions, as far as this replica saw it in this life.
#[derive(Debug, Default)]
pub(crate) struct Writers {
    /// The version before, the last one given, and by whom; ascending.
    spans: VecDeque<(u64, u64, Culprit)>,
    newest: u64,
}

impl Writers {
    const SPANS_MAX: usize = 4_096;

    /// What comes next gives versions above this.
    pub(crate) fn begin(&mut self, version: u64) {
        self.newest = version;
    }

    /// Versions up to this were given by `culprit`.
    pub(crate) fn gave(&mut self, version: u64, culprit: Culprit) {
        if version == self.newest {
            return;
        }
        if self.spans.len() >= Self::SPANS_MAX {
            self.spans.pop_front();
        }
        self.spans.push_back((self.newest, version, culprit));
        self.newest = version;
    }

    fn who(&self, version: Version) -> Culprit {
        let at = self.spans.partition_point(|(_, last, _)| *last < version.0);
        if version.0 & VERSION_OVER != 0 {
            return Culprit { expiry: true, ..Culprit::default() };
        }
        let span = self.spans.get(at).filter(|(before, ..)| *before < version.0);
        span.map_or_else(Culprit::default, |(_, _, culprit)| *culprit)
    }

    /// That a watched key has changed, as a reason.
    pub(crate) fn reason(&self, me: LogId, moved: Moved) -> Box<Reason> {
        let Moved { key, watched, found } = moved;
        Box::new(Reason {
            kind: ReasonKind::Changed,
            bucket: bucket(me),
            // It lies in a batch, which a reason must not keep alive.
            key: Some(Bytes::copy_from_slice(&key)),
            versions: Some((watched, found)),
            by: self.who(found),
            waited_ms: 0,
        })
    }

    /// The same for a transaction over several shards: its refusal carries the reason.
    pub(crate) fn refuse(&self, me: LogId, moved: Moved) -> Attempt {
        let reason = self.reason(me, moved);
        let by = reason.by.transaction.map(id_of);
        Attempt::Refused { resource: Bytes::from(wire::encode(&*reason)), by }
    }
}

impl Shard {
    /// A transaction waits, or has waited, at one of its shards.
    pub(crate) fn tell_wait(&mut self, id: TransactionId, wait: &Wait, out: &mut Out) {
        let (asked, reason) = (Asked::Transaction(id), Box::new(reason_of_wait(wait)));
        // Nothing rests on it.
        out.output_early(Output::Reason { to: None, asked, reason });
    }
}

impl Shard {
    /// Tells of the transactions among batches that go into the log now, and had waited for long, what for.
    pub(crate) fn tell_waited(&mut self, waited: Vec<(Bytes, (Place, TransactionId), u64)>, out: &mut Out) {
        let least_ms = self.limits.commit.told_after.as_millis();
        let me = LogId(self.log.number().into());
        for (batch, (place, by), waited_ms) in waited {
            let Ok((header, requests)) = decode_batch(&batch) else { continue };
            let transactions = requests.iter().zip(header.first_seq..);
            let transactions =
                transactions.filter(|(request, _)| matches!(request, Request::Transaction { .. }));
            for (_, seq) in transactions.filter(|_| u128::from(waited_ms) >= least_ms) {
                let asked = Asked::Request { session: header.session, seq };
                let wait = Wait { log: me, resource: place.key(), by, waited_ms };
                let (to, reason) = (Some(header.origin), Box::new(reason_of_wait(&wait)));
                // Nothing rests on it.
                out.output_early(Output::Reason { to, asked, reason });
            }
        }
    }
}

/// By a request that a client of this node asked for.
pub(crate) fn by_node(node: quorate_kernel::NodeId) -> Culprit {
    Culprit { node: Some(node.0), ..Culprit::default() }
}

/// By this transaction. Places of requests that lock nothing are names of no origin.
pub(crate) fn by_transaction(id: TransactionId) -> Culprit {
    let name = TransactionName { age_ms: id.age, origin: id.origin, sequence: id.sequence };
    Culprit { transaction: (id.origin != 0).then_some(name), ..Culprit::default() }
}

fn id_of(name: TransactionName) -> TransactionId {
    TransactionId { age: name.age_ms, origin: name.origin, sequence: name.sequence }
}

fn bucket(log: LogId) -> Bucket {
    Bucket(u16::try_from(log.0).unwrap_or_default())
}

/// What a transaction's abort says.
pub fn reason_of_refusal(refusal: &Refusal) -> Reason {
    let kind = match refusal.cause {
        Cause::Resource => ReasonKind::Changed,
        Cause::Unreached | Cause::Unknown | Cause::Votes => ReasonKind::Lost,
        Cause::Settled => ReasonKind::Forgotten,
        Cause::Busy => ReasonKind::Busy,
        Cause::TooLarge | Cause::Crowded => ReasonKind::TooLarge,
        Cause::GaveUp => ReasonKind::GaveUp,
    };
    let told = wire::decode::<Reason>(&refusal.resource).ok().filter(|_| kind == ReasonKind::Changed);
    if let Some(reason) = told {
        return Reason { waited_ms: refusal.waited_ms, ..reason };
    }
    Reason {
        kind,
        bucket: bucket(refusal.log),
        key: (!refusal.resource.is_empty()).then(|| refusal.resource.clone()),
        versions: None,
        by: refusal.by.map(by_transaction).unwrap_or_default(),
        waited_ms: refusal.waited_ms,
    }
}

/// What a transaction waits for.
pub fn reason_of_wait(wait: &Wait) -> Reason {
    Reason {
        kind: ReasonKind::Waited,
        bucket: bucket(wait.log),
        key: (!wait.resource.is_empty()).then(|| wait.resource.clone()),
        versions: None,
        by: by_transaction(wait.by),
        waited_ms: wait.waited_ms,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_kernel::NodeId;

    #[test]
    fn a_version_is_of_whoever_gave_it_and_of_nobody_before_this_life() {
        let mut writers = Writers::default();
        writers.begin(10);
        writers.gave(10, by_node(NodeId(9)));
        writers.gave(12, by_node(NodeId(1)));
        writers.gave(13, Culprit { expiry: true, ..Culprit::default() });
        // A snapshot brought others.
        writers.begin(20);
        let id = TransactionId { age: 5, origin: 6, sequence: 7 };
        writers.gave(21, by_transaction(id));
        let node = |version| writers.who(Version(version)).node;
        assert_eq!(
            [10, 11, 12, 13, 14, 20, 21, 22].map(node),
            [None, Some(1), Some(1), None, None, None, None, None]
        );
        assert!(writers.who(Version(13)).expiry && !writers.who(Version(14)).expiry);
        assert_eq!(writers.who(Version(21)), by_transaction(id));
        (30..10_000).for_each(|version| writers.gave(version, by_node(NodeId(2))));
        assert_eq!(writers.spans.len(), Writers::SPANS_MAX);
        assert_eq!(
            [writers.who(Version(21)), writers.who(Version(9_999))],
            [Culprit::default(), by_node(NodeId(2))]
        );
    }

    #[test]
    fn refusals_carry_their_reasons_and_those_of_older_programs_their_keys() {
        let mut writers = Writers::default();
        let id = TransactionId { age: 5, origin: 6, sequence: 7 };
        writers.gave(4, by_transaction(id));
        let moved = Moved { key: Bytes::from_static(b"k"), watched: Version(2), found: Version(4) };
        let Attempt::Refused { resource, by } = writers.refuse(LogId(3), moved) else {
            panic!("it is refused")
        };
        assert_eq!(by, Some(id));
        let refusal = Refusal { log: LogId(3), cause: Cause::Resource, resource, by, waited_ms: 8 };
        let reason = reason_of_refusal(&refusal);
        assert_eq!((reason.bucket, reason.versions), (Bucket(3), Some((Version(2), Version(4)))));
        assert_eq!((reason.by, reason.waited_ms), (by_transaction(id), 8));
        let old = reason_of_refusal(&Refusal { resource: Bytes::from_static(b"k"), ..refusal });
        assert_eq!(
            (old.kind, old.key, old.versions),
            (ReasonKind::Changed, Some(Bytes::from_static(b"k")), None)
        );
    }
}
