//! What clients ask for (the clauses 2.4.1, 2.5.1, 2.6.1, 2.7.1 and 2.8.1).

use bytes::Bytes;
use quorate_kernel::Rng;

use super::{LINES, Loaded, TpccTransaction};

/// Transactions of each kind in a hundred, in the order of [`super::KINDS`] (clause 5.2.3).
const MIX: [u64; 5] = [45, 43, 4, 4, 4];

/// The kinds of transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TpccKind {
    /// A customer orders items.
    NewOrder,
    /// A customer pays.
    Payment,
    /// A customer asks for the newest order.
    OrderStatus,
    /// The oldest new order of every district is delivered.
    Delivery,
    /// How many items sold of late are short.
    StockLevel,
}

impl TpccKind {
    /// All kinds, in the order of [`super::KINDS`].
    pub const ALL: [TpccKind; 5] = [
        TpccKind::NewOrder,
        TpccKind::Payment,
        TpccKind::OrderStatus,
        TpccKind::Delivery,
        TpccKind::StockLevel,
    ];
}

/// An item that is ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) item: u64,
    pub(super) supplier: u64,
    pub(super) quantity: u64,
}

/// How a customer is named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Who {
    Id(u64),
    LastName(String),
}

/// What a transaction is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Input {
    NewOrder { district: u64, customer: u64, wanted: Vec<Wanted> },
    Payment { district: u64, customer_warehouse: u64, customer_district: u64, who: Who, amount: i64 },
    OrderStatus { district: u64, who: Who },
    Delivery { carrier: u64 },
    StockLevel { district: u64, threshold: i64 },
}

/// One client: bound to a warehouse, and to a district for stock levels (clauses 2.4.1.1 and 2.8.1.1).
#[derive(Debug, Clone)]
pub struct Terminal {
    loaded: Loaded,
    warehouse: u64,
    district: u64,
    rng: Rng,
}

impl Terminal {
    /// The client of this number; clients spread over warehouses and districts.
    pub fn new(loaded: Loaded, number: u64, rng: Rng) -> Terminal {
        let scale = loaded.scale;
        let warehouse = number % scale.warehouses + 1;
        let district = number / scale.warehouses % scale.districts + 1;
        Terminal { loaded, warehouse, district, rng }
    }

    /// The key of the row of its warehouse.
    pub fn home(&self) -> Bytes {
        self.loaded.scale.layout.warehouse(self.warehouse)
    }

    /// The next transaction, begun at this time in seconds.
    pub fn next(&mut self, now: u64) -> TpccTransaction {
        let drawn = self.rng.below(100);
        let mut sum = 0;
        let below = |share: u64| {
            sum += share;
            drawn < sum
        };
        let index = MIX.into_iter().map(below).position(|is_it| is_it).unwrap_or(0);
        self.make(TpccKind::ALL[index], now)
    }

    /// A transaction of this kind.
    pub fn make(&mut self, kind: TpccKind, now: u64) -> TpccTransaction {
        let input = match kind {
            TpccKind::NewOrder => self.new_order(),
            TpccKind::Payment => self.payment(),
            TpccKind::OrderStatus => Input::OrderStatus { district: self.any_district(), who: self.who() },
            TpccKind::Delivery => Input::Delivery { carrier: self.rng.between(1, 10) },
            TpccKind::StockLevel => {
                Input::StockLevel { district: self.district, threshold: self.rng.between(10, 20) as i64 }
            }
        };
        TpccTransaction::new(self.loaded.scale, self.warehouse, now, input)
    }

    fn any_district(&mut self) -> u64 {
        self.rng.between(1, self.loaded.scale.districts)
    }

    /// Any warehouse but the own one, or that if there is no other.
    fn other_warehouse(&mut self) -> u64 {
        let count = self.loaded.scale.warehouses;
        if count == 1 {
            return self.warehouse;
        }
        let drawn = self.rng.between(1, count - 1);
        if drawn < self.warehouse { drawn } else { drawn + 1 }
    }

    fn who(&mut self) -> Who {
        let Loaded { scale, constants } = &self.loaded;
        if self.rng.chance(60, 100) {
            Who::LastName(constants.last_name(&mut self.rng, scale))
        } else {
            Who::Id(constants.customer(&mut self.rng, scale))
        }
    }

    fn new_order(&mut self) -> Input {
        let district = self.any_district();
        let Loaded { scale, constants } = self.loaded.clone();
        let customer = constants.customer(&mut self.rng, &scale);
        let count = self.rng.between(LINES.0, LINES.1);
        let is_to_fail = self.rng.chance(1, 100);
        let mut wanted: Vec<Wanted> = (0..count)
            .map(|_| Wanted {
                item: constants.item(&mut self.rng, &scale),
                supplier: if self.rng.chance(1, 100) { self.other_warehouse() } else { self.warehouse },
                quantity: self.rng.between(1, 10),
            })
            .collect();
        if is_to_fail && let Some(last) = wanted.last_mut() {
            // No item has this number.
            last.item = scale.items + 1;
        }
        Input::NewOrder { district, customer, wanted }
    }

    fn payment(&mut self) -> Input {
        let district = self.any_district();
        let is_at_home = self.rng.chance(85, 100);
        let (customer_warehouse, customer_district) = match is_at_home {
            true => (self.warehouse, district),
            false => (self.other_warehouse(), self.any_district()),
        };
        let (who, amount) = (self.who(), self.rng.between(100, 500_000) as i64);
        Input::Payment { district, customer_warehouse, customer_district, who, amount }
    }
}
