//! The New-Order transaction (clause 2.4.2).

use std::collections::BTreeMap;

use bytes::Bytes;

use super::attempt::{Stop, View, put, put_number};
use super::input::Wanted;
use super::rows::{Customer, DISTRICT_BYTES, Item, Line, Order, Place, Row as _, Stock};
use crate::transaction::{Read, Write};

/// A stock that would fall below this is filled up.
const QUANTITY_MIN: i64 = 10;
/// By so many.
const REFILL: i64 = 91;

/// Warehouse, district, customer.
type Who = (u64, u64, u64);

pub(super) fn run(view: &mut View, who: Who, wanted: &[Wanted], now: u64) -> Result<Vec<Write>, Stop> {
    let (keys, (warehouse, district, customer)) = (view.layout, who);
    let mut reads = vec![
        Read::Value(keys.warehouse(warehouse)),
        Read::Value(keys.district(warehouse, district)),
        Read::Value(keys.next_order(warehouse, district)),
        Read::Value(keys.customer(warehouse, district, customer)),
    ];
    for wanted in wanted {
        reads.push(Read::Value(keys.item(warehouse, wanted.item)));
        reads.push(Read::Value(keys.stock(wanted.supplier, wanted.item)));
    }
    view.want(reads)?;
    // Taxes and discount go into the total on the screen of a terminal, of which there is none; they are read for it.
    let _: (Place, Place) =
        (view.row(keys.warehouse(warehouse))?, view.row(keys.district(warehouse, district))?);
    let _: Customer = view.row(keys.customer(warehouse, district, customer))?;
    let id = view.number(keys.next_order(warehouse, district))?;
    let mut stocks: BTreeMap<Bytes, Stock> = BTreeMap::new();
    let mut lines = Vec::new();
    for wanted in wanted {
        let Some(item) = view.find::<Item>(keys.item(warehouse, wanted.item))? else {
            return Err(Stop::Rollback);
        };
        let key = keys.stock(wanted.supplier, wanted.item);
        // The same item may be wanted twice.
        let mut stock = match stocks.remove(&key) {
            Some(stock) => stock,
            None => view.row(key.clone())?,
        };
        take(&mut stock, wanted, warehouse);
        let from = (district as usize - 1) * DISTRICT_BYTES;
        let line = Line {
            item: wanted.item,
            supplier: wanted.supplier,
            delivered: None,
            quantity: wanted.quantity,
            amount: item.price * wanted.quantity as i64,
            district: stock.districts.get(from..from + DISTRICT_BYTES).unwrap_or_default().to_owned(),
        };
        lines.push(line.encode());
        stocks.insert(key, stock);
    }
    let order = Order {
        customer,
        entered: now,
        carrier: None,
        lines: wanted.len() as u64,
        is_all_local: u64::from(wanted.iter().all(|wanted| wanted.supplier == warehouse)),
    };
    let number = id as u64;
    let mut writes = vec![
        put_number(keys.next_order(warehouse, district), id + 1),
        put(keys.order(warehouse, district, number), &order),
        Write::Put { key: keys.new_order(warehouse, district, number), value: Bytes::from_static(b"1") },
        Write::Push { key: keys.lines(warehouse, district, number), elements: lines },
        put_number(keys.newest_order(warehouse, district, customer), id),
    ];
    writes.extend(stocks.into_iter().map(|(key, stock)| put(key, &stock)));
    Ok(writes)
}

fn take(stock: &mut Stock, wanted: &Wanted, warehouse: u64) {
    stock.quantity -= wanted.quantity as i64;
    if stock.quantity < QUANTITY_MIN {
        stock.quantity += REFILL;
    }
    stock.sold += wanted.quantity;
    stock.orders += 1;
    stock.remote_orders += u64::from(wanted.supplier != warehouse);
}
