//! What nodes say to each other.

use alloc::boxed::Box;
use alloc::vec::Vec;
use bytes::Bytes;
use quorate_api::{Bucket, Reason, Reply, Request, SessionId};
use quorate_commit::{NotTaken, Outcome, Transaction, TransactionId, Vote, Word as Said};
use quorate_kernel::NodeId;
use quorate_replog as replog;
use quorate_shard::Asked;
use serde::{Deserialize, Serialize};

use crate::interface::{AdminOutcome, AdminRequest, Member};
use crate::origin::size_of_request;
use crate::recovery::Recovery;
use crate::ring::Word;

/// A message between two nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Message {
    /// Between two replicas of the log.
    Log(replog::Message),
    /// From an origin to the believed leader: an encoded batch for the log.
    Submit(Bytes),
    /// From the leader to an origin: requests are applied.
    Answers {
        /// The origin's session.
        session: SessionId,
        /// Number of the first request answered.
        first_seq: u64,
        /// Encoded replies, in order.
        replies: Vec<Bytes>,
    },
    /// From the leader to an origin: requests before the batch are missing.
    Gap {
        /// The origin's session.
        session: SessionId,
        /// The first request that is missing.
        expected: u64,
    },
    /// From the leader to an origin: the log does not know the session.
    SessionLost {
        /// Which session.
        session: SessionId,
    },
    /// To an origin whose batch was not taken: the receiver does not lead, or not yet.
    NotTaken,
    /// To origins whose batches were not taken: now they would be.
    TakesBatches,
    /// From an origin to the believed leader, before the first batch of a session: how far is the log?
    Begin {
        /// The new session.
        session: SessionId,
    },
    /// From the leader to an origin: the log is this far.
    Begun {
        /// As in `Begin`.
        session: SessionId,
        /// An entry that is chosen.
        since: replog::Index,
    },
    /// From an origin to the believed leader: strict reads.
    Read {
        /// Names the read.
        id: u64,
        /// What to read.
        requests: Vec<Request>,
    },
    /// From the leader to an origin: the answers to a read.
    ReadAnswers {
        /// As in `Read`.
        id: u64,
        /// The newest entry that what was read contains.
        applied: replog::Index,
        /// One for each request, or for the first of them: the others are to be asked again.
        replies: Vec<Reply>,
    },
    /// To an origin: the read was not answered and should be asked elsewhere.
    ReadRefused {
        /// As in `Read`.
        id: u64,
    },
    /// From a leader whose disk is full, now and then, to all.
    Full,
    /// To whoever a connection stands to: who the sender is, so that it can be answered.
    Contact(Member),
    /// From a node that wants to be a member, or whose addresses have changed; handed on to the leader.
    Join(Member),
    /// From a node to the believed leader: an operator's request.
    Admin {
        /// Names it.
        id: u64,
        /// What is asked.
        request: AdminRequest,
    },
    /// The end of an operator's request.
    AdminEnded {
        /// As in `Admin`.
        id: u64,
        /// How it went.
        outcome: AdminOutcome,
    },
    /// One of the messages above or below, about another bucket than bucket 0.
    In(Bucket, Box<Message>),
    /// From an origin to the believed leader of the bucket that is to coordinate it: a transaction over several.
    Transact(Box<Transaction>),
    /// From that leader to the origin: how it ended.
    Transacted {
        /// Which transaction.
        id: TransactionId,
        /// How.
        outcome: Box<Outcome>,
    },
    /// From that leader to the origin: it was not taken.
    TransactionNotTaken {
        /// Which transaction.
        id: TransactionId,
        /// Why.
        why: NotTaken,
    },
    /// From the leader of one bucket to that of another, concerning a transaction of both.
    Told(Box<quorate_commit::Message>),
    /// Between two nodes, about who is there.
    Membership(Box<quorate_membership::Message>),
    /// To a node that wants in: who the members are, so that it can reach them.
    Acquaint(Vec<Member>),
    /// As [`Message::LeadsAll`] for one bucket, up to version 3 of the conversation.
    Leads {
        /// The ballot it leads.
        ballot: replog::Ballot,
    },
    /// To whoever may not know it: an encoded charter of the cluster, see `placing.rs`.
    Charter(Bytes),
    /// To any member: is there a newer one than this?
    CharterWanted {
        /// Number of the placement that the sender knows.
        number: u64,
    },
    /// To the leader of bucket 0: so is the log of a bucket.
    Report {
        /// The placement that it was brought in line with.
        mark: u64,
        /// Its members.
        members: Vec<NodeId>,
    },
    /// From an origin to the believed leader: as of which entry may the origin's own copy answer strict reads?
    ReadIndex {
        /// Names the question.
        id: u64,
    },
    /// From the leader to the origin: as of this one, or a newer. Refused with [`Message::ReadRefused`].
    ReadIndexed {
        /// As in `ReadIndex`.
        id: u64,
        /// The entry.
        index: replog::Index,
    },
    /// From a leader to an origin, ahead of the answer: why a request did nothing, or what it waits for.
    Reason {
        /// Which request; a read by the name that it was asked under.
        asked: Asked,
        /// Why.
        reason: Box<Reason>,
    },
    /// About a bucket that lost its majority.
    Recovery(Recovery),
    /// To the leader of bucket 0: this is what the sender should be known as to those who place buckets.
    Stands(Box<quorate_buckets::Node>),
    /// About the group whose home the bucket is.
    Group(Box<Word>),
    /// From the leader of buckets to all members, when it begins to take requests and now and then: the ballots it leads.
    LeadsAll(Vec<(Bucket, replog::Ballot)>),
    /// Between replicas of several logs, in this order, as if each had come by itself: beats, and their answers.
    Logs(Vec<(Bucket, replog::Message)>),
    /// Reads, transactions, answers to them, votes and acknowledgements, in this order, as if each had come by itself.
    Together(Vec<Message>),
    /// As [`Message::Transact`], of a request that meets others, to a copy of bucket 0 that sends it on to the leader, and from there.
    Carry {
        /// Whose it is, and who is answered.
        origin: NodeId,
        /// What is asked.
        transaction: Box<Transaction>,
    },
}

