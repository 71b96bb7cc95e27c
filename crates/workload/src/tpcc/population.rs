//! The database before the first transaction (clause 4.3.3).

use std::collections::BTreeMap;

use bytes::Bytes;
use quorate_kernel::Rng;

use super::chance::{data, digits, letters, zip};
use super::rows::{
    Account, Customer, DISTRICT_BYTES, Item, Line, Number, Order, Payment, Place, Row as _, Stock,
};
use super::{LINES, Loaded};
use crate::transaction::Write;

/// What every customer has paid before, in cents: 10.00.
pub(super) const PAID: i64 = 1_000;
/// Rows of items and stock that are made at once.
const CHUNK: u64 = 1_000;

/// A part of the database that has its own chance, so that it is the same in whatever order parts are made.
#[derive(Debug, Clone, Copy)]
enum Part {
    Items(u64),
    Warehouse(u64),
    Stock(u64, u64),
    District(u64, u64),
}

/// All rows, as writes that may be repeated: each sets what it writes, whatever there was. `now` is the time that all
/// of them bear.
pub fn population(loaded: &Loaded, seed: u64, now: u64) -> impl Iterator<Item = Write> + Send + 'static {
    let loaded = loaded.clone();
    let scale = loaded.scale;
    let chunks = move || (0..scale.items.div_ceil(CHUNK)).map(|chunk| chunk * CHUNK + 1);
    let warehouses = (1..=scale.warehouses).flat_map(move |warehouse| {
        let stock = chunks().map(move |first| Part::Stock(warehouse, first));
        let districts = (1..=scale.districts).map(move |district| Part::District(warehouse, district));
        std::iter::once(Part::Warehouse(warehouse)).chain(stock).chain(districts)
    });
    let parts = chunks().map(Part::Items).chain(warehouses);
    parts.enumerate().flat_map(move |(index, part)| {
        let mut rng = Rng::new(seed ^ crate::ycsb::scatter(index as u64));
        Populating { loaded: &loaded, rng: &mut rng, now }.part(part)
    })
}

struct Populating<'a> {
    loaded: &'a Loaded,
    rng: &'a mut Rng,
    now: u64,
}

fn put(key: Bytes, value: Bytes) -> Write {
    Write::Put { key, value }
}

fn number(key: Bytes, value: i64) -> Write {
    put(key, Number { value }.encode())
}

