//! The Delivery transaction (clause 2.7.4), all districts at once.

use super::attempt::{Stop, View, put, put_number};
use super::rows::{Account, Line, Number, Order, Row as _};
use crate::transaction::{Read, Write};

pub(super) fn run(
    view: &mut View,
    warehouse: u64,
    districts: u64,
    carrier: u64,
    now: u64,
) -> Result<Vec<Write>, Stop> {
    let (keys, districts) = (view.layout, 1..=districts);
    view.want(districts.clone().map(|district| Read::Value(keys.oldest_order(warehouse, district))))?;
    let mut oldest = Vec::new();
    for district in districts {
        oldest.push((district, view.number(keys.oldest_order(warehouse, district))?));
    }
    view.want(oldest.iter().flat_map(|(district, id)| {
        let (district, id) = (*district, *id as u64);
        [
            Read::Value(keys.new_order(warehouse, district, id)),
            Read::Value(keys.order(warehouse, district, id)),
            Read::list(keys.lines(warehouse, district, id)),
        ]
    }))?;
    // A district without undelivered orders is passed over.
    let mut due = Vec::new();
    for (district, id) in oldest {
        if view.find::<Number>(keys.new_order(warehouse, district, id as u64))?.is_some() {
            let order: Order = view.row(keys.order(warehouse, district, id as u64))?;
            due.push((district, id, order));
        }
    }
    view.want(
        due.iter()
            .map(|(district, _, order)| Read::Value(keys.account(warehouse, *district, order.customer))),
    )?;
    let mut writes = Vec::new();
    for (district, id, order) in due {
        let order = Order { carrier: Some(carrier), ..order };
        deliver(view, (warehouse, district), id, &order, now, &mut writes)?;
    }
    Ok(writes)
}

fn deliver(
    view: &mut View,
    (warehouse, district): (u64, u64),
    id: i64,
    order: &Order,
    now: u64,
    writes: &mut Vec<Write>,
) -> Result<(), Stop> {
    let (keys, number) = (view.layout, id as u64);
    let (lines_key, account_key) =
        (keys.lines(warehouse, district, number), keys.account(warehouse, district, order.customer));
    let lines: Vec<Line> = view.list(lines_key.clone())?;
    let mut account: Account = view.row(account_key.clone())?;
    account.balance += lines.iter().map(|line| line.amount).sum::<i64>();
    account.deliveries += 1;
    writes.push(Write::Remove { key: keys.new_order(warehouse, district, number) });
    writes.push(put_number(keys.oldest_order(warehouse, district), id + 1));
    writes.push(put(keys.order(warehouse, district, number), order));
    for (index, line) in lines.into_iter().enumerate() {
        let line = Line { delivered: Some(now), ..line };
        writes.push(Write::Replace { key: lines_key.clone(), index, element: line.encode() });
    }
    writes.push(put(account_key, &account));
    Ok(())
}
