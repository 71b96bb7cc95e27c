//! What a node keeps on disk: records of its logs, each with the bucket it belongs to.
//!
//! A record of bucket 0 is written as it is, one of another bucket behind a mark that no record begins with: so the
//! disks of nodes that had one bucket stay readable.

use alloc::vec::Vec;
use quorate_api::Bucket;
use quorate_replog::{self as replog, Ballot, Entry, Epoch, Index};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A record of one of a node's logs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Whose.
    pub bucket: Bucket,
    /// What its log wants to find again.
    pub record: replog::Record,
}

/// The place of [`Form::In`] among the variants.
const IN: u32 = 5;

/// How a record is written: the variants of [`replog::Record`], and one more.
#[derive(Deserialize)]
enum Form {
    Promise(Ballot),
    Append { first: Index, log_ballot: Ballot, entries: Vec<Entry> },
    Entered(Epoch),
    Installed { base: Index, base_ballot: Ballot },
    Kept { promised: Ballot, log_ballot: Ballot, epochs: Vec<Epoch> },
    In((Bucket, replog::Record)),
}

impl Serialize for Record {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.bucket {
            Bucket(0) => self.record.serialize(serializer),
            bucket => serializer.serialize_newtype_variant("Record", IN, "In", &(bucket, &self.record)),
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
        };
        Ok(Record { bucket, record })
    }
}