impl Populating<'_> {
    fn part(mut self, part: Part) -> Vec<Write> {
        let scale = self.loaded.scale;
        let keys = scale.layout;
        let chunk = |first: u64| first..=(first + CHUNK - 1).min(scale.items);
        match part {
            Part::Items(first) => {
                let everywhere = |(id, row): (u64, Bytes)| {
                    keys.copies(scale.warehouses, id).map(move |key| put(key, row.clone()))
                };
                chunk(first).map(|id| (id, self.item())).flat_map(everywhere).collect()
            }
            Part::Stock(warehouse, first) => {
                chunk(first).map(|id| put(keys.stock(warehouse, id), self.stock())).collect()
            }
            Part::Warehouse(id) => {
                let sum = PAID * (scale.customers * scale.districts) as i64;
                vec![put(keys.warehouse(id), self.place()), number(keys.warehouse_sum(id), sum)]
            }
            Part::District(warehouse, district) => self.district(warehouse, district),
        }
    }

    fn item(&mut self) -> Bytes {
        let rng = &mut *self.rng;
        let item = Item {
            image: rng.between(1, 10_000),
            name: letters(rng, 14, 24),
            price: rng.between(100, 10_000) as i64,
            data: data(rng),
        };
        item.encode()
    }

    fn stock(&mut self) -> Bytes {
        let length = DISTRICT_BYTES as u64 * self.loaded.scale.districts;
        let rng = &mut *self.rng;
        let stock = Stock {
            quantity: rng.between(10, 100) as i64,
            sold: 0,
            orders: 0,
            remote_orders: 0,
            data: data(rng),
            districts: letters(rng, length, length),
        };
        stock.encode()
    }

    fn place(&mut self) -> Bytes {
        let rng = &mut *self.rng;
        let place = Place {
            name: letters(rng, 6, 10),
            street_1: letters(rng, 10, 20),
            street_2: letters(rng, 10, 20),
            city: letters(rng, 10, 20),
            state: letters(rng, 2, 2),
            zip: zip(rng),
            tax: rng.below(2_001),
        };
        place.encode()
    }

    fn district(&mut self, warehouse: u64, district: u64) -> Vec<Write> {
        let scale = self.loaded.scale;
        let (keys, count) = (scale.layout, scale.customers);
        let mut writes = vec![
            put(keys.district(warehouse, district), self.place()),
            number(keys.district_sum(warehouse, district), PAID * count as i64),
            number(keys.next_order(warehouse, district), count as i64 + 1),
            number(keys.oldest_order(warehouse, district), scale.delivered() as i64 + 1),
        ];
        let mut names: BTreeMap<String, Vec<(String, u64)>> = BTreeMap::new();
        let mut history = Vec::new();
        for id in 1..=count {
            let customer = self.customer(id);
            names.entry(customer.last.clone()).or_default().push((customer.first.clone(), id));
            writes.push(put(keys.customer(warehouse, district, id), customer.encode()));
            let data = letters(self.rng, 300, 500);
            let account = Account { balance: -PAID, paid: PAID, payments: 1, deliveries: 0, data };
            writes.push(put(keys.account(warehouse, district, id), account.encode()));
            let payment = Payment {
                customer: id,
                customer_district: district,
                customer_warehouse: warehouse,
                district,
                warehouse,
                at: self.now,
                amount: PAID,
                data: letters(self.rng, 12, 24),
            };
            history.push(payment.encode());
        }
        writes.push(Write::Fill { key: keys.history(warehouse, district), elements: history });
        for (name, mut ids) in names {
            ids.sort();
            let elements = ids.iter().map(|(_, id)| id.to_string().into()).collect();
            writes.push(Write::Fill { key: keys.by_name(warehouse, district, &name), elements });
        }
        self.orders(warehouse, district, &mut writes);
        writes
    }

    fn customer(&mut self, id: u64) -> Customer {
        let last = self.loaded.constants.last_name_of(self.rng, &self.loaded.scale, id);
        let rng = &mut *self.rng;
        Customer {
            first: letters(rng, 8, 16),
            middle: "OE".into(),
            last,
            street_1: letters(rng, 10, 20),
            street_2: letters(rng, 10, 20),
            city: letters(rng, 10, 20),
            state: letters(rng, 2, 2),
            zip: zip(rng),
            phone: digits(rng, 16),
            since: self.now,
            credit: if rng.chance(1, 10) { "BC".into() } else { "GC".into() },
            credit_limit: 5_000_000,
            discount: rng.below(5_001),
        }
    }

    /// One order of each customer, in random order; the last three tenths are not delivered.
    fn orders(&mut self, warehouse: u64, district: u64, writes: &mut Vec<Write>) {
        let scale = self.loaded.scale;
        let keys = scale.layout;
        let mut customers: Vec<u64> = (1..=scale.customers).collect();
        self.rng.shuffle(&mut customers);
        for (id, customer) in (1..).zip(customers) {
            let is_delivered = id <= scale.delivered();
            let order = Order {
                customer,
                entered: self.now,
                carrier: is_delivered.then(|| self.rng.between(1, 10)),
                lines: self.rng.between(LINES.0, LINES.1),
                is_all_local: 1,
            };
            let elements = (0..order.lines).map(|_| self.line(warehouse, is_delivered)).collect();
            writes.push(put(keys.order(warehouse, district, id), order.encode()));
            writes.push(Write::Fill { key: keys.lines(warehouse, district, id), elements });
            writes.push(number(keys.newest_order(warehouse, district, customer), id as i64));
            if !is_delivered {
                writes.push(put(keys.new_order(warehouse, district, id), Bytes::from_static(b"1")));
            }
        }
    }

    fn line(&mut self, supplier: u64, is_delivered: bool) -> Bytes {
        let line = Line {
            item: self.rng.between(1, self.loaded.scale.items),
            supplier,
            delivered: is_delivered.then_some(self.now),
            quantity: 5,
            amount: if is_delivered { 0 } else { self.rng.between(1, 999_999) as i64 },
            district: letters(self.rng, DISTRICT_BYTES as u64, DISTRICT_BYTES as u64),
        };
        line.encode()
    }
}
