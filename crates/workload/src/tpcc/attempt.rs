//! A transaction under way. What it does is a function of what it has read so far: it is computed anew after each
//! round, and says in its last run what to write, in those before what else it needs to know.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::input::Input;
use super::rows::{Number, Row};
use super::{Layout, Scale, TpccKind, delivery, new_order, payment, queries};
use crate::transaction::{Ask, Read, Seen, Transaction, Write};

/// Why a run ended early.
#[derive(Debug)]
pub(super) enum Stop {
    /// It needs to know more; the view holds what.
    Missing,
    /// It is to leave no trace.
    Rollback,
    /// It found what cannot be.
    Impossible(String),
}

/// What has been read so far.
#[derive(Debug, Clone)]
pub(super) struct View {
    pub(super) layout: Layout,
    known: BTreeMap<Read, Seen>,
    missing: Vec<Read>,
}

impl View {
    /// Says that all of these will be looked at, so that they are asked for together.
    pub(super) fn want(&mut self, reads: impl IntoIterator<Item = Read>) -> Result<(), Stop> {
        for read in reads {
            if !self.known.contains_key(&read) && !self.missing.contains(&read) {
                self.missing.push(read);
            }
        }
        if self.missing.is_empty() { Ok(()) } else { Err(Stop::Missing) }
    }

    /// The row under a key, if there is one.
    pub(super) fn find<R: Row>(&mut self, key: Bytes) -> Result<Option<R>, Stop> {
        let read = Read::Value(key);
        self.want([read.clone()])?;
        match self.known.get(&read) {
            Some(Seen::Value(text)) => R::decode(text).map(Some).ok_or_else(|| impossible(&read)),
            Some(Seen::Nothing) => Ok(None),
            _ => Err(impossible(&read)),
        }
    }

    /// The row under a key that must be there.
    pub(super) fn row<R: Row>(&mut self, key: Bytes) -> Result<R, Stop> {
        self.find(key.clone())?
            .ok_or_else(|| Stop::Impossible(format!("there is no {}", String::from_utf8_lossy(&key))))
    }

    /// The number under a key that must be there.
    pub(super) fn number(&mut self, key: Bytes) -> Result<i64, Stop> {
        Ok(self.row::<Number>(key)?.value)
    }

    /// The rows of a list.
    pub(super) fn list<R: Row>(&mut self, key: Bytes) -> Result<Vec<R>, Stop> {
        let read = Read::list(key);
        self.want([read.clone()])?;
        let Some(Seen::Elements(elements)) = self.known.get(&read) else { return Err(impossible(&read)) };
        elements.iter().map(|text| R::decode(text).ok_or_else(|| impossible(&read))).collect()
    }
}

fn impossible(read: &Read) -> Stop {
    Stop::Impossible(format!("{} holds something else", String::from_utf8_lossy(read.key())))
}

/// Sets a row.
pub(super) fn put(key: Bytes, row: &impl Row) -> Write {
    Write::Put { key, value: row.encode() }
}

/// Sets a number.
pub(super) fn put_number(key: Bytes, value: i64) -> Write {
    put(key, &Number { value })
}

/// A transaction of TPC-C.
#[derive(Debug, Clone)]
pub struct TpccTransaction {
    scale: Scale,
    warehouse: u64,
    now: u64,
    input: Input,
    view: View,
    asked: Vec<Read>,
}

impl TpccTransaction {
    pub(super) fn new(scale: Scale, warehouse: u64, now: u64, input: Input) -> TpccTransaction {
        let view = View { layout: scale.layout, known: BTreeMap::new(), missing: Vec::new() };
        TpccTransaction { scale, warehouse, now, input, view, asked: Vec::new() }
    }

    #[cfg(test)]
    pub(super) fn input(&self) -> &Input {
        &self.input
    }

    fn run(&mut self) -> Result<Vec<Write>, Stop> {
        let (view, warehouse, now) = (&mut self.view, self.warehouse, self.now);
        match &self.input {
            Input::NewOrder { district, customer, wanted } => {
                new_order::run(view, (warehouse, *district, *customer), wanted, now)
            }
            Input::Payment { district, customer_warehouse, customer_district, who, amount } => {
                let of = (*customer_warehouse, *customer_district);
                payment::run(view, (warehouse, *district), of, who, *amount, now)
            }
            Input::OrderStatus { district, who } => queries::order_status(view, (warehouse, *district), who),
            Input::Delivery { carrier } => {
                delivery::run(view, warehouse, self.scale.districts, *carrier, now)
            }
            Input::StockLevel { district, threshold } => {
                queries::stock_level(view, (warehouse, *district), *threshold).map(|_| Vec::new())
            }
        }
    }

    fn which(&self) -> TpccKind {
        match self.input {
            Input::NewOrder { .. } => TpccKind::NewOrder,
            Input::Payment { .. } => TpccKind::Payment,
            Input::OrderStatus { .. } => TpccKind::OrderStatus,
            Input::Delivery { .. } => TpccKind::Delivery,
            Input::StockLevel { .. } => TpccKind::StockLevel,
        }
    }
}

impl Transaction for TpccTransaction {
    fn kind(&self) -> usize {
        self.which() as usize
    }

    fn operations(&self) -> u64 {
        1
    }

    fn is_write(&self) -> bool {
        !matches!(self.which(), TpccKind::OrderStatus | TpccKind::StockLevel)
    }

    /// Stock levels need no more than committed data (clause 2.8.2.3).
    fn is_guarded(&self) -> bool {
        self.which() != TpccKind::StockLevel
    }

    fn next(&mut self) -> Ask {
        match self.run() {
            Ok(_) if !self.is_guarded() => Ask::Finish,
            Ok(writes) => Ask::Commit { reads: Vec::new(), writes },
            Err(Stop::Missing) => {
                self.asked = std::mem::take(&mut self.view.missing);
                Ask::Read { reads: self.asked.clone(), kind: None }
            }
            Err(Stop::Rollback) => Ask::Rollback,
            Err(Stop::Impossible(why)) => Ask::Impossible(why),
        }
    }

    fn answered(&mut self, seen: Vec<Seen>) {
        self.view.known.extend(std::mem::take(&mut self.asked).into_iter().zip(seen));
    }
}
