//! The twelve consistency conditions (clause 3.3.2) over a read-out of the database. Nobody may write meanwhile.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::Scale;
use super::rows::{Account, Line, Number, Order, Payment, Row};
use crate::transaction::{Read, Seen};

/// What each condition says.
pub const CONDITIONS: [&str; 12] = [
    "a warehouse's sum of the year is that of its districts",
    "a district's next order id follows its newest order and its newest new order",
    "a district's new orders have successive ids",
    "a district has as many order lines as its orders say",
    "an order has no carrier if and only if it is a new order",
    "an order has as many lines as it says",
    "a line has no delivery time if and only if its order has no carrier",
    "a warehouse's sum of the year is that of the payments it took",
    "a district's sum of the year is that of the payments it took",
    "a customer's balance is what was delivered less what was paid",
    "a district's orders are its new orders, those loaded as delivered, and those its customers had delivered",
    "a customer's balance and payments together are what was delivered",
];
/// Violations of one condition that are listed.
const LISTED_MAX: usize = 10;
/// Elements of a long list that are read at once.
pub(super) const PAGE: i64 = 1_000;
/// Orders are looked for so far beyond the next order id.
const BEYOND: u64 = 20;

/// Reads the database.
pub trait Readout {
    /// Why it cannot.
    type Error;

    /// Reads these, in this order.
    ///
    /// # Errors
    /// If the store does not answer.
    fn read(&mut self, reads: Vec<Read>) -> Result<Vec<Seen>, Self::Error>;
}

/// A condition that does not hold.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Violation {
    /// Which, from 1; 0: a row is missing or is no row, so that nothing can be said.
    pub condition: usize,
    /// Where, and what was found.
    pub found: String,
}

/// Evaluates all conditions; empty if all hold.
///
/// # Errors
/// If the database cannot be read.
pub fn check<R: Readout>(readout: &mut R, scale: &Scale) -> Result<Vec<Violation>, R::Error> {
    let mut audit = Audit { readout, scale: *scale, paid: BTreeMap::new(), violations: BTreeMap::new() };
    let mut taken = BTreeMap::new();
    for (warehouse, district) in districts(scale) {
        let sum = audit.history(warehouse, district)?;
        taken.insert((warehouse, district), sum);
    }
    for warehouse in 1..=scale.warehouses {
        audit.warehouse(warehouse, &taken)?;
    }
    for (warehouse, district) in districts(scale) {
        audit.district(warehouse, district)?;
    }
    Ok(audit.violations.into_values().flatten().collect())
}

pub(super) fn districts(scale: &Scale) -> impl Iterator<Item = (u64, u64)> + use<> {
    let count = scale.districts;
    (1..=scale.warehouses).flat_map(move |warehouse| (1..=count).map(move |district| (warehouse, district)))
}

struct Audit<'a, R> {
    readout: &'a mut R,
    scale: Scale,
    /// What each customer has paid, in whatever district.
    paid: BTreeMap<(u64, u64, u64), i64>,
    violations: BTreeMap<usize, Vec<Violation>>,
}

/// An order with what belongs to it.
struct Whole {
    id: u64,
    order: Order,
    lines: Vec<Line>,
    is_new: bool,
}

