//! TPC-C, revision 5.11 of its specification: a wholesale supplier with warehouses, districts, customers and orders.
//! Numbers of clauses in this module are those of the specification.
//!
//! # Rows as keys
//!
//! A row is a string of fields with `|` between them; amounts are in cents, rates in hundredths of a percent, times in
//! seconds. All keys begin with `tpcc:`.
//!
//! | key | value |
//! |---|---|
//! | `meta` | what was loaded, as JSON |
//! | `i:I`, `i:W:I` | the item |
//! | `w:W`, `d:W:D` | warehouse, district: name, address, tax |
//! | `wy:W`, `dy:W:D` | their sums of the year to date |
//! | `dn:W:D`, `do:W:D` | the district's next order id; its oldest order that may be undelivered (an index) |
//! | `c:W:D:C` | the customer: name, address, credit, discount |
//! | `ca:W:D:C` | the customer's account: balance, payments, deliveries, data |
//! | `cn:W:D:NAME` | list: ids of the customers of this last name by first name (an index) |
//! | `co:W:D:C` | id of the customer's newest order (an index) |
//! | `s:W:I` | the stock of an item |
//! | `o:W:D:O`, `n:W:D:O` | an order; its row in NEW-ORDER while it is undelivered |
//! | `l:W:D:O` | list: the lines of an order |
//! | `h:W:D` | list: payments taken in a district; HISTORY has no primary key |
//!
//! The number of the warehouse is a hash tag, `s:{W}:I` for instance, unless rows are spread ([`Layout`]).
//!
//! Warehouses, districts and customers are split between what never changes and what does, which clause 1.4 allows
//! (vertical partitioning): otherwise each payment would outrun each new order that only reads the tax.
//!
//! # What is left out
//!
//! Terminals: no keying and think times, no screens; clients are bound to a warehouse in turn and ask as fast as they
//! are answered. Deliveries are not queued but waited for. So the throughput is not a tpmC in the sense of the TPC,
//! which ties it to the number of warehouses, and must not be compared with published results. A transaction that was
//! outrun is not repeated.

mod attempt;
mod census;
mod chance;
mod check;
mod delivery;
mod input;
mod keys;
mod new_order;
mod payment;
mod population;
mod queries;
mod rows;

pub use attempt::TpccTransaction;
pub use census::{Census, census};
pub use chance::Constants;
pub use check::{CONDITIONS, Readout, Violation, check};
pub use input::{Terminal, TpccKind};
pub use population::population;

use bytes::Bytes;

use crate::transaction::Write;

/// The names of kinds, in the order of their numbers.
pub const KINDS: [&str; 5] = ["new-order", "payment", "order-status", "delivery", "stock-level"];
/// The key under which [`Loaded`] is kept.
pub const META_KEY: &str = "tpcc:meta";
/// Lines of an order.
const LINES: (u64, u64) = (5, 15);

/// How large the database is (clause 1.2). All but the number of warehouses and where rows lie is
/// fixed by the specification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Scale {
    /// Warehouses.
    pub warehouses: u64,
    /// Districts of a warehouse.
    pub districts: u64,
    /// Customers of a district; as many orders are loaded.
    pub customers: u64,
    /// Items, each in the stock of every warehouse.
    pub items: u64,
    /// Where its rows lie.
    #[serde(default)]
    pub layout: Layout,
}

/// Which rows lie in one slot, and so in one bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layout {
    /// All of a warehouse, each of which has the items for itself: clause 1.4 allows to partition tables and to copy them.
    /// Nine in ten transactions concern one warehouse.
    Together,
    /// None: every row lies where its key happens to. So do those of databases that say nothing about it.
    #[default]
    Spread,
}

impl Scale {
    /// As specified.
    pub fn standard(warehouses: u64) -> Scale {
        Scale { warehouses, districts: 10, customers: 3_000, items: 100_000, layout: Layout::Together }
    }

    /// A hundredth of the rows, for tests. Conflicts are more frequent, and last names fewer.
    pub fn reduced(warehouses: u64) -> Scale {
        Scale { warehouses, districts: 10, customers: 30, items: 1_000, layout: Layout::Together }
    }

    /// The same, each row for itself.
    pub fn spread(self) -> Scale {
        Scale { layout: Layout::Spread, ..self }
    }

    /// What is wrong with it, and what to do.
    ///
    /// # Errors
    /// If there are too few of something.
    pub fn validate(&self) -> Result<(), String> {
        if self.warehouses == 0 || self.districts == 0 {
            return Err("there must be at least one warehouse with one district".into());
        }
        if self.customers < 10 || self.items < 100 {
            return Err("a district needs 10 customers or more, and there must be 100 items or more".into());
        }
        Ok(())
    }

    /// Orders of a district that are loaded as delivered: 2,100 of 3,000.
    pub(crate) fn delivered(&self) -> u64 {
        self.customers * 7 / 10
    }

    /// Last names there are in a district.
    pub(crate) fn last_names(&self) -> u64 {
        self.customers.min(1_000)
    }
}

/// What was loaded: what clients and checks must know of it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Loaded {
    /// How much.
    pub scale: Scale,
    /// The constants of chance.
    pub constants: Constants,
}

impl Loaded {
    /// The database of this seed.
    pub fn new(scale: Scale, seed: u64) -> Loaded {
        Loaded { scale, constants: Constants::new(seed) }
    }

    /// The write that keeps it, to be done when everything else is there.
    pub fn write(&self) -> Write {
        let text = serde_json::to_string(self).unwrap_or_default();
        Write::Put { key: Bytes::from_static(META_KEY.as_bytes()), value: text.into() }
    }

    /// Reads it back; `None` if this is something else.
    pub fn read(text: &[u8]) -> Option<Loaded> {
        serde_json::from_slice(text).ok()
    }
}

#[cfg(test)]
mod tests;