/// What messages are for, as [`Message::purpose`] says it.
pub const PURPOSES: [&str; 7] = ["logs", "leaders", "groups", "people", "echoes", "seeks", "rest"];

impl Message {
    /// What it is for, in a word, for those who count: one of [`PURPOSES`].
    pub const fn purpose(&self) -> &'static str {
        match self {
            Message::In(_, msg) => msg.purpose(),
            Message::Log(_) | Message::Logs(_) => "logs",
            Message::Leads { .. } | Message::LeadsAll(_) => "leaders",
            Message::Group(word) => match **word {
                Word::Here(_) | Word::People(_) | Word::Who(_) | Word::Lived { .. } => "people",
                Word::Echo { .. } => "echoes",
                Word::Seek { .. } | Word::Found(_) => "seeks",
                Word::Seat { .. }
                | Word::Wants
                | Word::Leaves
                | Word::Twice
                | Word::Load(_)
                | Word::Agrees(_) => "groups",
            },
            _ => "rest",
        }
    }

    /// Whether only whoever leads the bucket can do something with it.
    pub(crate) fn is_for_leaders(&self) -> bool {
        matches!(
            self,
            Message::Submit(_)
                | Message::Begin { .. }
                | Message::Read { .. }
                | Message::ReadIndex { .. }
                | Message::Transact(_)
                | Message::Told(_)
        )
    }

    /// If it may be said together with others: its bytes, about.
    pub(crate) fn bytes_together(&self) -> Option<usize> {
        match self {
            Message::In(_, msg) => match &**msg {
                Message::In(..) => None,
                msg => msg.bytes_together(),
            },
            Message::Transact(transaction) | Message::Carry { transaction, .. } => Some(transaction.bytes()),
            Message::Transacted { outcome, .. } => match &**outcome {
                Outcome::Committed(decision) => Some(decision.len()),
                Outcome::Aborted(_) => Some(0),
            },
            Message::TransactionNotTaken { .. } => Some(0),
            Message::Told(told) => match &told.word {
                Said::Vote { vote: Vote::Yes(export), .. } => Some(export.len()),
                Said::Vote { .. } | Said::Acknowledge => Some(0),
                _ => None,
            },
            Message::Read { requests, .. } => Some(requests.iter().map(size_of_request).sum()),
            Message::ReadAnswers { replies, .. } => Some(replies.iter().map(Reply::size_bytes).sum()),
            _ => None,
        }
    }

    /// This message, about this bucket.
    pub(crate) fn about(self, bucket: Bucket) -> Message {
        if bucket == Bucket(0) { self } else { Message::In(bucket, Box::new(self)) }
    }
}
