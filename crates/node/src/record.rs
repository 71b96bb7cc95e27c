//! What a node keeps on disk: records of its logs, each with the bucket it belongs to, and of its membership.
//!
//! A record of bucket 0 is written as it is (a later kind as others), any other behind a mark that no such record begins with: so the disks of
//! nodes that had one bucket stay readable.

use alloc::vec::Vec;
use quorate_api::Bucket;
use quorate_membership as membership;
use quorate_replog::{self as replog, Ballot, Entry, Epoch, Index};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A record of one of a node's machines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// What the log of a bucket wants to find again.
    Log {
        /// Whose.
        bucket: Bucket,
        /// What.
        record: replog::Record,
    },
    /// What the membership wants to find again.
    Membership(membership::Record),
}

/// The place of [`Form::In`] among the variants.
const IN: u32 = 5;
/// And that of [`Form::Membership`].
const MEMBERSHIP: u32 = 6;

/// How a record is written: the variants of [`replog::Record`], and more.
#[derive(Deserialize)]
enum Form {
    Promise(Ballot),
    Append { first: Index, log_ballot: Ballot, entries: Vec<Entry> },
    Entered(Epoch),
    Installed { base: Index, base_ballot: Ballot },
    Kept { promised: Ballot, log_ballot: Ballot, epochs: Vec<Epoch> },
    In((Bucket, replog::Record)),
    Membership(membership::Record),
}

impl Serialize for Record {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            // The marks are where its later variants would be.
            Record::Log { bucket: Bucket(0), record } if !matches!(record, replog::Record::Fenced(_)) => {
                record.serialize(serializer)
            }
            Record::Log { bucket, record } => {
                serializer.serialize_newtype_variant("Record", IN, "In", &(bucket, record))
            }
            Record::Membership(record) => {
                serializer.serialize_newtype_variant("Record", MEMBERSHIP, "Membership", record)
            }
        }
    }
}

impl<'de> Deserialize<'de> for Record {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (bucket, record) = match Form::deserialize(deserializer)? {
            Form::Promise(ballot) => (Bucket(0), replog::Record::Promise(ballot)),
            Form::Append { first, log_ballot, entries } => {
                (Bucket(0), replog::Record::Append { first, log_ballot, entries })
            }
            Form::Entered(epoch) => (Bucket(0), replog::Record::Entered(epoch)),
            Form::Installed { base, base_ballot } => {
                (Bucket(0), replog::Record::Installed { base, base_ballot })
            }
            Form::Kept { promised, log_ballot, epochs } => {
                (Bucket(0), replog::Record::Kept { promised, log_ballot, epochs })
            }
            Form::In(inside) => inside,
            Form::Membership(record) => return Ok(Record::Membership(record)),
        };
        Ok(Record::Log { bucket, record })
    }
}
