//! The core workloads of YCSB (Cooper et al., SoCC 2010): records with fields, six mixes of operations.
//!
//! A record is one string: its fields one after the other, each of the same length. So a read of all fields is GET, an
//! update of one field is SETRANGE at its place, an insert is SET. The store keeps keys in no order: a scan is the
//! MGET of records with successive numbers, whose keys the client makes itself. That moves as many bytes as a scan, but
//! finds no keys; it stands for the range reads of other stores with this reservation.
//!
//! Operations can be grouped into transactions: operations are added until the transaction holds a number of different
//! keys, then it commits; what is held is not asked for again, and a transaction that fails is not repeated. So did the
//! evaluation of SconeKV, with 5 keys.

mod chance;
mod transaction;

pub use chance::{Requests, THETA, Zipfian, scatter};
pub use transaction::{Group, YcsbTransaction};

use std::collections::BTreeSet;

use bytes::Bytes;
use quorate_kernel::Rng;

use crate::transaction::Write;
use chance::Chooser;

/// Characters of values; 64, so that six random bits make one.
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
/// A transaction takes at most so many operations for each key it is to hold, however few keys are drawn.
const OPERATIONS_PER_KEY_MAX: u64 = 64;

/// The names of kinds, in the order of their numbers: operations, then what a group of them adds.
pub const KINDS: [&str; 7] =
    ["read", "update", "insert", "scan", "read-modify-write", "commit", "transaction"];

/// The core workloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Letter {
    /// Half reads, half updates.
    A,
    /// 95 % reads, 5 % updates.
    B,
    /// Reads.
    C,
    /// 95 % reads of the newest, 5 % inserts.
    D,
    /// 95 % scans, 5 % inserts.
    E,
    /// Half reads, half read-modify-writes.
    F,
}

impl Letter {
    /// Percent of reads, updates, inserts, scans, read-modify-writes.
    fn shares(self) -> [u64; 5] {
        match self {
            Letter::A => [50, 50, 0, 0, 0],
            Letter::B => [95, 5, 0, 0, 0],
            Letter::C => [100, 0, 0, 0, 0],
            Letter::D => [95, 0, 5, 0, 0],
            Letter::E => [0, 0, 5, 95, 0],
            Letter::F => [50, 0, 0, 0, 50],
        }
    }

    /// The distribution YCSB uses with it.
    pub fn requests(self) -> Requests {
        if self == Letter::D { Requests::Latest } else { Requests::Zipfian }
    }
}

/// Describes a load.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct YcsbSpec {
    /// Which mix.
    pub workload: Letter,
    /// Which records.
    pub requests: Requests,
    /// How many records are loaded.
    pub records: u64,
    /// Fields of a record.
    pub fields: usize,
    /// Bytes of a field.
    pub field_bytes: usize,
    /// Whether an update writes all fields, not one.
    pub writes_all_fields: bool,
    /// The most records of one scan; lengths are drawn evenly.
    pub scan_max: u64,
    /// Different keys after which a transaction commits.
    pub keys_per_transaction: u64,
    /// How operations are grouped.
    pub group: Group,
    /// What all keys begin with.
    pub prefix: String,
}

impl YcsbSpec {
    /// YCSB's own numbers for a workload.
    pub fn new(workload: Letter) -> YcsbSpec {
        YcsbSpec {
            workload,
            requests: workload.requests(),
            records: 1_000,
            fields: 10,
            field_bytes: 100,
            writes_all_fields: false,
            scan_max: 100,
            keys_per_transaction: 1,
            group: Group::None,
            prefix: "ycsb:".into(),
        }
    }

    /// What is wrong with it, and what to do.
    ///
    /// # Errors
    /// If a number makes no sense.
    pub fn validate(&self) -> Result<(), String> {
        let positive = [
            ("records", self.records),
            ("fields", self.fields as u64),
            ("bytes of a field", self.field_bytes as u64),
            ("records of a scan", self.scan_max),
            ("keys of a transaction", self.keys_per_transaction),
        ];
        for (name, value) in positive {
            if value == 0 {
                return Err(format!("the number of {name} is 0: choose 1 or more"));
            }
        }
        if self.records < self.keys_per_transaction {
            return Err(format!(
                "transactions of {} keys need as many records, and there are {}",
                self.keys_per_transaction, self.records
            ));
        }
        if self.group == Group::None && self.keys_per_transaction > 1 {
            return Err("operations that are not grouped have one key each".into());
        }
        Ok(())
    }

    /// The key of a record: as in YCSB the number is scattered, so that neighbours are not neighbours in the store.
    pub fn key(&self, number: u64) -> Bytes {
        format!("{}user{}", self.prefix, scatter(number)).into()
    }

    /// The records in order, each of the same content whoever makes it.
    pub fn load(&self, seed: u64) -> impl Iterator<Item = Write> + Send + 'static {
        let spec = self.clone();
        (0..self.records).map(move |number| {
            let mut rng = Rng::new(seed ^ scatter(number));
            Write::Put { key: spec.key(number), value: text(&mut rng, spec.record_bytes()) }
        })
    }

    /// Bytes of a record.
    pub fn record_bytes(&self) -> usize {
        self.fields * self.field_bytes
    }
}