impl<R: Readout> Audit<'_, R> {
    fn violated(&mut self, condition: usize, found: String) {
        let listed = self.violations.entry(condition).or_default();
        if listed.len() < LISTED_MAX {
            listed.push(Violation { condition, found });
        }
    }

    fn expect(&mut self, condition: usize, holds: bool, found: impl FnOnce() -> String) {
        if !holds {
            self.violated(condition, found());
        }
    }

    fn row<T: Row>(&mut self, key: &Bytes, seen: &Seen) -> Option<T> {
        let row = if let Seen::Value(text) = seen { T::decode(text) } else { None };
        if row.is_none() {
            self.violated(0, format!("{}: no such row", String::from_utf8_lossy(key)));
        }
        row
    }

    /// Rows that may not be there.
    fn values(&mut self, keys: Vec<Bytes>) -> Result<Vec<(Bytes, Seen)>, R::Error> {
        let seen = self.readout.read(keys.iter().cloned().map(Read::Value).collect())?;
        Ok(keys.into_iter().zip(seen).collect())
    }

    fn number(&mut self, key: Bytes) -> Result<i64, R::Error> {
        let seen = self.readout.read(vec![Read::Value(key.clone())])?;
        let row = self.row::<Number>(&key, seen.first().unwrap_or(&Seen::Nothing));
        Ok(row.map_or(0, |row| row.value))
    }

    fn rows<T: Row>(&mut self, key: &Bytes, seen: &Seen) -> Vec<T> {
        let Seen::Elements(elements) = seen else {
            self.violated(0, format!("{}: no list", String::from_utf8_lossy(key)));
            return Vec::new();
        };
        let rows: Vec<T> = elements.iter().filter_map(|text| T::decode(text)).collect();
        self.expect(0, rows.len() == elements.len(), || {
            format!("{}: some elements are no rows", String::from_utf8_lossy(key))
        });
        rows
    }

    /// Adds up the payments taken in a district.
    fn history(&mut self, warehouse: u64, district: u64) -> Result<i64, R::Error> {
        let key = self.scale.layout.history(warehouse, district);
        let (mut sum, mut from) = (0, 0);
        loop {
            let page = Read::Elements { key: key.clone(), from, to: from + PAGE - 1 };
            let seen = self.readout.read(vec![page])?;
            let rows: Vec<Payment> = self.rows(&key, seen.first().unwrap_or(&Seen::Nothing));
            for row in &rows {
                sum += row.amount;
                let who = (row.customer_warehouse, row.customer_district, row.customer);
                *self.paid.entry(who).or_default() += row.amount;
            }
            from += PAGE;
            if (rows.len() as i64) < PAGE {
                return Ok(sum);
            }
        }
    }

    /// Conditions 1, 8 and 9.
    fn warehouse(&mut self, warehouse: u64, taken: &BTreeMap<(u64, u64), i64>) -> Result<(), R::Error> {
        let sum = self.number(self.scale.layout.warehouse_sum(warehouse))?;
        let (mut of_districts, mut of_payments) = (0, 0);
        for district in 1..=self.scale.districts {
            let part = self.number(self.scale.layout.district_sum(warehouse, district))?;
            let payments = taken.get(&(warehouse, district)).copied().unwrap_or_default();
            of_districts += part;
            of_payments += payments;
            self.expect(9, part == payments, || {
                format!("district {warehouse}:{district}: {part}, payments {payments}")
            });
        }
        self.expect(1, sum == of_districts, || {
            format!("warehouse {warehouse}: {sum}, districts {of_districts}")
        });
        self.expect(8, sum == of_payments, || {
            format!("warehouse {warehouse}: {sum}, payments {of_payments}")
        });
        Ok(())
    }

    fn district(&mut self, warehouse: u64, district: u64) -> Result<(), R::Error> {
        let next = self.number(self.scale.layout.next_order(warehouse, district))?.max(1) as u64;
        let (orders, new) = self.orders(warehouse, district, next + BEYOND)?;
        let place = format!("district {warehouse}:{district}");
        let newest = orders.last().map_or(0, |whole| whole.id);
        self.expect(2, newest + 1 == next, || format!("{place}: next {next}, newest order {newest}"));
        if let (Some(first), Some(last)) = (new.first(), new.last()) {
            self.expect(2, last + 1 == next, || format!("{place}: next {next}, newest new order {last}"));
            let count = new.len() as u64;
            self.expect(3, last - first + 1 == count, || {
                format!("{place}: {count} new orders from {first} to {last}")
            });
        }
        let said: u64 = orders.iter().map(|whole| whole.order.lines).sum();
        let found: usize = orders.iter().map(|whole| whole.lines.len()).sum();
        self.expect(4, said == found as u64, || format!("{place}: {found} lines, orders say {said}"));
        for whole in &orders {
            self.order(&place, whole);
        }
        let known: BTreeSet<u64> = orders.iter().map(|whole| whole.id).collect();
        for id in new.difference(&known) {
            self.violated(5, format!("{place}: new order {id} is no order"));
        }
        self.customers(warehouse, district, &orders, new.len())
    }

    /// All orders of a district below `end`, and the ids of its new orders.
    fn orders(
        &mut self,
        warehouse: u64,
        district: u64,
        end: u64,
    ) -> Result<(Vec<Whole>, BTreeSet<u64>), R::Error> {
        let (mut orders, mut new) = (Vec::new(), BTreeSet::new());
        let orders_seen =
            self.values((1..end).map(|id| self.scale.layout.order(warehouse, district, id)).collect())?;
        let new_seen =
            self.values((1..end).map(|id| self.scale.layout.new_order(warehouse, district, id)).collect())?;
        let lists = (1..end).map(|id| Read::list(self.scale.layout.lines(warehouse, district, id))).collect();
        let lists = self.readout.read(lists)?;
        for (id, ((key, order), ((_, is_new), lines))) in
            (1..end).zip(orders_seen.into_iter().zip(new_seen.into_iter().zip(lists)))
        {
            let is_new = is_new != Seen::Nothing;
            if is_new {
                new.insert(id);
            }
            if order == Seen::Nothing {
                continue;
            }
            let Some(order) = self.row::<Order>(&key, &order) else { continue };
            let lines = self.rows(&self.scale.layout.lines(warehouse, district, id), &lines);
            orders.push(Whole { id, order, lines, is_new });
        }
        Ok((orders, new))
    }

    /// Conditions 5, 6 and 7.
    fn order(&mut self, place: &str, whole: &Whole) {
        let Whole { id, order, lines, is_new } = whole;
        self.expect(5, order.carrier.is_none() == *is_new, || {
            format!("{place}, order {id}: carrier {:?}, new {is_new}", order.carrier)
        });
        self.expect(6, order.lines == lines.len() as u64, || {
            format!("{place}, order {id}: {} lines, it says {}", lines.len(), order.lines)
        });
        let fits = |line: &Line| line.delivered.is_none() == order.carrier.is_none();
        self.expect(7, lines.iter().all(fits), || {
            format!("{place}, order {id}: carrier {:?}, lines of another mind", order.carrier)
        });
    }

    /// Conditions 10, 11 and 12.
    fn customers(
        &mut self,
        warehouse: u64,
        district: u64,
        orders: &[Whole],
        new: usize,
    ) -> Result<(), R::Error> {
        let mut delivered: BTreeMap<u64, i64> = BTreeMap::new();
        for whole in orders {
            let lines = whole.lines.iter().filter(|line| line.delivered.is_some());
            *delivered.entry(whole.order.customer).or_default() += lines.map(|line| line.amount).sum::<i64>();
        }
        let ids = 1..=self.scale.customers;
        let accounts =
            self.values(ids.map(|id| self.scale.layout.account(warehouse, district, id)).collect())?;
        let mut deliveries = 0;
        for (id, (key, seen)) in (1..).zip(accounts) {
            let Some(account) = self.row::<Account>(&key, &seen) else { continue };
            deliveries += account.deliveries;
            let got = delivered.get(&id).copied().unwrap_or_default();
            let paid = self.paid.get(&(warehouse, district, id)).copied().unwrap_or_default();
            let balance = account.balance;
            self.expect(10, balance == got - paid, || {
                format!("customer {warehouse}:{district}:{id}: {balance}, delivered {got}, payments {paid}")
            });
            self.expect(12, balance + account.paid == got, || {
                format!(
                    "customer {warehouse}:{district}:{id}: {balance}, paid {}, delivered {got}",
                    account.paid
                )
            });
        }
        let loaded = self.scale.delivered();
        self.expect(11, orders.len() as u64 == new as u64 + loaded + deliveries, || {
            let count = orders.len();
            format!(
                "district {warehouse}:{district}: {count} orders, {new} new, {deliveries} delivered since"
            )
        });
        Ok(())
    }
}
