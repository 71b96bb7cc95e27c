//! Transactions of benchmarks, apart from how a store is asked: reads in rounds, then all writes at once.
//!
//! A driver asks [`Transaction::next`], does what it says, hands what was read to [`Transaction::answered`], and asks
//! again, until the answer is not a round of reads. With optimistic control every key of a round is watched before it
//! is read, and the writes happen only if none of them has changed.

use bytes::Bytes;

/// Something to read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Read {
    /// A string.
    Value(Bytes),
    /// Elements of a list, both ends included; negative indices count from its end.
    Elements {
        /// The list.
        key: Bytes,
        /// The first.
        from: i64,
        /// The last.
        to: i64,
    },
    /// Nothing but the version of the key, for a write that does not look at what it replaces. Brings nothing and
    /// costs nothing where no key is watched.
    Version(Bytes),
}

impl Read {
    /// All elements of a list.
    pub fn list(key: Bytes) -> Read {
        Read::Elements { key, from: 0, to: -1 }
    }

    /// Of which key.
    pub fn key(&self) -> &Bytes {
        match self {
            Read::Value(key) | Read::Elements { key, .. } | Read::Version(key) => key,
        }
    }
}

/// What was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    /// There is no such key, or only its version was asked for.
    Nothing,
    /// The string.
    Value(Bytes),
    /// The elements in order.
    Elements(Vec<Bytes>),
}

/// Something to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Write {
    /// Sets a string.
    Put {
        /// The key.
        key: Bytes,
        /// All of it.
        value: Bytes,
    },
    /// Replaces a part of a string.
    PutAt {
        /// The key.
        key: Bytes,
        /// Where the part begins.
        offset: usize,
        /// The part.
        value: Bytes,
    },
    /// Adds elements behind the last of a list.
    Push {
        /// The list.
        key: Bytes,
        /// What is added, at least one.
        elements: Vec<Bytes>,
    },
    /// Makes a list of these elements, whatever there was: the same again changes nothing.
    Fill {
        /// The list.
        key: Bytes,
        /// All of it, at least one.
        elements: Vec<Bytes>,
    },
    /// Replaces an element of a list.
    Replace {
        /// The list.
        key: Bytes,
        /// Which.
        index: usize,
        /// By what.
        element: Bytes,
    },
    /// Removes a key.
    Remove {
        /// The key.
        key: Bytes,
    },
}

impl Write {
    /// Which key it changes.
    pub fn key(&self) -> &Bytes {
        match self {
            Write::Put { key, .. }
            | Write::PutAt { key, .. }
            | Write::Push { key, .. }
            | Write::Fill { key, .. }
            | Write::Replace { key, .. }
            | Write::Remove { key } => key,
        }
    }

    /// How long keys and values are, about.
    pub fn bytes(&self) -> usize {
        let body = match self {
            Write::Put { value, .. } | Write::PutAt { value, .. } => value.len(),
            Write::Push { elements, .. } | Write::Fill { elements, .. } => {
                elements.iter().map(Bytes::len).sum()
            }
            Write::Replace { element, .. } => element.len(),
            Write::Remove { .. } => 0,
        };
        self.key().len() + body
    }
}

/// What a transaction wants next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    /// To read these; then it goes on.
    Read {
        /// In the order in which they are to be answered.
        reads: Vec<Read>,
        /// The kind of operation that waits for them, if it is measured apart from the transaction.
        kind: Option<usize>,
    },
    /// To end: with all of these at one moment, or none of them.
    Commit {
        /// Reads that are part of that moment, and whose answers nobody waits for.
        reads: Vec<Read>,
        /// The writes in order.
        writes: Vec<Write>,
    },
    /// To end without a trace.
    Rollback,
    /// To end; it only read, and nothing of that need have been true at one moment.
    Finish,
    /// To be given up: what was read makes no sense.
    Impossible(String),
}

/// One transaction under way.
pub trait Transaction {
    /// Its kind, as a number of the workload's list of kinds.
    fn kind(&self) -> usize;

    /// How many of the workload's operations it consists of.
    fn operations(&self) -> u64;

    /// Whether it would change something.
    fn is_write(&self) -> bool;

    /// Whether what it reads must still be true when it commits.
    fn is_guarded(&self) -> bool;

    /// What it wants next. Asked again only after [`Transaction::answered`].
    fn next(&mut self) -> Ask;

    /// Takes the answers to a round of reads.
    fn answered(&mut self, seen: Vec<Seen>);
}