/// So many random characters.
fn text(rng: &mut Rng, bytes: usize) -> Bytes {
    let mut text = Vec::with_capacity(bytes + 9);
    while text.len() < bytes {
        let mut bits = rng.next_u64();
        // Ten characters of six bits each.
        for _ in 0..10 {
            text.push(ALPHABET[(bits & 63) as usize]);
            bits >>= 6;
        }
    }
    text.truncate(bytes);
    text.into()
}

/// Which records there are: those loaded, and those inserted since. Shared by all clients.
#[derive(Debug, Clone)]
pub struct Frontier {
    next: u64,
    settled: u64,
    /// Inserts that ended while an earlier one had not.
    early: BTreeSet<u64>,
}

impl Frontier {
    /// After loading so many records.
    pub fn new(records: u64) -> Frontier {
        Frontier { next: records, settled: records, early: BTreeSet::new() }
    }

    /// The number of a new record.
    pub fn take(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    /// The insert of this record has ended, well or not.
    pub fn settle(&mut self, number: u64) {
        self.early.insert(number);
        while self.early.remove(&self.settled) {
            self.settled += 1;
        }
    }

    /// All records below this number may be asked for.
    pub fn settled(&self) -> u64 {
        self.settled
    }
}

/// One operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Operation {
    Read(Bytes),
    Update { key: Bytes, offset: usize, value: Bytes },
    Insert { number: u64, key: Bytes, value: Bytes },
    Scan(Vec<Bytes>),
    Modify { key: Bytes, offset: usize, value: Bytes },
}

/// Makes transactions. Each thread has its own.
#[derive(Debug, Clone)]
pub struct Ycsb {
    spec: YcsbSpec,
    chooser: Chooser,
    rng: Rng,
}

impl Ycsb {
    /// Of this load.
    ///
    /// # Errors
    /// See [`YcsbSpec::validate`].
    pub fn new(spec: YcsbSpec, rng: Rng) -> Result<Ycsb, String> {
        spec.validate()?;
        let chooser = Chooser::new(spec.requests, spec.records, spec.workload.shares()[2] > 0);
        Ok(Ycsb { chooser, spec, rng })
    }

    /// The same with another chance, for another thread: what follows from the number of records is not computed again.
    #[must_use]
    pub fn with(&self, rng: Rng) -> Ycsb {
        Ycsb { rng, ..self.clone() }
    }

    /// The next transaction.
    pub fn next(&mut self, frontier: &mut Frontier) -> YcsbTransaction {
        if self.spec.group == Group::None {
            return YcsbTransaction::new(vec![self.operation(frontier)], Group::None);
        }
        let wanted = self.spec.keys_per_transaction;
        let (mut operations, mut keys) = (Vec::new(), BTreeSet::new());
        while (keys.len() as u64) < wanted && (operations.len() as u64) < wanted * OPERATIONS_PER_KEY_MAX {
            let operation = self.operation(frontier);
            match &operation {
                Operation::Scan(scanned) => keys.extend(scanned.iter().cloned()),
                Operation::Read(key)
                | Operation::Update { key, .. }
                | Operation::Insert { key, .. }
                | Operation::Modify { key, .. } => {
                    keys.insert(key.clone());
                }
            }
            operations.push(operation);
        }
        YcsbTransaction::new(operations, self.spec.group)
    }

    fn operation(&mut self, frontier: &mut Frontier) -> Operation {
        let [reads, updates, inserts, scans, _] = self.spec.workload.shares();
        let drawn = self.rng.below(100);
        if (reads + updates..reads + updates + inserts).contains(&drawn) {
            let number = frontier.take();
            let value = text(&mut self.rng, self.spec.record_bytes());
            return Operation::Insert { number, key: self.spec.key(number), value };
        }
        let number = self.chooser.draw(&mut self.rng, frontier);
        let key = self.spec.key(number);
        if drawn < reads {
            Operation::Read(key)
        } else if drawn < reads + updates {
            let (offset, value) = self.part();
            Operation::Update { key, offset, value }
        } else if drawn < reads + updates + inserts + scans {
            let end = (number + self.rng.between(1, self.spec.scan_max)).min(frontier.settled());
            Operation::Scan((number..end).map(|number| self.spec.key(number)).collect())
        } else {
            let (offset, value) = self.part();
            Operation::Modify { key, offset, value }
        }
    }

    /// What an update writes, and where.
    fn part(&mut self) -> (usize, Bytes) {
        if self.spec.writes_all_fields {
            return (0, text(&mut self.rng, self.spec.record_bytes()));
        }
        let field = self.rng.below(self.spec.fields as u64) as usize;
        (field * self.spec.field_bytes, text(&mut self.rng, self.spec.field_bytes))
    }
}

#[cfg(test)]
mod tests;
